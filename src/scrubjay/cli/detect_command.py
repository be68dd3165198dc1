"""``scrubjay detect``: the statuses that a recording of an agent yields."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from scrubjay.agents.library import Library
from scrubjay.agents.status_rules import generic_rules, rules_for
from scrubjay.cli.context import Context, complete_agents, emit, json_option, pass_context, progress, say
from scrubjay.cli.ps_command import plain
from scrubjay.fleet.process import describe_activity
from scrubjay.replay.shown import ShownTerminal
from scrubjay.replay.workers import Workers
from scrubjay.status.detector import Detector
from scrubjay.status.watching import Change, watch_recording
from scrubjay.tape.asciicast import limited_lines, read_cast
from scrubjay.tape.cast_import import cast_records
from scrubjay.tape.record import Json


@click.command("detect")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE.cast")
@click.option("--agent", metavar="NAME", shell_complete=complete_agents, help="Whose recording it is.")
@click.option("--generic", is_flag=True, help="Use only the rules that hold for any agent.")
@json_option
@pass_context
def command(context: Context, file: Path, agent: str | None, *, generic: bool, as_json: bool) -> None:
    """Tell from an asciicast what its agent was doing when, by the rules that are used live.

    An agent that nothing is known of is read by the rules for any agent, as one without --agent is.
    """
    library = Library(context.settings.agents)
    if agent is not None and library.path_of(agent) is None:
        say(f"scrubjay: {agent!r} has no manifest; the rules for any agent are used")
    changes: list[Change] = []
    with file.open("rb") as opened, progress(f"reading {file.name}", file.stat().st_size) as step, Workers() as workers:
        cast = read_cast(_counted(limited_lines(opened, str(file)), step), str(file), accept_truncated=True)
        detector = Detector(generic_rules() if generic else rules_for(agent, library))
        end = watch_recording(cast_records(cast), ShownTerminal(workers), detector, changes.append)
    intervals = [_describe(change, until) for change, until in zip(changes, _ends(changes, end), strict=True)]
    if as_json:
        emit(intervals)
        return
    for interval in intervals:
        words = describe_activity(str(interval["activity"]), _text(interval, "waiting_for"), _text(interval, "problem"))
        click.echo(f"{interval['t0']:>10.2f} {interval['t1']:>10.2f}  {plain(words)}")


def _ends(changes: list[Change], end: int) -> list[int]:
    return [change.at for change in changes[1:]] + [max(end, changes[-1].at)] if changes else []


def _describe(change: Change, until: int) -> Json:
    verdict = change.verdict
    return {
        "t0": change.at / 1e6,
        "t1": until / 1e6,
        "activity": verdict.activity,
        "waiting_for": verdict.waiting_for,
        "problem": verdict.problem,
        "confidence": verdict.confidence,
        "why": [f"{claim.source}: {claim.why}" for claim in verdict.agreeing],
    }


def _counted(lines: Iterator[bytes], step: object) -> Iterator[bytes]:
    assert callable(step)
    for line in lines:
        step(len(line))
        yield line


def _text(interval: Json, name: str) -> str | None:
    value = interval[name]
    return value if isinstance(value, str) else None
