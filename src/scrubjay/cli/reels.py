"""The reel a person means."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager

from scrubjay.cli.context import progress
from scrubjay.errors import NotATape
from scrubjay.pods.home import Home
from scrubjay.pods.pod import Pod
from scrubjay.replay.reel import Reel, Source
from scrubjay.replay.workers import Workers


def pods_of(home: Home, raw: str) -> list[Pod]:
    """By id the one pod, by name every pod that ever had it, by session every pod of it, oldest first."""
    found = home.find(raw)
    if found.id.startswith(raw) and not found.name.startswith(raw):
        return [found]
    if not found.name.startswith(raw):
        return home.of_session(found.session)
    return [pod for pod in home.pods() if pod.name == found.name]


@contextmanager
def open_reel(home: Home, raw: str) -> Generator[Reel]:
    """The recordings of a pod or session, by name, id or prefix, as one line of time; NoSuchPod and the like."""
    pods = pods_of(home, raw)
    sources: list[Source] = []
    for pod in pods:
        try:
            sources.append(Source(pod.tape(), pod.folder, lambda pod=pod: pod.alive))
        except NotATape:
            if pod is pods[-1]:
                raise
    bar = _Bar(pods[-1].name)
    with Workers() as workers:
        try:
            yield Reel(sources, workers, progress=bar.update)
        finally:
            bar.close()


class _Bar:
    """A progress bar that appears when there is something to wait for."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._shown = ExitStack()
        self._step: Callable[[int], None] | None = None
        self._done = 0

    def update(self, done: int, total: int) -> None:
        if done < self._done or self._step is None:
            self.close()
            self._step = self._shown.enter_context(progress(f"indexing {self._name}", total))
            self._done = 0
        self._step(done - self._done)
        self._done = done

    def close(self) -> None:
        self._shown.close()
        self._step = None
