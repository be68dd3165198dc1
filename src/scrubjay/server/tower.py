"""Everything the server knows and does, whoever asks: the catalog, the tapes, the runners, what is live.

Rooms of the same folder talk to people; this one decides nothing about who may do what.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import Connection

from scrubjay.errors import (
    AmbiguousPod,
    CatalogUnavailable,
    NoSuchPod,
    NotATape,
    PodNotRunning,
    PodUnreachable,
    ScrubjayError,
)
from scrubjay.fleet.access import Principal
from scrubjay.fleet.keyboard import Keyboards
from scrubjay.fleet.process import OVER, describe_process
from scrubjay.ids import PodId, PodName, RunnerId, SessionId
from scrubjay.replay.frame import Frame
from scrubjay.screen.masked import mask_snapshot
from scrubjay.screen.snapshot import read_snapshot
from scrubjay.screen.vt import encode_vt
from scrubjay.server.changes import Changes
from scrubjay.server.cinema import Cinema
from scrubjay.server.errors import NoRunner
from scrubjay.server.library import Library, Shelf
from scrubjay.server.live import LiveKeyframe, LivePod, PodUnwatchable
from scrubjay.server.peer import ANSWER_WITHIN_S, Peer
from scrubjay.store.database import Database
from scrubjay.store.events import append_event
from scrubjay.store.happenings import follow_status
from scrubjay.store.pod_sessions import follow_pod
from scrubjay.store.pods import PodFacts, add_pod, change_pod, get_pod, list_pods, remove_pod
from scrubjay.store.retiring import retire_pod
from scrubjay.store.runners import connect_runner, disconnect_runner, disconnect_runners
from scrubjay.store.status import Status, set_status
from scrubjay.store.tapes import Tapes
from scrubjay.store.tokens import revoke_tokens_of
from scrubjay.store.worktrees import WorktreeFacts, add_worktree
from scrubjay.tape.reader import Tape
from scrubjay.tape.record import Json
from scrubjay.wire import viewer as wire
from scrubjay.wire.messages import Called, Keyframe, PodReport, Request

if TYPE_CHECKING:
    from scrubjay.clock import Clock

LIVE_SCROLLBACK = 200  # rows of what scrolled off that a viewer begins with; to draw a thousand takes 50 ms
SYNC_EVERY_S = 0.2
INDEX_EVERY_S = 5.0
_HEARD_WITHIN_S = 5.0  # for what a runner did to be reported by it

log = structlog.get_logger()


@dataclass(slots=True)
class KnownPod:
    """A pod as its runner reported it last."""

    report: PodReport
    runner: RunnerId

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.report.process in OVER


@dataclass(slots=True)
class _Busy:
    """A key that is in use, and by how many: a lock does not tell that somebody still waits for it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Tower:
    """The server without its doors."""

    def __init__(self, database: Database, tapes: Tapes, changes: Changes, clock: Clock, *, search_path: Path) -> None:
        self.database, self.tapes, self.changes, self.clock = database, tapes, changes, clock
        self.peers: dict[RunnerId, Peer] = {}
        self.pods: dict[PodId, KnownPod] = {}
        self.keyboards = Keyboards()
        self.cinema = Cinema(self.open_tape, self._is_growing)
        self.library = Library(search_path)
        self.on_called: Callable[[KnownPod, Called], None] = lambda _known, _called: None
        self.unkept: OrderedDict[tuple[str, str], tuple[int, Json]] = OrderedDict()
        """Answers that the catalog did not take, and when they were given, by whom and key."""
        self.received_bytes = 0  #: of tapes, since the server was started
        self._live: dict[PodId, LivePod] = {}
        self._past_resyncs = 0  # of those that are live no more
        self._tasks: set[asyncio.Task[object]] = set()
        self._busy: dict[tuple[str, str], _Busy] = {}

    async def begin(self) -> None:
        """Take up what the catalog knows."""
        await self.changes.begin(self.database)
        gone = partial(disconnect_runners, reason="the server was not running", wall_us=self.clock.wall_us())
        try:
            await self.database.write(gone)
        except CatalogUnavailable as error:  # a full disk is no reason not to start
            log.warning("catalog.not_written", error=str(error))
        for facts, status in await self.database.read(list_pods):
            self.pods[facts.id] = KnownPod(_report_of(facts, status), RunnerId(facts.runner))

    async def run(self) -> None:
        """Sync what arrives and index what was recorded, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_syncing())
            tasks.create_task(self._keep_indexing())

    async def _keep_syncing(self) -> None:
        while True:
            await asyncio.sleep(SYNC_EVERY_S)
            synced = await asyncio.to_thread(self.tapes.sync)
            for pod, why in synced.failed.items():
                log.warning("tapes.not_synced", pod=pod, error=why)
            for peer in self.peers.values():
                peer.synced(synced.kept)

    async def _keep_indexing(self) -> None:
        while True:
            await asyncio.sleep(INDEX_EVERY_S)
            try:
                pods = [pod for pod in self.pods if not self.library.is_finished(pod)]
                await self.library.keep_up(await asyncio.to_thread(self.shelves, pods))
            except (OSError, ScrubjayError) as error:
                log.warning("library.not_kept_up", error=str(error))

    async def close(self) -> None:
        """End what was begun here; pods go on."""
        for peer in list(self.peers.values()):
            peer.close("the server is shutting down")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self.cinema.close)
        await asyncio.to_thread(self.library.close)

    # Finding pods.

    def find(self, raw: str, among: Callable[[KnownPod], bool] = lambda _: True) -> KnownPod:
        """The pod with that name or id, or the only one whose name or id begins so; a running one before others.

        Those that are not ``among`` which may be found do not exist for whoever asks.
        """
        known = self.pods.get(PodId(raw))
        if known is not None and among(known):
            return known
        pods = [pod for pod in self.pods.values() if among(pod)]
        for wanted in (
            [pod for pod in pods if pod.report.name == raw],
            [pod for pod in pods if raw and (pod.report.name.startswith(raw) or pod.report.id.startswith(raw))],
        ):
            alive = [pod for pod in wanted if not pod.over]
            names = {pod.report.name for pod in alive or wanted}
            if len(names) == 1:
                return max(alive or wanted, key=lambda pod: pod.report.created_us)
            if names:
                raise AmbiguousPod(raw, sorted(names))
        raise NoSuchPod(raw)

    def open_tape(self, pod: PodId) -> Tape:
        """A pod's tape as the server has it; NotATape if it has none."""
        return self.tapes.open(pod)

    def tape_end(self, pod: PodId) -> int | None:
        """How far a tape goes, as far as is known."""
        live = self._live.get(pod)
        known = self.pods.get(pod)
        ends = [live.end if live is not None else 0, known.report.end if known is not None else 0]
        return max(ends) or None

    def shelves(self, pods: Iterable[PodId]) -> list[Shelf]:
        """The tapes of pods, for the library; those that cannot be opened are left out."""
        found: list[Shelf] = []
        for pod in pods:
            known = self.pods.get(pod)
            if known is not None:
                with suppress(NotATape):
                    created_us, growing = known.report.created_us, not known.report.complete
                    found.append(Shelf(pod, self.open_tape(pod), created_us, growing=growing))
        return found

    async def until_linked(self, runner: RunnerId) -> None:
        """Return when a runner's pods are in the catalog, or something keeps them from getting there."""

        def is_linked() -> bool:
            peer = self.peers.get(runner)
            return peer is not None and (peer.introduced or peer.delayed)

        await self._until(is_linked)

    async def until_known(self, pod: PodId) -> None:
        """Return when a pod that was started is in the catalog, or something keeps it from getting there."""
        await self._until(lambda: pod in self.pods)

    async def until_over(self, pod: PodId) -> None:
        """Return when the end of a pod is in the catalog."""
        await self._until(lambda: pod not in self.pods or self.pods[pod].over)

    async def until_forgotten(self, pod: PodId) -> None:
        """Return when a pod that was deleted is gone here, too."""
        await self._until(lambda: pod not in self.pods)

    async def _until(self, condition: Callable[[], bool]) -> None:
        deadline = asyncio.get_running_loop().time() + _HEARD_WITHIN_S
        while not condition() and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.005)

    @asynccontextmanager
    async def one_at_a_time(self, principal: str, key: str) -> AsyncGenerator[None]:
        """Let requests with the same key wait for one another."""
        busy = self._busy.setdefault((principal, key), _Busy())
        busy.users += 1
        try:
            async with busy.lock:
                yield
        finally:
            busy.users -= 1
            if not busy.users:
                del self._busy[principal, key]

    def _is_growing(self, pod: PodId) -> bool:
        known = self.pods.get(pod)
        return known is not None and not known.report.complete

    # Asking runners.

    def peer_of(self, known: KnownPod) -> Peer:
        """The runner that has a pod; PodUnreachable if it is not connected."""
        peer = self.peers.get(known.runner)
        if peer is None:
            raise PodUnreachable(known.report.name)
        return peer

    def choose_runner(self, raw: str | None) -> Peer:
        """The runner of that name or id, or the only one there is; NoRunner if it is not there or not clear."""
        peers = [peer for peer in self.peers.values() if raw is None or raw in (peer.id, peer.name)]
        if len(peers) == 1:
            return peers[0]
        if not peers:
            what = "no machine is connected" if raw is None else f"no machine {raw!r} is connected"
            raise NoRunner(what, hint="'scrubjay up' is one; GET /api/v1/runners lists those that were")
        names = ", ".join(sorted(peer.name for peer in peers))
        raise NoRunner(f"several machines are connected: {names}", hint="say which one")

    async def ask(self, known: KnownPod, request: Request, *, timeout_s: float = ANSWER_WITHIN_S) -> Json:
        """Have a pod's runner do something."""
        return await self.peer_of(known).ask(request, timeout_s=timeout_s)

    def require_running(self, known: KnownPod) -> None:
        """PodNotRunning if it has ended."""
        if known.over:
            report = known.report
            raise PodNotRunning(report.name, describe_process(report.process, report.reason, report.exit_status))

    # What runners report.

    async def welcome(self, peer: Peer) -> None:
        """A runner is there; an older connection of the same one is closed."""
        before = self.peers.get(peer.id)
        self.peers[peer.id] = peer
        if before is not None and before is not peer:
            before.close("the same runner has connected again")
        await self.database.write(
            partial(
                connect_runner,
                runner=peer.id,
                name=peer.name,
                host=peer.host,
                version=peer.version,
                wall_us=self.clock.wall_us(),
            )
        )

    async def farewell(self, peer: Peer, reason: str) -> None:
        """A runner's connection has ended."""
        if self.peers.get(peer.id) is not peer:
            return
        del self.peers[peer.id]
        body = partial(disconnect_runner, runner=peer.id, reason=reason, wall_us=self.clock.wall_us())
        try:
            await self.database.write(body)
        except ScrubjayError as error:
            log.warning("runner.gone_not_recorded", runner=peer.id, error=str(error))
        await self._rewind_all(peer)

    async def take_roster(self, peer: Peer, reports: Iterable[PodReport], *, gone: Iterable[PodId]) -> None:
        """All pods of a runner, and those it had and has no more."""
        first = not any(known.runner == peer.id for known in self.pods.values())
        await self._record(peer, [*reports, *gone], found=first)

    async def take_reports(self, peer: Peer, changes: Sequence[PodReport | PodId]) -> None:
        """Pods that are new or not as they were, and ids of those that were deleted, in the order it happened."""
        await self._record(peer, changes, found=False)

    async def _record(self, peer: Peer, changes: Sequence[PodReport | PodId], *, found: bool) -> None:
        wall_us = self.clock.wall_us()

        def body(connection: Connection) -> list[PodReport | PodId]:
            taken: list[PodReport | PodId] = []
            for change in changes:
                if isinstance(change, PodReport):
                    if not _record_report(connection, change, peer.id, wall_us=wall_us, found=found):
                        continue
                else:
                    if remove_pod(connection, change, wall_us=wall_us):
                        retire_pod(connection, change, wall_us=wall_us)
                    revoke_tokens_of(connection, change, wall_us=wall_us)
                taken.append(change)
            return taken

        for change in await self.database.write(body):
            if isinstance(change, PodReport):
                self._know(change, peer.id)
            else:
                self._forget(change)

    def _know(self, report: PodReport, runner: RunnerId) -> None:
        pod = PodId(report.id)
        self.pods[pod] = KnownPod(report, runner)
        self._wake(pod)
        self._drop_if_over(pod)

    def _forget(self, pod: PodId) -> None:
        self.pods.pop(pod, None)
        self.keyboards.forget(pod)
        self.cinema.forget(pod)
        self.library.forget(pod)
        live = self._live.get(pod)
        if live is not None:
            self._drop(live)
            live.wake()

    # What is live.

    def live(self, pod: PodId) -> LivePod:
        """The present of a pod."""
        live = self._live.get(pod)
        if live is None:
            live = self._live[pod] = LivePod(pod, partial(self._live_keyframe, pod))
        return live

    def _wake(self, pod: PodId) -> None:
        live = self._live.get(pod)
        if live is not None:
            live.wake()

    def _drop_if_over(self, pod: PodId) -> None:
        """Keep nothing of a tape that is complete while nobody looks: its screen is made from what is kept."""
        live = self._live.get(pod)
        if live is not None and not live.viewers and not self._is_growing(pod):
            self._drop(live)

    def _drop(self, live: LivePod) -> None:
        del self._live[live.pod]
        self._past_resyncs += live.resyncs

    def show(self, pod: PodId, offset: int, data: bytes, *, jump: bool = False) -> None:
        """Bytes of a tape, for whoever looks."""
        self.live(pod).show(offset, data, jump=jump)
        if pod in self.pods:
            self._drop_if_over(pod)

    def rewind(self, pod: PodId, offset: int) -> None:
        """A tape is here up to an offset, and more was shown perhaps."""
        live = self._live.get(pod)
        if live is not None:
            live.rewind(offset)

    async def _rewind_all(self, peer: Peer) -> None:
        """Show no more of a runner's pods than is kept: that is what their screens are made of while it is away."""
        for pod in [pod for pod, known in self.pods.items() if known.runner == peer.id and pod in self._live]:
            try:
                held = await asyncio.to_thread(self.tapes.have, pod)
            except (OSError, ScrubjayError) as error:
                log.warning("tapes.unavailable", pod=pod, error=str(error))
                continue
            if peer.id not in self.peers:  # else it is back, and its tapes are found anew
                self.rewind(pod, held.have)

    def called(self, pod: PodId, called: Called) -> None:
        """An agent wants somebody."""
        known = self.pods.get(pod)
        if known is not None:
            self.on_called(known, called)

    def live_pods(self) -> list[LivePod]:
        """What is live."""
        return list(self._live.values())

    @property
    def resyncs(self) -> int:
        """How often a viewer had fallen behind and was given a keyframe, since the server was started."""
        return self._past_resyncs + sum(live.resyncs for live in self._live.values())

    def viewers(self, pod: PodId) -> int:
        """How many look at a pod."""
        live = self._live.get(pod)
        return live.viewers if live is not None else 0

    async def _live_keyframe(self, pod: PodId) -> LiveKeyframe:
        known = self.pods.get(pod)
        if known is None:
            raise PodUnwatchable("it was deleted")
        if known.over:
            return await self._last_screen(pod)
        try:
            answer = await self.ask(known, Keyframe(pod=pod, history=LIVE_SCROLLBACK))
        except PodUnreachable:
            return await self._last_screen(pod)
        except ScrubjayError as error:
            if self.pods[pod].over:
                return await self._last_screen(pod)
            raise PodUnwatchable(str(error)) from error
        return await asyncio.to_thread(_encode_keyframe, answer)

    async def _last_screen(self, pod: PodId) -> LiveKeyframe:
        """The screen of a pod that has ended, or whose runner is away."""
        frame = await self.cinema.show(pod, lambda reel: reel.seek(reel.duration, history=LIVE_SCROLLBACK))
        return await asyncio.to_thread(encode_frame, frame, history=LIVE_SCROLLBACK)

    def watched(self) -> tuple[str, ...]:
        """The pods somebody looks at."""
        return tuple(pod for pod, live in self._live.items() if live.viewers)

    def watching_changed(self, pod: PodId) -> None:
        """Tell a pod's runner that somebody looks, or nobody does."""
        known = self.pods.get(pod)
        peer = self.peers.get(known.runner) if known is not None else None
        if peer is not None:
            peer.watch(self.watched())
        self._drop_if_over(pod)

    # Typing.

    async def take_keyboard(self, known: KnownPod, principal: Principal, holder: str, *, takeover: bool) -> int:
        """Let somebody type into a pod; KeyboardHeld if somebody else does. Returns the epoch of the grant."""
        pod = PodId(known.report.id)
        self.keyboards.require_free(pod, holder, takeover=takeover)
        wall_us = self.clock.wall_us()
        epoch = self.keyboards.next_epoch(pod, wall_us)
        data: Json = {"by": principal.name, "principal": principal.id, "takeover": takeover, "epoch": epoch}
        await self.database.write(partial(append_event, kind="keyboard.taken", wall_us=wall_us, pod=pod, data=data))
        if pod not in self.pods:
            raise NoSuchPod(known.report.name)
        self.keyboards.require_free(pod, holder, takeover=takeover)  # somebody else may have been quicker
        self.keyboards.grant(pod, holder, principal.name, epoch)
        self._wake(pod)
        return epoch

    def give_keyboard(self, pod: PodId, holder: str) -> None:
        """Somebody has finished typing, or is gone."""
        if not self.keyboards.release(pod, holder):
            return
        self._wake(pod)
        self.note("keyboard.given", pod, {})

    async def audit(self, kind: str, pod: PodId | None, principal: Principal) -> None:
        """Keep that somebody tried something, if the catalog takes it."""
        data: Json = {"by": principal.name, "principal": principal.id, "role": principal.role}
        body = partial(append_event, kind=kind, wall_us=self.clock.wall_us(), pod=pod, data=data)
        try:
            await self.database.write(body)
        except CatalogUnavailable as error:
            log.warning("catalog.not_written", error=str(error))

    def note(self, kind: str, pod: PodId | None, data: Json) -> None:
        """Keep that something happened; nobody waits for it."""
        body = partial(append_event, kind=kind, wall_us=self.clock.wall_us(), pod=pod, data=data)
        self._spawn(self.database.write(body))

    def _spawn(self, work: Coroutine[object, object, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._spawned_done)

    def _spawned_done(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("task.failed", error=str(error), kind=type(error).__name__)


def author_of(principal: Principal) -> str:
    """Who types, as the tape names them."""
    return f"{principal.role}:{principal.name}"


def _record_report(connection: Connection, report: PodReport, runner: RunnerId, *, wall_us: int, found: bool) -> bool:
    """Bring the catalog up to date with a report; False if the pod was removed, for it does not come back."""
    facts = PodFacts(
        id=PodId(report.id),
        name=PodName(report.name),
        session=SessionId(report.session),
        runner=runner,
        argv=report.argv,
        cwd=report.cwd,
        cols=report.cols,
        rows=report.rows,
        agent=report.agent,
        repository=report.repository,
        branch=report.branch,
        worktree=report.worktree,
        imported=report.imported,
        created_us=report.created_us,
        conversation=report.conversation,
    )
    status = _status_of(report)
    if add_pod(connection, facts, status, wall_us=wall_us, found=found):
        if report.worktree is not None:
            tree = WorktreeFacts(
                runner=runner,
                name=report.worktree,
                path=report.worktree_path or report.cwd,
                repository=report.repository or "",
                branch=report.branch,
                pod=facts.id,
            )
            add_worktree(connection, tree, wall_us=wall_us)
        _follow(connection, facts, Status("starting"), status, new=True, wall_us=wall_us)
        return True
    current = get_pod(connection, facts.id)
    if current is None:
        return False
    change_pod(connection, facts, wall_us=wall_us)
    if set_status(
        connection,
        facts.id,
        process=status.process,
        reason=status.reason,
        exit_status=status.exit_status,
        activity=status.activity,
        waiting_for=status.waiting_for,
        evidence=status.evidence,
        confidence=status.confidence,
        wall_us=wall_us,
    ):
        _follow(connection, facts, current[1], status, new=False, wall_us=wall_us)
    elif status.process not in OVER:
        follow_pod(connection, facts, ended=None, new=False, wall_us=wall_us)  # its machine may have been away
    return True


def _follow(connection: Connection, facts: PodFacts, before: Status, after: Status, *, new: bool, wall_us: int) -> None:
    """Take up what a new status means for others."""
    ended = describe_process(after.process, after.reason, after.exit_status) if after.process in OVER else None
    follow_pod(connection, facts, ended=ended, new=new, wall_us=wall_us)
    follow_status(connection, facts.id, facts.session, before, after, wall_us=wall_us)
    if after.process in OVER:  # what its agent left running acts for it no more
        revoke_tokens_of(connection, facts.id, wall_us=wall_us)


def _status_of(report: PodReport) -> Status:
    """A status as the catalog keeps it: what is told besides is in the evidence."""
    doing = report.status
    if doing is None:
        stopped_by = report.stopped_by if report.process in OVER else None
        evidence: Json = {} if stopped_by is None else {"stopped_by": stopped_by}
        return Status(report.process, report.reason, report.exit_status, evidence=evidence)
    evidence = {
        "detail": doing.detail,
        "problem": doing.problem,
        "at": doing.at,
        "since_us": doing.since_us,
        "offset": doing.offset,
        "signals": list(doing.evidence),
        "outvoted": list(doing.outvoted) or None,
    }
    return Status(
        report.process,
        report.reason,
        report.exit_status,
        activity=doing.activity,
        waiting_for=doing.waiting_for,
        evidence={name: value for name, value in evidence.items() if value is not None},
        confidence=doing.confidence,
    )


def _report_of(facts: PodFacts, status: Status) -> PodReport:
    return PodReport(
        id=facts.id,
        name=facts.name,
        session=facts.session,
        argv=facts.argv,
        cwd=facts.cwd,
        cols=facts.cols,
        rows=facts.rows,
        created_us=facts.created_us,
        process=status.process,
        since_us=status.since_us,
        agent=facts.agent,
        repository=facts.repository,
        branch=facts.branch,
        worktree=facts.worktree,
        imported=facts.imported,
        conversation=facts.conversation,
        reason=status.reason,
        exit_status=status.exit_status,
        complete=status.process in OVER,
    )


def _encode_keyframe(answer: Json) -> LiveKeyframe:
    """What a runner says of a screen, as a viewer gets it."""
    snapshot, offset, at = answer["snapshot"], answer["offset"], answer["at"]
    cols, rows = answer["cols"], answer["rows"]
    assert isinstance(snapshot, bytes)
    assert isinstance(offset, int)
    assert isinstance(at, int)
    assert isinstance(cols, int)
    assert isinstance(rows, int)
    state = mask_snapshot(read_snapshot(snapshot, history=LIVE_SCROLLBACK))
    drawn = encode_vt(state, history=LIVE_SCROLLBACK)
    return LiveKeyframe(offset, wire.encode_screen(wire.KEYFRAME, drawn, offset=offset, at=at, size=(cols, rows)))


def encode_frame(frame: Frame, *, history: int) -> LiveKeyframe:
    """A screen of a recording, as a viewer gets it; PodUnwatchable if there is none."""
    if frame.unavailable is not None:
        raise PodUnwatchable(frame.unavailable)
    frame = frame.masked()
    drawn = encode_vt(frame.state, history=history) if frame.state is not None else frame.text.encode()
    message = wire.encode_screen(wire.KEYFRAME, drawn, offset=frame.offset, at=frame.at, size=(frame.cols, frame.rows))
    return LiveKeyframe(frame.offset, message)
