"""What groups make of the files they name: secrets, certificates, and what `check` says of them."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from ds4watch.config.files import LoadedSettings, find_settings
from ds4watch.config.settings import Settings
from ds4watch.model.errors import ConfigError
from ds4watch.scrape.groups import scrape_plan
from ds4watch.scrape.options import Credentials, ScrapeOptions
from ds4watch.scrape.preview import check_groups

STATIC = [{"targets": ["a:1"]}]


def loaded(folder: Path, **group: Any) -> LoadedSettings:
    file = folder / "ds4watch.yml"
    whole = {"name": "pool", "static_configs": STATIC, **group}
    scrape = {"timeout_seconds": 4, "max_body_bytes": 5000, "groups": [whole]}
    file.write_text(yaml.safe_dump({"scrape": scrape}, sort_keys=False), encoding="utf-8")
    return find_settings(file, {})


def test_without_groups_there_is_the_fleet_alone() -> None:
    plan = scrape_plan(LoadedSettings(Settings()))
    assert plan.options == {"fleet": ScrapeOptions()}
    assert plan.groups == ()


def test_a_group_has_the_options_of_the_fleet_but_for_its_own(tmp_path: Path) -> None:
    plan = scrape_plan(loaded(tmp_path, interval_seconds=15, sample_limit=7, label_limit=0))
    assert plan.options["pool"] == ScrapeOptions(
        interval_seconds=15.0,
        timeout_seconds=4.0,
        max_body_bytes=5000,
        series_limit=7,
        label_limit=0,
    )
    assert plan.options["fleet"].interval_seconds == 1.0


def test_secret_files_are_named_from_the_settings_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("hunter2\n", encoding="utf-8")
    basic = {"username": "ann", "password_file": "pw"}
    plan = scrape_plan(loaded(tmp_path, basic_auth=basic))
    wanted = Credentials(username="ann", password_file=tmp_path / "pw")
    assert plan.options["pool"].credentials == wanted
    token = loaded(tmp_path, authorization={"credentials": "hunter2", "type": "Token"})
    found = scrape_plan(token).options["pool"]
    assert found.credentials == Credentials(scheme="Token", token="hunter2")
    assert "hunter2" not in repr(found)
    assert "hunter2" not in repr(token.settings)


@pytest.mark.parametrize(
    ("group", "told"),
    [
        (
            {"basic_auth": {"username": "a", "password_file": "gone"}},
            "basic_auth.password_file: there is no file {0}/gone (names start from {0})",
        ),
        (
            {"authorization": {"credentials_file": "empty"}},
            "authorization.credentials_file: {0}/empty is empty (write the secret into it, and no",
        ),
        ({"tls_config": {"ca_file": "gone"}}, "tls_config.ca_file: there is no file {0}/gone"),
        (
            {"tls_config": {"ca_file": "text"}},
            "tls_config.ca_file: {0}/text does not hold what is wanted",
        ),
        (
            {"tls_config": {"cert_file": "text", "key_file": "gone"}},
            "tls_config.key_file: there is no file {0}/gone",
        ),
        (
            {
                "http_sd_configs": [
                    {"url": "http://h/", "authorization": {"credentials_file": "gone"}}
                ]
            },
            "http_sd_configs[0].authorization.credentials_file: there is no file {0}/gone",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line_with_its_place(
    tmp_path: Path, group: dict[str, Any], told: str
) -> None:
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    (tmp_path / "text").write_text("hello", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        scrape_plan(loaded(tmp_path, **group))
    line = str(raised.value.findings[0])
    place, _, rest = line.partition(": scrape.groups[0].")
    assert rest.startswith(told.format(tmp_path))
    number = int(place.removeprefix(f"{tmp_path}/ds4watch.yml:"))
    named = (tmp_path / "ds4watch.yml").read_text(encoding="utf-8").splitlines()[number - 1]
    field = told.partition(":")[0].rpartition(".")[2]
    assert named.strip().startswith(f"{field}: ")


def test_check_looks_into_the_files_of_file_sd_and_at_each_target(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text('[{"targets": ["b:1"]}]', encoding="utf-8")
    good = loaded(tmp_path, file_sd_configs=[{"files": ["good.json", "none-*.yml"]}])
    check_groups(good)
    (tmp_path / "bad.json").write_text('[{"targets": ["b:1", "a:1", "c"]}, 3]', encoding="utf-8")
    (tmp_path / "odd.json").write_text('[{"targets": ["http://b:1", "a:1"]}]', encoding="utf-8")
    files = ["bad.json", "odd.json", "gone.yml"]
    with pytest.raises(ConfigError) as raised:
        check_groups(loaded(tmp_path, file_sd_configs=[{"files": files}]))
    lines = [str(found) for found in raised.value.findings]
    named = "(scrape.groups names it in file_sd_configs)"
    assert lines[:2] == [
        f"{tmp_path}/bad.json: [1]: must be a mapping of targets and labels {named}",
        f"{tmp_path}/gone.yml: there is no such file {named}",
    ]
    assert (
        f"{tmp_path}/ds4watch.yml: scrape.groups: pool: http://b:1: __address__ must be"
        in (lines[2])
    )
    assert "pool/a:1 is the name of http://a:1/metrics (pool) too" in lines[3]


def make_certificate(folder: Path, name: str) -> None:
    """Make a self-signed certificate for a name."""
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *(
                "-nodes",
                "-days",
                "1",
                "-subj",
                f"/CN={name}",
                "-addext",
                f"subjectAltName=DNS:{name}",
            ),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")),
        ],
        check=True,
        capture_output=True,
    )


async def answer(_: web.Request) -> web.Response:
    return web.Response(text="a 1\n")


@pytest.mark.needs("openssl")
async def test_the_certificate_has_to_bear_the_name_that_is_asked_for(tmp_path: Path) -> None:
    await asyncio.to_thread(make_certificate, tmp_path, "workers.example")
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    application = web.Application()
    application.router.add_get("/metrics", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=served).start()
        url = f"https://127.0.0.1:{runner.addresses[0][1]}/metrics"
        ours = {"ca_file": "cert.pem"}
        assert await status(url, tmp_path, **ours, server_name="workers.example") == 200
        assert await status(url, tmp_path, insecure_skip_verify=True) == 200
        for wrong in (ours, ours | {"server_name": "other.example"}, {}):
            with pytest.raises(aiohttp.ClientConnectorError):
                await status(url, tmp_path, **wrong)
    finally:
        await runner.cleanup()


async def status(url: str, folder: Path, **tls: Any) -> int:
    options = scrape_plan(loaded(folder, scheme="https", tls_config=tls)).options["pool"]
    assert options.tls is not None
    async with aiohttp.ClientSession() as session, session.get(url, ssl=options.tls) as response:
        return response.status
