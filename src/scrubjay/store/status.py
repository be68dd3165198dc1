"""What each pod has been doing, and since when."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, select

from scrubjay.errors import NoSuchPod
from scrubjay.fleet.process import Activity, Process
from scrubjay.ids import PodId
from scrubjay.store import schema
from scrubjay.store.events import Event, append_event
from scrubjay.store.facts import Facts
from scrubjay.tape.record import Json

_KINDS: dict[Process, str] = {"exited": "pod.exited", "lost": "pod.lost"}
_TABLE = schema.status
STATUSES = Facts(_TABLE, "pod")
COLUMNS: tuple[ColumnElement[object], ...] = (
    *(_TABLE.c.process, _TABLE.c.reason, _TABLE.c.exit_status, _TABLE.c.activity, _TABLE.c.waiting_for),
    *(_TABLE.c.evidence, _TABLE.c.confidence, _TABLE.c.since_us, _TABLE.c.until_us),
)
_CURRENT = select(*COLUMNS).where(_TABLE.c.pod == bindparam("of"), _TABLE.c.until_event.is_(None))
_KNOWN = select(schema.pod.c.id).where(schema.pod.c.id == bindparam("of"))


@dataclass(frozen=True, slots=True)
class Status:
    """What a pod is doing, from one instant up to another."""

    process: Process
    reason: str | None = None
    exit_status: int | None = None  #: as a shell would say it
    activity: Activity | None = None
    waiting_for: str | None = None
    evidence: Json = field(default_factory=dict[str, object])
    confidence: float | None = None  #: 0 to 1
    since_us: int = 0  #: filled in by the catalog
    until_us: int | None = None

    def describe(self) -> Json:
        """What is known, without the instants: what is None is left out."""
        fields: Json = {
            "process": self.process,
            "reason": self.reason,
            "exit_status": self.exit_status,
            "activity": self.activity,
            "waiting_for": self.waiting_for,
            "evidence": self.evidence or None,
            "confidence": self.confidence,
        }
        return {name: value for name, value in fields.items() if value is not None}


def set_status(
    connection: Connection,
    pod: PodId,
    *,
    process: Process,
    reason: str | None = None,
    exit_status: int | None = None,
    activity: Activity | None = None,
    waiting_for: str | None = None,
    evidence: Json | None = None,
    confidence: float | None = None,
    wall_us: int,
) -> bool:
    """Replace the whole status of a pod; False if nothing of it changed, or the pod has been removed.

    NoSuchPod if it was never added. The event is ``pod.exited`` or ``pod.lost`` when the process comes to that, else
    ``pod.status``; it holds the new status.
    """
    status = Status(process, reason, exit_status, activity, waiting_for, evidence or {}, confidence)
    current = connection.execute(_CURRENT, {"of": pod}).first()
    if current is None:
        if not is_known(connection, pod):
            raise NoSuchPod(pod)
        return False
    before = read_status(current)
    if status == replace(before, since_us=0, until_us=None):
        return False
    kind = _KINDS.get(process, "pod.status") if process != before.process else "pod.status"
    event = append_event(connection, kind, wall_us=wall_us, pod=pod, data=status.describe())
    STATUSES.close(connection, event, pod)
    open_status(connection, pod, status, event)
    return True


def status_history(
    connection: Connection,
    pod: PodId,
    *,
    since_us: int | None = None,
    until_us: int | None = None,
    limit: int = 1000,
) -> list[Status]:
    """The statuses that held at some time from ``since_us`` up to, not including, ``until_us``, oldest first."""
    query = select(*COLUMNS).where(_TABLE.c.pod == pod).order_by(_TABLE.c.since_event).limit(limit)
    if since_us is not None:
        query = query.where(_TABLE.c.until_us.is_(None) | (_TABLE.c.until_us > since_us))
    if until_us is not None:
        query = query.where(_TABLE.c.since_us < until_us)
    return [read_status(row) for row in connection.execute(query)]


def is_known(connection: Connection, pod: PodId) -> bool:
    """Whether a pod was ever added."""
    return connection.execute(_KNOWN, {"of": pod}).first() is not None


def open_status(connection: Connection, pod: PodId, status: Status, event: Event) -> None:
    """Let a status begin with an event."""
    values = {
        "process": status.process,
        "reason": status.reason,
        "exit_status": status.exit_status,
        "activity": status.activity,
        "waiting_for": status.waiting_for,
        "evidence": status.evidence,
        "confidence": status.confidence,
    }
    STATUSES.open(connection, event, {"pod": pod, **values})


def read_status(row: Row[*tuple[Any, ...]]) -> Status:
    """The status in the columns ``COLUMNS``, which are the last of a row."""
    return Status(*row[-len(COLUMNS) :])
