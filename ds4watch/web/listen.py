"""Sockets to listen on, had before anything is started."""

from __future__ import annotations

import errno
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from ds4watch.model.errors import ConfigError, Located


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM: the certificate with its chain, and its key."""

    certificate: Path
    key: Path


def read_tls(certificate: str | None, key: str | None, *, setting: str) -> Tls | None:
    """Return the files to serve TLS with; None if it is not asked for.

    Raises ConfigError if they cannot be read, do not go together, or the key may be read by all.
    """
    if certificate is None or key is None:
        return None
    try:
        if Path(key).stat().st_mode & 0o007:
            finding = Located("may be read by others", key, mend=f"chmod o= {key}")
            raise ConfigError(finding)
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        where = error.filename or f"{certificate}, {key}"
        message = f"{where}: cannot be used for TLS: {reason}"
        raise ConfigError(Located(message, field=f"{setting}.tls_certificate")) from error
    return Tls(Path(certificate), Path(key))


def bind(host: str, port: int, *, setting: str) -> socket.socket:
    """Return a listening TCP socket. Raises ConfigError naming `setting` if it cannot be had."""
    listener: socket.socket | None = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise ConfigError(_finding(error, host, port, setting)) from error
    return listener


def _finding(error: OSError, host: str, port: int, setting: str) -> Located:
    if error.errno == errno.EADDRINUSE:
        mend = f"stop what uses it, or set {setting}.port"
        return Located(f"{host}:{port} is in use", field=f"{setting}.port", mend=mend)
    if error.errno == errno.EACCES:
        message = f"{host}:{port} needs rights that this process does not have"
        return Located(message, field=f"{setting}.port", mend="take a port above 1023")
    reason = (error.strerror or str(error)).lower()
    return Located(f"cannot listen on {host}:{port}: {reason}", field=f"{setting}.host")
