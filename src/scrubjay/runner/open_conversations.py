"""Which processes of this machine have a conversation open, in a pod or not: it must never have two writers.

What is asked: the arguments of the agent's processes, who has its files open for writing, and what the agent says of
its processes. Only processes of the same user are seen. An agent that was led to a conversation by its own menu, and
neither keeps its file open nor says so, is not found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scrubjay.agents.conversations import Kept, Place, claims_of
from scrubjay.agents.manifest import Manifest
from scrubjay.keeper.processes import command_of

_NAMED_WITHIN = 3  # words: an interpreter, an option of it, and the program
_SLACK_S = 2.0  # between two clocks that count in hundredths of a second, and a file's
_SHOWN_MAX = 60  # characters of a command


@dataclass(frozen=True, slots=True)
class Opener:
    """A process that has a conversation open."""

    pid: int
    pod: str | None  #: the id of the pod that it runs in
    how: str  #: how that is known

    def __str__(self) -> str:
        """The process, for people."""
        command = "".join(letter if letter.isprintable() else "?" for letter in command_of(self.pid))
        shown = command if len(command) <= _SHOWN_MAX else command[:_SHOWN_MAX] + "…"
        return f"process {self.pid} ({shown})"


def find_openers(manifest: Manifest, conversation: str, kept: Kept, place: Place) -> list[Opener]:
    """Every process that has it open, as far as can be seen."""
    claims = claims_of(manifest.conversation, place)
    told = {claim.pid: claim for claim in claims if _is_good(claim.pid, claim.file, manifest)}
    files = frozenset(os.path.realpath(path) for path in kept.files)
    named = re.compile(rf"(?<![A-Za-z0-9]){re.escape(conversation)}(?![A-Za-z0-9])")
    found: list[Opener] = []
    for pid in _own_processes():
        how: str | None
        if (claim := told.get(pid)) is not None:  # it may have been begun with this one, and gone on to another
            how = f"it says so in {claim.file}" if conversation in claim.words else None
        else:
            how = _how_open(pid, named, files, manifest)
        if how is not None:
            found.append(Opener(pid, _pod_of(pid), how))
    return found


def _how_open(pid: int, named: re.Pattern[str], files: frozenset[str], manifest: Manifest) -> str | None:
    words = _words(pid)
    if any(map(named.search, words)) and _is_program(words, manifest):
        return "its arguments name it"
    written = _written_by(pid, files) if files else None
    return f"it has {written} open" if written is not None else None


def _is_good(pid: int, file: Path, manifest: Manifest) -> bool:
    """Whether the process that a file speaks of is the one that wrote it, and not another that has its number now."""
    words = _words(pid)
    try:
        written_s = file.stat().st_mtime
        started_s = _started_s(pid)
    except (OSError, ValueError, IndexError):
        return False
    # One that is about to be gone has no words any more.
    named = bool(words) and (_is_program(words, manifest) or _name(pid) == manifest.program)
    return named and started_s <= written_s + _SLACK_S


def _started_s(pid: int) -> float:
    """When a process began, by the wall clock; ValueError of one that has ended."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    if fields[0] in (b"Z", b"X"):
        raise ValueError("it has ended")
    booted_s = next(
        int(line.split()[1]) for line in Path("/proc/stat").read_bytes().splitlines() if line.startswith(b"btime ")
    )
    return booted_s + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _own_processes() -> Iterator[int]:
    user, ourselves = os.getuid(), os.getpid()
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and int(entry) != ourselves and os.stat(f"/proc/{entry}").st_uid == user:
                yield int(entry)
        except OSError:  # it has ended
            continue


def _words(pid: int) -> list[str]:
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).split("\0")[:-1]
    except OSError:
        return []


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def _is_program(words: list[str], manifest: Manifest) -> bool:
    """Whether it is the agent: not an editor that has the file, nor whoever looks for its name."""
    wanted = os.path.basename(manifest.program)
    return any(os.path.basename(word) == wanted or Path(word).stem == wanted for word in words[:_NAMED_WITHIN])


def _written_by(pid: int, files: frozenset[str]) -> str | None:
    """One of the files that a process has open for writing."""
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return None
    for fd in descriptors:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            if target not in files:
                continue
            flags = re.search(rb"^flags:\s*([0-7]+)", Path(f"/proc/{pid}/fdinfo/{fd}").read_bytes(), re.MULTILINE)
        except OSError:
            continue
        if flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY:
            return target
    return None


def _pod_of(pid: int) -> str | None:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    found = re.search(rb"(?:^|\0)SCRUBJAY_POD=([a-z2-7]+)", environment)
    return found[1].decode() if found is not None else None
