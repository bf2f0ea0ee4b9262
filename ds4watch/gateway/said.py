"""What a client's headers say to us: read once for all requests with the very same head."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds4watch.access.keys import bearer_token, digest
from ds4watch.access.signature import signed_of
from ds4watch.gateway import headers as names
from ds4watch.gateway.http.headers import Headers

if TYPE_CHECKING:
    from ds4watch.access.keys import KeyTable
    from ds4watch.gateway.entry import Visitor

_MAX_NAME_LENGTH = 64


class Said:
    """What is wished for and by whom; nothing of it is believed yet."""

    __slots__ = (
        *("known_by", "priority", "refuses_change", "request_id", "session", "signed"),
        *("token_digest", "visitor", "work_class"),
    )

    def __init__(self, headers: Headers) -> None:
        self.request_id = names.sane_id(headers.get(names.REQUEST_ID))
        """None if there is none, or one that is not to be passed on."""
        self.work_class: str = headers.get(names.WORK_CLASS, "")[:_MAX_NAME_LENGTH]
        self.priority: str | None = headers.get(names.PRIORITY)
        self.session: str = headers.get(names.SESSION, "")
        self.refuses_change = headers.get(names.NO_DEGRADE) == "1"
        self.signed = signed_of(headers)
        token = None if self.signed else bearer_token(headers.get("authorization"))
        self.token_digest = b"" if token is None else digest(token).encode()
        self.visitor: Visitor | None = None
        """Whose token it is, by the keys in `known_by`."""
        self.known_by: KeyTable | None = None


def said_of(headers: Headers) -> Said:
    """Return what the headers say."""
    said = headers.kept
    if not isinstance(said, Said):
        said = headers.kept = Said(headers)
    return said
