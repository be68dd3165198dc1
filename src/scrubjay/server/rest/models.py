"""What the API says and takes, as OpenAPI shows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from scrubjay.wire.viewer import SIDE_MAX

Side = Annotated[int, Field(ge=0, le=SIDE_MAX)]
"""Columns or rows; the runner knows which of them a terminal can have."""


class Model(BaseModel):
    """Something the API says or takes, with nothing in it that is not described."""

    model_config = ConfigDict(extra="forbid")


class Status(Model):
    """What a pod does, from one instant up to another."""

    process: str
    description: str = Field(description="The same in a few words for people.")
    reason: str | None = None
    exit_status: int | None = None
    activity: str | None = None
    waiting_for: str | None = None
    evidence: dict[str, Any] = {}
    confidence: float | None = None
    since_us: int
    until_us: int | None = None


class Pod(Model):
    """A pod of the fleet."""

    id: str
    name: str
    session: str
    runner: str
    reachable: bool = Field(description="Whether its runner is connected.")
    argv: list[str]
    cwd: str
    cols: int
    rows: int
    agent: str | None
    conversation: str | None = Field(description="The id of its agent's conversation, as far as it is known.")
    repository: str | None
    branch: str | None
    worktree: str | None
    imported: bool
    created_us: int
    tape_bytes: int | None = Field(description="How far its tape goes, as far as the server knows.")
    keyboard: str | None = Field(description="Who has the keyboard.")
    viewers: int
    muted: bool = Field(description="Whether no notices are given of it.")
    muted_until_us: int | None = Field(default=None, description="When they are again, if that was said.")
    status: Status


class Start(Model):
    """A pod to be started: a command, or an agent by its name."""

    command: list[str] = Field(default=[], max_length=4096)
    agent: str | None = None
    prompt: str | None = Field(default=None, max_length=100_000)
    name: str | None = None
    session: str | None = None
    cwd: str | None = Field(default=None, description="Where to run; inside the worktree, if there is one.")
    repository: str | None = Field(default=None, description="A path or URL of a git repository: makes a worktree.")
    branch: str | None = None
    base: str | None = Field(default=None, description="The commit or branch the new branch begins at.")
    environment: dict[str, str] = {}
    cols: Side = 120
    rows: Side = 36
    runner: str | None = Field(default=None, description="Which machine; needed where there are several.")
    mcp: bool = Field(default=True, description="Whether its agent is given the tools of this server.")


class Started(Model):
    """A pod that was started."""

    id: str
    name: str
    session: str


class Input(Model):
    """Something to type."""

    text: str = ""
    data: str | None = Field(default=None, description="Bytes in base64, instead of text.")
    enter: bool = Field(default=False, description="Press Enter after it, by itself.")
    takeover: bool = Field(default=False, description="Even if somebody else has the keyboard.")


class Label(Model):
    """A label for this instant of a pod."""

    label: str = Field(min_length=1, max_length=1000)


class Size(Model):
    """A terminal's size."""

    cols: Side
    rows: Side


class Signal(Model):
    """A signal for a pod's agent."""

    signal: Literal["INT", "TERM", "KILL", "QUIT", "HUP", "TSTP", "CONT", "USR1", "USR2"]


class Stop(Model):
    """How to end a pod."""

    grace_s: float = Field(default=5.0, ge=0, le=3600)


class Mute(Model):
    """How long to give no notices of a pod."""

    for_s: float | None = Field(default=None, gt=0, le=366 * 86_400, description="Without it, until it is unmuted.")


class Done(Model):
    """Something that was done, and where on the tape."""

    offset: int | None = None


class Ended(Model):
    """How a pod ended."""

    process: str
    exit_status: int | None


class Event(Model):
    """One numbered change of the fleet."""

    number: int
    wall_us: int
    kind: str
    pod: str | None
    data: dict[str, Any]


class Events(Model):
    """Changes in order."""

    events: list[Event]
    last: int = Field(description="The number of the fleet's last change.")


class Hit(Model):
    """A row that was found."""

    pod: str
    name: str
    at: int
    offset: int
    wall_us: int | None
    row: int
    kind: str
    text: str
    marks: list[tuple[int, int]]


class Mark(Model):
    """A label somebody put on an instant."""

    at: int
    label: str
    author: str


class Timeline(Model):
    """A whole recording at a glance; times in microseconds."""

    duration: int
    wall_us: int | None
    live: bool
    density: list[float]
    marks: list[Mark]
    idle: list[tuple[int, int]]


class Runner(Model):
    """A machine of the fleet."""

    id: str
    name: str
    host: str
    version: str
    connected: bool
    reason: str | None
    since_us: int


class Worktree(Model):
    """A git worktree and what state it is in."""

    runner: str
    name: str
    path: str
    repository: str
    branch: str | None
    base: str | None
    head: str | None = None
    created_us: int | None = None
    ahead: int | None = None
    staged: int | None = None
    unstaged: int | None = None
    untracked: int | None = None
    missing: str | None = Field(default=None, description="Why it cannot be used.")
    pods: list[str] = []


class ChangedFile(Model):
    """One file of a diff."""

    path: str
    insertions: int | None
    deletions: int | None


class Diff(Model):
    """What was changed in a worktree since it was made."""

    commits: int
    insertions: int
    deletions: int
    files: list[ChangedFile]
    untracked: list[str]
