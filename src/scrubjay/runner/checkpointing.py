"""When worktrees are kept: whenever a pod's agent comes to be idle or to wait, and at its end.

Agents must not notice: a few threads of its own, git at the lowest priority, one checkpoint of a pod at a time. What
could not be begun before the agent went on is not made up for, for its files are no longer what they were. Whatever
fails is logged, and nothing else comes of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import structlog

from scrubjay.errors import NoSuchWorktree, NotATape, ScrubjayError, WorktreeMissing
from scrubjay.ids import PodId
from scrubjay.pods.home import Home
from scrubjay.pods.pod import Pod
from scrubjay.runner.checkpoints import Checkpoints, Moment
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Json
from scrubjay.wire.checkpoints import Why

THREADS = 3
_REST_TIMES = 20  # as long as a failure took is rested after it: what fails slowly must not be tried all the time
_REST_MIN_S = 5.0
_EXIT_WITHIN_BYTES = 1 << 20  # of the tape's end
_LATE_US = 10_000_000  # after its end, somebody else may have been at work in its worktree
_DONE = "worktree-kept"  # in a pod's folder: nothing more is to be kept of it

log = structlog.get_logger()


@dataclass(slots=True)
class _Watched:
    """What is known of one pod."""

    doing: tuple[object, object] | None = None  #: its activity and what it waits for
    due: Moment | None = None
    task: asyncio.Task[None] | None = None  #: what keeps its worktree at the moment
    turns: int = 0  #: how often it has gone on to work
    over: bool = False  #: it has ended: what comes of its status now is late
    rest_until: float = 0.0
    trouble: str | None = None  #: that was logged


class Checkpointing:
    """Keeps the worktrees of a runner's pods. To be used in the runner's loop."""

    def __init__(self, home: Home, checkpoints: Checkpoints, wall_us: Callable[[], int]) -> None:
        self._home, self._checkpoints, self._wall_us = home, checkpoints, wall_us
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="checkpoint")
        self._pods: dict[PodId, _Watched] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def shut_down(self) -> None:
        """Begin no more. What is being kept ends by itself when git is stopped."""
        for task in self._tasks:
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def status_changed(self, pod: Pod, status: Json) -> None:
        """What a pod's agent does from now on."""
        if pod.worktree is None:
            return
        watched = self._pods.setdefault(pod.id, _Watched())
        doing = status.get("activity"), status.get("waiting_for")
        if watched.over or doing == watched.doing:
            return
        watched.doing = doing
        if doing[0] not in ("idle", "waiting"):
            watched.due = None
            watched.turns += 1
            return
        watched.due = _moment(pod, "idle" if doing[0] == "idle" else "waiting", status)
        if watched.task is None:
            watched.task = self._spawn(self._keep_up(pod, watched))

    async def ended(self, pod: Pod) -> None:
        """A pod has ended, now or some time ago: keep its worktree unless that was done; returns when it is."""
        if pod.worktree is None or pod.imported:
            return
        watched = self._pods.setdefault(pod.id, _Watched())
        watched.due, watched.over = None, True
        if watched.task is not None:
            await asyncio.wait([watched.task])
        watched.task = self._spawn(self._in_thread(pod, watched, lambda: self._keep_end(pod)))
        await asyncio.wait([watched.task])
        watched.task = None

    async def settled(self, pods: Iterable[PodId]) -> None:
        """Return when nothing of these pods is being kept."""
        known = [watched for pod in pods if (watched := self._pods.get(pod)) is not None]
        tasks = [watched.task for watched in known if watched.task is not None]
        if tasks:
            await asyncio.wait(tasks)

    def forget(self, pod: PodId) -> None:
        """A pod is gone."""
        watched = self._pods.pop(pod, None)
        if watched is not None:
            watched.due = None

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep_up(self, pod: Pod, watched: _Watched) -> None:
        try:
            while watched.due is not None:
                rest_s = watched.rest_until - time.monotonic()
                if rest_s > 0:
                    await asyncio.sleep(rest_s)
                    continue
                moment, watched.due, turn = watched.due, None, watched.turns
                await self._in_thread(pod, watched, partial(self._keep, pod, moment, watched, turn))
        finally:
            watched.task = None

    async def _in_thread(self, pod: Pod, watched: _Watched, keep: Callable[[], None]) -> None:
        began = time.monotonic()
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, keep)
        except (NoSuchWorktree, WorktreeMissing):
            pass  # somebody has taken it away: there is nothing to keep
        except (OSError, ScrubjayError) as error:
            took_s = time.monotonic() - began
            watched.rest_until = time.monotonic() + max(_REST_MIN_S, _REST_TIMES * took_s)
            if watched.trouble != str(error):
                watched.trouble = str(error)
                log.warning("checkpoint.not_made", pod=pod.id, error=watched.trouble, took_ms=round(1000 * took_s))

    # In threads.

    def _keep(self, pod: Pod, moment: Moment, watched: _Watched, turn: int) -> None:
        if watched.turns == turn:  # else it went on before a thread was free
            self._make(pod, moment, moved_on=lambda: watched.turns != turn)

    def _keep_end(self, pod: Pod) -> None:
        done = pod.folder / _DONE
        if done.exists():
            return
        try:
            self._checkpoints.require_worktree(pod)
            moment = _end_of(pod)
            if self._wall_us() - moment.wall_us < _LATE_US or not self._has_successor(pod):
                self._make(pod, moment)
        except NoSuchWorktree:
            pass  # nor will there be one again
        with suppress(FileNotFoundError):  # deleted meanwhile
            done.touch(mode=0o600)

    def _has_successor(self, pod: Pod) -> bool:
        return any(other.worktree == pod.worktree and other.created_us > pod.created_us for other in self._home.pods())

    def _make(self, pod: Pod, moment: Moment, *, moved_on: Callable[[], bool] = lambda: False) -> None:
        began = time.monotonic()
        made = self._checkpoints.make(pod, moment, moved_on=moved_on)
        if not pod.folder.exists():
            self._checkpoints.forget(pod)  # it was deleted meanwhile, with all others
        log.debug(
            "checkpoint.made" if made is not None else "checkpoint.covered",
            pod=pod.id,
            number=made.number if made is not None else None,
            why=moment.why,
            took_ms=round(1000 * (time.monotonic() - began)),
        )


def _moment(pod: Pod, why: Why, status: Json) -> Moment:
    at, offset, wall_us = status.get("at"), status.get("offset"), status.get("wall_us")
    since = at if isinstance(at, int) else 0
    return Moment(
        why=why,
        at=since,
        offset=offset if isinstance(offset, int) else 0,
        wall_us=wall_us if isinstance(wall_us, int) else pod.created_us + since,
    )


def _end_of(pod: Pod) -> Moment:
    """The last instant of a pod's tape: its exit, where it came to that."""
    at, offset = 0, 0
    try:
        tape = pod.tape()
        for record in tape.records(tape.align(max(0, tape.end - _EXIT_WITHIN_BYTES))):
            at, offset = record.at, record.end
            if record.kind == Kind.EXIT:
                break
    except NotATape:
        pass  # then nothing is known but that it is over
    ended_us = pod.observe().ended_us
    return Moment("exit", at, offset, ended_us if ended_us is not None else pod.created_us + at)
