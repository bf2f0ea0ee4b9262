"""Who is let in: a key that is sent, or a request that is signed with one."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple

from ds4watch.access.key_rules import Denied, denied, denied_model
from ds4watch.access.keys import KeyTable
from ds4watch.access.signature import Signed, fault_of_form, is_genuine
from ds4watch.config.gateway_security import SignatureSettings
from ds4watch.gateway.http.message import Request
from ds4watch.gateway.replay_memory import ReplayMemory, Seen
from ds4watch.gateway.replies import RefusedError, Reply, unavailable
from ds4watch.gateway.said import Said
from ds4watch.gateway.state import GatewayState
from ds4watch.model.ports import Clock
from ds4watch.model.service_policy import ApiKey

_NOT_SIGNED = "The request must be signed (docs/security.md)"
_NO_KEY = "An API key is needed: Authorization: Bearer <key>"
_WRONG_KEY = "This API key is not known here: it is mistyped, was revoked, or only signs"
_NO_KEYS = "No API key is set up, and off loopback every request needs one"


class Visitor(NamedTuple):
    """Who asks; `signed`: what has to be verified against the body before anything is done."""

    key: ApiKey
    signed: Signed | None = None


class Entry:
    """Lets in by the keys of the board."""

    def __init__(
        self,
        state: GatewayState,
        settings: SignatureSettings,
        memory: ReplayMemory,
        clock: Clock,
        *,
        needs_key: bool,
    ) -> None:
        """`needs_key`: nobody is let in without one, though there be none."""
        self._state = state
        self._settings = settings
        self._memory = memory
        self._clock = clock
        self._needs_key = needs_key or settings.required

    def visitor(self, said: Said) -> Visitor | None:
        """Return who asks, None where no key is needed. Raises RefusedError."""
        keys = self._state.keys
        if said.visitor is None or said.known_by is not keys:
            if not keys and not self._needs_key:
                return None
            if said.signed is not None:
                return Visitor(self._signer(said.signed), said.signed)
            said.visitor, said.known_by = self._bearer(said, keys), keys
        self._check(said.visitor.key)
        return said.visitor

    def verify(self, visitor: Visitor | None, request: Request, body: bytes) -> None:
        """Hold the body against the signature, if there is one. Raises RefusedError."""
        if visitor is None or visitor.signed is None:
            return
        signed, key = visitor.signed, visitor.key
        target = f"{request.path}?{request.query}" if request.query else request.path
        if not is_genuine(signed, key.signing, method=request.method, target=target, body=body):
            raise _unknown("The signature is not that of this request", "invalid_signature")
        # Good from one window before its time to one after it: two from now at most.
        good_seconds = 2 * self._settings.window_seconds
        seen = self._memory.note(signed.signature, self._clock.now(), good_seconds=good_seconds)
        if seen is Seen.REPLAYED:
            raise _unknown("This signed request was sent before", "replayed_request")
        if seen is Seen.UNKNOWN:
            raise RefusedError(
                unavailable("Too many signed requests to remember; try again", code="replay_full")
            )

    def check_model(self, visitor: Visitor | None, model: str) -> None:
        """Keep a key to its models. Raises RefusedError."""
        if visitor is None or not visitor.key.limits.models:
            return
        told = denied_model(visitor.key, model)
        if told is not None:
            raise _refused(told)

    def _bearer(self, said: Said, keys: KeyTable) -> Visitor:
        if self._settings.required:
            raise _unknown(_NOT_SIGNED)
        key = keys.find_digest(said.token_digest) if said.token_digest else None
        if key is None:
            raise _unknown(_message_for(keys, said))
        return Visitor(key)

    def _signer(self, signed: Signed) -> ApiKey:
        window = self._settings.window_seconds
        fault = fault_of_form(signed, self._clock.now(), window_seconds=window)
        if fault is not None:
            raise _unknown(fault, "invalid_signature")
        key = self._state.keys.signer(signed.key)
        if key is None:
            raise _unknown("x-ds4-key names no key that signs", "invalid_signature")
        self._check(key)
        return key

    def _check(self, key: ApiKey) -> None:
        if key.expires_at is None and key.left is None:
            return
        told = denied(key, self._clock.now())
        if told is not None:
            raise _refused(told)


def _refused(told: Denied) -> RefusedError:
    return RefusedError(
        Reply(
            told.status,
            told.message,
            told.code,
            kind=told.kind,
            param=told.param,
            retry_after_seconds=told.retry_after_seconds,
        )
    )


def _message_for(keys: KeyTable, said: Said) -> str:
    if not keys:
        return _NO_KEYS
    return _WRONG_KEY if said.token_digest else _NO_KEY


def _unknown(message: str, code: str = "invalid_api_key") -> RefusedError:
    status = HTTPStatus.UNAUTHORIZED
    return RefusedError(Reply(status, message, code, kind="authentication_error"))
