"""The runner of one machine: it finds the pods, listens to their keepers, and tells a server.

It holds nothing that cannot be found again: pods and worktrees are folders, and agents belong to their keepers. So it
may die at any moment, and goes on when it is started again.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import structlog

from scrubjay.agents.library import Library
from scrubjay.agents.status_rules import generic_rules, rules_for
from scrubjay.clock import SystemClock
from scrubjay.errors import (
    BadId,
    HomeUnusable,
    KeeperGone,
    KeeperRefused,
    NoSuchPod,
    NoSuchWorktree,
    ScrubjayError,
    WorktreeMissing,
)
from scrubjay.ids import PodId, new_runner_id, parse_runner_id
from scrubjay.pods.home import Home
from scrubjay.pods.pod import Pod, read_pod
from scrubjay.runner.checkpointing import Checkpointing
from scrubjay.runner.checkpoints import Checkpoints
from scrubjay.runner.first_prompt import is_due, type_first_prompt
from scrubjay.runner.screens import Heard, LiveScreens
from scrubjay.runner.tended import Tended
from scrubjay.runner.worktrees import Worktrees
from scrubjay.settings import Settings
from scrubjay.status.rules import Rules
from scrubjay.tape.record import Json, Record

if TYPE_CHECKING:
    from scrubjay.clock import Clock

GIT_THREADS = 32  # requests that may wait for git at the same time
TAKE_IN_S = 0.002  # after what was recorded has been shown
LOOK_EVERY_S = 0.1  # for new and deleted pods: one stat of a folder
TEND_AGAIN_S = 1.0  # after what went wrong with a pod

log = structlog.get_logger()

T = TypeVar("T")


class Runner:
    """The pods of one data directory."""

    def __init__(self, home: Home, settings: Settings, environ: Mapping[str, str], clock: Clock | None = None) -> None:
        self.home, self.settings, self.environ = home, settings, environ
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.host = socket.gethostname()
        self.name = settings.runner_name or self.host
        self.id = _read_id(home)
        self.pods: dict[PodId, Tended] = {}
        self.worktrees = Worktrees(home.path, environ=environ)
        self.checkpoints = Checkpoints(self.worktrees, clock=self.clock)
        self.checkpointing = Checkpointing(home, self.checkpoints, self.clock.wall_us)
        self._agents = Library(settings.agents)
        self._git_threads = ThreadPoolExecutor(GIT_THREADS, thread_name_prefix="git")
        self.screens = LiveScreens(heard=self._heard_in_thread, changed=self._status_in_thread)
        self.found_all = asyncio.Event()  #: set when all pods that were there at the start are known
        self.mcp_url: str | None = None  #: where agents of this machine find the tools of the server, once it is known
        #: Told of what happens; whoever speaks to a server sets them.
        self.on_changed: Callable[[Tended], None] = lambda _tended: None
        self.on_gone: Callable[[PodId], None] = lambda _pod: None
        self.on_recorded: Callable[[PodId, int, bytes], bool] = lambda _pod, _offset, _data: False
        self.on_grew: Callable[[Tended], None] = lambda _tended: None
        self.on_called: Callable[[Tended, Heard], None] = lambda _tended, _heard: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[PodId, asyncio.Task[None]] = {}
        self._typing: set[asyncio.Task[bool]] = set()
        self._to_take_in: dict[PodId, Tended] = {}

    async def run(self) -> None:
        """Look after the pods until cancelled. They go on without us."""
        self._loop = asyncio.get_running_loop()
        folder = self.home.path / "pods"
        seen: tuple[int, ...] | None = None
        trouble: str | None = None
        self.screens.warm_up()  # a worker takes a while to start, and the first pod's questions should not wait for it
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._tidy())
                while True:
                    try:
                        now = _version_of(folder)
                        if now != seen:
                            # What is being made is not a pod yet, and its becoming one does not change the folder.
                            seen = now if await self._look(folder, tasks) else None
                            self.found_all.set()
                        trouble = None
                    except (OSError, ScrubjayError) as error:
                        if trouble != str(error):
                            trouble = str(error)
                            log.warning("pods.not_seen", error=trouble)
                    await asyncio.sleep(LOOK_EVERY_S)
        finally:
            self.worktrees.stop()  # a thread that waits for git would be waited for
            self._git_threads.shutdown(wait=False, cancel_futures=True)
            self.checkpointing.shut_down()
            self.screens.shut_down()

    async def _tidy(self) -> None:
        try:
            for name in await asyncio.to_thread(self.worktrees.tidy):
                log.info("worktree.tidied", name=name)
        except (OSError, ScrubjayError) as error:
            log.warning("worktrees.not_tidied", error=str(error))

    async def _look(self, folder: Path, tasks: asyncio.TaskGroup) -> bool:
        """Take up pods that are new; whether every folder is a pod."""
        names = await asyncio.to_thread(_list_names, folder)
        new = names - {str(pod) for pod in self.pods}
        found = await asyncio.to_thread(self._read_pods, folder, new) if new else []
        for pod in found:
            tended = self.pods[pod.id] = Tended(pod, self, self.clock)
            self._tasks[pod.id] = tasks.create_task(self._tend(tended))
        for gone in [pod for pod in self.pods if pod not in names]:
            self._forget(gone)
        return len(found) == len(new)

    def _read_pods(self, folder: Path, names: set[str]) -> list[Pod]:
        pods = [pod for name in names if (pod := read_pod(folder / name)) is not None]
        if all(pod.alive or pod.has_ended for pod in pods):
            return pods
        # Lost, or just being started: whoever starts one holds this until its keeper lives or its folder is gone.
        with self.home.changing():
            return [pod for name in names if (pod := read_pod(folder / name)) is not None]

    async def _tend(self, tended: Tended) -> None:
        trouble: str | None = None
        while True:
            try:
                await tended.tend()
                break
            except (OSError, ScrubjayError) as error:  # too many open files, perhaps; its keeper goes on meanwhile
                if trouble != str(error):
                    trouble = str(error)
                    log.warning("pod.unreadable", pod=tended.pod.id, error=trouble)
                await asyncio.sleep(TEND_AGAIN_S)
        self.screens.close(tended.pod.id)
        if tended.pod.worktree is not None:
            await self.checkpointing.ended(tended.pod)
            await self._release(tended.pod.worktree)

    async def _release(self, worktree: str) -> None:
        try:
            await self.in_git_thread(lambda: self._release_unused(worktree))
        except (NoSuchWorktree, WorktreeMissing):
            pass  # then nobody keeps it
        except (OSError, ScrubjayError) as error:
            log.warning("worktree.not_released", name=worktree, error=str(error))

    def _release_unused(self, worktree: str) -> None:
        # Not while a pod is being started: it may be one that goes on there.
        with self.home.changing():
            if not any(pod.worktree == worktree and pod.alive for pod in self.home.pods()):
                self.worktrees.release(self.worktrees.find(worktree))

    def _forget(self, pod: PodId) -> None:
        del self.pods[pod]
        task = self._tasks.pop(pod)
        task.cancel()
        self.screens.close(pod)
        self.checkpointing.forget(pod)
        self.on_gone(pod)

    async def in_git_thread(self, do: Callable[[], T]) -> T:
        """Do what may wait for git, for long perhaps: what waits for anything else has threads of its own."""
        return await asyncio.get_running_loop().run_in_executor(self._git_threads, do)

    def find(self, pod: str) -> Tended:
        """The pod of that id; NoSuchPod if this runner has none."""
        tended = self.pods.get(PodId(pod))
        if tended is None:
            raise NoSuchPod(pod)
        return tended

    # What tended pods ask and say.

    def worktree_path(self, pod: Pod) -> str | None:
        """Where a pod's worktree is, if it has one."""
        return None if pod.worktree is None else str(self.worktrees.path_of(pod.worktree))

    def pod_changed(self, tended: Tended) -> None:
        """A pod is new or not as it was."""
        self.on_changed(tended)

    def tape_grew(self, tended: Tended, offset: int, data: bytes) -> None:
        """Bytes were added to a tape: shown at once, for somebody may wait for the echo of a key."""
        shown = self.on_recorded(tended.pod.id, offset, data)
        if not self._to_take_in:
            # All else is left for when whoever was shown it, on this machine perhaps, has had the processor.
            asyncio.get_running_loop().call_later(TAKE_IN_S if shown else 0, self._take_in)
        self._to_take_in[tended.pod.id] = tended

    def _take_in(self) -> None:
        waiting, self._to_take_in = self._to_take_in, {}
        for tended in waiting.values():
            tended.take_in()

    def records_added(self, tended: Tended, records: list[Record]) -> None:
        """Records were added to a tape."""
        self.on_grew(tended)
        self.screens.feed(tended.pod.id, records)

    def screen_wanted(self, tended: Tended, answer_from: int) -> None:
        """A pod runs whose screen is ours to keep."""
        pod = tended.pod
        self.screens.open(pod.id, pod.tape(), pod.folder, answer_from=answer_from, rules=self._rules_for(pod))

    def _rules_for(self, pod: Pod) -> Rules:
        try:
            return rules_for(pod.agent, self._agents)
        except (OSError, ScrubjayError) as error:  # a manifest that somebody is working on
            log.warning("rules.unusable", pod=pod.id, agent=pod.agent, error=str(error))
            return generic_rules()

    # What screens say, from their threads.

    def _status_in_thread(self, pod: PodId, status: Json) -> None:
        if self._loop is not None and not self._loop.is_closed():
            with suppress(RuntimeError):  # closed in between: there is nobody left to tell
                self._loop.call_soon_threadsafe(self._status_changed, pod, status)

    def _status_changed(self, pod: PodId, status: Json) -> None:
        tended = self.pods.get(pod)
        if tended is None:
            return
        tended.take_status(status)
        self.checkpointing.status_changed(tended.pod, status)
        if is_due(tended, status):
            task = asyncio.create_task(type_first_prompt(tended))
            self._typing.add(task)
            task.add_done_callback(self._typing.discard)

    def _heard_in_thread(self, pod: PodId, heard: Heard) -> None:
        if self._loop is not None and not self._loop.is_closed():
            with suppress(RuntimeError):  # closed in between: there is nobody left to tell
                self._loop.call_soon_threadsafe(self._heard, pod, heard)

    def _heard(self, pod: PodId, heard: Heard) -> None:
        tended = self.pods.get(pod)
        if tended is None or not tended.running:
            return
        if heard.replies:
            with suppress(KeeperGone, KeeperRefused):
                tended.link.send({"do": "write", "author": "terminal", "answers": heard.offset}, heard.replies)
        self.on_called(tended, heard)


def _version_of(folder: Path) -> tuple[int, ...]:
    try:
        found = folder.stat()
    except FileNotFoundError:
        return ()
    return found.st_mtime_ns, found.st_nlink


def _list_names(folder: Path) -> set[str]:
    try:
        return set(os.listdir(folder))
    except FileNotFoundError:
        return set()


def _read_id(home: Home) -> str:
    """The runner's id, made when it is first needed."""
    path = home.path / "runner"
    with home.changing():
        try:
            if not path.exists() or not path.stat().st_size:  # empty: it could not be written to its end
                _write_id(path)
            raw = path.read_bytes().decode("ascii", "replace").strip()
        except OSError as error:
            raise HomeUnusable(str(home.path), error.strerror or str(error)) from error
    try:
        return parse_runner_id(raw)
    except BadId as error:
        hint = f"restore {path}, or delete it: then this machine joins as a new runner"
        raise ScrubjayError(f"{path} holds no runner's id", hint=hint) from error


def _write_id(path: Path) -> None:
    new = path.with_name("runner.new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(new_runner_id() + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
