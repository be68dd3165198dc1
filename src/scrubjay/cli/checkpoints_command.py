"""``scrubjay checkpoints``: what was kept of a pod's worktree."""

from __future__ import annotations

import click

from scrubjay.cli.context import Context, emit, human_span, json_option, pass_context, pod_argument, say
from scrubjay.cli.kept_worktrees import Kept, open_past
from scrubjay.cli.past import clock_of
from scrubjay.cli.ps_command import plain, print_table

_HEADINGS = ("TIME", "AT", "WHY", "HEAD", "BRANCH", "COMMIT", "REMARKS")
_LATE_US = 5_000_000  # what was kept so long after its instant may have changed in between


@click.command("checkpoints")
@pod_argument
@json_option
@pass_context
def command(context: Context, pod: str, *, as_json: bool) -> None:
    """List what was kept of a pod's worktree: each time its agent was idle or waited, and at its end.

    What is under AT can be given to 'diff --at' and 'fork --at'. What had not changed was not kept again.
    """
    with open_past(context, pod) as past:
        listed = past.list()
    if as_json:
        emit([kept.describe() for kept in listed])
    elif listed:
        print_table([_HEADINGS, *(_row(kept) for kept in listed)])
    else:
        say(f"scrubjay: nothing was kept of the worktree of {past.name} yet; 'scrubjay up' does when its agent is idle")


def _row(kept: Kept) -> tuple[str, ...]:
    checkpoint = kept.checkpoint
    return (
        clock_of(checkpoint.wall_us),
        kept.instant,
        checkpoint.why,
        checkpoint.head[:10] if checkpoint.head is not None else "-",
        plain(checkpoint.branch) if checkpoint.branch is not None else "-",
        checkpoint.commit[:10],
        _remarks(kept),
    )


def _remarks(kept: Kept) -> str:
    checkpoint = kept.checkpoint
    remarks: list[str] = []
    if checkpoint.taken_us - checkpoint.wall_us > _LATE_US:
        remarks.append(f"taken {human_span((checkpoint.taken_us - checkpoint.wall_us) / 1e6)} later")
    if checkpoint.unsteady:
        remarks.append("its agent went on meanwhile")
    if checkpoint.left_out:
        remarks.append("without " + plain(", ".join(checkpoint.left_out[:3])))
    return "; ".join(remarks)
