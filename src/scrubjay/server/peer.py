"""One connected runner, as the server sees it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

import structlog

import scrubjay
from scrubjay.errors import DiskFull, KeeperRefused, ScrubjayError, TapeDiverged
from scrubjay.ids import PodId, parse_pod_id, parse_runner_id
from scrubjay.server.errors import RunnerRefused
from scrubjay.tape.record import Json
from scrubjay.wire import replication
from scrubjay.wire.messages import (
    PROTOCOL,
    Answer,
    Ask,
    BadMessage,
    Called,
    Diverged,
    Found,
    FromRunner,
    FromServer,
    Hello,
    Later,
    Offer,
    Ping,
    PodChanged,
    PodGone,
    PodReport,
    Pong,
    Progress,
    Request,
    Restart,
    Rewind,
    Roster,
    TapeBytes,
    Watch,
    Welcome,
)

if TYPE_CHECKING:
    from scrubjay.server.tower import Tower

ANSWER_WITHIN_S = 60.0
CLONE_WITHIN_S = 600.0  # of a large repository
ACKNOWLEDGE_S = 0.02
RETRY_S = 1.0  # what a full disk did not take is tried again so often

log = structlog.get_logger()


class PeerRefused(Exception):
    """A runner the server will not have, and why."""


@dataclass(frozen=True, slots=True)
class _NotStored:
    """The store could not take it; this is how much it has."""

    have: int | None
    why: str


@dataclass(frozen=True, slots=True)
class _Removal:
    """A copy that the store should delete."""

    pod: PodId
    done: asyncio.Future[None]


_Outcome = int | TapeDiverged | _NotStored


class Peer:
    """A runner's connection, from its hello to its end."""

    def __init__(
        self,
        tower: Tower,
        hello: Hello,
        send: Callable[[FromServer], None],
        hang_up: Callable[[], None],
        *,
        local: bool = False,
    ) -> None:
        """``local`` if it is in the server's own process; PeerRefused for another that says it is the same one."""
        if hello.protocol != PROTOCOL:
            which = "the runner" if hello.protocol < PROTOCOL else "the server"
            raise PeerRefused(f"runner {hello.version} and server {scrubjay.__version__} do not fit: upgrade {which}")
        self.id = parse_runner_id(hello.runner)
        present = tower.peers.get(self.id)
        if present is not None and present.local:
            raise PeerRefused(
                "this is the id of the server's own runner: each machine needs a data directory of its own"
            )
        self.local = local
        self.name, self.host, self.version = hello.name, hello.host, hello.version
        self.introduced = False  #: whether its pods are in the catalog
        self.delayed = False  #: whether the catalog could not be written, so that its pods come later
        self._tower, self._send, self._hang_up = tower, send, hang_up
        self._asked: dict[int, asyncio.Future[Json]] = {}
        self._last_ask = 0
        self._receiver = replication.Receiver()
        self._roster: tuple[PodReport, ...] | None = None
        self._changed: list[PodReport | PodId] = []  # not yet in the catalog, in order; an id is of one that is gone
        self._offered: deque[PodId] = deque()
        self._welcomed = False
        self._something = asyncio.Event()
        self._acknowledging: asyncio.TimerHandle | None = None
        self._jobs: list[replication.Append | _Removal] = []  # for the store, in order
        self._to_store = asyncio.Event()
        self._ended = False

    @property
    def caught_up(self) -> bool:
        """Whether all that it has reported of its pods is in the catalog."""
        return self._roster is None and not self._changed

    async def run(self) -> None:
        """Keep catalog and tapes up to date with what the runner sends, each in the order it does."""
        await self._welcome()
        self._send(Welcome(version=scrubjay.__version__))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_recording())
                tasks.create_task(self._keep_storing())
        finally:
            # What has come has come, or a link that flaps would bring the same again and again.
            await asyncio.to_thread(self._store, self._jobs)

    async def _welcome(self) -> None:
        """Have the runner in the catalog; while that is not possible it is served all the same."""
        try:
            await self._tower.welcome(self)
            self._welcomed = True
        except ScrubjayError as error:
            log.warning("catalog.not_written", error=str(error))
            asyncio.get_running_loop().call_later(RETRY_S, self._something.set)

    async def _keep_recording(self) -> None:
        while True:
            await self._something.wait()
            self._something.clear()
            try:
                await self._catch_up()
            except (ScrubjayError, OSError) as error:
                # The catalog's disk is full, or so: what is not recorded yet is kept here and tried again.
                self.delayed = True
                log.warning("catalog.not_written", error=str(error))
                await asyncio.sleep(RETRY_S)
                self._something.set()

    async def _catch_up(self) -> None:
        while self._offered:  # first, for it does not need the catalog
            await self._find(self._offered.popleft())
        if not self._welcomed:
            await self._tower.welcome(self)
            self._welcomed = True
        if self._roster is not None:
            missing = self._missing(self._roster)
            await self._discard(missing)
            await self._tower.take_roster(self, self._roster, gone=missing)
            self._roster = None
            self.introduced = True
        if changed := list(self._changed):
            await self._discard(change for change in changed if not isinstance(change, PodReport))
            await self._tower.take_reports(self, changed)
            del self._changed[: len(changed)]

    def _missing(self, roster: tuple[PodReport, ...]) -> list[PodId]:
        """Pods that were deleted while the runner was not connected."""
        here = {PodId(report.id) for report in roster}
        missing = [pod for pod, known in self._tower.pods.items() if known.runner == self.id and pod not in here]
        if missing and not here:
            # Nobody deletes everything at once, but a disk may be lost; then these are the only copies left.
            log.warning("runner.has_nothing", runner=self.id, pods=len(missing))
            return []
        return missing

    async def _discard(self, pods: Iterable[PodId]) -> None:
        """Delete the copies of pods that are gone.

        Before the catalog forgets them: if we die in between it is done again, and on a full disk there is room then.
        """
        loop = asyncio.get_running_loop()
        removals = [_Removal(pod, loop.create_future()) for pod in pods]
        self._jobs += removals
        self._to_store.set()
        for removal in removals:
            await removal.done

    async def _find(self, pod: PodId) -> None:
        """Tell how much of a tape is here."""
        try:
            held = await asyncio.to_thread(self._tower.tapes.have, pod)
        except (DiskFull, OSError) as error:
            log.warning("tapes.unavailable", pod=pod, error=str(error))
            asyncio.get_running_loop().call_later(RETRY_S, self._offer_again, pod)
            return
        except ScrubjayError as error:
            log.error("tapes.unreadable", pod=pod, error=str(error))
            return
        if pod in self._changed:
            return  # it was deleted meanwhile
        self._receiver.opened(pod, held.have, held.kept)
        self._tower.rewind(pod, held.have)
        self._send(Found(pod=pod, offset=held.have, fingerprint=held.fingerprint))

    def _offer_again(self, pod: PodId) -> None:
        self._offered.append(pod)
        self._something.set()

    # What the runner says.

    def hear(self, message: FromRunner) -> None:
        """Take in one message; BadMessage if a runner does not say such a thing here."""
        match message:
            case TapeBytes():
                self._hear_tape(message)
            case Answer():
                self._hear_answer(message)
            case PodChanged():
                if self._is_ours(message.pod.id):
                    self._changed.append(message.pod)
                    self._something.set()
            case PodGone():
                if self._is_ours(message.pod):
                    pod = PodId(message.pod)
                    self._changed.append(pod)
                    self._receiver.forget(pod)
                    self._something.set()
            case Roster():
                self._roster = tuple(report for report in message.pods if self._is_ours(report.id))
                self._something.set()
            case Offer():
                if self._is_ours(message.pod):
                    self._offered.append(PodId(message.pod))
                    self._something.set()
            case Restart():
                if self._is_ours(message.pod):
                    self._do(self._receiver.restart(PodId(message.pod)))
            case Diverged():
                if self._is_ours(message.pod):
                    self._receiver.stop(PodId(message.pod))
                    self._note_divergence(PodId(message.pod), message.offset, message.why)
            case Called():
                if self._is_ours(message.pod):
                    self._tower.called(PodId(message.pod), message)
            case Pong():
                return
            case Hello():
                raise BadMessage("a second hello")
            case _:
                assert_never(message)

    def _is_ours(self, raw: str) -> bool:
        """Whether a pod is this runner's to speak of: a pod stays with the runner that first reported it."""
        known = self._tower.pods.get(parse_pod_id(raw))
        if known is None or known.runner == self.id:
            return True
        log.warning("runner.spoke_of_foreign_pod", runner=self.id, pod=raw)
        return False

    def _hear_tape(self, message: TapeBytes) -> None:
        pod = PodId(message.pod)
        self._tower.received_bytes += len(message.data)
        if message.live:
            self._do(self._receiver.receive_live(pod, message.offset, message.data))
        else:
            self._do(self._receiver.receive(pod, message.offset, message.data, synced=message.synced))
        self._acknowledge_soon()

    def _do(self, effects: list[replication.Effect]) -> None:
        for effect in effects:
            match effect:
                case replication.Show():
                    self._tower.show(effect.pod, effect.offset, effect.data, jump=effect.jump)
                case replication.Append():
                    self._jobs.append(effect)
                    self._to_store.set()
                case replication.Rewind():
                    self._send(Rewind(pod=effect.pod, offset=effect.offset))
                case replication.Later():
                    self._send(Later(pod=effect.pod, offset=effect.offset))
                case replication.Diverged():
                    self._send(Diverged(pod=effect.pod, offset=effect.offset, why=effect.why))
                    self._note_divergence(effect.pod, effect.offset, effect.why)

    async def _keep_storing(self) -> None:
        """Give the store what has come, in a thread: it may wait for a disk."""
        while True:
            await self._to_store.wait()
            self._to_store.clear()
            jobs, self._jobs = self._jobs, []
            for append, outcome in await asyncio.to_thread(self._store, jobs):
                match outcome:
                    case int():
                        self._receiver.stored(append.pod, outcome)
                    case TapeDiverged():
                        self._receiver.stop(append.pod)
                        self._send(Diverged(pod=append.pod, offset=append.offset, why=str(outcome)))
                        self._note_divergence(append.pod, append.offset, str(outcome))
                    case _NotStored():
                        log.warning("tapes.unavailable", pod=append.pod, error=outcome.why)
                        self._do(self._receiver.failed(append.pod, outcome.have))
            for job in jobs:
                if isinstance(job, _Removal) and not job.done.done():
                    job.done.set_result(None)
            self._acknowledge()

    def _store(self, jobs: list[replication.Append | _Removal]) -> list[tuple[replication.Append, _Outcome]]:
        outcomes: list[tuple[replication.Append, _Outcome]] = []
        failed: set[PodId] = set()
        for job in jobs:
            if isinstance(job, _Removal):
                self._remove(job.pod)
            elif job.pod not in failed:  # else it follows what was not taken, and will come again
                outcome = self._append(job)
                if isinstance(outcome, _NotStored):
                    failed.add(job.pod)
                outcomes.append((job, outcome))
        return outcomes

    def _append(self, append: replication.Append) -> _Outcome:
        try:
            return self._tower.tapes.append(append.pod, append.offset, append.records)
        except TapeDiverged as error:
            return error
        except (DiskFull, OSError) as error:
            return _NotStored(self._have(append), str(error))

    def _remove(self, pod: PodId) -> None:
        try:
            self._tower.tapes.remove(pod)
        except OSError as error:
            log.warning("tapes.not_removed", pod=pod, error=str(error))

    def _have(self, append: replication.Append) -> int | None:
        try:
            return self._tower.tapes.have(append.pod).have
        except (DiskFull, OSError):
            return None

    def _note_divergence(self, pod: PodId, offset: int, why: str) -> None:
        log.error("tape.diverged", pod=pod, offset=offset, why=why)
        self._tower.note("tape.diverged", pod, {"offset": offset, "why": why})

    def synced(self, kept: dict[PodId, int]) -> None:
        """The store has synced these tapes up to there."""
        self._receiver.synced(kept)
        self._acknowledge()

    def _acknowledge_soon(self) -> None:
        if self._acknowledging is None:
            loop = asyncio.get_running_loop()
            self._acknowledging = loop.call_later(ACKNOWLEDGE_S, self._acknowledge)

    def _acknowledge(self) -> None:
        if self._acknowledging is not None:
            self._acknowledging.cancel()
            self._acknowledging = None
        if self._ended:
            return
        for pod, ack in self._receiver.acknowledge().items():
            self._send(Progress(pod=pod, have=ack.have, kept=ack.kept))

    # What the server asks.

    async def ask(self, request: Request, *, timeout_s: float = ANSWER_WITHIN_S) -> Json:
        """Have something done and return the answer; a ScrubjayError says why not."""
        if self._ended:
            raise self._lost()
        self._last_ask += 1
        number = self._last_ask
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        try:
            self._send(Ask(id=number, request=request))
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError as error:
            raise KeeperRefused(
                f"runner {self.name!r} did not answer in {timeout_s:g} s", hint="it may be busy or cut off: try again"
            ) from error
        finally:
            self._asked.pop(number, None)

    def tell(self, request: Request) -> None:
        """Have something done that nobody waits for."""
        self._send(Ask(request=request))

    def watch(self, pods: tuple[str, ...]) -> None:
        """Say which pods somebody looks at."""
        self._send(Watch(pods=pods))

    def ping(self) -> None:
        """Ask for a sign of life."""
        self._send(Ping())

    def _hear_answer(self, answer: Answer) -> None:
        future = self._asked.pop(answer.re, None)
        if future is None or future.done():
            return
        if answer.fault is None:
            future.set_result(answer.result)
        else:
            future.set_exception(RunnerRefused(answer.fault.kinds, answer.fault.message, answer.fault.hint))

    def close(self, reason: str) -> None:
        """Hang up."""
        log.info("runner.dismissed", runner=self.id, reason=reason)
        self._hang_up()

    def end(self) -> None:
        """The connection is gone: nobody will answer any more."""
        self._ended = True
        self._receiver.disconnected()
        if self._acknowledging is not None:
            self._acknowledging.cancel()
        asked, self._asked = self._asked, {}
        for future in asked.values():
            if not future.done():
                future.set_exception(self._lost())

    def _lost(self) -> KeeperRefused:
        return KeeperRefused(
            f"the connection to runner {self.name!r} was lost", hint="it comes back by itself: try again"
        )
