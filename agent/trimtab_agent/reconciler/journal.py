"""The reconciler's memory on disk: rounds, intents and outcomes, orders of people, the lease, and the history.

An intent is written before anything happens and its outcome after, so a run that died in between is seen by the next
one. SQLite by default; a PostgreSQL URL serves several replicas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    delete,
    event,
    insert,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable

from trimtab.model.errors import LeaseHeldError, SettingsError
from trimtab.model.scaling import Pin
from trimtab_agent.reconciler import history, processes
from trimtab_agent.reconciler.history import History, Orders
from trimtab_agent.reconciler.plan import Change

LEASE_SECONDS = 60.0
SCHEMA_VERSION = "1"
INTERRUPTED = "interrupted"
NOBODY = "nobody/0/0"
_tables = MetaData()
_meta = Table("meta", _tables, Column("key", String, primary_key=True), Column("value", String))
_actions = Table(
    "actions",
    _tables,
    Column("id", Integer, primary_key=True),
    Column("round", String, index=True),
    Column("group", String, index=True),
    Column("kind", String),
    Column("instance", String),
    Column("desired", Integer),
    Column("rule", String),
    Column("sentence", String),
    Column("evidence", JSON),
    Column("intent_at", Float),
    Column("outcome", String),
    Column("outcome_at", Float),
)
_orders = Table(
    "orders",
    _tables,
    Column("kind", String, primary_key=True),
    Column("scope", String, primary_key=True),
    Column("value", Integer),
    Column("until", Float),
    Column("reason", String),
)
_lease = Table(
    "lease",
    _tables,
    Column("id", Integer, primary_key=True),
    Column("holder", String),
    Column("epoch", Integer),
    Column("expires", Float),
)

FIRST_ROWS: tuple[tuple[Table, dict[str, Any]], ...] = (
    (_meta, {"key": "schema", "value": SCHEMA_VERSION}),
    (_lease, {"id": 1, "holder": NOBODY, "epoch": 0, "expires": 0.0}),
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One action of the journal as a reader wants it."""

    round: str
    group: str
    kind: str
    instance: str | None
    desired: int | None
    rule: str
    sentence: str
    evidence: dict[str, Any]
    intent_at: datetime
    outcome: str | None
    outcome_at: datetime | None


class Journal:
    """The open journal of one stack."""

    def __init__(self, url: str) -> None:
        """Open or create the journal; raises SettingsError when that cannot be done."""
        self._shown = without_password(url)
        with self._plain_errors():
            if url.startswith("sqlite:///"):
                Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
            self._engine = create_engine(url)
            if url.startswith("sqlite"):
                event.listen(self._engine, "connect", _durable)
            self._create()
        self._require_version()

    def close(self) -> None:
        """Give back the connections."""
        self._engine.dispose()

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError, ImportError, ValueError, OverflowError) as error:
            cause = getattr(error, "orig", None) or error
            hint = "Check journal.url in trimtab.toml; a damaged journal may be moved away, and history starts anew."
            raise SettingsError(f"the journal {self._shown} cannot be used: {cause}", hint=hint) from error

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        with self._plain_errors(), self._engine.begin() as connection:
            yield connection

    def _require_version(self) -> None:
        version = self._get("schema")
        if version != SCHEMA_VERSION:
            raise SettingsError(f"the journal {self._shown} has schema {version}; this Trimtab reads {SCHEMA_VERSION}")

    def _create(self) -> None:
        """Make what is missing; several processes may do so in the same moment.

        The lease has its row from the beginning, so that taking it is one conditional update that only one can win.
        """
        with self._engine.begin() as connection:
            for table in _tables.sorted_tables:
                connection.execute(CreateTable(table, if_not_exists=True))
                for index in table.indexes:
                    connection.execute(CreateIndex(index, if_not_exists=True))
        for table, row in FIRST_ROWS:
            with suppress(IntegrityError), self._engine.begin() as connection:
                if connection.execute(select(table).limit(1)).first() is None:
                    connection.execute(insert(table).values(row))

    def _get(self, key: str) -> str | None:
        with self._begin() as connection:
            value: str | None = connection.scalar(select(_meta.c.value).where(_meta.c.key == key))
            return value

    def _put(self, key: str, value: str) -> None:
        with self._begin() as connection:
            connection.execute(delete(_meta).where(_meta.c.key == key))
            connection.execute(insert(_meta).values(key=key, value=value))

    def history(self) -> History:
        """What the planner may remember."""
        text = self._get("history")
        try:
            return History() if text is None else history.from_json(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            hint = "Move the journal away: the planner's memory starts anew, and nothing in AWS changes by that."
            raise SettingsError(f"the journal {self._shown} holds no readable history: {error}", hint=hint) from error

    def save_history(self, memory: History) -> None:
        """Store what the planner may remember."""
        self._put("history", json.dumps(history.to_json(memory)))

    def note(self, key: str, value: str) -> None:
        """Store a small fact about the loop itself, for `status`."""
        self._put(f"note:{key}", value)

    def noted(self, key: str) -> str | None:
        """A fact that the loop stored, or None."""
        return self._get(f"note:{key}")

    def intend(self, round_id: str, changes: tuple[Change, ...], now: datetime) -> None:
        """Write what is about to happen."""
        rows = [_row(round_id, change, now) for change in changes]
        if rows:
            with self._begin() as connection:
                connection.execute(insert(_actions), rows)

    def conclude(self, round_id: str, outcome: str, now: datetime) -> None:
        """Write how a round's open actions ended."""
        with self._begin() as connection:
            connection.execute(
                update(_actions)
                .where(_actions.c.round == round_id, _actions.c.outcome.is_(None))
                .values(outcome=outcome, outcome_at=now.timestamp())
            )

    def unfinished(self) -> list[Entry]:
        """Actions without an outcome: under way, or begun by a run that died."""
        with self._begin() as connection:
            return [_entry(row) for row in connection.execute(select(_actions).where(_actions.c.outcome.is_(None)))]

    def interrupted(self, now: datetime) -> list[Entry]:
        """Close the intents that a dead run left open, and say which; live state decides what still has to happen."""
        closed = self.unfinished()
        with self._begin() as connection:
            connection.execute(
                update(_actions)
                .where(_actions.c.outcome.is_(None))
                .values(outcome=INTERRUPTED, outcome_at=now.timestamp())
            )
        return closed

    def entries(self, subject: str | None = None, limit: int = 20) -> list[Entry]:
        """The newest actions, of all or of one group or instance."""
        query = select(_actions).order_by(_actions.c.id.desc()).limit(limit)
        if subject is not None:
            query = query.where((_actions.c.group == subject) | (_actions.c.instance == subject))
        with self._begin() as connection:
            return [_entry(row) for row in connection.execute(query)]

    def orders(self, now: datetime) -> Orders:
        """The pins and pauses that hold now."""
        with self._begin() as connection:
            connection.execute(delete(_orders).where(_orders.c.until <= now.timestamp()))
            rows = connection.execute(select(_orders)).all()
        pins = {
            row.scope: Pin(row.value, datetime.fromtimestamp(row.until, UTC), row.reason)
            for row in rows
            if row.kind == "pin"
        }
        return Orders(pins, {row.scope: row.reason for row in rows if row.kind == "pause"})

    def give_order(
        self, kind: str, scope: str, reason: str, value: int | None = None, until: datetime | None = None
    ) -> None:
        """Store a pin or a pause, in place of an older one."""
        self.lift_order(kind, scope)
        with self._begin() as connection:
            connection.execute(
                insert(_orders).values(
                    kind=kind, scope=scope, value=value, until=until and until.timestamp(), reason=reason
                )
            )

    def lift_order(self, kind: str, scope: str) -> bool:
        """Remove a pin or a pause; True when there was one."""
        with self._begin() as connection:
            done = connection.execute(delete(_orders).where(_orders.c.kind == kind, _orders.c.scope == scope))
            return bool(done.rowcount)

    def acquire(self, now: datetime) -> Lease:
        """Take the lease with a new epoch, or keep our own.

        Raises:
            LeaseHeldError: somebody else holds it and is not provably gone.
        """
        me = processes.myself()
        with self._begin() as connection:
            row = connection.execute(select(_lease).where(_lease.c.id == 1)).one()
            require_free(row, me, now)
            epoch = row.epoch + (row.holder != me)
            taken = connection.execute(
                update(_lease)
                .where(_lease.c.id == 1, _lease.c.holder == row.holder, _lease.c.epoch == row.epoch)
                .values(holder=me, epoch=epoch, expires=(now + timedelta(seconds=LEASE_SECONDS)).timestamp())
            )
        if taken.rowcount != 1:
            raise LeaseHeldError("another reconciler took this stack's lease in the same moment")
        return Lease(self, me, epoch)

    def epoch_of(self, holder: str) -> int | None:
        """The epoch under which a holder has the lease, or None when it has not."""
        with self._begin() as connection:
            row = connection.execute(select(_lease).where(_lease.c.holder == holder)).first()
            return None if row is None else int(row.epoch)

    def release(self, holder: str) -> None:
        """Let the next one in at once; the epoch is kept so that it only ever grows."""
        with self._begin() as connection:
            connection.execute(update(_lease).where(_lease.c.holder == holder).values(expires=0.0))


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to act on a stack, as long as `require` does not object (I3)."""

    journal: Journal
    holder: str
    epoch: int

    def require(self) -> None:
        """Confirm that nobody took over.

        Raises:
            LeaseHeldError: the lease is somebody else's by now.
        """
        held = self.journal.epoch_of(self.holder) == self.epoch
        if not held or self.journal.acquire(datetime.now(UTC)).epoch != self.epoch:
            raise LeaseHeldError("another reconciler took over; this one stops before doing anything else")

    def release(self) -> None:
        """Give the lease back."""
        self.journal.release(self.holder)


def without_password(url: str) -> str:
    """A database URL as an error may show it."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except SQLAlchemyError:
        return "journal.url"


def require_free(row: Any, me: str, now: datetime) -> None:
    """Object to taking a lease that somebody else holds and may still use.

    Raises:
        LeaseHeldError: naming the holder.
    """
    left = row.expires - now.timestamp()
    if row.holder != me and left > 0 and not processes.is_gone(row.holder):
        raise LeaseHeldError(f"{row.holder} reconciles this stack; its lease runs for another {left:.0f} s")


def _durable(connection: Any, _record: Any) -> None:
    """SQLite settings: readers beside a writer, and a commit that survives kill -9."""
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout=5000")
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.close()


def _row(round_id: str, change: Change, now: datetime) -> dict[str, Any]:
    return {
        "round": round_id,
        "group": change.group,
        "kind": type(change).__name__,
        "instance": getattr(change, "instance_id", None),
        "desired": getattr(change, "desired", None),
        "rule": change.reason.rule,
        "sentence": change.reason.sentence,
        "evidence": dict(change.reason.evidence),
        "intent_at": now.timestamp(),
    }


def _entry(row: Any) -> Entry:
    return Entry(
        row.round,
        row.group,
        row.kind,
        row.instance,
        row.desired,
        row.rule,
        row.sentence,
        row.evidence or {},
        datetime.fromtimestamp(row.intent_at, UTC),
        row.outcome,
        None if row.outcome_at is None else datetime.fromtimestamp(row.outcome_at, UTC),
    )
