"""The data directory: where pods are, and which one a person means."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from scrubjay.errors import AmbiguousPod, HomeUnusable, LeaseHeld, NameTaken, NoSuchPod, PodRunning
from scrubjay.ids import PodId, PodName, SessionId
from scrubjay.pods.pod import Observation, Pod, read_pod

_REMOVED = ".removed"
_SESSION_PREFIX_MIN = 4  # characters: of a pod's id or name fewer will do, and a session is meant after these
_OBSERVERS = 16  # keepers asked at once, so that a few that do not answer hold nobody up


class Home:
    """One data directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pods = path / "pods"

    @property
    def search_path(self) -> Path:
        """Where the search index of all pods is kept."""
        return self.path / "search.sqlite"

    def pods(self) -> list[Pod]:
        """All pods, oldest first."""
        try:
            folders = list(self._pods.iterdir())
        except FileNotFoundError:
            return []
        except (NotADirectoryError, PermissionError) as error:
            raise HomeUnusable(str(self.path), error.strerror or str(error)) from error
        pods = [pod for folder in folders if (pod := read_pod(folder)) is not None]
        return sorted(pods, key=lambda pod: (pod.created_us, pod.id))

    def observe(self, pods: list[Pod]) -> list[tuple[Pod, Observation]]:
        """Each pod with its state now."""
        if not pods:
            return []
        from concurrent.futures import ThreadPoolExecutor  # 6 ms that starting a pod need not wait for

        with ThreadPoolExecutor(_OBSERVERS) as observers:
            return list(zip(pods, observers.map(Pod.observe, pods), strict=True))

    def find(self, raw: str) -> Pod:
        """The pod with that name or id, or the only one whose name or id begins so; or the newest of a session.

        A name may have been used again and again: then it is the running one, else the newest.
        """
        pods = self.pods()
        for wanted in (
            [pod for pod in pods if pod.id == raw],
            [pod for pod in pods if pod.name == raw],
            [pod for pod in pods if raw and (pod.name.startswith(raw) or pod.id.startswith(raw))],
        ):
            alive = [pod for pod in wanted if pod.alive]
            names = {pod.name for pod in alive or wanted}
            if len(names) == 1:
                return (alive or wanted)[-1]
            if names:
                raise AmbiguousPod(raw, sorted(names))
        return self._find_by_session(raw, pods)

    def _find_by_session(self, raw: str, pods: list[Pod]) -> Pod:
        wanted = [pod for pod in pods if pod.session.startswith(raw)] if len(raw) >= _SESSION_PREFIX_MIN else []
        sessions = {pod.session for pod in wanted}
        if len(sessions) > 1:
            raise AmbiguousPod(raw, sorted(f"session {session[:8]}" for session in sessions))
        if not wanted:
            raise NoSuchPod(raw)
        return ([pod for pod in wanted if pod.alive] or wanted)[-1]

    def of_session(self, session: SessionId) -> list[Pod]:
        """All pods of a session, oldest first."""
        return [pod for pod in self.pods() if pod.session == session]

    def living_names(self) -> dict[PodName, Pod]:
        """The names that are taken."""
        return {pod.name: pod for pod in self.pods() if pod.alive}

    def require_free(self, name: PodName) -> None:
        """NameTaken if a running pod has the name."""
        holder = self.living_names().get(name)
        if holder is not None:
            raise NameTaken(name, holder.id)

    def require_unheld(self, session: SessionId, conversation: str | None = None) -> None:
        """LeaseHeld if a running pod has the session, or the same conversation in another one."""
        for pod in self.pods():
            if pod.session == session and pod.alive:
                hint = f"join it with 'scrubjay attach {pod.name}', or take it over with --takeover"
                raise LeaseHeld(session, f"running pod {pod.name!r} ({pod.id[:8]})", hint=hint)
            if conversation is not None and pod.alive and pod.conversation == conversation:
                by = f"running pod {pod.name!r} ({pod.id[:8]}), which has its conversation open"
                raise LeaseHeld(session, by, hint=f"end it first with 'scrubjay stop {pod.name}'")

    @contextmanager
    def changing(self) -> Generator[None]:
        """Make the directory and be the only one who adds pods to it."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._pods.mkdir(mode=0o700, exist_ok=True)
            (self.path / "staging").mkdir(mode=0o700, exist_ok=True)
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HomeUnusable(str(self.path), error.strerror or str(error)) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def folder_of(self, pod: PodId) -> Path:
        """Where a pod's folder is, or will be."""
        return self._pods / pod

    def make_folder(self, pod: PodId) -> Path:
        """An empty folder for a new pod, with one for its tape."""
        return self._make_folder(self.folder_of(pod))

    def _make_folder(self, folder: Path) -> Path:
        try:
            folder.mkdir(mode=0o700)
            (folder / "tape").mkdir(mode=0o700)
        except OSError as error:
            raise HomeUnusable(str(self.path), error.strerror or str(error)) from error
        return folder

    @contextmanager
    def staging(self, pod: PodId) -> Generator[Path]:
        """A folder like ``make_folder``'s that is no pod until it is adopted, and gone if it never is."""
        with self.changing():
            folder = self._make_folder(self.path / "staging" / pod)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def adopt(self, staged: Path) -> Path:
        """Make a staged folder a pod, all at once."""
        return staged.rename(self._pods / staged.name)

    def remove(self, pod: Pod) -> None:
        """Delete a pod that has ended, with its tape."""
        if pod.alive:
            raise PodRunning(pod.name)
        with self.changing():
            # Elsewhere first: a sealer that is still at work must not add to it while it is deleted, and what
            # is half deleted must not look like a pod.
            doomed = pod.folder.rename(self.path / "staging" / (pod.id + _REMOVED))
        for removed in doomed.parent.glob("*" + _REMOVED):  # others were left by a crash in between
            shutil.rmtree(removed, ignore_errors=True)
        if doomed.exists():
            shutil.rmtree(doomed)  # says why it cannot be deleted
