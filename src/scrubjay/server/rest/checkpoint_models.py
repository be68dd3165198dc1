"""What the API says of worktrees as they were, and takes to begin anew with one."""

from __future__ import annotations

from pydantic import Field

from scrubjay.server.rest.models import Model, Side, Started


class Checkpoint(Model):
    """A worktree as it was at an instant of its pod's tape."""

    pod: str
    session: str
    number: int
    commit: str = Field(description="On no branch; kept by refs/scrubjay/checkpoints/POD/NUMBER.")
    tree: str
    why: str = Field(description="idle, waiting or exit: what the pod had come to.")
    at: int = Field(description="Microseconds since the tape began.")
    offset: int
    wall_us: int
    taken_us: int = Field(description="When the files had been read.")
    head: str | None = Field(default=None, description="The commit the worktree was at.")
    branch: str | None = None
    base: str | None = Field(default=None, description="The commit the worktree was made from.")
    left_out: list[str] = Field(default=[], description="Files that are not in it, and why.")
    unsteady: bool = Field(default=False, description="Whether the agent went on to work while the files were read.")


class ChangedFile(Model):
    """One file that is not as it was."""

    path: str
    change: str
    insertions: int | None = Field(description="Lines; null of a binary file.")
    deletions: int | None
    old_path: str | None = None


class Commit(Model):
    """One commit."""

    id: str
    subject: str
    author: str


class CheckpointDiff(Model):
    """What was changed between two states of a pod's worktree."""

    at: Checkpoint | None = Field(description="Null for the worktree as it is now.")
    since: Checkpoint | None = Field(description="Null for what it was made from.")
    base: str
    commits: int
    files_changed: int
    insertions: int
    deletions: int
    files: list[ChangedFile] = Field(description="The first of them.")
    log: list[Commit] = Field(description="Of the commits the newest, newest first.")


class Fork(Model):
    """A pod to begin anew with the files another one had: by default with the same command or agent."""

    at: str = Field(description="12.5s, 1h2m, 50%, -10m, 02:14:07, 2026-11-15T02:14 or @OFFSET.")
    command: list[str] = Field(default=[], max_length=4096)
    agent: str | None = None
    prompt: str | None = Field(default=None, max_length=100_000)
    name: str | None = None
    environment: dict[str, str] = Field(default={})
    cols: Side = 120
    rows: Side = 36
    mcp: bool = Field(default=True, description="Whether its agent is given the tools of this server.")


class Forked(Started):
    """A pod that has begun with the files of another."""

    checkpoint: Checkpoint
