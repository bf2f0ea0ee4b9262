"""A certificate authority of the test's own, by the openssl program."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path


class Authority:
    """Signs certificates; its own is `ca_file`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.ca_file = folder / "ca.pem"
        self._openssl(
            *("req", "-x509", *self._new_key("ca.key"), "-out", self.ca_file, "-days", "2"),
            *("-subj", "/CN=ds4watch test CA", "-addext", "basicConstraints=critical,CA:TRUE"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
        )

    def certificate(self, name: str, *, alternative: str, expired: bool = False) -> Path:
        """Return a file with a key and its certificate, for e.g. `IP:127.0.0.1`."""
        key, request, signed = (self._folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternative}\n")
        self._openssl("req", "-new", *self._new_key(key.name), "-out", request, "-subj", "/CN=x")
        self._openssl(
            *("x509", "-req", "-in", request, "-CA", self.ca_file, "-extfile", extensions),
            *("-CAkey", self._folder / "ca.key", "-CAcreateserial", "-out", signed),
            *("-days", "-1" if expired else "1"),
        )
        both = self._folder / f"{name}-both.pem"
        both.write_bytes(key.read_bytes() + signed.read_bytes())
        return both

    def server(self, certificate: Path, *, asks_for_clients: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        if asks_for_clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.ca_file)
        return context

    def client(self, certificate: Path | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file)
        if certificate is not None:
            context.load_cert_chain(certificate)
        return context

    def _new_key(self, name: str) -> tuple[str | Path, ...]:
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        return (*curve, "-keyout", self._folder / name)

    def _openssl(self, *arguments: str | Path) -> None:
        done = subprocess.run(
            ["openssl", *map(str, arguments)], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
