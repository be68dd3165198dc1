"""One pod as its folder tells it."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from scrubjay.errors import NotATape, PodNotRunning
from scrubjay.ids import PodId, PodName, SessionId
from scrubjay.pods.connection import Connection
from scrubjay.tape.anchor import Anchor, read_anchor
from scrubjay.tape.format import Kind
from scrubjay.tape.payload import encode_json
from scrubjay.tape.record import Json, decode_json

if TYPE_CHECKING:
    from scrubjay.tape.reader import Tape
    from scrubjay.tape.recover import Recovery

State = Literal["running", "ending", "exited", "lost", "imported"]

DEFAULT_SIZE = (80, 24)  # of an imported recording that does not say

_STATUS_TIMEOUT_S = 1.0
_EXIT_WITHIN_BYTES = 1 << 20  # of the end; little follows an exit, and a lost tape may be gigabytes


@dataclass(frozen=True, slots=True)
class ForkedFrom:
    """Where the files came from that a pod began with."""

    session: str
    pod: str
    at: int  #: the instant on that pod's tape


@dataclass(frozen=True, slots=True)
class Pod:
    """One run of one program."""

    folder: Path
    id: PodId
    name: PodName
    session: SessionId
    argv: tuple[str, ...]
    cwd: str
    created_us: int  #: wall clock
    imported: bool
    size: tuple[int, int] = DEFAULT_SIZE  #: columns and rows it began with
    agent: str | None = None
    arguments: tuple[str, ...] | None = None  #: those that a person gave to an agent that was started by its name
    chosen_conversation: str | None = None  #: the id its conversation was given when it was started
    type_when_ready: str | None = None  #: what is to be typed once it waits for its first prompt
    repository: str | None = None
    branch: str | None = None
    worktree: str | None = None
    resumed_from: PodId | None = None  #: the pod whose work it goes on with
    given: tuple[str, ...] = ()  #: names of variables that a person gave for it; their values are not kept
    forked_from: ForkedFrom | None = None

    @property
    def alive(self) -> bool:
        """Whether its keeper lives: it holds a lock that the kernel takes back when it dies."""
        return lock_is_held(self.folder / "keeper.lock")

    @property
    def has_ended(self) -> bool:
        """Whether it came to its end in good order, or never ran."""
        return self.imported or (self.folder / "end.json").exists()

    @property
    def conversation(self) -> str | None:
        """The id of its agent's conversation, if it is known: the agent may have begun another since its start."""
        try:
            told = decode_json((self.folder / "conversation.json").read_bytes())
        except OSError:
            told = Json()
        return _text(told, "conversation") or self.chosen_conversation

    def claim_prompt(self) -> str | None:
        """What to type now that it waits for its first prompt; None if there is nothing, or somebody has claimed it.

        At most once: what was claimed and not typed can be sent by hand, what was typed twice cannot be taken back.
        """
        if self.type_when_ready is None:
            return None
        try:
            os.close(os.open(self.folder / "prompt-typed", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return None
        return self.type_when_ready

    def tape(self) -> Tape:
        """Its tape."""
        from scrubjay.tape.reader import Tape  # 15 ms that starting a pod need not wait for

        return Tape(self.folder / "tape", self.id)

    def anchor(self) -> Anchor:
        """What is kept about its tape outside the tape."""
        return read_anchor(self.folder, self.id)

    def close_lost_tape(self) -> Recovery | None:
        """End the tape of a pod whose keeper is gone; None if it has its end already."""
        from scrubjay.tape.recover import close_lost_tape

        tape = self.tape()
        sealers = os.open(tape.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # The lock that sealing takes: two who close or seal a tape at once would be in each other's way.
            fcntl.flock(sealers, fcntl.LOCK_EX)
            found = close_lost_tape(tape, self.anchor(), self.folder)
        finally:
            os.close(sealers)
        return found if found.last_kind != Kind.SEAL else None

    def connect(self) -> Connection:
        """Talk to its keeper; PodNotRunning if there is none."""
        if not self.alive:
            raise PodNotRunning(self.name, self.observe().describe())
        return Connection(self.folder, self.name)

    def observe(self) -> Observation:
        """How it is now."""
        if self.alive:
            with Connection(self.folder, self.name) as keeper:
                status = keeper.status(timeout_s=_STATUS_TIMEOUT_S)
            if status is not None:
                return Observation("ending" if status.get("state") == "ending" else "running", live=status)
            if self.alive:
                return Observation("running", reason="its keeper does not answer")
        return self._observe_ended()

    def _observe_ended(self) -> Observation:
        try:
            end = decode_json((self.folder / "end.json").read_bytes())
        except FileNotFoundError:
            # The keeper writes this last, so it may have closed the tape and still be missing.
            end = self._end_by_tape()
        status, wall = end.get("status"), end.get("wall")
        ended_us = wall if isinstance(wall, int) else None
        if self.imported:
            return Observation("imported", status=status if isinstance(status, int) else None, ended_us=ended_us)
        if isinstance(status, int):
            return Observation("exited", status=status, ended_us=ended_us)
        return Observation("lost", reason="keeper killed")

    def _end_by_tape(self) -> Json:
        try:
            tape = self.tape()
            for record in tape.records(tape.align(max(0, tape.end - _EXIT_WITHIN_BYTES))):
                if record.kind == Kind.EXIT:
                    return record.json()
        except NotATape:
            return {}
        return {}


@dataclass(frozen=True, slots=True)
class Observation:
    """The state of a pod at one moment."""

    state: State
    status: int | None = None  #: how the agent ended, as a shell would say it
    reason: str | None = None
    ended_us: int | None = None
    live: Json | None = None  #: what the keeper says

    @property
    def paused(self) -> str | None:
        """Why nothing is recorded at the moment."""
        paused = self.live.get("paused") if self.live is not None else None
        return paused if isinstance(paused, str) else None

    def describe(self) -> str:
        """The state in a few words."""
        if self.paused is not None:
            return f"paused: {self.paused}"
        if self.reason is not None:
            return f"{self.state}: {self.reason}"
        if self.status is not None and self.state == "exited":
            return f"exited {self.status}"
        return self.state


def read_pod(folder: Path) -> Pod | None:
    """The pod in a folder, or None if it is not (or not yet) one."""
    try:
        facts = decode_json((folder / "pod.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    created, cols, rows = facts.get("created"), facts.get("cols"), facts.get("rows")
    resumed_from = _text(facts, "resumed_from")
    return Pod(
        folder=folder,
        id=PodId(folder.name),
        name=PodName(str(facts.get("name", folder.name))),
        session=SessionId(str(facts.get("session", ""))),
        argv=_words(facts, "argv") or (),
        cwd=str(facts.get("cwd", "")),
        created_us=created if isinstance(created, int) else 0,
        imported=facts.get("imported") is True,
        size=(cols, rows) if isinstance(cols, int) and isinstance(rows, int) else DEFAULT_SIZE,
        agent=_text(facts, "agent"),
        arguments=_words(facts, "arguments"),
        chosen_conversation=_text(facts, "conversation"),
        type_when_ready=_text(facts, "type_when_ready"),
        repository=_text(facts, "repository"),
        branch=_text(facts, "branch"),
        worktree=_text(facts, "worktree"),
        resumed_from=PodId(resumed_from) if resumed_from is not None else None,
        given=_words(facts, "given") or (),
        forked_from=_forked_from(facts),
    )


def _forked_from(facts: Json) -> ForkedFrom | None:
    found = facts.get("forked_from")
    if not isinstance(found, dict):
        return None
    origin = cast(Json, found)
    session, pod, at = origin.get("session"), origin.get("pod"), origin.get("at")
    if not isinstance(session, str) or not isinstance(pod, str) or not isinstance(at, int):
        return None
    return ForkedFrom(session, pod, at)


def _text(facts: Json, name: str) -> str | None:
    value = facts.get(name)
    return value if isinstance(value, str) else None


def _words(facts: Json, name: str) -> tuple[str, ...] | None:
    value = facts.get(name)
    return tuple(str(word) for word in cast(list[object], value)) if isinstance(value, list) else None


def write_facts(path: Path, **facts: object) -> None:
    """Keep what is known of a pod, so that a reader sees all of it or nothing."""
    temporary = path.with_suffix(".new")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(encode_json(**facts))
    temporary.replace(path)


def lock_is_held(path: Path) -> bool:
    """Whether another process holds the lock on a file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two who look at the same time do not take each other for the holder.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
