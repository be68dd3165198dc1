"""Keyframes and searchable rows of pods, brought up to date."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from scrubjay.cli.context import progress
from scrubjay.errors import NotATape
from scrubjay.pods.pod import Pod
from scrubjay.replay.indexer import Indexer
from scrubjay.replay.keyframes import open_keyframes
from scrubjay.replay.search import SearchIndex
from scrubjay.replay.workers import Workers


@dataclass(frozen=True, slots=True)
class Indexed:
    """What is known of one pod's tape now."""

    pod: Pod
    output_bytes: int
    keyframes: int
    keyframe_bytes: int  #: on disk
    holes: int  #: parts that could not be shown
    busy: bool = False  #: another process is at it
    fault: str | None = None


def bring_up_to_date(index: SearchIndex, pods: Sequence[Pod], *, fresh: bool = False) -> list[Indexed]:
    """Index what was recorded since the last time; ``fresh`` begins anew."""
    found: list[Indexed] = []
    with Workers() as workers:
        for pod in pods:
            try:
                found.append(_index(pod, workers, index, fresh=fresh))
            except NotATape as error:
                found.append(Indexed(pod, 0, 0, 0, 0, fault=error.why))
    return found


def _index(pod: Pod, workers: Workers, index: SearchIndex, *, fresh: bool) -> Indexed:
    over = not pod.alive  # before its end is looked up: a pod that was killed has a tape without an end
    tape = pod.tape()
    keyframes = open_keyframes(pod.folder, tape, workers.identity)
    if fresh:
        with keyframes.writing() as ours:
            if ours:
                keyframes.reset()
                index.forget(tape.id)
    index.register(tape.id, pod.created_us or None)
    start = min(keyframes.covered().offset, index.progress(tape.id).offset)
    with progress(f"indexing {pod.name}", tape.end - start) as step:
        now_us = time.time_ns() // 1000
        ours = Indexer(tape, workers, keyframes, index).run(now_us=now_us, over=over, progress=step)
    covered = keyframes.covered()
    count = len(keyframes.offsets())
    keyframes.close()
    return Indexed(pod, covered.output_bytes, count, keyframes.stored_bytes, len(covered.holes), busy=not ours)
