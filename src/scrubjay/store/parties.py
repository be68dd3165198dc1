"""Who a party is: what people call it, the pod that acts for it now, and whether one does."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from scrubjay.fleet.parties import Party, kind_of
from scrubjay.fleet.process import OVER, describe_process
from scrubjay.ids import PodId
from scrubjay.store import schema

_POD, _FACT, _STATUS, _TOKEN = schema.pod.c, schema.pod_fact.c, schema.status.c, schema.token.c
_NEWEST = (
    select(_POD.id)
    .where(_POD.session == bindparam("of"), _POD.until_event.is_(None))
    .order_by(_POD.created_us.desc(), _POD.id.desc())
    .limit(1)
)
_NAME = (
    select(_FACT.name)
    .join_from(schema.pod, schema.pod_fact, _FACT.pod == _POD.id)
    .where(_POD.session == bindparam("of"))
    # Of those that are there before the others; of a pod that was deleted the last name it had.
    .order_by(_POD.until_event.is_not(None), _POD.created_us.desc(), _POD.id.desc(), _FACT.since_event.desc())
    .limit(1)
)
_PROCESSES = (
    select(_STATUS.process, _STATUS.reason, _STATUS.exit_status)
    .join_from(schema.pod, schema.status, (_STATUS.pod == _POD.id) & _STATUS.until_event.is_(None), isouter=True)
    .where(_POD.session == bindparam("of"))
    .order_by(_POD.created_us, _POD.id)
)
_TOKEN_NAME = select(_TOKEN.name).where(_TOKEN.id == bindparam("of"))
_REVOKED = select(_TOKEN.id).where(_TOKEN.id == bindparam("of"), _TOKEN.until_event.is_not(None))
REVOKED = "was shut out"  # what became of an agent outside pods whose token was revoked
_SHORT = 8


def pod_of(connection: Connection, party: Party) -> PodId | None:
    """The newest pod of a party; None if it has none, or is none."""
    if kind_of(party) != "pod":
        return None
    pod = connection.execute(_NEWEST, {"of": party}).scalar_one_or_none()
    return None if pod is None else PodId(pod)


def name_of(connection: Connection, party: Party) -> str:
    """What people call a party."""
    match kind_of(party):
        case "pod":
            name = connection.execute(_NAME, {"of": party}).scalar_one_or_none()
            return party[:_SHORT] if name is None else str(name)
        case "agent":
            name = connection.execute(_TOKEN_NAME, {"of": party.partition(":")[2]}).scalar_one_or_none()
            return party.partition(":")[2][:_SHORT] if name is None else str(name)
        case "person" | "scrubjay":
            return party.partition(":")[2] or party


def end_of(connection: Connection, party: Party) -> str | None:
    """How the last pod of a party has ended; None if one of them lives, or there never was any.

    An agent outside pods has ended when its token was revoked.
    """
    kind = kind_of(party)
    if kind == "agent":
        shut_out = connection.execute(_REVOKED, {"of": party.partition(":")[2]}).first() is not None
        return REVOKED if shut_out else None
    if kind != "pod":
        return None
    pods = connection.execute(_PROCESSES, {"of": party}).all()
    if not pods or any(pod.process is not None and pod.process not in OVER for pod in pods):
        return None
    last = pods[-1]
    return "was deleted" if last.process is None else describe_process(last.process, last.reason, last.exit_status)
