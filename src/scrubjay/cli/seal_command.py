"""``scrubjay seal``: compress and anchor what has been recorded."""

from __future__ import annotations

import click

from scrubjay.cli.context import Context, emit, human_bytes, json_option, pass_context, pods_argument, progress, say
from scrubjay.errors import NotATape
from scrubjay.pods.pod import Pod
from scrubjay.tape.seal import Sealed, seal_ended_segments


@click.command("seal")
@pods_argument
@json_option
@pass_context
def command(context: Context, pods: tuple[str, ...], *, as_json: bool) -> None:
    """Compress ended segments and close the tapes of lost pods. Keepers start this by themselves.

    Without POD, all pods are sealed.
    """
    context.require_here("seal")
    found = [context.home.find(pod) for pod in pods] if pods else context.home.pods()
    rows: list[dict[str, object]] = []
    for pod in found:
        sealed, recovered = _seal(pod)
        rows.append(
            {
                "id": pod.id,
                "name": pod.name,
                "segments": sealed.segments,
                "raw_bytes": sealed.raw_bytes,
                "sealed_bytes": sealed.sealed_bytes,
                "recovered_after_losing_bytes": recovered,
                "left": sealed.left,
            }
        )
        if not as_json:
            _tell(pod, sealed, recovered)
    if as_json:
        emit(rows)


def _seal(pod: Pod) -> tuple[Sealed, int | None]:
    """Seal one pod's tape; how many bytes its torn tail had, if it had to be closed first."""
    recovered: int | None = None
    ended = (pod.folder / "end.json").exists()
    try:
        if not ended and not pod.alive:
            recovery = pod.close_lost_tape()
            recovered = recovery.lost_bytes if recovery is not None else None
            ended = True
        with progress(f"sealing {pod.name}", pod.tape().stored_bytes) as step:
            sealed = seal_ended_segments(pod.folder / "tape", pod.folder, pod.id, complete=ended, progress=step)
    except NotATape as error:
        sealed = Sealed(0, 0, 0, error.why)
    return sealed, recovered


def _tell(pod: Pod, sealed: Sealed, recovered: int | None) -> None:
    if recovered is not None:
        say(f"scrubjay: closed the tape of lost pod {pod.name}; {recovered} bytes of a torn record were cut")
    if sealed.segments:
        say(f"scrubjay: sealed {pod.name}: {human_bytes(sealed.raw_bytes)} as {human_bytes(sealed.sealed_bytes)}")
    if sealed.left is not None:
        say(f"scrubjay: left a segment of {pod.name} as it is: {sealed.left}")
