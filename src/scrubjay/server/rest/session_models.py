"""What the API says and takes about sessions and memories, as OpenAPI shows it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from scrubjay.fleet.handoffs import NOTE_MAX
from scrubjay.fleet.memories import TEXT_MAX, TOOLS_MAX, WORD_MAX
from scrubjay.server.rest.models import Model, Side


class TapeInstant(Model):
    """Where on a tape something happened."""

    pod: str
    at: int | None = Field(default=None, description="Microseconds since the tape began.")
    offset: int | None = None


class Memory(Model):
    """A turn that is remembered; its texts are whatever somebody wrote."""

    session_id: str
    seq: int = Field(description="Counts up from 1 in a session, without a gap.")
    prompt: str | None = None
    thought: str | None = None
    response: str | None = None
    model: str | None = None
    tools: list[str] | None = None
    tokens: int | None = None
    source: str = Field(description="agent, hook or person: who has written it down.")
    agent: str | None = None
    epoch: int
    wall_us: int
    tape: TapeInstant | None = None


class Memories(Model):
    """A page of memories."""

    memories: list[Memory]
    cursor: str | None = Field(default=None, description="Leads to the next page; none if this is the last.")
    session_id: str | None = None
    last_seq: int | None = None


class NewMemory(Model):
    """Something to be remembered."""

    prompt: str = Field(default="", max_length=TEXT_MAX)
    thought: str = Field(default="", max_length=TEXT_MAX)
    response: str = Field(default="", max_length=TEXT_MAX)
    model: str | None = Field(default=None, max_length=WORD_MAX)
    tools: list[str] = Field(default=[], max_length=TOOLS_MAX)
    tokens: int | None = Field(default=None, ge=0)


class Added(Model):
    """Where a memory stands."""

    session_id: str
    seq: int
    epoch: int
    repeated: bool | None = Field(default=None, description="Whether it was there already, by its key.")


class Summary(Model):
    """What a range of memories comes to."""

    from_seq: int
    to_seq: int
    text: str
    made_by: str | None = None
    model: str | None = None
    input_hash: str | None = None
    wall_us: int | None = None


class SummaryJob(Model):
    """A summary that is wanted."""

    state: str = Field(description="pending, running or failed.")
    attempts: int
    error: str | None = None


class Summaries(Model):
    """The summaries of a session."""

    session_id: str
    last_seq: int
    covered_to_seq: int
    summaries: list[Summary]
    job: SummaryJob | None = None


class Asked(Model):
    """Whether there is anything to sum up."""

    session_id: str
    asked: bool


class Session(Model):
    """A thread of work, that pods and connections come and go under."""

    session_id: str
    name: str | None = None
    agent: str | None = None
    state: str = Field(description="open, suspended or finished.")
    why: str | None = None
    held_by: str | None = None
    free_in_s: int | None = Field(default=None, description="When it is free if nothing is heard of its holder.")
    epoch: int
    last_seq: int
    created_us: int
    since_us: int
    used_us: int
    origin: dict[str, Any] | None = None
    current: bool | None = None
    resumable: bool | None = Field(default=None, description="Of now; nobody can tell of the past.")
    why_not: str | None = None
    expires_us: int | None = None
    last_prompt: str | None = None
    last_response: str | None = None
    pod: str | None = Field(default=None, description="The name of its newest pod.")
    pod_id: str | None = None
    process: str | None = None
    repository: str | None = None
    branch: str | None = None
    worktree: str | None = None
    conversation: str | None = None


class PodOfSession(Model):
    """A pod that a session had."""

    id: str
    name: str | None = None
    process: str | None = None
    created_us: int | None = None


class WaitOfSession(Model):
    """What a session waits for."""

    id: str
    kind: str
    reason: str | None = None
    since_us: int


class SessionInFull(Session):
    """The same with what is in it."""

    memories: list[Memory]
    summary: Summary | None = None
    open_waits: list[WaitOfSession]
    pods: list[PodOfSession]
    summary_job: SummaryJob | None = None


class Ending(Model):
    """Why a session has come to its end."""

    reason: str | None = Field(default=None, max_length=500)


class HandOver(Model):
    """A session that somebody else is to go on with."""

    to: str
    note: str = Field(max_length=NOTE_MAX)


class Resume(Model):
    """How a session is to be gone on with in a new pod."""

    takeover: bool = Field(default=False, description="Also from whoever has it: a pod that runs is ended first.")
    reopen: bool = Field(default=False, description="Also if it is finished or has expired.")
    new_conversation: bool = Field(default=False, description="Begin another conversation in the same worktree.")
    check: bool = Field(default=False, description="Only look, and start nothing.")
    prompt: str | None = Field(default=None, max_length=100_000)
    arguments: list[str] | None = Field(default=None, max_length=4096, description="For the agent, instead of its own.")
    runner: str | None = Field(default=None, description="Another machine, where its branch was pushed.")
    name: str | None = Field(default=None, description="What to call the pod, if not as before.")
    environment: dict[str, str] = Field(default_factory=dict)
    cols: Side | None = None
    rows: Side | None = None
    mcp: bool = Field(default=True, description="Whether its agent is given the tools of this server.")


class Claim(Model):
    """A session that somebody wants for a pod they start themselves."""

    takeover: bool = False
    reopen: bool = False
    name: str | None = None


class Claimed(Model):
    """What the pod must be started with."""

    session: str
    epoch: int
    pod: str = Field(description="The pod whose work goes on.")
    new: str = Field(description="The id that the new pod must be started with.")
    token: str | None = Field(default=None, description="What its agent shows; it is shown this once.")
    url: str = Field(description="Where the tools are, for agents on the server's own machine.")


class Finding(Model):
    """Something that was found where a session is to be gone on with."""

    kind: str
    text: str
    stops: bool = False
    hint: str | None = None


class Resumed(Model):
    """A pod that goes on with a session; without an id nothing was started."""

    id: str | None = None
    name: str | None = None
    session: str
    epoch: int
    conversation: str | None = None
    branch: str | None = None
    resumed_from: str | None = None
    process: str | None = None
    findings: list[Finding]
