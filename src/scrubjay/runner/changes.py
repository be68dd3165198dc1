"""What was done in a worktree since it was made: commits, changes not yet committed, files git does not know.

Only looks: an agent's own git, at work at the same time, is not disturbed. Names of files are to be shown, not opened:
what could not be printed is escaped.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scrubjay.runner.git import FILES_S, Ended, Git, clean, printable
from scrubjay.tape.record import Json

FILES_MAX = 2000  # listed; all are counted
LOG_MAX = 200
PATCH_MAX_BYTES = 4 << 20
CHECKPOINT_REFS = "refs/scrubjay/checkpoints/"
_UNTRACKED_MAX_BYTES = 4 << 20

Change = Literal["added", "modified", "deleted", "renamed", "copied", "type changed", "unmerged"]
_CHANGES: dict[str, Change] = {
    "A": "added",
    "C": "copied",
    "D": "deleted",
    "M": "modified",
    "R": "renamed",
    "T": "type changed",
    "U": "unmerged",
}
# A person's settings must not change what we read, and no program of a repository's choice is run.
_DIFF = (
    *("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--find-renames"),
    *("--ignore-submodules=none", "--submodule=short"),
)
_DIFF_TREE = ("diff-tree", "-r", *_DIFF[1:])
_OPERATIONS = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}


@dataclass(frozen=True, slots=True)
class WorktreeState:
    """How a worktree is at the moment."""

    head: str | None = None  #: the commit it is at; None if its branch has none, or it is missing
    branch: str | None = None  #: None on no branch
    ahead: int = 0  #: commits since its base
    staged: int = 0  #: files with changes
    unstaged: int = 0
    unmerged: int = 0
    untracked: int = 0  #: files and whole folders
    ignored: int = 0  #: files and whole folders that git was told to ignore
    operation: str | None = None  #: a merge or rebase that waits to be finished
    stray: bool = False  #: its commits are on no branch and no tag
    submodules: int = 0  #: with a repository of their own in here
    missing: str | None = None  #: why nothing else is known

    @property
    def clean(self) -> bool:
        """Whether every file is as committed; ignored files do not count."""
        return self.missing is None and not (self.staged or self.unstaged or self.unmerged or self.untracked)

    def at_stake(self) -> tuple[str, ...]:
        """What would be lost with the worktree; empty if nothing would."""
        counts = (
            (self.staged, "staged change"),
            (self.unstaged, "unstaged change"),
            (self.unmerged, "unmerged file"),
            (self.untracked, "untracked file"),
            (self.submodules, "submodule with commits of its own"),
        )
        lost = [f"{count} {noun}{'s' if count != 1 else ''}" for count, noun in counts if count]
        if self.operation is not None:
            lost.append(f"a {self.operation} in progress")
        if self.stray:
            lost.append("commits on no branch")
        return tuple(lost)


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that is not as it was."""

    path: str
    change: Change
    insertions: int | None  #: lines; None of a binary file
    deletions: int | None
    old_path: str | None = None  #: before it was renamed
    untracked: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit."""

    id: str
    subject: str
    author: str
    wall_us: int


@dataclass(frozen=True, slots=True)
class DiffSummary:
    """What differs between a worktree's files and what it was made from, committed or not."""

    base: str
    head: str | None
    commits: int  #: since the base
    log: tuple[Commit, ...]  #: of these the newest, newest first
    files_changed: int  #: untracked ones included as far as they are listed
    insertions: int
    deletions: int
    files: tuple[FileChange, ...]  #: the first of them
    untracked: tuple[str, ...]  #: the first of the files git does not know; folders with a repository end in a slash
    untracked_files: int

    def describe(self) -> Json:
        """For a program; what git does not know is among the files."""
        return {
            "base": self.base,
            "commits": self.commits,
            "files_changed": self.files_changed,
            "insertions": self.insertions,
            "deletions": self.deletions,
            "files": [
                {
                    "path": file.path,
                    "change": file.change,
                    "insertions": file.insertions,
                    "deletions": file.deletions,
                    "old_path": file.old_path,
                }
                for file in self.files
            ],
            "log": [{"id": commit.id, "subject": commit.subject, "author": commit.author} for commit in self.log],
        }


def read_state(git: Git, folder: Path, entry: Path, base: str) -> WorktreeState:
    """Look at a worktree that is there; ``entry`` is its folder in the repository."""
    status = git.run(
        *("status", "--porcelain=v2", "--branch", "-z", "--no-renames", "--no-ahead-behind"),
        *("--untracked-files=normal", "--ignored=traditional", "--ignore-submodules=none"),
        cwd=folder,
        timeout_s=FILES_S,
    )
    head: str | None = None
    branch: str | None = None
    counts = dict.fromkeys(("staged", "unstaged", "unmerged", "untracked", "ignored"), 0)
    for line in os.fsdecode(status.stdout).split("\0"):
        match line[:2]:
            case "# ":
                _, name, value = line.split(" ", 2)
                if name == "branch.oid":
                    head = value if value != "(initial)" else None
                elif name == "branch.head":
                    branch = value if value != "(detached)" else None
            case "1 ":
                counts["staged"] += line[2] != "."
                counts["unstaged"] += line[3] != "."
            case "u ":
                counts["unmerged"] += 1
            case "? ":
                counts["untracked"] += 1
            case "! ":
                counts["ignored"] += 1
            case _:
                pass
    return WorktreeState(
        head=head,
        branch=branch,
        ahead=_count_commits(git, folder, f"{base}..HEAD") if head is not None else 0,
        **counts,
        operation=next((name for file, name in _OPERATIONS.items() if (entry / file).exists()), None),
        stray=branch is None and head is not None and is_stray(git, head, cwd=folder),
        submodules=_count_submodules(entry),
    )


def is_stray(git: Git, commit: str, *, cwd: Path, git_dir: Path | None = None) -> bool:
    """Whether no branch and no tag has the commit; that a checkpoint has it does not count: it may be deleted."""
    having = git.run(
        *("for-each-ref", "--format=%(refname)", f"--contains={commit}"), cwd=cwd, git_dir=git_dir, timeout_s=FILES_S
    )
    return all(name.startswith(CHECKPOINT_REFS.encode()) for name in having.stdout.splitlines())


def _count_commits(git: Git, folder: Path, commits: str, *, git_dir: Path | None = None) -> int:
    return int(git.run("rev-list", "--count", commits, "--", cwd=folder, git_dir=git_dir).stdout)


def _count_submodules(entry: Path) -> int:
    return sum(1 for head in (entry / "modules").rglob("HEAD") if (head.parent / "objects").is_dir())


def read_summary(git: Git, folder: Path, entry: Path, base: str) -> DiffSummary:
    """Compare a worktree's files with its base; git runs six times."""
    with _everything(git, folder, entry) as (untracked, index):
        told = git.run(*_DIFF, "--raw", "--numstat", "-z", base, "--", cwd=folder, index=index, timeout_s=FILES_S)
    new = set(untracked)
    changes = list(_changes(told.stdout, new))
    head = git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", cwd=folder, check=False)
    has_head = head.status == 0
    return _summarise(
        changes,
        base=base,
        head=head.stdout.decode("ascii").strip() if has_head else None,
        commits=_count_commits(git, folder, f"{base}..HEAD") if has_head else 0,
        log=tuple(_log(git, folder, f"{base}..HEAD")) if has_head else (),
        untracked=untracked,
    )


def compare(git: Git, git_dir: Path, base: str, files: str, *, commits: str | None) -> DiffSummary:
    """Compare the files of two commits; ``commits`` is the range of those that were made in between, if any were."""
    told = git.run(
        *(*_DIFF_TREE, "--raw", "--numstat", "-z", base, files, "--"), cwd=git_dir, git_dir=git_dir, timeout_s=FILES_S
    )
    return _summarise(
        list(_changes(told.stdout, set())),
        base=base,
        head=None,
        commits=_count_commits(git, git_dir, commits, git_dir=git_dir) if commits is not None else 0,
        log=tuple(_log(git, git_dir, commits, git_dir=git_dir)) if commits is not None else (),
        untracked=[],
    )


def compare_as_patch(git: Git, git_dir: Path, base: str, files: str, *, limit_bytes: int) -> str:
    """The same as a patch to be read, as ``read_patch`` gives it."""
    told = git.run(
        *(*_DIFF_TREE, "--patch", "--src-prefix=a/", "--dst-prefix=b/", base, files, "--"),
        cwd=git_dir,
        git_dir=git_dir,
        timeout_s=FILES_S,
        limit_bytes=limit_bytes,
    )
    return _readable_patch(told, limit_bytes)


def _summarise(
    changes: list[FileChange],
    *,
    base: str,
    head: str | None,
    commits: int,
    log: tuple[Commit, ...],
    untracked: list[bytes],
) -> DiffSummary:
    return DiffSummary(
        base=base,
        head=head,
        commits=commits,
        log=log,
        files_changed=len(changes),
        insertions=sum(change.insertions or 0 for change in changes),
        deletions=sum(change.deletions or 0 for change in changes),
        files=tuple(changes[:FILES_MAX]),
        untracked=tuple(printable(name) for name in untracked[:FILES_MAX]),
        untracked_files=len(untracked),
    )


def read_patch(git: Git, folder: Path, entry: Path, base: str, *, limit_bytes: int) -> str:
    """The same as a patch to be read: what is not UTF-8 is replaced, and it says so if it goes on beyond the limit."""
    with _everything(git, folder, entry) as (_, index):
        told = git.run(
            *(*_DIFF, "--patch", "--src-prefix=a/", "--dst-prefix=b/", base, "--"),
            cwd=folder,
            index=index,
            timeout_s=FILES_S,
            limit_bytes=limit_bytes,
        )
    return _readable_patch(told, limit_bytes)


def _readable_patch(told: Ended, limit_bytes: int) -> str:
    text = told.stdout.decode("utf-8", "replace")
    return f"{text}\n(the patch goes on after {limit_bytes} bytes)\n" if told.cut else text


@contextmanager
def _everything(git: Git, folder: Path, entry: Path) -> Generator[tuple[list[bytes], Path | None]]:
    """Files that git does not know, and an index that has the first of them too (None if it need not differ).

    An agent's new files are part of what it did, added or not; its own index stays as it is.
    """
    listed = git.run(
        *("ls-files", "--others", "--exclude-standard", "-z"),
        cwd=folder,
        timeout_s=FILES_S,
        limit_bytes=_UNTRACKED_MAX_BYTES,
    )
    names = listed.stdout.split(b"\0")[:-1]
    added = [name for name in names if not name.endswith(b"/")][:FILES_MAX]
    if not added:
        yield names, None
        return
    with tempfile.TemporaryDirectory(prefix="scrubjay-") as temporary:
        index = Path(temporary) / "index"
        copy_index(entry, index)
        git.run(
            *("add", "--intent-to-add", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"),
            cwd=folder,
            index=index,
            stdin=b"\0".join(added),
            timeout_s=FILES_S,
            check=False,  # a file may be gone again, or not be ours to read; the others are there
        )
        yield names, index


def copy_index(entry: Path, copy: Path) -> None:
    """Copy a worktree's index, if it has one, with its time.

    By that git knows which files were changed so soon after they were looked at that they must be looked at again.
    """
    try:
        with (entry / "index").open("rb") as file:
            then = os.fstat(file.fileno())
            copy.write_bytes(file.read())
    except FileNotFoundError:
        return
    os.utime(copy, ns=(then.st_atime_ns, then.st_mtime_ns))


def _changes(told: bytes, untracked: set[bytes]) -> Iterator[FileChange]:
    fields = iter(told.split(b"\0")[:-1])
    changes: dict[bytes, Change] = {}
    for field in fields:
        if field.startswith(b":"):
            letter = field.rsplit(b" ", 1)[1][:1].decode("ascii")
            path = next(fields)
            if letter in "RC":
                path = next(fields)
            changes[path] = _CHANGES.get(letter, "modified")
            continue
        insertions, deletions, path = field.split(b"\t", 2)
        old: bytes | None = None
        if not path:
            old, path = next(fields), next(fields)
        yield FileChange(
            path=printable(path),
            change=changes.get(path, "modified"),
            insertions=int(insertions) if insertions != b"-" else None,
            deletions=int(deletions) if deletions != b"-" else None,
            old_path=printable(old) if old is not None else None,
            untracked=path in untracked,
        )


def _log(git: Git, folder: Path, commits: str, *, git_dir: Path | None = None) -> Iterator[Commit]:
    told = git.run(
        *("log", "-z", f"--max-count={LOG_MAX}", "--no-show-signature", "--no-decorate", "--encoding=UTF-8"),
        *("--format=%H%x1f%ct%x1f%an%x1f%s", commits, "--"),
        cwd=folder,
        git_dir=git_dir,
    )
    for line in told.stdout.decode("utf-8", "replace").split("\0"):
        if line:
            commit, seconds, author, subject = line.split("\x1f", 3)
            yield Commit(id=commit, subject=clean(subject), author=clean(author), wall_us=int(seconds) * 1_000_000)
