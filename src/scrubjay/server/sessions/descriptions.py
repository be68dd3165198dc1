"""Sessions and memories, as tools and routes tell of them."""

from __future__ import annotations

from collections.abc import Sequence

from scrubjay.fleet.memories import Memory
from scrubjay.fleet.sessions import Session
from scrubjay.fleet.summaries import Job, Summary
from scrubjay.tape.record import Json

EXCERPT_MAX = 300  # characters of a text in a list
_PAGE_MAX = 200_000  # characters of texts in one answer; what is left comes with the cursor


def describe_memory(memory: Memory) -> Json:
    """A memory in full."""
    turn, tape = memory.turn, memory.tape
    return {
        "session_id": memory.session,
        "seq": memory.seq,
        "prompt": turn.prompt or None,
        "thought": turn.thought or None,
        "response": turn.response or None,
        "model": turn.model,
        "tools": list(turn.tools) or None,
        "tokens": turn.tokens,
        "source": memory.source,
        "agent": memory.agent,
        "epoch": memory.epoch,
        "wall_us": memory.wall_us,
        "tape": None if tape is None else {"pod": tape.pod, "at": tape.at, "offset": tape.offset},
    }


def page(memories: Sequence[Memory]) -> tuple[list[Memory], bool]:
    """As many as fit into one answer, at least one; whether some are left."""
    size = 0
    for count, memory in enumerate(memories):
        turn = memory.turn
        size += len(turn.prompt) + len(turn.thought) + len(turn.response)
        if count and size > _PAGE_MAX:
            return list(memories[:count]), True
    return list(memories), False


def describe_lease(session: Session, *, free_in_s: int | None) -> Json:
    """A session without what is in it."""
    held = session.state == "open"
    return {
        "session_id": session.id,
        "name": session.name,
        "agent": session.agent,
        "state": session.state,
        "why": session.why,
        "held_by": session.held_by if held else None,
        "free_in_s": free_in_s if held else None,
        "epoch": session.epoch,
        "last_seq": session.last_seq,
        "created_us": session.created_us,
        "since_us": session.since_us,
        "used_us": session.used_us,
        "origin": session.origin or None,
    }


def describe_doing(memory: Memory | None) -> Json:
    """What a session was about last."""
    if memory is None:
        return {}
    return {"last_prompt": excerpt(memory.turn.prompt), "last_response": excerpt(memory.turn.response)}


def describe_summary(summary: Summary) -> Json:
    """What a range of memories comes to."""
    return {
        "from_seq": summary.from_seq,
        "to_seq": summary.to_seq,
        "text": summary.text,
        "made_by": summary.made_by,
        "model": summary.model,
        "input_hash": summary.input_hash,
        "wall_us": summary.wall_us,
    }


def describe_job(job: Job) -> Json:
    """A summary that is wanted."""
    return {"state": job.state, "attempts": job.attempts, "error": job.error}


def excerpt(text: str) -> str | None:
    """The beginning of a text, in one line; None if it says nothing."""
    line = " ".join(text.split())
    return (line if len(line) <= EXCERPT_MAX else line[: EXCERPT_MAX - 1] + "…") or None
