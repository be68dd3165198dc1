"""The runners of the fleet and whether they are connected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from scrubjay.ids import RunnerId
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.facts import Facts, TimedQuery, holds

_LINK = schema.runner_link
_COLUMNS = tuple(
    _LINK.c[name] for name in ("runner", "name", "host", "version", "connected", "reason", "since_us", "until_us")
)
_LINKS = Facts(_LINK, "runner")
_ALL = TimedQuery(lambda moment: select(*_COLUMNS).where(holds(_LINK, moment)).order_by(_LINK.c.name, _LINK.c.runner))
_ONE = TimedQuery(lambda moment: select(*_COLUMNS).where(holds(_LINK, moment), _LINK.c.runner == bindparam("of")))


@dataclass(frozen=True, slots=True)
class Runner:
    """A runner, connected or gone, from one instant up to another."""

    id: RunnerId
    name: str
    host: str
    version: str
    connected: bool
    reason: str | None  #: why it is gone
    since_us: int
    until_us: int | None


def connect_runner(
    connection: Connection, runner: RunnerId, *, name: str, host: str, version: str, wall_us: int
) -> bool:
    """Note that a runner is connected; False if that is known already. The event is ``runner.connected``."""
    current = get_runner(connection, runner)
    facts = {"name": name, "host": host, "version": version}
    if current is not None and current.connected and facts == _describe(current):
        return False
    event = append_event(connection, "runner.connected", wall_us=wall_us, data={"runner": runner, **facts})
    _LINKS.close(connection, event, runner)
    _LINKS.open(connection, event, {"runner": runner, **facts, "connected": True, "reason": None})
    return True


def disconnect_runner(connection: Connection, runner: RunnerId, *, reason: str, wall_us: int) -> bool:
    """Note that a runner is gone; False if it was not connected. The event is ``runner.gone``."""
    current = get_runner(connection, runner)
    if current is None or not current.connected:
        return False
    facts = _describe(current)
    event = append_event(
        connection, "runner.gone", wall_us=wall_us, data={"runner": runner, "name": current.name, "reason": reason}
    )
    _LINKS.close(connection, event, runner)
    _LINKS.open(connection, event, {"runner": runner, **facts, "connected": False, "reason": reason})
    return True


def disconnect_runners(connection: Connection, *, reason: str, wall_us: int) -> list[RunnerId]:
    """Note that all runners are gone, as they are when a server starts; returns those that were connected."""
    connected = [runner.id for runner in list_runners(connection) if runner.connected]
    for runner in connected:
        disconnect_runner(connection, runner, reason=reason, wall_us=wall_us)
    return connected


def list_runners(connection: Connection, *, at_us: int | None = None) -> list[Runner]:
    """All runners that had ever connected by then, by name."""
    return [_read(row) for row in _ALL.run(connection, at_us)]


def get_runner(connection: Connection, runner: RunnerId, *, at_us: int | None = None) -> Runner | None:
    """One runner, now or at an instant; None if it had never connected."""
    row = _ONE.run(connection, at_us, of=runner).first()
    return None if row is None else _read(row)


def _describe(runner: Runner) -> dict[str, str]:
    return {"name": runner.name, "host": runner.host, "version": runner.version}


def _read(row: Row[*tuple[Any, ...]]) -> Runner:
    return Runner(*row)
