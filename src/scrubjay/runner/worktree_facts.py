"""What is kept of worktrees on disk, so that they are known after any restart."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scrubjay.errors import BadInput, HomeUnusable
from scrubjay.ids import BranchName, PodName, RepositoryAddress, parse_base, parse_branch_name, parse_pod_name
from scrubjay.tape.payload import encode_json
from scrubjay.tape.record import decode_json


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one worktree."""

    name: PodName
    made: bool  #: False while it is being made
    repository: RepositoryAddress
    git_dir: Path
    entry: Path | None  #: its folder in the repository; None while it is being made
    branch: BranchName
    base: str
    created_us: int


class FactsFolder:
    """One file of facts for each worktree, and a lock for whoever makes or removes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, facts: Facts) -> None:
        """Keep the facts, durably, so that a reader sees all of them or what was there before."""
        path = self._folder / f"{facts.name}.json"
        new = path.with_name(path.name + ".new")
        kept = encode_json(
            name=facts.name,
            made=facts.made,
            repository=facts.repository,
            git_dir=str(facts.git_dir),
            entry=str(facts.entry) if facts.entry is not None else None,
            branch=facts.branch,
            base=facts.base,
            created=facts.created_us,
        )
        try:
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
                file.write(kept)
                file.flush()
                os.fsync(file.fileno())
            new.rename(path)
            _sync(self._folder)
        except OSError as error:
            new.unlink(missing_ok=True)
            raise HomeUnusable(str(self._folder), error.strerror or str(error)) from error

    def forget(self, name: PodName) -> None:
        """Delete what is kept of a worktree."""
        (self._folder / f"{name}.json").unlink(missing_ok=True)

    def read(self, name: PodName) -> Facts | None:
        """What is kept of a worktree; None if there is nothing, or nothing that we have written."""
        try:
            kept = decode_json((self._folder / f"{name}.json").read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        text = {field: str(kept.get(field, "")) for field in ("repository", "git_dir", "base")}
        created, entry = kept.get("created"), kept.get("entry")
        try:
            return Facts(
                name=name,
                made=kept.get("made") is True,
                repository=RepositoryAddress(text["repository"]),
                git_dir=Path(text["git_dir"]),
                entry=Path(entry) if isinstance(entry, str) else None,
                branch=parse_branch_name(str(kept.get("branch"))),
                base=parse_base(text["base"]),
                created_us=created if isinstance(created, int) else 0,
            )
        except BadInput:
            return None

    def read_all(self) -> Iterator[Facts]:
        """What is kept of all of them."""
        try:
            names = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return
        for file in names:
            with suppress(BadInput):
                name = parse_pod_name(file.removesuffix(".json")) if file.endswith(".json") else None
                facts = self.read(name) if name is not None else None
                if facts is not None:
                    yield facts

    def try_lock(self, name: PodName) -> int | None:
        """A descriptor that holds the worktree's lock until it is closed or its holder dies; None if another has it."""
        path = self._folder / f"{name}.lock"
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise HomeUnusable(str(path), error.strerror or str(error)) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
