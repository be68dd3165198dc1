"""The pods of the fleet, now and at any instant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, select

from scrubjay.errors import NoSuchPod
from scrubjay.ids import PodId, PodName, SessionId
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.facts import Facts, Moment, TimedQuery, holds, holds_of
from scrubjay.store.notices import MUTES
from scrubjay.store.status import COLUMNS, STATUSES, Status, is_known, open_status, read_status
from scrubjay.tape.record import Json

_POD, _FACT = schema.pod.c, schema.pod_fact.c
_FACTS: tuple[ColumnElement[object], ...] = (
    *(_POD.id, _FACT.name, _POD.session, _POD.runner, _POD.argv, _POD.cwd, _POD.cols, _POD.rows, _POD.agent),
    *(_FACT.repository, _FACT.branch, _FACT.worktree, _POD.imported, _POD.created_us, _FACT.conversation),
)
_LIVES = Facts(schema.pod, "id")
_CHANGES = Facts(schema.pod_fact, "pod")
_CHANGING = ("name", "repository", "branch", "worktree", "conversation")


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What is known of a pod besides its status. Name, repository, branch, worktree and conversation may
    change."""

    id: PodId
    name: PodName
    session: SessionId
    runner: str
    argv: tuple[str, ...]
    cwd: str
    cols: int  #: as it was started; the tape knows every size since
    rows: int
    agent: str | None
    repository: str | None
    branch: str | None
    worktree: str | None
    imported: bool
    created_us: int  #: by the clock of its machine
    conversation: str | None = None  #: the id of its agent's, as far as it is known

    def describe(self) -> Json:
        """Everything but the id, as an event tells it: what is None is left out."""
        fields: Json = {
            "name": self.name,
            "session": self.session,
            "runner": self.runner,
            "argv": list(self.argv),
            "cwd": self.cwd,
            "cols": self.cols,
            "rows": self.rows,
            "agent": self.agent,
            "repository": self.repository,
            "branch": self.branch,
            "worktree": self.worktree,
            "conversation": self.conversation,
            "imported": self.imported,
            "created_us": self.created_us,
        }
        return {name: value for name, value in fields.items() if value is not None}


def add_pod(connection: Connection, facts: PodFacts, status: Status, *, wall_us: int, found: bool = False) -> bool:
    """Add a pod; False if it is or was known, for a removed pod does not come back.

    The event is ``pod.imported``, ``pod.found`` for one that was there before anybody told the fleet, or
    ``pod.started``; it holds the facts and, as ``status``, the status.
    """
    if is_known(connection, facts.id):
        return False
    kind = "pod.imported" if facts.imported else "pod.found" if found else "pod.started"
    data = {**facts.describe(), "status": status.describe()}
    event = append_event(connection, kind, wall_us=wall_us, pod=facts.id, data=data)
    _LIVES.open(
        connection,
        event,
        {
            "id": facts.id,
            "session": facts.session,
            "runner": facts.runner,
            "argv": facts.argv,
            "cwd": facts.cwd,
            "cols": facts.cols,
            "rows": facts.rows,
            "agent": facts.agent,
            "imported": facts.imported,
            "created_us": facts.created_us,
        },
    )
    changing: Json = {name: getattr(facts, name) for name in _CHANGING}
    _CHANGES.open(connection, event, {"pod": facts.id, **changing})
    open_status(connection, facts.id, status, event)
    return True


def change_pod(connection: Connection, facts: PodFacts, *, wall_us: int) -> bool:
    """Take over what may change; False if none differs, or the pod has been removed.

    NoSuchPod if it was never added. The event ``pod.changed`` holds what differs.
    """
    current = get_pod(connection, facts.id)
    if current is None:
        if not is_known(connection, facts.id):
            raise NoSuchPod(facts.id)
        return False
    new: Json = {name: getattr(facts, name) for name in _CHANGING}
    differs: Json = {name: value for name, value in new.items() if getattr(current[0], name) != value}
    if not differs:
        return False
    event = append_event(connection, "pod.changed", wall_us=wall_us, pod=facts.id, data=differs)
    _CHANGES.close(connection, event, facts.id)
    _CHANGES.open(connection, event, {"pod": facts.id, **new})
    return True


def remove_pod(connection: Connection, pod: PodId, *, wall_us: int) -> bool:
    """Let a pod be no longer there; False if it is not. What was before stays readable with ``at_us``."""
    if get_pod(connection, pod) is None:
        return False
    event = append_event(connection, "pod.removed", wall_us=wall_us, pod=pod)
    for facts in (_LIVES, _CHANGES, STATUSES, MUTES):
        facts.close(connection, event, pod)
    return True


def list_pods(connection: Connection, *, at_us: int | None = None) -> list[tuple[PodFacts, Status]]:
    """All pods with their status, now or at an instant, oldest first."""
    return [_read(row) for row in _ALL.run(connection, at_us)]


def get_pod(connection: Connection, pod: PodId, *, at_us: int | None = None) -> tuple[PodFacts, Status] | None:
    """One pod with its status, now or at an instant; None if it was not there."""
    row = _ONE.run(connection, at_us, of=pod).first()
    return None if row is None else _read(row)


def _pods(moment: Moment) -> Select[*tuple[Any, ...]]:
    joined = schema.pod.join(schema.pod_fact, holds_of(schema.pod_fact, _POD.id, moment))
    joined = joined.join(schema.status, holds_of(schema.status, _POD.id, moment))
    pods = select(*_FACTS, *COLUMNS).select_from(joined).where(holds(schema.pod, moment))
    return pods.order_by(_POD.created_us, _POD.id)


_ALL = TimedQuery(_pods)
_ONE = TimedQuery(lambda moment: _pods(moment).where(_POD.id == bindparam("of")))


def _read(row: Row[*tuple[Any, ...]]) -> tuple[PodFacts, Status]:
    return PodFacts(*row[: len(_FACTS)]), read_status(row)
