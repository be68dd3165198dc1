"""Which pods nobody wants to hear of, and which notices have been given."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, insert, select, update

from scrubjay.errors import NoSuchPod
from scrubjay.ids import PodId
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.facts import Facts, TimedQuery, holds
from scrubjay.store.status import is_known

_MUTE, _NOTICE, _POD = schema.mute, schema.notice, schema.pod
MUTES = Facts(_MUTE, "pod")
_ALL = TimedQuery(lambda moment: select(_MUTE.c.pod).where(holds(_MUTE, moment)))
_ONE = TimedQuery(lambda moment: select(_MUTE.c.pod).where(holds(_MUTE, moment), _MUTE.c.pod == bindparam("of")))
_THERE = select(_POD.c.id).where(_POD.c.id == bindparam("of"), _POD.c.until_event.is_(None))
_CLAIMED = select(_NOTICE.c.wall_us).where(_NOTICE.c.key == bindparam("of"))
_CLAIM = insert(_NOTICE)
_CLAIM_AGAIN = update(_NOTICE).where(_NOTICE.c.key == bindparam("of")).values(wall_us=bindparam("now_us"))


def mute_pod(connection: Connection, pod: PodId, *, wall_us: int) -> bool:
    """Give no more notices of a pod; False if it is so already, or the pod has been removed.

    NoSuchPod if it was never added. The event is ``pod.muted``.
    """
    if not is_known(connection, pod):
        raise NoSuchPod(pod)
    if is_muted(connection, pod) or connection.execute(_THERE, {"of": pod}).first() is None:
        return False
    event = append_event(connection, "pod.muted", wall_us=wall_us, pod=pod)
    MUTES.open(connection, event, {"pod": pod})
    return True


def unmute_pod(connection: Connection, pod: PodId, *, wall_us: int) -> bool:
    """Give notices of a pod again; False if it is so already. The event is ``pod.unmuted``."""
    if not is_muted(connection, pod):
        return False
    event = append_event(connection, "pod.unmuted", wall_us=wall_us, pod=pod)
    MUTES.close(connection, event, pod)
    return True


def is_muted(connection: Connection, pod: PodId, *, at_us: int | None = None) -> bool:
    """Whether notices of a pod are, or at an instant were, not given."""
    return _ONE.run(connection, at_us, of=pod).first() is not None


def muted_pods(connection: Connection, *, at_us: int | None = None) -> set[PodId]:
    """All pods whose notices are, or at an instant were, not given."""
    return {PodId(row[0]) for row in _ALL.run(connection, at_us)}


def claim_notice(connection: Connection, key: str, *, wall_us: int, quiet_us: int) -> bool:
    """True for the one who may give this notice: nobody else was told so within ``quiet_us``."""
    row = connection.execute(_CLAIMED, {"of": key}).first()
    if row is None:
        connection.execute(_CLAIM, {"key": key, "wall_us": wall_us})
        return True
    # A claim in the future was made before the clock was set back, and says nothing about how long ago it was.
    if 0 <= wall_us - row.wall_us < quiet_us:
        return False
    connection.execute(_CLAIM_AGAIN, {"of": key, "now_us": wall_us})
    return True
