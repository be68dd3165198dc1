"""Replication of tapes by offset: what a runner sends next, and what a server makes of what arrives.

Two machines without a socket. Every byte has an offset, so delivering twice equals delivering once, and to go on
after anything is to ask how far the other side is.

- **The runner's tape is the truth.** A server keeps only what is synced on the runner. What somebody watches travels as
  soon as it is written and is shown at once, but it waits in the receiver's memory until the runner says that its own
  disk has it; everything else travels then. So a runner that loses its power, and with it the last moment of a tape,
  never has less than the server kept, and what it records instead contradicts nobody.
- **Acknowledged means synced.** Of the two offsets of an acknowledgement only ``kept`` is a promise, and always the end
  of a record; ``have`` opens the sender's window and no more.
- **The present comes first.** Tapes that are nearly caught up go before those that are far behind. Of a tape that
  somebody watches and that is far behind, the newest bytes are sent ahead, to be shown and not kept.
- **A link that flaps wastes little.** What is under way, and what is sent ahead and so twice, is in proportion to what
  has arrived over this connection and the one before.
- **Two copies that differ** are never made equal by overwriting one: the sender compares the server's last bytes with
  its own before it adds to them, the receiver checks every record, and whoever finds a difference says Diverged. Then
  that tape is left as it is on both sides, and only shown.

A message that is lost is asked for again at the next connection. Pure: times and randomness come in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from scrubjay.ids import PodId
from scrubjay.tape.format import RECORD_MAX_BYTES, BadRecord, decode_record, skim_records, tape_salt

PORTION_BYTES = 128 << 10  # of a tape in one message; on a slow link the present waits no longer than for one
NEAR_BYTES = 256 << 10  # a tape that is no further behind is live
AHEAD_BYTES = 64 << 10  # of the newest output sent out of order; a viewer begins with a keyframe anyway
AHEAD_MIN_BYTES = 8 << 10
ECHO_BYTES = 4 << 10  # of each pod that may be under way whatever the others do: a key's echo waits for nobody's flood
WINDOW_START_BYTES = 256 << 10  # under way when nothing has arrived yet
WINDOW_MIN_BYTES = 16 << 10  # the same, after a connection over which hardly anything arrived
WINDOW_MAX_BYTES = 32 << 20
SHARE = 8  # of what has arrived, by one part in so many the window grows, and as much may be sent ahead
POD_WINDOW_BYTES = 4 << 20
BACKLOG_EVERY_BYTES = 2 << 20  # of live output after which one portion of backlog goes, so that it does come
PENDING_MAX_BYTES = POD_WINDOW_BYTES + 2 * RECORD_MAX_BYTES  # held for one tape; the sender's window allows no more

_RETRY_US = 250_000
_RETRY_MAX_US = 4_000_000  # a server that has space again is noticed within five seconds


def retry_delay_us(attempt: int, rng: Callable[[], float], *, longest_us: int = _RETRY_MAX_US) -> int:
    """Full jitter: anything between zero and the capped exponential. ``rng`` is uniform between 0 and 1."""
    return int(rng() * min(longest_us, _RETRY_US << min(attempt, 20)))


@dataclass(frozen=True, slots=True)
class Have:
    """How much a server has of a tape."""

    offset: int
    fingerprint: int | None  #: of the last bytes of it; None where both sides read the same files


@dataclass(frozen=True, slots=True)
class Ack:
    """How far a tape has come."""

    have: int  #: arrived; it may yet be asked for again
    kept: int  #: synced on the server


# What a sender wants done.


@dataclass(frozen=True, slots=True)
class Offer:
    """Ask the server how much it has of a tape; the answer is for ``found``."""

    pod: PodId


@dataclass(frozen=True, slots=True)
class Check:
    """Take the fingerprint of the tape up to an offset; it is for ``checked``."""

    pod: PodId
    offset: int


@dataclass(frozen=True, slots=True)
class Portion:
    """Send up to ``limit`` bytes of a tape, then say so with ``sent``."""

    pod: PodId
    offset: int
    limit: int  #: 0 when there is only ``synced`` to tell
    synced: int  #: how much of the tape the runner's disk has; goes along
    live: bool  #: ahead of its turn: to be shown, not kept


@dataclass(frozen=True, slots=True)
class Restart:
    """Tell the server to forget what it holds of a tape and has not kept. It answers with a rewind."""

    pod: PodId


# What a receiver wants done, in this order.


@dataclass(frozen=True, slots=True)
class Append:
    """Give whole records to the store, then tell ``stored`` or ``failed``."""

    pod: PodId
    offset: int
    records: bytes


@dataclass(frozen=True, slots=True)
class Show:
    """Bytes for those who watch; they may begin and end within a record."""

    pod: PodId
    offset: int
    data: bytes
    jump: bool  #: they do not follow what was shown before, or replace it: begin anew with a keyframe


@dataclass(frozen=True, slots=True)
class Rewind:
    """Tell the sender to go on from an offset."""

    pod: PodId
    offset: int


@dataclass(frozen=True, slots=True)
class Later:
    """Tell the sender that this tape cannot be kept now, and to come back at an offset."""

    pod: PodId
    offset: int


# What either side may find.


@dataclass(frozen=True, slots=True)
class Diverged:
    """The copies differ, at or before an offset. Neither is touched; tell the other side and the event log."""

    pod: PodId
    offset: int
    why: str


Step = Offer | Check | Portion | Restart | Diverged
Effect = Append | Show | Rewind | Later | Diverged

_Stage = Literal["unknown", "unchecked", "checking", "open", "restarting", "stopped"]


@dataclass(slots=True)
class _Outgoing:
    """One tape on its way to the server."""

    end: int = 0
    synced: int = 0
    complete: bool = False
    watched: bool = False
    trusted: int = 0  # up to here both copies are known to be the same
    kept: int = 0
    # From here on: of this connection.
    stage: _Stage = "unknown"
    remote: Have = Have(0, None)
    position: int = 0  # the next byte to send
    have: int = 0  # what has arrived
    best: int = 0  # the most that had ever arrived
    told: int = 0  # the synced offset that the server knows
    busy: bool = False  # a portion is being read or sent
    paused_until_us: int | None = None
    attempts: int = 0
    probing: bool = False  # the store had failed: no more than a record until it keeps something
    ahead: int | None = None  # the next byte to send out of order
    ahead_busy: bool = False

    @property
    def lag(self) -> int:
        # What may yet be lost with the runner's power is for those who watch, and of no use to anybody else.
        return (self.end if self.watched else self.synced) - self.position

    @property
    def under_way(self) -> int:
        return self.position - self.have

    def hang_up(self) -> None:
        """Forget what belongs to a connection."""
        self.stage, self.remote = "unknown", Have(0, None)
        self.position = self.have = self.best = self.told = self.attempts = 0
        self.busy = self.probing = self.ahead_busy = self.watched = False
        self.paused_until_us = self.ahead = None


_Queue = dict[PodId, None]  # in the order in which they came


class Sender:
    """The runner's side: what to send next over one connection after the other.

    Whoever has the connection does one step after the other, and only as long as the connection takes what it is given:
    what waits in a buffer is late, and lost with the connection.
    """

    def __init__(self, rng: Callable[[], float]) -> None:
        """``rng`` is uniform between 0 and 1."""
        self._rng = rng
        self._pods: dict[PodId, _Outgoing] = {}
        self._watched: frozenset[PodId] = frozenset()
        self._connected = False
        self._words: deque[Step] = deque()
        self._near: _Queue = {}
        self._untold: _Queue = {}
        self._ahead: _Queue = {}
        self._backlog: _Queue = {}
        self._idle: _Queue = {}  # nothing to send, but not compared yet
        self._paused: _Queue = {}
        self._under_way = 0
        self._window_start = WINDOW_START_BYTES
        self._ahead_start = AHEAD_BYTES
        self._arrived = 0
        self._sent_ahead = 0
        self._since_backlog = 0

    # What the runner says.

    def grew(self, pod: PodId, end: int, *, synced: int, complete: bool = False) -> None:
        """A tape ends at ``end`` now, which is the end of a record, and its disk has it up to ``synced``."""
        tape = self._pods.get(pod)
        if tape is None:
            tape = self._pods[pod] = _Outgoing(watched=pod in self._watched)
            if self._connected:
                self._words.append(Offer(pod))
        tape.end, tape.complete = end, complete
        tape.synced = min(max(tape.synced, synced), end)
        if end < tape.position:
            # Written, sent, and gone with its keeper; the server must not keep what it has of that.
            self.restart(pod)
        elif tape.stage == "open":
            self._tell(pod, tape)
        self._queue(pod, tape)

    def restart(self, pod: PodId) -> None:
        """A keeper died: what it had not synced may be other bytes now. Call it before the tape's new end is told."""
        tape = self._pods.get(pod)
        if tape is not None and tape.stage == "open":
            tape.stage = "restarting"
            self._unqueue(pod)
            self._words.append(Restart(pod))

    def forget(self, pod: PodId) -> None:
        """A tape is gone."""
        tape = self._pods.pop(pod, None)
        if tape is not None:
            self._under_way -= tape.under_way
            self._unqueue(pod)

    def settled(self, pod: PodId) -> bool:
        """Whether a tape is complete and the server has all of it, synced."""
        tape = self._pods.get(pod)
        return tape is not None and tape.complete and tape.kept == tape.end

    # What the connection says.

    def connected(self, have: Mapping[PodId, Have]) -> None:
        """A connection stands, and the server has these tapes. The others are offered."""
        self.disconnected()
        self._connected = True
        for pod in self._pods:
            if pod in have:
                self.found(pod, have[pod])
            else:
                self._words.append(Offer(pod))

    def disconnected(self) -> None:
        """The connection is gone, and with it everything that was under way."""
        if self._connected:
            share = self._arrived // SHARE
            self._window_start = min(WINDOW_START_BYTES, max(WINDOW_MIN_BYTES, share))
            self._ahead_start = min(AHEAD_BYTES, max(AHEAD_MIN_BYTES, share))
        self._connected = False
        self._watched = frozenset()
        self._words.clear()
        for queue in (self._near, self._untold, self._ahead, self._backlog, self._idle, self._paused):
            queue.clear()
        self._under_way = self._arrived = self._sent_ahead = self._since_backlog = 0
        for tape in self._pods.values():
            tape.hang_up()

    def found(self, pod: PodId, have: Have) -> None:
        """The server has a tape up to there."""
        tape = self._pods.get(pod)
        if tape is None or tape.stage != "unknown":
            return
        if have.offset > tape.end and have.fingerprint is not None:
            self._stop(pod, tape, tape.end, f"the server has {have.offset} bytes of it, the runner {tape.end}")
            return
        tape.position = tape.have = tape.best = tape.told = min(have.offset, tape.end)
        tape.kept = min(tape.kept, have.offset)
        tape.remote = have
        tape.stage = "open" if have.fingerprint is None or have.offset <= tape.trusted else "unchecked"
        self._queue(pod, tape)

    def checked(self, pod: PodId, fingerprint: int) -> None:
        """The fingerprint that a Check asked for."""
        tape = self._pods.get(pod)
        if tape is None or tape.stage != "checking":
            return
        if fingerprint != tape.remote.fingerprint:
            self._stop(pod, tape, tape.remote.offset, "the last bytes that the server has are not the runner's")
            return
        tape.stage = "open"
        tape.trusted = tape.remote.offset
        self._place(tape, max(tape.position, tape.kept), max(tape.have, tape.kept))
        self._tell(pod, tape)
        self._queue(pod, tape)

    def acknowledged(self, pod: PodId, ack: Ack) -> None:
        """The server has got so far."""
        tape = self._pods.get(pod)
        if tape is None or tape.stage in ("unknown", "stopped"):
            return
        if ack.kept > tape.kept:
            tape.kept = min(ack.kept, tape.end)
            tape.attempts, tape.probing = 0, False
        if tape.stage != "open":
            return
        tape.trusted = max(tape.trusted, tape.kept)
        position = max(tape.position, tape.kept)
        have = min(position, max(tape.have, ack.have, tape.kept))
        self._arrived += max(0, have - tape.best)
        tape.best = max(tape.best, have)
        self._place(tape, position, have)
        self._queue(pod, tape)

    def rewind(self, pod: PodId, offset: int) -> None:
        """The server has a tape only up to there. What it has kept is not sent again."""
        tape = self._pods.get(pod)
        if tape is None or tape.stage not in ("open", "restarting"):
            return
        # Never forward, unless to what was kept meanwhile: an old word may speak of bytes that are gone.
        position = min(max(min(offset, tape.position), tape.kept), tape.end)
        if tape.stage == "restarting":
            tape.stage, tape.told = "open", position
        self._place(tape, position, min(position, max(tape.have, tape.kept)))
        tape.told = min(tape.told, position)
        self._tell(pod, tape)
        self._queue(pod, tape)

    def retry_later(self, pod: PodId, offset: int, now_us: int) -> None:
        """The server's store cannot take more of a tape now; come back there after a while."""
        tape = self._pods.get(pod)
        if tape is None or tape.stage != "open":
            return
        tape.paused_until_us = now_us + retry_delay_us(tape.attempts, self._rng)
        tape.attempts += 1
        tape.probing = True
        self._unqueue(pod)
        self._paused[pod] = None
        self.rewind(pod, offset)

    def refused(self, pod: PodId) -> None:
        """The server will not have this tape, or has found that it differs."""
        tape = self._pods.get(pod)
        if tape is not None and tape.stage != "stopped":
            self._halt(pod, tape)

    def watch(self, pods: Collection[PodId]) -> None:
        """Somebody looks at these, and at no others."""
        before, self._watched = self._watched, frozenset(pods)
        for pod in before ^ self._watched:
            tape = self._pods.get(pod)
            if tape is not None:
                tape.watched = pod in self._watched
                self._queue(pod, tape)

    # What is next.

    def next(self, now_us: int) -> Step | None:
        """What to do next; None until something else happens, or until ``wake_us``."""
        if not self._connected:
            return None
        self._wake(now_us)
        if self._words:
            return self._words.popleft()
        if self._since_backlog >= BACKLOG_EVERY_BYTES and (step := self._next_of(self._backlog)) is not None:
            return step
        return (
            self._next_of(self._near)
            or self._next_telling()
            or self._next_ahead()
            or self._next_of(self._backlog)
            or self._next_check()
        )

    @property
    def wake_us(self) -> int | None:
        """When a tape that waits for the server's store may be tried again."""
        waiting = [self._pods[pod].paused_until_us for pod in self._paused]
        return min((until for until in waiting if until is not None), default=None)

    def sent(self, portion: Portion, length: int) -> None:
        """A portion was sent, ``length`` bytes of it."""
        tape = self._pods.get(portion.pod)
        if tape is None:
            return
        if portion.live:
            tape.ahead_busy = False
            self._sent_ahead += length
            if tape.ahead is not None and tape.ahead == portion.offset:
                tape.ahead += length
            self._look_ahead(portion.pod, tape)
            return
        if portion.limit:
            tape.busy = False
        # Unless the server has spoken in between: then these bytes were in vain, or will be.
        if portion.offset == tape.position and tape.stage == "open":
            tape.told = max(tape.told, portion.synced)
            self._place(tape, portion.offset + length, tape.have)
        self._tell(portion.pod, tape)
        if length or not portion.limit:
            self._queue(portion.pod, tape)

    def _next_of(self, queue: _Queue) -> Step | None:
        live = queue is self._near
        step: Check | Portion | None = None
        passed: list[PodId] = []
        for pod in queue:
            tape = self._pods[pod]
            own = self._room_of_pod(tape)
            if own <= 0 or (live and tape.lag > NEAR_BYTES):
                passed.append(pod)
                continue
            if tape.stage == "unchecked":
                step = self._check(pod, tape)
                break
            room = min(own, self._room_for(tape, live=live))
            if room > 0:
                tape.busy = True
                self._since_backlog = self._since_backlog + room if live else 0
                step = Portion(pod, tape.position, room, tape.synced, live=False)
                break
        if step is not None:
            del queue[step.pod]
        for pod in passed:
            del queue[pod]
            if self._pods[pod].lag > NEAR_BYTES and live:
                self._backlog[pod] = None
            # Otherwise its window is full; an acknowledgement brings it back.
        return step

    def _next_telling(self) -> Step | None:
        while self._untold:
            pod = next(iter(self._untold))
            del self._untold[pod]
            tape = self._pods[pod]
            if _is_untold(tape):
                return Portion(pod, tape.position, 0, tape.synced, live=False)
        return None

    def _next_ahead(self) -> Step | None:
        left = self._ahead_start + self._arrived // SHARE - self._sent_ahead
        if not self._ahead or left < AHEAD_MIN_BYTES:
            return None
        pod = next(iter(self._ahead))
        del self._ahead[pod]
        tape = self._pods[pod]
        assert tape.ahead is not None
        tape.ahead = max(tape.ahead, tape.end - min(AHEAD_BYTES, left))
        tape.ahead_busy = True
        return Portion(pod, tape.ahead, tape.end - tape.ahead, tape.synced, live=True)

    def _next_check(self) -> Step | None:
        if not self._idle:
            return None
        pod = next(iter(self._idle))
        del self._idle[pod]
        return self._check(pod, self._pods[pod])

    def _check(self, pod: PodId, tape: _Outgoing) -> Check:
        tape.stage = "checking"
        return Check(pod, tape.remote.offset)

    def _room_for(self, tape: _Outgoing, *, live: bool) -> int:
        """What the connection has room for; not above 0 if for nothing."""
        if live:
            return max(self._window - self._under_way, ECHO_BYTES - tape.under_way)
        return self._window * 3 // 4 - self._under_way  # what is left is for the present

    def _room_of_pod(self, tape: _Outgoing) -> int:
        """What the tape has to send and may send."""
        # Half of the window at most, so that one tape whose disk does not sync leaves room for the others.
        own = RECORD_MAX_BYTES if tape.probing else min(POD_WINDOW_BYTES, self._window // 2)
        return min(PORTION_BYTES, tape.lag, own - tape.under_way)

    @property
    def _window(self) -> int:
        """What may be under way: what a lost connection would cost."""
        return min(WINDOW_MAX_BYTES, self._window_start + self._arrived // SHARE)

    def _place(self, tape: _Outgoing, position: int, have: int) -> None:
        self._under_way += (position - have) - tape.under_way
        tape.position, tape.have = position, have

    def _queue(self, pod: PodId, tape: _Outgoing) -> None:
        """Have a tape sent when it is its turn, if there is something to send."""
        self._look_ahead(pod, tape)
        if tape.stage not in ("unchecked", "open") or tape.busy or pod in self._paused:
            return
        if pod in self._near or pod in self._backlog:
            return
        if tape.lag > 0:
            (self._near if tape.lag <= NEAR_BYTES else self._backlog)[pod] = None
        elif tape.stage == "unchecked":
            self._idle[pod] = None

    def _unqueue(self, pod: PodId) -> None:
        for queue in (self._near, self._untold, self._ahead, self._backlog, self._idle, self._paused):
            queue.pop(pod, None)

    def _tell(self, pod: PodId, tape: _Outgoing) -> None:
        if _is_untold(tape):
            self._untold[pod] = None

    def _look_ahead(self, pod: PodId, tape: _Outgoing) -> None:
        behind = tape.lag > NEAR_BYTES or pod in self._paused or tape.stage == "stopped"
        if not tape.watched or not behind or tape.stage == "unknown":
            tape.ahead = None
            self._ahead.pop(pod, None)
            return
        if tape.ahead is None:
            tape.ahead = max(0, tape.end - AHEAD_BYTES, tape.position if tape.stage != "stopped" else 0)
        if tape.end > tape.ahead and not tape.ahead_busy:
            self._ahead[pod] = None

    def _wake(self, now_us: int) -> None:
        for pod in list(self._paused):
            tape = self._pods[pod]
            if tape.paused_until_us is None or tape.paused_until_us <= now_us:
                tape.paused_until_us = None
                del self._paused[pod]
                self._queue(pod, tape)

    def _stop(self, pod: PodId, tape: _Outgoing, offset: int, why: str) -> None:
        self._words.append(Diverged(pod, offset, why))
        self._halt(pod, tape)

    def _halt(self, pod: PodId, tape: _Outgoing) -> None:
        tape.stage = "stopped"
        self._place(tape, tape.have, tape.have)
        self._unqueue(pod)
        self._look_ahead(pod, tape)


def _is_untold(tape: _Outgoing) -> bool:
    """Whether the server holds bytes that it could keep if it knew that the runner's disk has them."""
    return tape.stage == "open" and tape.position > tape.told < tape.synced


@dataclass(slots=True)
class _Incoming:
    """One tape as it arrives."""

    salt: int
    have: int  # given to the store; always the end of a record
    stored: int  # taken by it
    kept: int
    synced: int  # on the runner
    shown: int
    pending: bytearray = field(default_factory=bytearray)  # from ``have`` on, in order, not given to the store yet
    jump: bool = False  # the next to be shown does not follow
    gap: bool = False  # the sender was told that something is missing
    open: bool = True
    said: Ack | None = None

    @property
    def arrived(self) -> int:
        return self.have + len(self.pending)

    def stop(self) -> None:
        """Take nothing more but what is to be shown, which does not follow what was kept."""
        self.open, self.jump = False, True
        self.pending.clear()

    def take_note(self, stored: int) -> None:
        """The store has so much; more than it was given, if it did what it was believed to have failed to do."""
        self.stored = stored
        if stored > self.have:
            del self.pending[: stored - self.have]
            self.have = stored


class Receiver:
    """The server's side of one runner: what to keep, what to show and what to answer."""

    def __init__(self) -> None:
        self._pods: dict[PodId, _Incoming] = {}
        self._news: set[PodId] = set()

    def opened(self, pod: PodId, have: int, kept: int) -> None:
        """The store has a tape up to ``have``, synced up to ``kept``; the runner was told so and goes on from there."""
        before = self._pods.get(pod)
        # What was shown beyond may have been lost with the runner, so those who watch begin anew.
        jump = before is not None and (before.jump or before.shown != have)
        self._pods[pod] = _Incoming(
            tape_salt(pod), have=have, stored=have, kept=kept, synced=have, shown=have, jump=jump
        )
        self._news.add(pod)

    def disconnected(self) -> None:
        """The runner is gone. What it had sent and not synced is forgotten; it will be sent again, or never was."""
        for tape in self._pods.values():
            tape.open = False
            tape.pending.clear()
        self._news.clear()

    def forget(self, pod: PodId) -> None:
        """A tape is gone."""
        self._pods.pop(pod, None)
        self._news.discard(pod)

    def receive(self, pod: PodId, offset: int, data: bytes, *, synced: int) -> list[Effect]:
        """Bytes of a tape in whatever order, once or more often; the runner's disk has the tape up to ``synced``."""
        tape = self._pods.get(pod)
        if tape is None or not tape.open:
            return []
        tape.synced = max(tape.synced, synced)
        effects: list[Effect] = []
        arrived = tape.arrived
        if offset > arrived:
            if not tape.gap:
                tape.gap = True
                effects.append(Rewind(pod, arrived))
        elif offset + len(data) > arrived and len(tape.pending) <= PENDING_MAX_BYTES:
            fresh = data[arrived - offset :]
            tape.gap = False
            tape.pending += fresh
            self._news.add(pod)
            effects += _show(pod, tape, arrived, fresh)
        return effects + self._keep(pod, tape)

    def receive_live(self, pod: PodId, offset: int, data: bytes) -> list[Effect]:
        """The newest bytes of a tape, ahead of their turn."""
        tape = self._pods.get(pod)
        return [] if tape is None else _show(pod, tape, offset, data)

    def restart(self, pod: PodId) -> list[Effect]:
        """What the runner had sent and not synced is not so any more."""
        tape = self._pods.get(pod)
        if tape is None or not tape.open:
            return []
        if tape.shown != tape.have:
            tape.shown, tape.jump = tape.have, True
        tape.pending.clear()
        tape.gap = True  # what is still under way is of before
        return [Rewind(pod, tape.have)]

    def stored(self, pod: PodId, have: int) -> None:
        """The store has taken an Append, or had it, and ends at ``have``."""
        tape = self._pods.get(pod)
        if tape is not None and tape.open:
            tape.take_note(have)
            self._news.add(pod)

    def failed(self, pod: PodId, have: int | None = None) -> list[Effect]:
        """The store could not take an Append, or did not say that it has; it ends at ``have`` if that is known."""
        tape = self._pods.get(pod)
        if tape is None or not tape.open:
            return []
        tape.have = tape.stored = have if have is not None else tape.stored
        tape.pending.clear()
        tape.gap = True  # what is under way follows what was lost here
        return [Later(pod, tape.have)]

    def stop(self, pod: PodId) -> None:
        """The sender or the store has found that the copies differ; nothing more is kept of this tape."""
        tape = self._pods.get(pod)
        if tape is not None:
            tape.stop()

    def synced(self, kept: Mapping[PodId, int]) -> None:
        """The store has synced these tapes up to there."""
        for pod, offset in kept.items():
            tape = self._pods.get(pod)
            if tape is not None and offset > tape.kept:
                tape.kept = offset
                tape.take_note(max(offset, tape.stored))
                self._news.add(pod)

    def acknowledge(self) -> dict[PodId, Ack]:
        """What the sender should be told: what has changed since this was last asked."""
        acks: dict[PodId, Ack] = {}
        for pod in self._news:
            tape = self._pods[pod]
            # One record beyond what is stored, so that one which comes in portions does not fill the window for ever.
            ack = Ack(min(tape.arrived, tape.stored + RECORD_MAX_BYTES), tape.kept)
            if tape.open and ack != tape.said:
                acks[pod] = tape.said = ack
        self._news.clear()
        return acks

    def _keep(self, pod: PodId, tape: _Incoming) -> list[Effect]:
        """Give the store what the runner's disk has, in whole records."""
        certain = min(tape.synced, tape.arrived) - tape.have
        if certain <= 0:
            return []
        data = bytes(memoryview(tape.pending)[:certain])
        size, *_ = skim_records(data, offset=tape.have, salt=tape.salt, stop=-1)
        effects: list[Effect] = []
        if size:
            effects.append(Append(pod, tape.have, data[:size]))
            tape.have += size
            del tape.pending[:size]
        try:
            decode_record(data, size, offset=tape.have, salt=tape.salt)
        except BadRecord as error:
            tape.stop()
            effects.append(Diverged(pod, tape.have, f"what the runner sent is no record of this tape: {error}"))
        return effects


def _show(pod: PodId, tape: _Incoming, offset: int, data: bytes) -> list[Effect]:
    end = offset + len(data)
    if end <= tape.shown or not data:
        return []
    jump = tape.jump or offset > tape.shown
    fresh = data if offset >= tape.shown else data[tape.shown - offset :]
    tape.shown, tape.jump = end, False
    return [Show(pod, end - len(fresh), fresh, jump)]
