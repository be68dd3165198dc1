"""A folder and a branch for each pod, in a git repository that others use too.

    <home>/worktrees/<name>                the folder
    <home>/worktrees/.facts/<name>.json    what is known of it, from before it is made until after it is gone
    <home>/worktrees/.facts/<name>.lock    held by whoever makes or removes it
    <home>/worktrees/.removed/             folders on their way out
    <home>/repositories/                   clones of remote repositories

A branch is made last and never deleted; commits that no branch has are kept under ``refs/scrubjay/kept``. Of a
repository only the worktree's own entry is ever changed: no pruning, no configuration, nothing in anybody's checkout.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay.clock import SystemClock
from scrubjay.errors import (
    BranchInUse,
    GitFailed,
    HomeUnusable,
    NoSuchWorktree,
    RepositoryBusy,
    ScrubjayError,
    WorktreeDirty,
    WorktreeError,
    WorktreeMissing,
)
from scrubjay.ids import (
    BaseName,
    BranchName,
    PodName,
    RepositoryAddress,
    parse_base,
    parse_branch_name,
    parse_pod_name,
    parse_repository,
)
from scrubjay.runner.changes import (
    PATCH_MAX_BYTES,
    DiffSummary,
    WorktreeState,
    is_stray,
    read_patch,
    read_state,
    read_summary,
)
from scrubjay.runner.entries import entry_of, forget_entry, lock_of, points_to
from scrubjay.runner.git import FILES_S, Git, Progress, failure
from scrubjay.runner.head_log import read_head_at
from scrubjay.runner.repositories import CHANGE_S, Ref, Repositories, Repository
from scrubjay.runner.worktree_facts import Facts, FactsFolder

if TYPE_CHECKING:
    from scrubjay.clock import Clock

_STEM_MAX = 56  # of a name, so that one with a number behind it is a name too
_NUMBER_MAX = 10_000
_LOCK_S = 60.0
_POLL_S = 0.02
_HELD = "a pod of Scrubjay works here"
_CHECKED_OUT = re.compile(r"already (?:checked out|used by worktree) at '(.*)'")
_DELETE_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Worktree:
    """A folder with a branch of its own."""

    name: PodName  #: the pod's, with a number behind it if an earlier pod had it
    path: Path
    repository: RepositoryAddress  #: where it comes from
    branch: BranchName  #: the one it was made with; its agent may have switched since
    base: str  #: the commit its changes are counted from
    created_us: int  #: wall clock
    missing: str | None = None  #: why it cannot be used


@dataclass(frozen=True, slots=True)
class Removal:
    """What became of a worktree that is gone."""

    branch: BranchName  #: still there
    ignored: int  #: files and folders that git was told to ignore, and that are gone now
    kept: str | None  #: a ref that has the commits no branch had
    left: Path | None  #: files that could not be deleted, set aside


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a new worktree starts with."""

    branch: BranchName | None  #: None for one after the pod
    commit: str
    base: str
    reused: bool  #: the branch is there already
    others: Mapping[str, Ref]  #: branches that may be in the way of one after the pod


class Worktrees:
    """The worktrees of one data directory. May be used from many threads and processes at once."""

    def __init__(self, home: Path, *, environ: Mapping[str, str] | None = None, clock: Clock | None = None) -> None:
        """``environ`` is what git runs in (by default ours), without what could mislead it."""
        self._home = Path(os.path.realpath(home))
        self._root = self._home / "worktrees"
        self._facts = FactsFolder(self._root / ".facts")
        self._removed = self._root / ".removed"
        self._git = Git(environ if environ is not None else os.environ)
        self._repositories = Repositories(self._home / "repositories", self._git)
        self._clock: Clock = clock if clock is not None else SystemClock()

    def create(
        self,
        name: PodName,
        *,
        repository: str,
        branch: str | None,
        base: str | None = None,
        files: str | None = None,
        progress: Progress = lambda _: None,
    ) -> Worktree:
        """Make a worktree for a pod, or nothing at all.

        Without ``branch`` it is ``scrubjay/<name>``, with a number if a branch of that name has other commits. A branch
        that is there is used as it is, and one of the remote's is followed. Changes are counted from ``base``, or from
        where the branch is now. ``files`` is a commit of the repository, as it is here, whose files it gets, as changes
        that nobody has committed. ``progress`` hears what is going on; an exception of it ends the work.
        """
        pod = parse_pod_name(name)
        address = parse_repository(repository)
        wanted = parse_branch_name(branch) if branch is not None else None
        start = parse_base(base) if base is not None else None
        self._make_folders()
        self._take_away_interrupted()  # one of them may have the branch
        if files is not None:
            opened = self._repositories.locate(address)
        else:
            opened = self._repositories.open(address, progress=progress)
        plan = self._plan(opened, pod, wanted, start)
        with self._claim(pod, opened, plan) as (claimed, lock):
            try:
                return self._make(claimed, opened, plan, files, progress, lock)
            except RepositoryBusy:
                self._facts.forget(claimed.name)  # nothing was begun, and we would wait for the same lock again
                raise
            except BaseException:
                # If not even this works, the next create does it: it is known to be half made.
                with suppress(OSError, ScrubjayError):
                    self._take_away(claimed)
                raise

    def list(self) -> list[Worktree]:
        """All worktrees, oldest first; those that cannot be used say why."""
        made = [facts for facts in self._facts.read_all() if facts.made]
        return [self._describe(facts) for facts in sorted(made, key=lambda facts: (facts.created_us, facts.name))]

    def find(self, name: str) -> Worktree:
        """The worktree of that name; BadName if it cannot be one, NoSuchWorktree if there is none."""
        return self._describe(self._require(name))

    def path_of(self, name: str) -> Path:
        """Where a worktree of that name is, or would be."""
        return self._path(parse_pod_name(name))

    @property
    def git(self) -> Git:
        """The git that works on them."""
        return self._git

    def entry_of(self, worktree: Worktree) -> Path:
        """Its folder in the repository; WorktreeMissing if it is not there."""
        return self._require_present(worktree)[1]

    def git_dir_of(self, repository: str) -> Path:
        """What all worktrees of a repository have in common; RepositoryGone if it is not there."""
        return self._repositories.locate(RepositoryAddress(repository)).git_dir

    def inspect(self, worktree: Worktree) -> WorktreeState:
        """How it is now; ``missing`` says if it cannot be told."""
        return self._inspect(self._require(worktree.name))

    def diff_summary(self, worktree: Worktree) -> DiffSummary:
        """What was changed since its base, committed or not; WorktreeMissing if it is not there."""
        facts, entry = self._require_present(worktree)
        return read_summary(self._git, self._path(facts.name), entry, facts.base)

    def diff(self, worktree: Worktree, *, limit_bytes: int = PATCH_MAX_BYTES) -> str:
        """The same as a patch to be read; it holds whatever the agent wrote, controls included."""
        facts, entry = self._require_present(worktree)
        return read_patch(self._git, self._path(facts.name), entry, facts.base, limit_bytes=limit_bytes)

    def remove(self, worktree: Worktree, *, force: bool) -> Removal:
        """Delete the folder; branch and commits stay. WorktreeDirty if that would lose work and is not forced."""
        with self.locked(worktree.name):
            facts = self._require(worktree.name)
            state = self._inspect(facts)
            if not force:
                self._require_removable(facts, state)
            kept = self._keep_stray(facts)
            left = self._take_away(facts)
        return Removal(branch=facts.branch, ignored=state.ignored, kept=kept, left=left)

    def release(self, worktree: Worktree) -> None:
        """Leave it to others' ``git worktree prune`` and ``remove``, from which it is kept since it was made.

        A lock of somebody else stays.
        """
        facts, entry = self._require_present(worktree)
        path = self._path(facts.name)
        if lock_of(entry) == _HELD:
            self._git.run("worktree", "unlock", "--", str(path), cwd=path)

    def hold(self, worktree: Worktree) -> None:
        """Keep it again from others' ``git worktree prune`` and ``remove``, after it was released."""
        facts, entry = self._require_present(worktree)
        path = self._path(facts.name)
        if lock_of(entry) is None:
            locked = self._git.run("worktree", "lock", "--reason", _HELD, "--", str(path), cwd=path, check=False)
            if locked.status != 0 and lock_of(entry) is None:  # else another was quicker
                raise failure("worktree lock", locked)

    def head_at(self, worktree: Worktree, wall_us: int) -> str | None:
        """The commit it was at then, as its reflog has it; None if that does not say."""
        _, entry = self._require_present(worktree)
        return read_head_at(entry, wall_us)

    def tidy(self) -> list[PodName]:
        """Take away what was interrupted: the names of worktrees that were half made, and are gone now."""
        done = self._take_away_interrupted(patience_s=0)  # of a repository that is being used, another time
        self._repositories.tidy()
        with suppress(OSError):
            for left in self._removed.iterdir():
                _delete(left)
        return done

    def stop(self) -> None:
        """End what is being done in other threads, which then fails, and begin nothing more."""
        self._git.stop()

    # Making one.

    def _plan(self, repository: Repository, name: PodName, branch: BranchName | None, base: BaseName | None) -> _Plan:
        if branch is None:
            start = self._repositories.start_of(repository, base)
            default = f"refs/heads/{_default_branch(name)}"
            others = self._repositories.refs(repository, "refs/heads/scrubjay", default, f"{default}-*")
            if "refs/heads/scrubjay" in others:
                raise WorktreeError(
                    "the repository has a branch 'scrubjay', so that none can be called scrubjay/NAME",
                    hint="rename that one, or say how the pod's branch is to be called",
                )
            return _Plan(None, start, start, reused=False, others=others)
        local, remote = f"refs/heads/{branch}", f"refs/remotes/origin/{branch}"
        known = self._repositories.refs(repository, local, remote)
        if (there := known.get(local)) is not None:
            if there.checked_out is not None:
                raise BranchInUse(branch, there.checked_out)
            counted = self._repositories.start_of(repository, base) if base is not None else there.target
            return _Plan(branch, there.target, counted, reused=True, others={})
        if base is None and remote in known:
            start = known[remote].target
        else:
            start = self._repositories.start_of(repository, base)
        return _Plan(branch, start, start, reused=False, others={})

    @contextmanager
    def _claim(self, name: PodName, repository: Repository, plan: _Plan) -> Generator[tuple[Facts, int]]:
        """Be the only one who makes the worktree of that name, or the next free one with a number."""
        for candidate in _candidates(name):
            lock = None if _is_taken(candidate, plan) else self._facts.try_lock(candidate)
            if lock is None:
                continue
            try:
                if self._facts.read(candidate) is not None or os.path.lexists(self._path(candidate)):
                    continue
                facts = Facts(
                    name=candidate,
                    made=False,
                    repository=repository.address,
                    git_dir=repository.git_dir,
                    entry=None,
                    branch=plan.branch if plan.branch is not None else _default_branch(candidate),
                    base=plan.base,
                    created_us=self._clock.wall_us(),
                )
                self._facts.write(facts)
                yield facts, lock
                return
            finally:
                os.close(lock)
        raise HomeUnusable(str(self._root), f"it has too many worktrees named {name}")

    def _make(
        self, facts: Facts, repository: Repository, plan: _Plan, files: str | None, progress: Progress, lock: int
    ) -> Worktree:
        # Every git has the lock too: should we be killed, the name is not free before the last of them has ended.
        path = self._path(facts.name)
        ref = f"refs/heads/{facts.branch}"
        reused = plan.reused or ref in plan.others
        progress(f"making a worktree of {repository.address}")
        # A new branch comes last, when nothing can fail any more: until then there is no branch to clean up.
        start = (facts.branch,) if reused else (plan.commit,)
        how = () if reused else ("--detach",)
        self._add(repository, *how, "--", str(path), *start, branch=facts.branch, lock=lock)
        if path.resolve() != path:
            raise HomeUnusable(str(self._root), "somebody has put a symbolic link in the way")
        entry = entry_of(path)
        if entry is None or entry.parent != facts.git_dir / "worktrees":
            raise HomeUnusable(str(path), "somebody has changed it while it was made")
        progress("writing its files")
        self._git.run(
            "reset", "--hard", "--no-recurse-submodules", cwd=path, timeout_s=FILES_S, progress=progress, hold=(lock,)
        )
        if files is not None:
            self._git.run("read-tree", "--reset", "-u", files, cwd=path, timeout_s=FILES_S, hold=(lock,))
            self._git.run("reset", "--mixed", "--quiet", cwd=path, timeout_s=FILES_S, hold=(lock,))
        if not reused:
            created = f"create {ref}\0{plan.commit}\0".encode()
            why = f"scrubjay: pod {facts.name}"
            self._git.run("update-ref", "-z", "--stdin", "-m", why, cwd=path, stdin=created, hold=(lock,))
            self._git.run("symbolic-ref", "-m", why, "--", "HEAD", ref, cwd=path, hold=(lock,))
        made = replace(facts, made=True, entry=entry)
        self._facts.write(made)
        return self._describe(made)

    def _add(self, repository: Repository, *words: str, branch: BranchName, lock: int) -> None:
        git_dir = repository.git_dir if repository.folder == repository.git_dir else None
        with self._repositories.changing(repository) as others:
            added = self._git.run(
                *("worktree", "add", "--no-checkout", "--lock", "--reason", _HELD, *words),
                cwd=repository.folder,
                git_dir=git_dir,
                hold=(lock, others),
                check=False,
            )
        if (there := _CHECKED_OUT.search(added.stderr)) is not None:
            raise BranchInUse(branch, there[1])
        if added.status != 0:
            raise failure("worktree add", added)

    # Taking one away.

    def _require_removable(self, facts: Facts, state: WorktreeState) -> None:
        path = self._path(facts.name)
        if state.missing is not None and os.path.lexists(path):
            raise WorktreeMissing(facts.name, state.missing)
        lock = lock_of(facts.entry) if facts.entry is not None else None
        foreign = (f"a lock of somebody ({lock})",) if lock not in (None, _HELD) else ()
        if at_stake := state.at_stake() + foreign:
            raise WorktreeDirty(facts.name, str(path), at_stake)

    def _keep_stray(self, facts: Facts) -> str | None:
        """Give commits that no branch has a ref that keeps them, and return it."""
        entry = facts.entry
        if entry is None or not points_to(entry, self._path(facts.name)):
            return None
        if self._git.run("symbolic-ref", "--quiet", "HEAD", cwd=entry, git_dir=entry, check=False).status == 0:
            return None
        found = self._git.run(
            "rev-parse", "--verify", "--quiet", "HEAD^{commit}", cwd=entry, git_dir=entry, check=False
        )
        commit = found.stdout.decode("ascii", "replace").strip()
        if found.status != 0 or not is_stray(self._git, commit, cwd=entry, git_dir=entry):
            return None
        kept = f"refs/scrubjay/kept/{commit}"
        self._git.run("update-ref", "--", kept, commit, cwd=entry, git_dir=entry)
        return kept

    def _take_away_interrupted(self, *, patience_s: float = CHANGE_S) -> list[PodName]:
        done: list[PodName] = []
        for facts in self._facts.read_all():
            # Who makes one has its lock: if nobody has, its maker is dead.
            lock = self._facts.try_lock(facts.name) if not facts.made else None
            if lock is None:
                continue
            try:
                current = self._facts.read(facts.name)
                if current is not None and not current.made:
                    self._take_away(current, patience_s=patience_s)
                    done.append(current.name)
            except (OSError, ScrubjayError):
                continue  # tried again next time
            finally:
                os.close(lock)
        return done

    def _take_away(self, facts: Facts, *, patience_s: float = CHANGE_S) -> Path | None:
        """Undo what was made of a worktree, its branch excepted; what could not be deleted is returned."""
        self._make_folders()
        if facts.git_dir.is_dir():
            repository = Repository(facts.repository, facts.git_dir, facts.git_dir, cloned=False)
            with self._repositories.changing(repository, timeout_s=patience_s):
                doomed = self._set_aside(facts.name)
                forget_entry(facts.git_dir, self._path(facts.name))
        else:
            doomed = self._set_aside(facts.name)
        self._facts.forget(facts.name)
        return doomed if doomed is not None and not _delete(doomed) else None

    def _set_aside(self, name: PodName) -> Path | None:
        """Move the folder, so that it is gone at once and whole; None if there is none."""
        path = self._path(name)
        doomed = self._removed / f"{name}-{os.urandom(4).hex()}"
        try:
            if not path.is_symlink():
                path.chmod(0o700)  # else a read-only folder could not be moved
            path.rename(doomed)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise WorktreeError(
                f"cannot remove worktree {name!r}: {error.strerror}", hint=f"end what uses {path} and try again"
            ) from error
        return doomed

    # What is known.

    def _inspect(self, facts: Facts) -> WorktreeState:
        missing = self._why_missing(facts)
        if missing is not None or facts.entry is None:
            return WorktreeState(missing=missing)
        try:
            return read_state(self._git, self._path(facts.name), facts.entry, facts.base)
        except GitFailed as error:
            return WorktreeState(missing=str(error))  # damaged: whoever asks for a list wants to see the others

    def _why_missing(self, facts: Facts) -> str | None:
        path = self._path(facts.name)
        if path.is_symlink() or not path.is_dir():
            return "its folder is gone"
        if not facts.git_dir.is_dir():
            return f"its repository {facts.repository} is gone"
        if facts.entry is None or not points_to(facts.entry, path):
            return "its repository does not know it any more"
        if entry_of(path) != facts.entry:
            return "its .git file leads elsewhere"
        return None

    def _describe(self, facts: Facts) -> Worktree:
        return Worktree(
            name=facts.name,
            path=self._path(facts.name),
            repository=facts.repository,
            branch=facts.branch,
            base=facts.base,
            created_us=facts.created_us,
            missing=self._why_missing(facts),
        )

    def _require(self, name: str) -> Facts:
        facts = self._facts.read(parse_pod_name(name))
        if facts is None or not facts.made:
            raise NoSuchWorktree(name)
        return facts

    def _require_present(self, worktree: Worktree) -> tuple[Facts, Path]:
        facts = self._require(worktree.name)
        missing = self._why_missing(facts)
        if missing is not None or facts.entry is None:
            raise WorktreeMissing(facts.name, missing or "it is not made yet")
        return facts, facts.entry

    def _path(self, name: PodName) -> Path:
        return self._root / name

    # On disk.

    def _make_folders(self) -> None:
        for folder in (self._home, self._root, self._root / ".facts", self._removed, self._repositories.root):
            try:
                folder.mkdir(mode=0o700, parents=folder == self._home, exist_ok=True)
                if not stat.S_ISDIR(folder.lstat().st_mode):
                    raise HomeUnusable(str(folder), "it is a symbolic link")
            except OSError as error:
                raise HomeUnusable(str(folder), error.strerror or str(error)) from error

    # One at a time.

    @contextmanager
    def locked(self, raw_name: str) -> Generator[None]:
        """Be the only one who changes a worktree, or keeps it from being removed."""
        name = parse_pod_name(raw_name)
        self._require(name)
        deadline = time.monotonic() + _LOCK_S
        while (lock := self._facts.try_lock(name)) is None:
            if time.monotonic() > deadline or self._git.stopped:
                raise WorktreeError(f"worktree {name!r} is being changed by somebody else", hint="try again later")
            time.sleep(_POLL_S)
        try:
            yield
        finally:
            os.close(lock)


def _default_branch(name: PodName) -> BranchName:
    return parse_branch_name(f"scrubjay/{name}")


def _candidates(name: PodName) -> Iterator[PodName]:
    yield name
    stem = name[:_STEM_MAX].rstrip("-._")
    for number in range(2, _NUMBER_MAX):
        yield parse_pod_name(f"{stem}-{number}")


def _is_taken(name: PodName, plan: _Plan) -> bool:
    """Whether the branch after a pod of that name has commits of its own, or is in the way."""
    if plan.branch is not None:
        return False
    ref = f"refs/heads/{_default_branch(name)}"
    there = plan.others.get(ref)
    # One that is where ours would start is as good as new: a pod that has left no commit.
    used = there is not None and (there.target != plan.commit or there.checked_out is not None)
    return used or any(other.startswith(ref + "/") for other in plan.others)


def _delete(path: Path) -> bool:
    """Delete a file, link or folder; whether it is gone."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return True
    for _ in range(_DELETE_ATTEMPTS):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return True
        # A module cache is read-only on purpose, and something may still be writing.
        for folder, _, _ in os.walk(path):
            with suppress(OSError):
                os.chmod(folder, 0o700)
    return False
