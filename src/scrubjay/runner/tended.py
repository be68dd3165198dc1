"""One pod of this machine, from when the runner finds it until it is deleted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import msgspec

from scrubjay.errors import KeeperGone, KeeperRefused, NotATape, PodNotRunning
from scrubjay.pods.pod import Pod
from scrubjay.pods.status_file import StatusFile
from scrubjay.runner.keeper_link import KeeperLink
from scrubjay.runner.recent import RecentBytes
from scrubjay.tape.format import BadRecord, Kind
from scrubjay.tape.record import Json, Record
from scrubjay.tape.stream import RecordStream
from scrubjay.wire.messages import OVER, ForkedFrom, PodReport, PodStatus, Process

if TYPE_CHECKING:
    from scrubjay.clock import Clock

_OVERLAP_BYTES = 64 << 10  # of the tape's end that is read again when a pod is found, to stand between two records
_END_WITHIN_S = 2.0  # from a keeper's last word to the end of its process
_RETRY_S, _RETRY_MAX_S = 0.01, 0.5  # a keeper that was just started listens in a moment
_ENDING_SIGNALS = frozenset({"TERM", "KILL"})  # what a stop sends; others are a key pressed, or a word to the agent
_ENDS_WITHIN_US = 60_000_000  # from such a signal: an agent that goes on for longer has not been ended by it
_STEADY_S = 1.0  # a connection that lasted as long was a good one


class Household(Protocol):
    """Whoever looks after all pods."""

    def worktree_path(self, pod: Pod) -> str | None:
        """Where a pod's worktree is, if it has one."""
        ...

    def pod_changed(self, tended: Tended) -> None:
        """A pod is new or not as it was."""
        ...

    def tape_grew(self, tended: Tended, offset: int, data: bytes) -> None:
        """Bytes were added to a running pod's tape; it is to ``take_in`` them in a moment."""
        ...

    def records_added(self, tended: Tended, records: list[Record]) -> None:
        """Records were added to a running pod's tape; ``recent`` holds their bytes."""
        ...

    def screen_wanted(self, tended: Tended, answer_from: int) -> None:
        """A pod runs, and its terminal's queries after an offset are ours to answer."""
        ...


class Tended:
    """What the runner knows of one pod, kept up to date by its keeper."""

    def __init__(self, pod: Pod, household: Household, clock: Clock) -> None:
        self.pod = pod
        self.recent = RecentBytes()
        self.complete = False  #: nothing will be added to its tape
        self.end = 0  #: of its tape, as far as is known
        self.synced = 0  #: its disk has the tape up to there
        self.size = pod.size
        self._household, self._clock = household, clock
        self._link: KeeperLink | None = None
        self._stream: RecordStream | None = None
        self._arrived: list[tuple[int, bytes]] = []  # and not looked at yet
        self._after_damage = 0  # what cannot be read of its tape is before this
        self._process: Process = "starting"
        self._reason: str | None = None
        self._exit_status: int | None = None
        self._stopped_by: str | None = None
        self._stopped_at = 0
        self._since_us = pod.created_us
        self._conversation = pod.conversation
        self._status = StatusFile(pod.folder).last()
        self._hung_up = asyncio.Event()

    def report(self) -> PodReport:
        """The pod as it is now."""
        pod = self.pod
        return PodReport(
            id=pod.id,
            name=pod.name,
            session=pod.session,
            argv=tuple(map(showable, pod.argv)),
            cwd=showable(pod.cwd),
            cols=self.size[0],
            rows=self.size[1],
            created_us=pod.created_us,
            process=self._process,
            since_us=self._since_us,
            status=self._describe_status(),
            agent=pod.agent,
            arguments=tuple(map(showable, pod.arguments)) if pod.arguments is not None else None,
            conversation=self._conversation,
            repository=_showable(pod.repository),
            branch=_showable(pod.branch),
            worktree=pod.worktree,
            worktree_path=_showable(self._household.worktree_path(pod)),
            resumed_from=pod.resumed_from,
            forked_from=_forked_from(pod),
            imported=pod.imported,
            reason=_showable(self._reason),
            exit_status=self._exit_status,
            stopped_by=self._stopped_by,
            end=self.end,
            complete=self.complete,
        )

    @property
    def record_end(self) -> int:
        """Where the last whole record of its tape ends, as far as is known."""
        return self._stream.offset if self._stream is not None and not self.complete else self.end

    @property
    def link(self) -> KeeperLink:
        """The connection to its keeper; PodNotRunning if there is none."""
        if self._link is None:
            raise PodNotRunning(self.pod.name, self._process if self._reason is None else self._reason)
        return self._link

    @property
    def running(self) -> bool:
        """Whether its keeper is listened to."""
        return self._link is not None

    async def tend(self) -> None:
        """Listen to its keeper until it is gone, then find out how the pod ended."""
        while not self.complete:
            await self._stay_with_keeper()
            await self._find_out()

    async def _stay_with_keeper(self) -> None:
        loop, retry_s = asyncio.get_running_loop(), _RETRY_S
        while await asyncio.to_thread(lambda: self.pod.alive):
            began = loop.time()
            self._hung_up.clear()
            try:
                await self._listen()
                await self._hung_up.wait()
            except (KeeperGone, KeeperRefused):
                pass  # it is beginning, ending, or busy with a disk that does not answer
            finally:
                self._let_go()
            await self._await_end()
            if loop.time() - began >= _STEADY_S:
                retry_s = _RETRY_S
            elif self._process != "ending":
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, _RETRY_MAX_S)

    async def _listen(self) -> None:
        link = await KeeperLink.open(self.pod, self)
        self._link = link
        status = (await link.ask({"do": "status"})).get("status")
        known: Json = status if isinstance(status, dict) else {}  # pyright: ignore[reportUnknownVariableType]
        answered = (await link.ask({"do": "answer"})).get("from")
        start = await asyncio.to_thread(self._near_end)
        self._stream = RecordStream(self.pod.id, start)
        self.recent = RecentBytes(start)
        self.end = max(self.end, start)
        synced = known.get("synced")
        self.synced = synced if isinstance(synced, int) else 0
        cols, rows = known.get("cols"), known.get("rows")
        if isinstance(cols, int) and isinstance(rows, int):
            self.size = cols, rows
        self._household.screen_wanted(self, answered if isinstance(answered, int) else self.end)
        paused = known.get("paused")
        self._become("paused" if isinstance(paused, str) else "running", paused if isinstance(paused, str) else None)
        link.follow(start)

    def _near_end(self) -> int:
        tape = self.pod.tape()
        # A keeper sends nothing of what is sealed.
        return max(tape.align(max(0, tape.end - _OVERLAP_BYTES, self._after_damage)), tape.sealed_end)

    def _let_go(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    async def _await_end(self) -> None:
        """A keeper says goodbye a moment before it is gone."""
        deadline = asyncio.get_running_loop().time() + _END_WITHIN_S
        while self._process == "ending" and asyncio.get_running_loop().time() < deadline and self.pod.alive:
            await asyncio.sleep(0.01)

    async def _find_out(self) -> None:
        """How it ended, if it has."""
        seen = await asyncio.to_thread(self.pod.observe)
        if seen.state == "running" or seen.state == "ending":
            await asyncio.sleep(_RETRY_S)  # a keeper has come to life since: it is looked at again
            return
        self.end = self.synced = await asyncio.to_thread(self._tape_end)
        self.complete = True
        self._exit_status = seen.status
        self._become(seen.state, seen.reason, wall_us=seen.ended_us)

    def _tape_end(self) -> int:
        try:
            return self.pod.tape().end
        except NotATape:
            return 0

    def _become(self, process: Process, reason: str | None, *, wall_us: int | None = None) -> None:
        if (process, reason) != (self._process, self._reason):
            self._process, self._reason = process, reason
            self._since_us = wall_us if wall_us is not None else self._clock.wall_us()
        self._household.pod_changed(self)

    # What its keeper says.

    def tape_grew(self, offset: int, data: bytes) -> None:
        """Bytes of the tape."""
        self._arrived.append((offset, data))
        self._household.tape_grew(self, offset, data)

    def take_in(self) -> None:
        """Look at what has arrived."""
        arrived, self._arrived = self._arrived, []
        records: list[Record] = []
        for offset, data in arrived:
            if self._stream is None or offset + len(data) <= self._stream.wanted:
                continue
            self.recent.add(offset, data)
            self.end = max(self.end, offset + len(data))
            try:
                records += self._stream.feed(data)
            except BadRecord:
                self._after_damage = self._stream.offset + 1
                self._let_go()  # from the next whole record on it is heard again
                break
        for record in records:
            if record.at - self._stopped_at > _ENDS_WITHIN_US:
                self._stopped_by = None
            if record.kind == Kind.SIGNAL:
                self._note_signal(record)
            elif record.kind == Kind.RESIZE:
                self.size = record.size()
                self._household.pod_changed(self)
            elif record.kind == Kind.EVENT:
                self._note_conversation(record)
        self._household.records_added(self, records)

    def take_status(self, row: Json) -> None:
        """What its agent is doing from now on."""
        self._status = row
        self._household.pod_changed(self)

    def _describe_status(self) -> PodStatus | None:
        row = self._status
        if row is None or self._process in OVER:
            return None
        at, wall_us = row.get("at"), row.get("wall_us")
        since_us = wall_us if isinstance(wall_us, int) else self.pod.created_us + (at if isinstance(at, int) else 0)
        try:
            return msgspec.convert(row | {"since_us": since_us}, PodStatus)
        except msgspec.ValidationError:
            return None  # of another version, perhaps; the next one is soon there

    def _note_signal(self, record: Record) -> None:
        noted = record.json()
        author = noted.get("author")
        if noted.get("signal") in _ENDING_SIGNALS and isinstance(author, str):
            self._stopped_by, self._stopped_at = author, record.at

    def _note_conversation(self, record: Record) -> None:
        told = record.json().get("conversation")
        if isinstance(told, str) and told != self._conversation:
            self._conversation = told
            self._household.pod_changed(self)

    def tape_sealed(self, offset: int) -> None:  # noqa: ARG002
        """What was asked for is in sealed files already; what is missing here is read from them when it is wanted."""
        if self._link is not None:
            self._link.close()

    def told(self, meta: Json) -> None:
        """A pause, its end, an end."""
        if "paused" in meta:
            paused = meta["paused"]
            self._become("paused" if isinstance(paused, str) else "running", str(paused) if paused else None)
        elif "synced" in meta:
            synced = meta["synced"]
            self.synced = synced if isinstance(synced, int) else self.synced
            self.take_in()
        elif "ended" in meta:
            status = meta["ended"]
            self._exit_status = status if isinstance(status, int) else None
            self._process = "ending"  # the next word is how it ended, in a moment

    def hung_up(self) -> None:
        """The connection is gone."""
        self.take_in()
        self._hung_up.set()


def _forked_from(pod: Pod) -> ForkedFrom | None:
    origin = pod.forked_from
    return None if origin is None else ForkedFrom(session=origin.session, pod=origin.pod, at=origin.at)


def showable(text: str) -> str:
    """A path or argument as messages can hold it: bytes that are not UTF-8, lone surrogates to Python, are escaped."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return text.encode("utf-8", "backslashreplace").decode()


def _showable(text: str | None) -> str | None:
    return None if text is None else showable(text)
