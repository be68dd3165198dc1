"""What was kept of a pod's worktree, here or at a server, and the instants people mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, cast

import msgspec

from scrubjay.cli.client import pod_path
from scrubjay.cli.context import Context, say
from scrubjay.cli.past import clock_of
from scrubjay.cli.reels import open_reel, pods_of
from scrubjay.errors import NoWorktree
from scrubjay.pods.pod import Pod
from scrubjay.replay.instants import Span, parse_instant, resolve
from scrubjay.replay.reel import Reel
from scrubjay.runner.checkpoints import Checkpoints
from scrubjay.runner.worktrees import Worktrees
from scrubjay.tape.record import Json
from scrubjay.wire.checkpoints import END_US, Checkpoint, Instant, checkpoint_at


@dataclass(frozen=True, slots=True)
class Kept:
    """A checkpoint, and where it is on the line of time of the recordings that were named."""

    checkpoint: Checkpoint
    time: int  #: microseconds

    @property
    def instant(self) -> str:
        """Its time as ``--at`` takes it: rounded up, so that it is found again."""
        tenths = -(-self.time // 100_000)
        minutes, tenths = divmod(tenths, 600)
        hours, minutes = divmod(minutes, 60)
        return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{tenths / 10}s"

    def describe(self) -> Json:
        """For a program."""
        return cast(Json, msgspec.structs.asdict(self.checkpoint)) | {"time_s": self.time / 1e6}


class Past(Protocol):
    """The worktree of a pod, up to now."""

    name: str

    def list(self) -> list[Kept]:
        """All that was kept, oldest first."""
        ...

    def find(self, raw: str) -> Kept:
        """The last that was kept up to an instant."""
        ...

    def summary(self, at: Kept | None, since: Kept | None) -> Json:
        """What was changed from one to another; None are now, and what the worktree was made from."""
        ...

    def patch(self, at: Kept | None, since: Kept | None) -> str:
        """The same as a patch, with whatever the agent wrote in it."""
        ...


def describe_moment(kept: Kept) -> str:
    """When something was kept and why, in a few words."""
    checkpoint = kept.checkpoint
    return f"{clock_of(checkpoint.wall_us)} ({kept.instant}, {checkpoint.why})"


@contextmanager
def open_past(context: Context, pod: str) -> Generator[Past]:
    """What was kept of a pod's worktree; NoWorktree if it has none."""
    if context.server is not None:
        yield _Elsewhere(context, pod)
        return
    found = context.home.find(pod)
    if found.worktree is None:
        raise NoWorktree(found.name)
    with ExitStack() as opened:
        yield Here(
            context, found, pods_of(context.home, pod), lambda: opened.enter_context(open_reel(context.home, pod))
        )


class Here:
    """On this machine, with or without a server."""

    def __init__(self, context: Context, pod: Pod, pods: list[Pod], open_: Callable[[], Reel]) -> None:
        """``open_`` opens the recordings of the pods, which takes a while and is not always needed."""
        self.name: str = pod.name
        self.pod = pod
        self._pods = {str(each.id): each for each in pods if each.worktree is not None}
        self._open, self._alone = open_, len(pods) == 1
        self._checkpoints = Checkpoints(Worktrees(context.home.path, environ=os.environ))

    def list(self) -> list[Kept]:
        """Of all pods that have had the name."""
        listed = [each for pod in self._pods.values() for each in self._checkpoints.list(pod)]
        if self._alone or not listed:
            return [Kept(checkpoint, checkpoint.at) for checkpoint in listed]
        reel = self._reel
        tapes = set(reel.tapes)
        return [Kept(each, reel.time_of(each.pod, each.at)) for each in listed if each.pod in tapes]

    def find(self, raw: str) -> Kept:
        """Of the pod that was recorded then."""
        reel = self._reel
        moment = reel.locate(raw)
        if moment.clamped is not None:
            say(f"scrubjay: {moment.clamped}")
        starts = [(reel.time_of(tape, 0), tape) for tape in reel.tapes]
        start, tape = [each for each in starts if each[0] <= moment.time][-1]
        pod = self._pods.get(tape)
        if pod is None:
            raise NoWorktree(self.name)
        at = END_US if moment.time >= reel.duration else moment.time - start
        instant = Instant(at=at, offset=moment.offset, shown=raw)
        found = checkpoint_at(pod.name, self._checkpoints.list(pod), instant)
        return Kept(found, start + found.at)

    @cached_property
    def _reel(self) -> Reel:
        return self._open()

    def pod_of(self, kept: Kept) -> Pod:
        """Whose it is."""
        return self._pods[kept.checkpoint.pod]

    def summary(self, at: Kept | None, since: Kept | None) -> Json:
        """Between two of them."""
        ends = _checkpoint(at), _checkpoint(since)
        return self._checkpoints.summary(self._pod(at), *ends).describe()

    def patch(self, at: Kept | None, since: Kept | None) -> str:
        """The same as a patch."""
        return self._checkpoints.patch(self._pod(at), _checkpoint(at), _checkpoint(since))

    def _pod(self, at: Kept | None) -> Pod:
        return self.pod if at is None else self.pod_of(at)


def _checkpoint(kept: Kept | None) -> Checkpoint | None:
    return None if kept is None else kept.checkpoint


class _Elsewhere:
    """At a server."""

    def __init__(self, context: Context, pod: str) -> None:
        self._client = context.client
        self.name = str(cast(Json, self._client.get(pod_path(pod)))["name"])
        self._path = pod

    def list(self) -> list[Kept]:
        answer = self._client.get(pod_path(self._path, "checkpoints"))
        listed = msgspec.convert(answer, list[Checkpoint])
        return [Kept(checkpoint, checkpoint.at) for checkpoint in listed]

    def find(self, raw: str) -> Kept:
        listed = [each.checkpoint for each in self.list()]
        line = cast(Json, self._client.get(pod_path(self._path, "timeline"), parts="1"))
        wall_us = line["wall_us"]
        span = Span(0, cast(int, line["duration"]), wall_us if isinstance(wall_us, int) else None)
        # Here and not there, where the clock may show another time of day.
        moment = resolve(parse_instant(raw), [span], None)
        if moment.clamped is not None:
            say(f"scrubjay: {moment.clamped}")
        at = END_US if moment.time >= span.stop else moment.time
        found = checkpoint_at(self.name, listed, Instant(at=at, offset=moment.offset, shown=raw))
        return Kept(found, found.at)

    def summary(self, at: Kept | None, since: Kept | None) -> Json:
        return cast(Json, self._client.get(pod_path(self._path, "diff"), **_query(at, since)))

    def patch(self, at: Kept | None, since: Kept | None) -> str:
        _, data = self._client.fetch(pod_path(self._path, "patch"), _query(at, since))
        return data.decode("utf-8", "replace")


def _query(at: Kept | None, since: Kept | None) -> Json:
    return {name: exact_instant(kept.checkpoint) for name, kept in (("at", at), ("since", since)) if kept is not None}


def exact_instant(checkpoint: Checkpoint) -> str:
    """The instant of a checkpoint as a server understands it."""
    return f"{checkpoint.at // 1_000_000}.{checkpoint.at % 1_000_000:06}s"
