"""What happens between agents, with all that follows from it, in the same transaction.

Whatever ends a wait goes through ``happen``, which also tells the waiter: nothing is half known after a crash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import Connection, and_, bindparam, or_, select

from scrubjay.fleet.messages import Channel, Message
from scrubjay.fleet.parties import PERSON, SCRUBJAY, Party, kind_of, session_party
from scrubjay.fleet.process import OVER, SURE, describe_process
from scrubjay.fleet.waits import (
    REASON_MAX,
    Answered,
    Attended,
    Finished,
    Happening,
    Kind,
    Source,
    Spoke,
    Stopped,
    Wait,
    WentOn,
    ending_of,
    message_key,
)
from scrubjay.ids import PodId, SessionId, new_record_id
from scrubjay.store import schema
from scrubjay.store.channels import get_channel, own_inbox, owner_of
from scrubjay.store.messages import Question, add_message, get_message, questions_of
from scrubjay.store.parties import end_of, name_of, pod_of
from scrubjay.store.status import Status
from scrubjay.store.waits import begin_wait, end_wait, waits_about, waits_of
from scrubjay.tape.record import Json

_ASKED_WITHIN_US = 24 * 3600 * 1_000_000  # what was asked before that nobody waits for any more
_ASKED_MAX = 20
_TOLD = ("declared", "message")  # sources of waits that an agent knows of, and wants to hear the end of

_STATUS, _HANDOFF, _WAIT = schema.status.c, schema.handoff.c, schema.wait.c
_ACTIVITY_BEFORE = (
    select(_STATUS.activity)
    .where(_STATUS.pod == bindparam("of"), _STATUS.until_event.is_not(None))
    .where(or_(_STATUS.activity.is_(None), _STATUS.activity != "idle", _STATUS.confidence >= SURE))
    .order_by(_STATUS.since_event.desc())
    .limit(1)
)
_OFFERED = select(_HANDOFF.id, _HANDOFF.recipient, _HANDOFF.note).where(
    _HANDOFF.offered_by == bindparam("of"), _HANDOFF.until_event.is_(None), _HANDOFF.state == "offered"
)
_ASKED_FOR = select(_WAIT.id).where(
    _WAIT.source == "message",
    or_(
        and_(_WAIT.kind.in_(["pod", "person"]), _WAIT.key == bindparam("of")),
        and_(
            *(_WAIT.kind == "channel", _WAIT.key == bindparam("in_channel"), _WAIT.waiter == bindparam("whose")),
            _WAIT.since_us >= bindparam("asked_us"),
        ),
    ),
)


def happen(connection: Connection, happening: Happening, *, wall_us: int) -> list[Wait]:
    """End the waits that something ends, and tell their waiters; returns them as they are now."""
    ended: list[Wait] = []
    for wait in waits_about(connection, happening):
        ending = ending_of(wait, happening)
        if ending is None:
            continue
        done = end_wait(connection, wait, *ending, wall_us=wall_us)
        ended.append(done)
        if not isinstance(happening, Answered):  # who answers also says what exactly is granted
            _tell_end(connection, done, wall_us=wall_us)
    return ended


def say(
    connection: Connection,
    channel: Channel,
    *,
    author: Party,
    text: str,
    mentions: Sequence[Party] = (),
    reply_to: int | None = None,
    asks: bool = False,
    wait_for_answer: bool = False,
    wall_us: int,
) -> Message:
    """Say something in a channel; with ``wait_for_answer`` its author waits for whom it asks from now on."""
    message = add_message(
        connection,
        channel,
        author=author,
        author_name=name_of(connection, author),
        text=text,
        mentions=mentions,
        reply_to=reply_to,
        asks=asks,
        wall_us=wall_us,
    )
    answered = message_key(channel.id, reply_to) if reply_to is not None else None
    spoke = Spoke(author, channel.id, frozenset(message.mentions), answered, owner_of(channel))
    happen(connection, spoke, wall_us=wall_us)
    if wait_for_answer and kind_of(author) != "person":
        for party in _asked(connection, message):
            began = begin_wait(connection, _awaiting(message, party, "message"), wall_us=wall_us)
            _tell_end(connection, began, wall_us=wall_us)
    return message


def notify(
    connection: Connection, party: Party, text: str, *, about: Mapping[str, object], wall_us: int
) -> Message | None:
    """Put word for an agent into its inbox; None for a party that reads none."""
    if kind_of(party) != "agent" and pod_of(connection, party) is None:
        return None
    inbox = own_inbox(connection, party, wall_us=wall_us)
    return add_message(
        connection,
        inbox,
        author=SCRUBJAY,
        author_name="scrubjay",
        text=text,
        mentions=[party],
        about=about,
        wall_us=wall_us,
    )


def follow_status(
    connection: Connection, pod: PodId, session: SessionId, before: Status, after: Status, *, wall_us: int
) -> None:
    """Take up what a pod's new status, which the catalog has by now, means for those who wait."""
    party = session_party(session)
    if after.process in OVER:
        if before.process not in OVER:
            _follow_end(connection, party, pod, before, after, wall_us=wall_us)
        return
    asked, asks = _prompt(before), _prompt(after)
    if asked is not None and not _goes_on(asked, asks):
        happen(connection, Attended(party, pod), wall_us=wall_us)
    if asks is not None and not _goes_on(asked, asks):
        begin_wait(connection, _prompted(party, pod, after), wall_us=wall_us)
    if after.activity in ("executing", "waiting") and before.activity in (None, "idle"):
        happen(connection, WentOn(party), wall_us=wall_us)
    if _rests(after) and not _rests(before):
        _follow_rest(connection, party, pod, before, wall_us=wall_us)


def _follow_end(
    connection: Connection, party: Party, pod: PodId, before: Status, after: Status, *, wall_us: int
) -> None:
    if end_of(connection, party) is not None:
        how = describe_process(after.process, after.reason, after.exit_status)
        happen(connection, Stopped(party, how), wall_us=wall_us)
    elif _prompt(before) is not None:  # the party goes on elsewhere, but nobody can answer this any more
        happen(connection, Attended(party, pod), wall_us=wall_us)


def _follow_rest(connection: Connection, party: Party, pod: PodId, before: Status, *, wall_us: int) -> None:
    did = before.activity
    if did == "idle":  # it was not sure of that before
        did = connection.execute(_ACTIVITY_BEFORE, {"of": pod}).scalar_one_or_none()
    if did == "idle":  # it was, and was in doubt for a moment
        return
    _infer(connection, party, wall_us=wall_us)
    if did is not None and not any(map(_holds_up, waits_of(connection, party))):
        happen(connection, Finished(party), wall_us=wall_us)


def _holds_up(wait: Wait) -> bool:
    """Whether who waits so has not finished. A question to people, or to nobody in particular, may end a turn."""
    return wait.source != "inferred" or wait.kind == "pod"


def _rests(status: Status) -> bool:
    return status.activity == "idle" and (status.confidence or 0.0) >= SURE


def _prompt(status: Status) -> tuple[str, object] | None:
    """What a pod asks a person, and in which words."""
    if status.waiting_for is None or not status.waiting_for.startswith("person:"):
        return None
    return status.waiting_for, status.evidence.get("detail")


def _goes_on(before: tuple[str, object] | None, after: tuple[str, object] | None) -> bool:
    """Whether a prompt is the same as before; its words may become known a moment later."""
    if before is None or after is None or before[0] != after[0]:
        return False
    return before[1] == after[1] or None in (before[1], after[1])


def _prompted(party: Party, pod: PodId, status: Status) -> Wait:
    asked = _prompt(status)
    assert asked is not None
    what, detail = asked
    words = what.removeprefix("person:")
    reason = f"{words}: {detail}" if isinstance(detail, str) and detail else words
    evidence = {"pod": pod, "offset": status.evidence.get("offset"), "at": status.evidence.get("at")}
    known = {name: value for name, value in evidence.items() if value is not None}
    return Wait(
        new_record_id(), party, "person", "prompt", key=what, on=PERSON, reason=reason[:REASON_MAX], evidence=known
    )


def _infer(connection: Connection, party: Party, *, wall_us: int) -> None:
    """An agent that has asked somebody and stopped is taken to wait for the answer."""
    open_keys = {(wait.key, wait.on) for wait in waits_of(connection, party)}
    for question in questions_of(connection, party, after_us=wall_us - _ASKED_WITHIN_US, limit=_ASKED_MAX):
        for wait in _unanswered(connection, question):
            if (wait.key, wait.on) not in open_keys:
                begin_wait(connection, wait, wall_us=wall_us)
    for row in connection.execute(_OFFERED, {"of": party}).all():
        recipient = None if row.recipient is None else Party(row.recipient)
        if recipient is not None and (row.id, recipient) not in open_keys and end_of(connection, recipient) is None:
            wait = Wait(
                new_record_id(),
                party,
                "pod",
                "inferred",
                key=row.id,
                on=recipient,
                reason=f"handoff not accepted: {row.note}"[:REASON_MAX],
                evidence={"handoff": row.id},
            )
            begin_wait(connection, wait, wall_us=wall_us)


def _unanswered(connection: Connection, question: Question) -> Iterator[Wait]:
    """The waits of somebody who has asked something and stopped, unless it has said so and that has ended."""
    message = question.message
    where: Json = {"in_channel": message.channel, "whose": message.author, "asked_us": message.wall_us}
    if connection.execute(_ASKED_FOR, {"of": message_key(message.channel, message.seq), **where}).first() is not None:
        return
    for party in _asked(connection, message):
        if party is None:
            open_ = not question.overheard
        elif kind_of(party) == "person":
            open_ = not any(kind_of(other) == "person" for other in question.answered)
        else:
            open_ = party not in question.answered and end_of(connection, party) is None
        if open_:
            yield _awaiting(message, party, "inferred")


def _asked(connection: Connection, message: Message) -> Sequence[Party | None]:
    """Whom a message asks: those it mentions, or the person it answers; None is whoever reads the channel."""
    if message.mentions:
        return message.mentions
    answered = get_message(connection, message.channel, message.reply_to) if message.reply_to is not None else None
    return [answered.author if answered is not None and kind_of(answered.author) == "person" else None]


def _awaiting(message: Message, party: Party | None, source: Source) -> Wait:
    return Wait(
        new_record_id(),
        message.author,
        _kind(party),
        source,
        key=message.channel if party is None else message_key(message.channel, message.seq),
        on=party,
        reason=message.text[:REASON_MAX],
        evidence={"channel": message.channel, "seq": message.seq},
    )


def _kind(party: Party | None) -> Kind:
    if party is None:
        return "channel"
    return "person" if kind_of(party) == "person" else "pod"


def _tell_end(connection: Connection, wait: Wait, *, wall_us: int) -> None:
    # Of a wait that it did not ask for itself an agent is told only when nothing comes of what it did ask for.
    if wait.outcome != "failed" and (wait.source not in _TOLD or wait.outcome != "met"):
        return
    what = f" You waited: {wait.reason}" if wait.reason else ""
    text = f"Your wait for {_target(connection, wait)} is {wait.outcome}: {wait.detail}.{what}"
    notify(connection, wait.waiter, text, about={"wait": wait.id, "outcome": wait.outcome}, wall_us=wall_us)


def _target(connection: Connection, wait: Wait) -> str:
    """What somebody waits for, as they would call it."""
    who = name_of(connection, wait.on) if wait.on is not None else None
    match wait.kind:
        case "artifact":
            what = f"artifact {wait.key}"
        case "channel":
            channel = get_channel(connection, wait.key or "")
            what = f"channel {channel.name if channel is not None else wait.key}"
        case "binding":
            return f"a binding to {who}"
        case "pod" | "person":
            return str(who)
    return what if who is None else f"{what} of {who}"
