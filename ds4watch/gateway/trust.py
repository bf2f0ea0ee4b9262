"""Whose certificates of workers are believed."""

from __future__ import annotations

import ssl

from ds4watch.model.errors import ConfigError, Located


def tls_context(ca_file: str | None) -> ssl.SSLContext | None:
    """Return the context for HTTPS workers: the authorities in `ca_file` alone are trusted.

    None without a file: then those of the system are, or of `SSL_CERT_FILE`. Raises ConfigError.
    """
    if ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        said = error.strerror or str(error)
        message = f"holds no certificates that can be read: {said}"
        raise ConfigError(Located(message, ca_file, field="gateway.tls_ca_file")) from error
