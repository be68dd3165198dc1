"""``scrubjay explain``: what a pod's agent is doing, or was, and how that is known."""

from __future__ import annotations

import time
from typing import cast

import click

from scrubjay.agents.library import Library
from scrubjay.agents.status_rules import rules_for
from scrubjay.cli.context import Context, emit, human_span, json_option, pass_context, pod_argument, progress, say
from scrubjay.cli.ps_command import plain
from scrubjay.cli.reels import open_reel, pods_of
from scrubjay.clock import SystemClock
from scrubjay.errors import ScrubjayError
from scrubjay.fleet.process import describe_activity
from scrubjay.pods.pod import Pod
from scrubjay.pods.status_file import StatusFile
from scrubjay.replay.reel import Reel
from scrubjay.replay.shown import ShownTerminal
from scrubjay.replay.workers import Workers
from scrubjay.settings import Settings
from scrubjay.status.detector import Detector
from scrubjay.status.rows import encode_change
from scrubjay.status.watching import Change, watch_recording
from scrubjay.tape.record import Json


@click.command("explain")
@pod_argument
@click.option("--at", "raw_at", metavar="TIME", help="12.5s, 1h2m, 50%, -10m, 02:14:07, 2026-11-15T02:14 or @OFFSET.")
@json_option
@pass_context
def command(context: Context, pod: str, raw_at: str | None, *, as_json: bool) -> None:
    """Say what the agent of a pod does, now or at an instant, and which signals say so.

    What no runner has watched is told from the recording, which takes a moment for a long one.
    """
    if context.server is not None:
        from scrubjay.cli.remote import explain_elsewhere

        explained = explain_elsewhere(context, pod, raw_at)
    else:
        explained = _explain(context, pod, raw_at)
    if as_json:
        emit(explained)
    else:
        print_explanation(explained)


def _explain(context: Context, raw: str, raw_at: str | None) -> Json:
    pods = {str(pod.id): pod for pod in pods_of(context.home, raw)}
    with open_reel(context.home, raw) as reel:
        tape, at, offset = _locate(reel, raw_at)
        begins_us = reel.wall_us(reel.time_of(tape, 0))
    pod = pods[tape]
    seen = pod.observe()
    watched = seen.state == "running" and (seen.live or {}).get("answering") is True
    if raw_at is None and seen.state == "running" and begins_us is not None:
        at = max(at, SystemClock().wall_us() - begins_us)
    row = StatusFile(pod.folder).last() if watched and raw_at is None else None
    row = row or StatusFile(pod.folder).at(at, watched=watched) or _tell_from_tape(pod, context.settings, at)
    since_us = begins_us + cast(int, row["at"]) if begins_us is not None else None
    return {
        "pod": pod.name,
        "id": pod.id,
        "agent": pod.agent,
        "process": seen.describe(),
        "at_s": at / 1e6 if raw_at is not None else None,
        "offset": offset,
        **{name: row.get(name) for name in ("activity", "waiting_for", "detail", "problem", "confidence")},
        "since_s": cast(int, row["at"]) / 1e6,
        "since_us": since_us,
        "clear_at_offset": row.get("offset"),
        "evidence": row.get("evidence", []),
        "outvoted": row.get("outvoted", []),
    }


def _locate(reel: Reel, raw_at: str | None) -> tuple[str, int, int | None]:
    """The tape, the instant of it, and its offset if that is what was asked for."""
    if raw_at is None:
        return reel.tapes[-1], reel.duration - reel.newest, None
    moment = reel.locate(raw_at)
    if moment.clamped is not None:
        say(f"scrubjay: {moment.clamped}")
    if moment.offset is None:
        tape = reel.seek(moment.time).tape
        return tape, moment.time - reel.time_of(tape, 0), None
    frame = reel.seek_offset(moment.offset)
    return frame.tape, frame.at - reel.time_of(frame.tape, 0), frame.offset


def _tell_from_tape(pod: Pod, settings: Settings, at: int) -> Json:
    changes: list[Change] = []
    tape = pod.tape()
    detector = Detector(rules_for(pod.agent, Library(settings.agents)))
    with Workers() as workers, progress(f"reading {pod.name}", tape.end) as step:
        done = 0

        def records():
            nonlocal done
            for record in tape.records(0):
                if record.at > at:
                    return
                step(record.end - done)
                done = record.end
                yield record

        watch_recording(records(), ShownTerminal(workers), detector, changes.append, until=at)
    if not changes:
        raise ScrubjayError(
            f"the status of {pod.name} at {at / 1e6:.1f} s is not known: it had shown too little by then",
            hint="ask again in a moment, or choose a later instant with --at",
        )
    return encode_change(changes[-1])


def print_explanation(explained: Json) -> None:
    """The decision and its evidence, for people."""
    words = describe_activity(
        str(explained["activity"]),
        cast("str | None", explained["waiting_for"]),
        cast("str | None", explained["problem"]),
    )
    over = "" if explained["process"] == "running" else f" ({explained['process']})"
    moment = f" at {explained['at_s']:.1f} s" if isinstance(explained.get("at_s"), float) else ""
    click.echo(f"{explained['pod']}{over}{moment}: {plain(words)}, {_since(explained)}; {_sureness(explained)}")
    if explained.get("detail"):
        click.echo(f"  it says: {plain(str(explained['detail']))}")
    for heading, name in (("because", "evidence"), ("against it", "outvoted")):
        claims = cast("list[Json]", explained.get(name) or [])
        for number, claim in enumerate(claims):
            says = " or ".join(cast("list[str]", claim["says"]))
            click.echo(
                f"  {heading if number == 0 else '':<10}  {claim['signal']:<8}  {says:<20}  {plain(str(claim['why']))}"
            )
    offset = explained.get("clear_at_offset")
    if isinstance(offset, int):
        click.echo(f"  see it: scrubjay screen {explained['pod']} --at @{offset}")


def _since(explained: Json) -> str:
    since_us = explained.get("since_us")
    if not isinstance(since_us, int):
        return f"since {explained['since_s']:.1f} s"
    clock = time.strftime("%H:%M:%S", time.localtime(since_us / 1e6))
    if explained.get("at_s") is not None:
        return f"since {clock} ({explained['since_s']:.1f} s)"
    return f"since {clock} ({human_span(time.time() - since_us / 1e6)})"


def _sureness(explained: Json) -> str:
    confidence = explained["confidence"]
    return f"confidence {confidence:.2f}" if isinstance(confidence, int | float) else "confidence unknown"
