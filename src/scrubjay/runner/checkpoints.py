"""Worktrees as they were, each kept as a commit that no branch has: ``refs/scrubjay/checkpoints/<pod>/<number>``.

Git is the only place where they are. One is made with a copy of the worktree's index, so that index, branch, HEAD and
locks of whoever works there stay as they are; no hook runs and nothing is signed. Ignored files are left out. What
submodules and repositories inside of it hold is theirs: of a submodule the commit is kept, of others nothing.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from scrubjay.clock import SystemClock
from scrubjay.errors import GitFailed, NoCheckpoint, NoSuchWorktree, NoWorktree, WorktreeMissing
from scrubjay.pods.pod import Pod
from scrubjay.runner.changes import (
    CHECKPOINT_REFS,
    PATCH_MAX_BYTES,
    DiffSummary,
    compare,
    compare_as_patch,
    copy_index,
    read_patch,
    read_summary,
)
from scrubjay.runner.checkpoint_commits import decode_commit, encode_message
from scrubjay.runner.git import Ended, failure
from scrubjay.runner.untracked import find_untracked
from scrubjay.runner.worktrees import Worktree, Worktrees
from scrubjay.wire.checkpoints import Checkpoint, Why

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrubjay.clock import Clock

MAKE_S = 120.0  # for one of git's steps: a worktree whose files cannot be read in that time is not kept
_SETTINGS = (
    *("author.name=Scrubjay", "author.email=scrubjay@localhost"),
    *("committer.name=Scrubjay", "committer.email=scrubjay@localhost"),
    *("i18n.commitEncoding=UTF-8", "advice.addEmbeddedRepo=false"),
    "core.safecrlf=false",  # line ends are no reason not to keep a file
    "core.splitIndex=false",  # else a part of the copied index would be put beside the real one
)
_ATTEMPTS = 3
_NOT_ALL = 1  # how git ends that could not read some files


@dataclass(frozen=True, slots=True)
class Moment:
    """The instant of a tape that a worktree is kept for."""

    why: Why
    at: int
    offset: int
    wall_us: int


class _Files(NamedTuple):
    """What a worktree holds."""

    tree: str
    left_out: tuple[str, ...]


class Checkpoints:
    """The checkpoints of the pods of one data directory. May be used from many threads and processes at once."""

    def __init__(self, worktrees: Worktrees, *, clock: Clock | None = None) -> None:
        self._worktrees, self._git = worktrees, worktrees.git
        self._clock: Clock = clock if clock is not None else SystemClock()

    def make(self, pod: Pod, moment: Moment, *, moved_on: Callable[[], bool] = lambda: False) -> Checkpoint | None:
        """Keep a pod's worktree as it is; None if its last checkpoint has the same files, commit and branch.

        ``moved_on`` is whether its agent is at work again, asked when the files have been read. NoWorktree,
        NoSuchWorktree or WorktreeMissing if there is nothing to keep, GitFailed if it cannot be.
        """
        worktree = self._worktree_of(pod)
        with self._worktrees.locked(worktree.name):
            entry = self._worktrees.entry_of(worktree)
            head, branch = self._read_head(worktree.path)
            files = self._read_files(worktree.path, entry)
            taken_us = self._clock.wall_us()
            before, taken = self._read_all(pod.id, entry)
            last = before[-1] if before else None
            if last is not None and (last.tree, last.head, last.branch) == (files.tree, head, branch):
                return None
            new = Checkpoint(
                pod=pod.id,
                session=pod.session,
                number=taken + 1,
                commit="",
                tree=files.tree,
                why=moment.why,
                at=moment.at,
                offset=moment.offset,
                wall_us=moment.wall_us,
                taken_us=taken_us,
                head=head,
                branch=branch,
                base=worktree.base,
                left_out=files.left_out,
                unsteady=moved_on(),
            )
            return self._commit(pod, new, worktree.path)

    def require_worktree(self, pod: Pod) -> None:
        """NoWorktree, NoSuchWorktree or WorktreeMissing if there is nothing to keep."""
        self._worktree_of(pod)

    def list(self, pod: Pod) -> list[Checkpoint]:
        """All of a pod's, oldest first; NoWorktree or RepositoryGone."""
        return self._read_all(pod.id, self._git_dir(pod))[0]

    def find(self, pod: Pod, commit: str) -> Checkpoint:
        """The one with that commit; NoCheckpoint if the pod has none."""
        for checkpoint in self.list(pod):
            if checkpoint.commit == commit:
                return checkpoint
        raise NoCheckpoint(pod.name)

    def summary(self, pod: Pod, to: Checkpoint | None, since: Checkpoint | None) -> DiffSummary:
        """What was changed between two of them.

        Without ``since`` from what the worktree was made from; without ``to`` up to how it is now.
        """
        if to is None:
            worktree = self._worktree_of(pod)
            base = since.commit if since is not None else worktree.base
            return read_summary(self._git, worktree.path, self._worktrees.entry_of(worktree), base)
        start = since.head if since is not None else to.base
        commits = f"{start}..{to.head}" if start is not None and to.head is not None else None
        return compare(self._git, self._git_dir(pod), _base(pod, to, since), to.commit, commits=commits)

    def patch(
        self, pod: Pod, to: Checkpoint | None, since: Checkpoint | None, *, limit_bytes: int = PATCH_MAX_BYTES
    ) -> str:
        """The same as a patch to be read; it holds whatever the agent wrote, controls included."""
        if to is None:
            worktree = self._worktree_of(pod)
            base = since.commit if since is not None else worktree.base
            entry = self._worktrees.entry_of(worktree)
            return read_patch(self._git, worktree.path, entry, base, limit_bytes=limit_bytes)
        return compare_as_patch(
            self._git, self._git_dir(pod), _base(pod, to, since), to.commit, limit_bytes=limit_bytes
        )

    def forget(self, pod: Pod) -> int:
        """Delete all of a pod's; how many there were. Their files go when git next collects what nobody has."""
        git_dir = self._git_dir(pod)
        refs = self._refs(pod.id, git_dir)
        if refs:
            doomed = b"".join(b"delete %s\0\0" % name for name in refs)
            self._git.run("update-ref", "-z", "--stdin", cwd=git_dir, git_dir=git_dir, stdin=doomed)
        return len(refs)

    # Where they are.

    def _worktree_of(self, pod: Pod) -> Worktree:
        """The worktree a pod works in, or worked in last."""
        if pod.worktree is None:
            raise NoWorktree(pod.name)
        worktree = self._worktrees.find(pod.worktree)
        if worktree.repository != pod.repository or worktree.created_us > pod.created_us:
            raise NoSuchWorktree(pod.worktree)  # any more: that name is now another's
        if worktree.missing is not None:
            raise WorktreeMissing(worktree.name, worktree.missing)
        return worktree

    def _git_dir(self, pod: Pod) -> Path:
        if pod.worktree is None or pod.repository is None:
            raise NoWorktree(pod.name)
        return self._worktrees.git_dir_of(pod.repository)

    # Reading them.

    def _refs(self, pod: str, git_dir: Path) -> dict[bytes, str]:
        """The refs of a pod's checkpoints, and what they lead to."""
        listed = self._git.run(
            *("for-each-ref", "--format=%(refname)%00%(objectname)", f"{CHECKPOINT_REFS}{pod}/"),
            cwd=git_dir,
            git_dir=git_dir,
        )
        pairs = (line.split(b"\0") for line in listed.stdout.splitlines())
        return {name: commit.decode("ascii") for name, commit in pairs}

    def _read_all(self, pod: str, git_dir: Path) -> tuple[list[Checkpoint], int]:
        """Those that can be read, oldest first, and the highest number that is taken."""
        numbers = {
            commit: int(number)
            for name, commit in self._refs(pod, git_dir).items()
            if (number := name.rsplit(b"/", 1)[1]).isdigit()
        }
        if not numbers:
            return [], 0
        # Not by for-each-ref: of one that a power cut has spoilt it would say nothing, and of the others neither.
        told = self._git.run(
            *("cat-file", "--batch"), cwd=git_dir, git_dir=git_dir, stdin="\n".join(numbers).encode() + b"\n"
        )
        read = (
            decode_commit(commit, data, pod=pod, number=numbers[commit])
            for commit, data in _objects(told.stdout)
            if commit in numbers
        )
        found = sorted((each for each in read if each is not None), key=lambda each: each.number)
        return found, max(numbers.values())

    # Making one.

    def _read_head(self, folder: Path) -> tuple[str | None, str | None]:
        """The commit and the branch a worktree is at."""
        commit = self._git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", cwd=folder, check=False)
        ref = self._git.run("symbolic-ref", "--quiet", "HEAD", cwd=folder, check=False)
        branch = ref.stdout.decode("utf-8", "backslashreplace").strip().removeprefix("refs/heads/")
        return commit.stdout.decode("ascii").strip() or None, branch or None

    def _read_files(self, folder: Path, entry: Path) -> _Files:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._try_to_read_files(folder, entry)
            except GitFailed as error:
                # A file may become another or unreadable between being listed and being read.
                if attempt == _ATTEMPTS or error.status is None or self._git.stopped:
                    raise
        raise AssertionError

    def _try_to_read_files(self, folder: Path, entry: Path) -> _Files:
        with tempfile.TemporaryDirectory(prefix="scrubjay-") as temporary:
            index = Path(temporary) / "index"
            copy_index(entry, index)
            known = self._run(folder, index, "add", "--update", "--ignore-errors", check=False)
            if known.status not in (0, _NOT_ALL):
                raise failure("add", known)
            untracked = find_untracked(self._git, folder, index)
            if untracked.kept:
                # With --remove, for one may be gone again; with --replace, for a folder may be where a file was.
                self._run(
                    *(folder, index, "update-index", "--add", "--remove", "--replace", "-z", "--stdin"),
                    stdin=b"\0".join(untracked.kept) + b"\0",
                )
            # Of a partial clone not all objects are here, and none of them is to be fetched for this.
            tree = self._run(folder, index, "write-tree", "--missing-ok").stdout.decode("ascii").strip()
        unread = ("changes of files that could not be read",) if known.status == _NOT_ALL else ()
        return _Files(tree, unread + untracked.left_out)

    def _run(self, folder: Path, index: Path, *words: str, stdin: bytes = b"", check: bool = True) -> Ended:
        return self._git.run(
            *words,
            cwd=folder,
            index=index,
            settings=_SETTINGS,
            stdin=stdin,
            timeout_s=MAKE_S,
            check=check,
            gently=True,
        )

    def _commit(self, pod: Pod, checkpoint: Checkpoint, folder: Path) -> Checkpoint:
        parents = ("-p", checkpoint.head) if checkpoint.head is not None else ()
        made = self._git.run(
            *("commit-tree", "--no-gpg-sign", *parents, "-F", "-", checkpoint.tree),
            cwd=folder,
            settings=_SETTINGS,
            stdin=encode_message(pod.name, checkpoint),
        )
        commit = made.stdout.decode("ascii").strip()
        ref = f"{CHECKPOINT_REFS}{pod.id}/{checkpoint.number:06}"
        self._git.run("update-ref", "-m", "scrubjay: checkpoint", "--", ref, commit, "", cwd=folder)
        return structs.replace(checkpoint, commit=commit)


def _base(pod: Pod, to: Checkpoint, since: Checkpoint | None) -> str:
    base = since.commit if since is not None else to.base
    if base is None:
        raise NoCheckpoint(pod.name)
    return base


def _objects(told: bytes) -> Iterator[tuple[str, bytes]]:
    """Commits with what they hold, as ``cat-file --batch`` tells them; those that cannot be read are passed over."""
    position = 0
    while (end := told.find(b"\n", position)) >= 0:
        words = told[position:end].split(b" ")
        position = end + 1
        if len(words) == 3 and words[1] == b"commit" and words[2].isdigit():
            size = int(words[2])
            yield words[0].decode("ascii"), told[position : position + size]
            position += size + 1
