"""``scrubjay verify``: are the tapes whole?"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import click

from scrubjay.cli.context import Context, emit, json_option, pass_context, pods_argument, progress
from scrubjay.errors import BadInput, NoSuchPod
from scrubjay.pods.home import Home
from scrubjay.tape.anchor import Anchor, read_anchor
from scrubjay.tape.reader import Tape
from scrubjay.tape.record import Json
from scrubjay.tape.verify import Report, verify

# Name, tape, how to read its anchor (before the tape, which may be growing), and whether it lives.
_Subject = tuple[str, Tape, Callable[[], Anchor], bool]


@click.command("verify")
@pods_argument
@json_option
@pass_context
def command(context: Context, pods: tuple[str, ...], *, as_json: bool) -> int:
    """Check every record of the given pods' tapes, or of all. A POD may also be the folder of a tape.

    Prints clean, torn, damaged or unanchored for each, and exits with 1 when any is not clean.
    """
    if context.server is not None and not pods:
        raise BadInput("which pods?", hint="name those of the server that are to be checked")
    context, names = context.with_recordings_of(*pods)
    subjects = (
        [_subject(context.home, raw) for raw in names]
        if names
        else [_pod(context.home, pod.id) for pod in context.home.pods()]
    )
    rows: list[Json] = []
    for name, tape, anchor, live in subjects:
        with _while_not_sealing(tape), progress(f"verifying {name}", tape.end) as step:
            report = verify(tape, anchor(), live=live, progress=step)
        rows.append(_describe(name, tape, report, live=live))
        if not as_json:
            click.echo(f"{name}: {report.explain()}")
            for hurt in report.damage:
                until = f"{hurt.to_at / 1e6:.3f} s" if hurt.to_at is not None else "the end"
                click.echo(f"  offset {hurt.offset} to {hurt.end} ({hurt.from_at / 1e6:.3f} s to {until}): {hurt.why}")
    if as_json:
        emit(rows)
    return 0 if all(row["verdict"] == "clean" for row in rows) else 1


@contextmanager
def _while_not_sealing(tape: Tape) -> Generator[None]:
    """Wait for a sealer that is at work, and keep others away: half-way its segments look unanchored."""
    fd = os.open(tape.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def _subject(home: Home, raw: str) -> _Subject:
    try:
        return _pod(home, raw)
    except NoSuchPod:
        path = Path(raw)
        if "/" not in raw and not path.exists():
            raise
    tape = Tape(path)
    return raw, tape, lambda: read_anchor(path.parent, tape.id), False


def _pod(home: Home, raw: str) -> _Subject:
    pod = home.find(raw)
    return pod.name, pod.tape(), pod.anchor, pod.alive


def _describe(name: str, tape: Tape, report: Report, *, live: bool) -> Json:
    return {
        "id": tape.id,
        "name": name,
        "verdict": report.verdict,
        "explanation": report.explain(),
        "live": live,
        "complete": report.complete,
        "records": report.records,
        "bytes": report.end,
        "duration_s": report.last_at / 1e6,
        "torn_bytes": report.torn_bytes,
        "damage": [
            {
                "offset": hurt.offset,
                "end": hurt.end,
                "from_s": hurt.from_at / 1e6,
                "to_s": hurt.to_at / 1e6 if hurt.to_at is not None else None,
                "why": hurt.why,
            }
            for hurt in report.damage
        ],
    }
