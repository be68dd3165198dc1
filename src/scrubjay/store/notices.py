"""Which pods nobody wants to hear of, and which notices have been given."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, or_, select, update

from scrubjay.errors import NoSuchPod
from scrubjay.ids import PodId
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.facts import Facts, TimedQuery, holds
from scrubjay.store.status import is_known
from scrubjay.tape.record import Json

_MUTE, _NOTICE, _POD = schema.mute, schema.notice, schema.pod
MUTES = Facts(_MUTE, "pod")
_GOES_ON = or_(_MUTE.c.ends_us.is_(None), _MUTE.c.ends_us > bindparam("instant_us", type_=_MUTE.c.ends_us.type))
_ALL = TimedQuery(lambda moment: select(_MUTE.c.pod, _MUTE.c.ends_us).where(holds(_MUTE, moment), _GOES_ON))
_ONE = TimedQuery(
    lambda moment: select(_MUTE.c.ends_us).where(holds(_MUTE, moment), _GOES_ON, _MUTE.c.pod == bindparam("of"))
)
_OPEN = select(_MUTE.c.ends_us).where(_MUTE.c.pod == bindparam("of"), _MUTE.c.until_event.is_(None))
_THERE = select(_POD.c.id).where(_POD.c.id == bindparam("of"), _POD.c.until_event.is_(None))
_CLAIMED = select(_NOTICE.c.wall_us).where(_NOTICE.c.key == bindparam("of"))
_CLAIM = insert(_NOTICE)
_CLAIM_AGAIN = update(_NOTICE).where(_NOTICE.c.key == bindparam("of")).values(wall_us=bindparam("now_us"))


@dataclass(frozen=True, slots=True)
class Mute:
    """That no notices are given of a pod."""

    ends_us: int | None = None  #: when they are again, if that was said


def mute_pod(connection: Connection, pod: PodId, *, wall_us: int, ends_us: int | None = None) -> bool:
    """Give no more notices of a pod, until an instant or for good; False if it is so already, or it has been removed.

    NoSuchPod if it was never added. The event is ``pod.muted``.
    """
    if not is_known(connection, pod):
        raise NoSuchPod(pod)
    if connection.execute(_THERE, {"of": pod}).first() is None:
        return False
    before = connection.execute(_OPEN, {"of": pod}).first()
    if before is not None and before.ends_us == ends_us:
        return False
    data: Json | None = {"ends_us": ends_us} if ends_us is not None else None
    event = append_event(connection, "pod.muted", wall_us=wall_us, pod=pod, data=data)
    MUTES.close(connection, event, pod)
    MUTES.open(connection, event, {"pod": pod, "ends_us": ends_us})
    return True


def unmute_pod(connection: Connection, pod: PodId, *, wall_us: int) -> bool:
    """Give notices of a pod again; False if it is so already. The event is ``pod.unmuted``."""
    if mute_of(connection, pod, wall_us=wall_us) is None:
        return False
    event = append_event(connection, "pod.unmuted", wall_us=wall_us, pod=pod)
    MUTES.close(connection, event, pod)
    return True


def mute_of(connection: Connection, pod: PodId, *, wall_us: int, at_us: int | None = None) -> Mute | None:
    """Whether notices of a pod are, or at an instant were, not given; ``wall_us`` is what the clock shows now."""
    row = _ONE.run(connection, at_us, of=pod, instant_us=wall_us if at_us is None else at_us).first()
    return Mute(row.ends_us) if row is not None else None


def muted_pods(connection: Connection, *, wall_us: int, at_us: int | None = None) -> dict[PodId, Mute]:
    """The same of all pods."""
    rows = _ALL.run(connection, at_us, instant_us=wall_us if at_us is None else at_us)
    return {PodId(row.pod): Mute(row.ends_us) for row in rows}


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
