"""The git worktrees runners have made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from scrubjay.ids import PodId, RunnerId
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.facts import Facts, TimedQuery, holds
from scrubjay.tape.record import Json

_TABLE = schema.worktree
_COLUMNS = tuple(
    _TABLE.c[name] for name in ("runner", "name", "path", "repository", "branch", "base", "pod", "since_us", "until_us")
)
_WORKTREES = Facts(_TABLE, "runner", "name")
_ONE = TimedQuery(
    lambda moment: select(*_COLUMNS).where(
        holds(_TABLE, moment), _TABLE.c.runner == bindparam("of"), _TABLE.c.name == bindparam("named")
    )
)


@dataclass(frozen=True, slots=True)
class WorktreeFacts:
    """A worktree, from one instant up to another."""

    runner: RunnerId
    name: str  #: of which a runner has one at a time
    path: str
    repository: str
    branch: str | None = None
    base: str | None = None  #: the commit it began at
    pod: PodId | None = None  #: the one it was made for
    since_us: int = 0  #: filled in by the catalog
    until_us: int | None = None

    def describe(self) -> Json:
        """What is known, without pod and instants: what is None is left out."""
        fields: Json = {
            "runner": self.runner,
            "name": self.name,
            "path": self.path,
            "repository": self.repository,
            "branch": self.branch,
            "base": self.base,
        }
        return {name: value for name, value in fields.items() if value is not None}


def add_worktree(connection: Connection, facts: WorktreeFacts, *, wall_us: int) -> bool:
    """Note a worktree; False if the runner has one of that name. The event is ``worktree.created``."""
    if get_worktree(connection, facts.runner, facts.name) is not None:
        return False
    data = facts.describe()
    event = append_event(connection, "worktree.created", wall_us=wall_us, pod=facts.pod, data=data)
    _WORKTREES.open(connection, event, {"branch": None, "base": None, **data, "pod": facts.pod})
    return True


def remove_worktree(connection: Connection, runner: RunnerId, name: str, *, wall_us: int) -> bool:
    """Note that a worktree is gone; False if it was not there. The event is ``worktree.removed``."""
    current = get_worktree(connection, runner, name)
    if current is None:
        return False
    data: Json = {"runner": runner, "name": name, "path": current.path}
    event = append_event(connection, "worktree.removed", wall_us=wall_us, pod=current.pod, data=data)
    _WORKTREES.close(connection, event, runner, name)
    return True


def get_worktree(
    connection: Connection, runner: RunnerId, name: str, *, at_us: int | None = None
) -> WorktreeFacts | None:
    """One worktree, now or at an instant; None if it was not there."""
    row = _ONE.run(connection, at_us, of=runner, named=name).first()
    return None if row is None else _read(row)


def _read(row: Row[*tuple[Any, ...]]) -> WorktreeFacts:
    return WorktreeFacts(*row)
