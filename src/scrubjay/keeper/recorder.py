"""What happens around the agent, onto the tape, whatever the disk does.

No I/O of its own: it drives a TapeWriter and a clock, so a full disk, a failing one and a clock that
jumps are all tested without a process. On a full disk it asks for a pause (the agent then sleeps in
its own write), or, if told to do its best, counts what it drops and leaves a gap record.
"""

from __future__ import annotations

from scrubjay.errors import DiskFull
from scrubjay.tape.format import PAYLOAD_MAX_BYTES, Kind
from scrubjay.tape.payload import encode_json, encode_size, encode_typed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from scrubjay.clock import Clock
    from scrubjay.tape.writer import Sync, TapeWriter

    class SpareRoom(Protocol):
        """Disk space that can be given up in need."""

        held: bool

        def take(self) -> None:
            """Set the space aside if the disk has it."""
            ...

        def release(self) -> bool:
            """Give the space back; True if there was any."""
            ...


CLOCK_EVERY_US = 60_000_000
CLOCK_JUMP_US = 500_000  # a step the wall clock makes against the forward one that is not mere drift
RETRY_EVERY_US = 200_000  # on a full disk; "live again" is promised within two seconds
SYNC_HOLD_MAX_US = 10_000_000  # between syncs on a disk that keeps failing
ANCHOR_EVERY_US = 5_000_000  # how far behind a power cut may leave the watermark


class Gap:
    """Output that was dropped because the disk took nothing."""

    __slots__ = ("bytes", "reason", "records", "since", "until")

    def __init__(self, reason: str, since: int) -> None:
        self.reason = reason
        self.since = self.until = since
        self.bytes = self.records = 0


class Recorder:
    """The recording of one pod."""

    def __init__(
        self,
        writer: TapeWriter,
        clock: Clock,
        reserve: SpareRoom,
        *,
        sync_us: int,
        best_effort: bool,
        hide: Callable[[object], object] | None = None,
    ) -> None:
        """``hide`` takes secrets out of what is noted; what is shown and typed comes without them."""
        self.writer = writer
        self._hide = hide
        self.paused: str | None = None  #: why nothing is recorded at the moment
        self.sync_failures = 0
        self.last_output_at = 0
        self._clock, self._reserve = clock, reserve
        self._sync_us, self._best_effort = sync_us, best_effort
        self._began = clock.monotonic_us()
        self._wall_ahead = clock.wall_us()  # wall time minus tape time
        self._clock_due = CLOCK_EVERY_US
        self._unsynced_since: int | None = None  # of what no sync has taken yet
        self._syncing_since: int | None = None  # of what a sync has taken
        self._anchor_due = 0
        self._failures_in_a_row = self._sync_not_before = 0
        self._retry_due = 0
        self._gap: Gap | None = None
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._reserve_needed = False
        self.ended = False  #: whether the tape has its last record

    def begin(self, **head: object) -> None:
        """Write the head of the tape."""
        self._reserve.take()
        self._reserve_needed = self._reserve.held
        wall = self._clock.wall_us()
        self._append(Kind.HEAD, 0, encode_json(**head, wall=wall))
        self._append(Kind.CLOCK, 0, encode_json(wall=wall, reason="start"))
        self.flush()

    def now(self) -> int:
        """Microseconds since the tape began."""
        return self._clock.monotonic_us() - self._began

    @property
    def wants_output(self) -> bool:
        """Whether the agent's output should be read now."""
        if self.paused is not None:
            return self._best_effort
        return not self.writer.full

    def output(self, *parts: bytes) -> None:
        """Record and write what the agent showed, all of it at this instant."""
        at = self.last_output_at = self._check_clock()
        size = sum(map(len, parts))
        if self.paused is not None:
            if self._gap is None:
                self._gap = Gap(self.paused, at)
            self._gap.bytes += size
            self._gap.records += 1
            self._gap.until = at
            return
        if size <= PAYLOAD_MAX_BYTES:
            self._put(Kind.OUTPUT, at, *parts)
            return
        data = b"".join(parts)
        for start in range(0, len(data), PAYLOAD_MAX_BYTES):
            self._put(Kind.OUTPUT, at, data[start : start + PAYLOAD_MAX_BYTES])

    def typed(
        self, data: bytes, author: str, *, hidden: bool, epoch: int | None = None, answers: int | None = None
    ) -> None:
        """Record and write what somebody typed."""
        payload = encode_typed(data, author, hidden=hidden, epoch=epoch, answers=answers)
        self._put(Kind.INPUT, self._check_clock(), payload)

    def resized(self, cols: int, rows: int) -> None:
        """Record a new size."""
        self._append(Kind.RESIZE, self._check_clock(), encode_size(cols, rows))

    def hide(self, text: str) -> str:
        """A text without the secrets in it."""
        return text if self._hide is None else str(self._hide(text))

    def note(self, kind: Kind, /, **fields: object) -> None:
        """Record anything whose payload is JSON."""
        if self._hide is not None:
            fields = {name: self._hide(value) for name, value in fields.items()}
        self._append(kind, self._check_clock(), encode_json(**fields))

    def end(self, reason: str) -> None:
        """Write the last record of the tape. What would be recorded after it is not: nothing follows it."""
        self._append(Kind.SEAL, self._check_clock(), encode_json(reason=reason))
        self.ended = True
        self.flush()

    def when_synced(self, call: Callable[[], None]) -> None:
        """Call back when everything recorded so far survives a power cut."""
        if self.writer.synced >= self.writer.offset:
            call()
        else:
            self._waiting.append((self.writer.offset, call))

    def flush(self) -> None:
        """Write what was recorded; a disk that is full pauses the recording instead of failing it."""
        if self.paused is not None:
            return
        try:
            self.writer.flush()
        except (DiskFull, OSError) as error:
            self._pause_for(error)

    def tick(self) -> None:
        """Do what time asks for: the clock record, and another try while paused."""
        at = self._check_clock()
        if at >= self._clock_due and self.paused is None:
            self._clock_due = at + CLOCK_EVERY_US
            wall = self._clock.wall_us()
            self._wall_ahead = wall - at  # a slow drift is on the tape now and adds up to no jump
            self._append(Kind.CLOCK, at, encode_json(wall=wall, reason="minute"))
        if self.writer.written < self.writer.offset:
            self.flush()  # of an idle pod this is all there is for the next minute
        if self.paused is not None and at >= self._retry_due:
            self._retry_due = at + RETRY_EVERY_US
            self._retry()

    def next_tick_us(self) -> int:
        """How long until ``tick`` or ``begin_sync`` has something to do; not above 0 if they have now."""
        due = self._clock_due
        if self.paused is not None and self._retry_due < due:
            due = self._retry_due
        if self.writer.sync_due:
            since = self._unsynced_since
            sync = 0 if since is None or self._waiting or self.writer.half_full else since + self._sync_us
            due = min(due, max(sync, self._sync_not_before))
        return due - (self._clock.monotonic_us() - self._began)

    def begin_sync(self) -> Sync | None:
        """A sync to run in another thread, if it is time for one."""
        if not self.writer.sync_due:
            return None
        at = self.now()
        if at < self._sync_not_before:
            return None
        in_time = self._unsynced_since is not None and at - self._unsynced_since < self._sync_us
        if in_time and not self._waiting and not self.writer.half_full:
            return None
        self._syncing_since = at if self._unsynced_since is None else self._unsynced_since
        self._unsynced_since = None
        anchor = at >= self._anchor_due
        if anchor:
            self._anchor_due = at + ANCHOR_EVERY_US
        return self.writer.begin_sync(anchor=anchor)

    def finish_sync(self, sync: Sync) -> None:
        """Account for a sync that ran."""
        since, self._syncing_since = self._syncing_since, None
        if self.writer.finish_sync(sync):
            self._failures_in_a_row = self._sync_not_before = 0
            synced = self.writer.synced
            ready = [call for offset, call in self._waiting if offset <= synced]
            self._waiting = [(offset, call) for offset, call in self._waiting if offset > synced]
            for call in ready:
                call()
            return
        self._unsynced_since = since
        self.sync_failures += 1
        # A disk that fails again and again gets more time each time; meanwhile the window fills and the agent sleeps.
        self._failures_in_a_row += 1
        self._sync_not_before = self.now() + min(SYNC_HOLD_MAX_US, self._sync_us << self._failures_in_a_row)
        reason = sync.error.strerror if sync.error is not None else ""
        self.note(Kind.EVENT, event="tape.sync_failed", error=reason, synced=self.writer.synced)
        self.flush()

    @property
    def unsynced_us(self) -> int:
        """The age of the oldest record a power cut would take; 0 when there is none."""
        since = self._syncing_since if self._syncing_since is not None else self._unsynced_since
        if self.writer.synced >= self.writer.offset or since is None:
            return 0
        return self.now() - since

    def _append(self, kind: Kind, at: int, *payload: bytes) -> None:
        if self.ended:
            return
        if self._unsynced_since is None:
            self._unsynced_since = at
        self.writer.append(kind, at, *payload)

    def _put(self, kind: Kind, at: int, *payload: bytes) -> None:
        """Append and flush at once, by the shortest way: somebody waits for the echo of a key."""
        if self.ended or self.paused is not None:
            self._append(kind, at, *payload)
            return
        if self._unsynced_since is None:
            self._unsynced_since = at
        try:
            self.writer.put(kind, at, *payload)
        except (DiskFull, OSError) as error:
            self._pause_for(error)

    def _check_clock(self) -> int:
        at = self._clock.monotonic_us() - self._began
        wall = self._clock.wall_us()
        step = wall - at - self._wall_ahead
        if not -CLOCK_JUMP_US < step < CLOCK_JUMP_US:
            self._wall_ahead += step
            self._append(Kind.CLOCK, at, encode_json(wall=wall, reason="jump", step=step))
        return at

    def _pause_for(self, error: DiskFull | OSError) -> None:
        if isinstance(error, OSError):
            self.writer.abandon()
            self._pause(f"disk error: {error.strerror}")
        else:
            self._pause("disk full")

    def _pause(self, reason: str) -> None:
        self.paused = reason
        self._retry_due = self.now() + RETRY_EVERY_US
        self.note(Kind.EVENT, event="recording.paused", reason=reason)
        if self._reserve.release():
            self._write_despite_pause()

    def _write_despite_pause(self) -> bool:
        try:
            self.writer.flush()
        except (DiskFull, OSError):
            return False
        return True

    def _retry(self) -> None:
        # Where space was set aside, getting it back shows that there is room again, and not only what
        # the reserve itself had freed.
        self._reserve.take()
        if self._reserve_needed and not self._reserve.held:
            return
        if not self._write_despite_pause():
            self._reserve.release()
            return
        self.paused = None
        gap, self._gap = self._gap, None
        if gap is not None:
            self.note(
                Kind.GAP,
                reason=gap.reason,
                bytes=gap.bytes,
                records=gap.records,
                **{"from": gap.since, "to": gap.until},
            )
        self.note(Kind.EVENT, event="recording.resumed")
        self.flush()
