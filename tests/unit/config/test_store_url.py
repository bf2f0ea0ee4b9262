from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.config.loader import load_settings
from ds4watch.config.store_url import fault_of, without_password
from ds4watch.model.errors import ConfigError

SHOWN = [
    ("postgresql://ann:s3cret@db:5432/fleet", "postgresql://ann@db:5432/fleet"),
    ("postgresql://ann@db/fleet", "postgresql://ann@db/fleet"),
    ("postgresql://:s3cret@db/fleet", "postgresql://@db/fleet"),
    ("postgresql://a:s3cret@[::1]:5432/fleet", "postgresql://a@[::1]:5432/fleet"),
    ("postgresql:///fleet?host=/run/pg", "postgresql:///fleet?host=/run/pg"),
    (
        "postgres://a@db/fleet?sslmode=require&password=s3cret",
        "postgres://a@db/fleet?sslmode=require&password=***",
    ),
]
FAULTS = [
    ("mysql://ann:s3cret@db/fleet", "must begin with postgresql://"),
    ("ann:s3cret@db/fleet", "must begin with postgresql://"),
    ("postgresql://ann:s3cret@db", "must name a database"),
    ("postgresql://ann:s3cret@db:x/fleet", "is no address: host or port cannot be read"),
]


@pytest.mark.parametrize(("url", "shown"), SHOWN)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert fault_of(url) is None
    assert without_password(url) == shown


@given(st.text(alphabet=st.characters(codec="ascii", categories=["L", "N"])))
def test_no_password_is_ever_shown(drawn: str) -> None:
    password = f"X{drawn}X"  # a piece of none of the other parts
    for url in (f"postgresql://u:{password}@h/d", f"postgresql://h/d?password={password}"):
        assert password not in without_password(url)


@pytest.mark.parametrize(("url", "fault"), FAULTS)
def test_what_is_no_address_is_one_line_that_does_not_quote_it(url: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(f"store:\n  url: {url}\n", "f.yml")
    assert str(caught.value) == (
        f"f.yml:2: store.url: {fault} (write it as postgresql://user@host:5432/db)"
    )


def test_the_settings_never_show_the_password() -> None:
    settings = load_settings("store:\n  url: postgresql://ann:s3cret@db/fleet\n", "f.yml")
    assert "s3cret" not in repr(settings)
    assert settings.store.url is not None
    assert settings.store.url.get_secret_value().endswith("/fleet")
