"""``scrubjay logs``: what a pod has shown."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import click

from scrubjay.cli.context import Context, pass_context, pod_argument
from scrubjay.cli.inert import InertFilter
from scrubjay.errors import KeeperGone, PodNotRunning
from scrubjay.pods.pod import Pod
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Record
from scrubjay.tape.stream import RecordStream

_LOOK_AGAIN_S = 0.5


@click.command("logs")
@pod_argument
@click.option("-f", "--follow", is_flag=True, help="Go on printing until the pod ends.")
@click.option("--raw", is_flag=True, help="Print the bytes as they were; they may act on your terminal.")
@pass_context
def command(context: Context, pod: str, *, follow: bool, raw: bool) -> None:
    """Print what a pod has shown: its text, with colours on a terminal, and nothing that could act on it."""
    out = sys.stdout.buffer
    inert = InertFilter(colours=sys.stdout.isatty())
    for record in _elsewhere(context, pod, follow=follow) if context.server else _here(context, pod, follow=follow):
        if record.kind == Kind.OUTPUT:
            out.write(record.payload if raw else inert.feed(record.payload))
            if follow:
                out.flush()
    if not raw:
        out.write(inert.finish())
    out.flush()


def _elsewhere(context: Context, raw: str, *, follow: bool) -> Iterator[Record]:
    """Records of a pod of another machine, brought here again and again while it runs."""
    from scrubjay.cli.remote import bring_recording

    offset, was_over = 0, False
    while True:
        brought = bring_recording(context, raw)
        raw, before = brought.id, offset  # its name may be another pod's the next time
        for record in brought.home.find(raw).tape().records(offset):
            offset = record.end
            yield record
            if record.kind == Kind.SEAL:
                return
        # Nobody closes the tape of a pod that was lost.
        if not follow or (was_over and offset == before):
            return
        was_over = brought.over
        time.sleep(_LOOK_AGAIN_S)


def _here(context: Context, raw: str, *, follow: bool) -> Iterator[Record]:
    pod = context.home.find(raw)
    tape = pod.tape()
    offset = 0
    for record in tape.records():
        offset = record.end
        yield record
    if follow:
        yield from _follow(pod, offset)


def _follow(pod: Pod, offset: int) -> Iterator[Record]:
    """Records as they are written, from ``offset`` to the end of the tape."""
    stream = RecordStream(pod.id, offset)
    try:
        with pod.connect() as keeper:
            keeper.send({"do": "follow", "from": offset})
            while True:
                for meta, tail in keeper.receive():
                    if "tape" in meta:
                        yield from stream.feed(tail)
                    elif "sealed" in meta:
                        for record in pod.tape().records(stream.offset):
                            stream = RecordStream(pod.id, record.end)
                            yield record
                        keeper.send({"do": "follow", "from": stream.wanted})
    except (KeeperGone, PodNotRunning):
        yield from pod.tape().records(stream.offset)
