"""Which of several daemons on one PostgreSQL may act: a row that expires by the server's clock.

A change of hands waits for the transactions of the one before (they hold the row by its number),
and raises the number; a renewal waits for none. So what was written under a number was written
before anything under the next one, however late who wrote it wakes up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, TextClause, text

from ds4watch.history.database import Database
from ds4watch.history.line import Tuning
from ds4watch.history.migrate import Which
from ds4watch.history.place import Place
from ds4watch.model.errors import EdgeReason, StoreError
from ds4watch.model.ports import Clock, UnixSeconds

VANISHED_SECONDS = 5.0
"""How long a leader that vanished in the middle of a transaction can put off the next one."""
_LOCK_SECONDS = 1.0
_ANSWER_SECONDS = 1.5

_FIRST = text(
    "INSERT INTO ds4_state.lease (name, number, holder, host, admin_url, taken_at, expires_at) "
    "VALUES ('act', 0, '', '', '', to_timestamp(0), to_timestamp(0)) ON CONFLICT DO NOTHING"
)
_TAKE = text(
    "UPDATE ds4_state.lease SET number = number + 1, holder = :holder, host = :host, "
    "admin_url = :admin_url, taken_at = clock_timestamp(), "
    "expires_at = clock_timestamp() + make_interval(secs => :seconds) "
    "WHERE name = 'act' AND (expires_at <= clock_timestamp() OR holder = :holder) "
    "RETURNING number"
)
_RENEW = text(
    "UPDATE ds4_state.lease SET expires_at = clock_timestamp() + make_interval(secs => :seconds) "
    "WHERE name = 'act' AND number = :number AND holder = :holder"
)
_RELEASE = text(
    "UPDATE ds4_state.lease SET expires_at = clock_timestamp() "
    "WHERE name = 'act' AND number = :number AND holder = :holder"
)
_SEEN = text(
    "SELECT number, holder, host, admin_url, extract(epoch FROM taken_at) AS taken_at, "
    "extract(epoch FROM expires_at - clock_timestamp()) AS left_seconds "
    "FROM ds4_state.lease WHERE name = 'act'"
)
_CHECK = text(
    "SELECT 1 FROM ds4_state.lease WHERE name = 'act' AND number = :number "
    "AND holder = :holder AND expires_at > clock_timestamp() FOR KEY SHARE"
)

# From before there were several daemons: spools were those of the one there was.
_OWN_SPOOLS = text(
    "UPDATE ds4_state.spool_offsets SET gateway = :prefix || gateway WHERE gateway NOT LIKE '%/%'"
)


def spool_prefix(holder: str) -> str:
    """Return what tells the spools of a daemon's gateways from those of another's."""
    return f"{holder[:12]}/"


@dataclass(frozen=True, slots=True)
class Replica:
    """One of the daemons. holder: told apart by it; the others are for people."""

    holder: str
    host: str
    admin_url: str


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease as it stands. left_seconds: by the server's clock; negative once it ran out."""

    number: int
    holder: str
    host: str
    admin_url: str
    taken_at: UnixSeconds
    left_seconds: float


class LeaseFence:
    """Lets transactions write while the lease is ours, by the server's word."""

    def __init__(self, holder: str) -> None:
        self.holder = holder
        self.number: int | None = None
        """Of the lease that we hold or held last; None: of none."""

    def take(self, number: int | None) -> None:
        """Write under this number from now on."""
        self.number = number

    def check(self, connection: Connection) -> None:
        """Raise StoreError unless the lease is ours, and keep it from changing hands until the end.

        Nothing else is read or written by such a transaction before.
        """
        if self.number is None:
            raise _fenced("this daemon is on standby; `ds4watch status` names the one that leads")
        found = connection.execute(_CHECK, {"number": self.number, "holder": self.holder})
        if found.first() is None:
            raise _fenced(f"the lease, number {self.number}, ran out or is another daemon's")


class LeaseStore:
    """The row, on a connection of its own: no other work of ours keeps it waiting."""

    def __init__(self, database: Database, replica: Replica, *, seconds: float) -> None:
        self._database = database
        self._replica = replica
        self._seconds = seconds

    @classmethod
    def open(cls, place: Place, replica: Replica, clock: Clock, *, seconds: float) -> LeaseStore:
        """Open the database, brought to the newest schema. Raises what Database does."""
        tuning = Tuning(
            durable=True,
            busy_timeout_seconds=_LOCK_SECONDS,
            answer_timeout_seconds=_ANSWER_SECONDS,
            one_writer=False,
            vanished_seconds=VANISHED_SECONDS,
        )
        return cls(Database(place, Which.STATE, tuning, clock), replica, seconds=seconds)

    async def take(self) -> int | None:
        """Take the lease if it ran out, or was ours; return its new number, else None.

        Ours is taken anew by a daemon that was started again: the one before is dead, as both
        have the same state folder.
        """
        return await self._database.write(self._take)

    async def renew(self, number: int) -> bool:
        """Let the lease begin anew; False if another daemon has taken it since.

        One that ran out and was taken by nobody is renewed as well: nobody acted meanwhile.
        """
        given = self._own(number) | {"seconds": self._seconds}
        return await self._database.write(_changed, _RENEW, given)

    async def release(self, number: int) -> bool:
        """Let the lease end now; False if it was not ours any more."""
        return await self._database.write(_changed, _RELEASE, self._own(number))

    async def seen(self) -> Lease | None:
        """Return the lease as it stands; None if nobody ever took it."""
        return await self._database.write(_seen)

    async def close(self) -> None:
        """Close the connection."""
        await self._database.close()

    def _take(self, connection: Connection) -> int | None:
        connection.execute(_FIRST)
        taken = {
            "holder": self._replica.holder,
            "host": self._replica.host,
            "admin_url": self._replica.admin_url,
            "seconds": self._seconds,
        }
        number: int | None = connection.execute(_TAKE, taken).scalar()
        if number == 1:
            connection.execute(_OWN_SPOOLS, {"prefix": spool_prefix(self._replica.holder)})
        return number

    def _own(self, number: int) -> dict[str, Any]:
        return {"number": number, "holder": self._replica.holder}


def _changed(connection: Connection, statement: TextClause, given: dict[str, Any]) -> bool:
    return connection.execute(statement, given).rowcount == 1


def _seen(connection: Connection) -> Lease | None:
    row = connection.execute(_SEEN).one_or_none()
    if row is None:
        return None
    return Lease(
        number=row.number,
        holder=row.holder,
        host=row.host,
        admin_url=row.admin_url,
        taken_at=float(row.taken_at),
        left_seconds=float(row.left_seconds),
    )


def _fenced(message: str) -> StoreError:
    return StoreError(message, reason=EdgeReason.LOCKED, retryable=True)
