"""The repositories that worktrees are made of: a person's own, used where they are, and clones of remote ones.

A clone is bare. What the remote has is under ``refs/remotes/origin``; ``refs/heads`` holds the branches of pods only,
so that fetching never moves one. A clone is never deleted: the commits of every pod that worked on it are there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scrubjay.errors import BadBranch, BadRepository, HomeUnusable, NoSuchBase, RepositoryBusy, RepositoryGone
from scrubjay.ids import BaseName, BranchName, RepositoryAddress, is_remote, parse_branch_name
from scrubjay.runner.git import NETWORK_S, Ended, Git, Progress, clean, failure, printable

_POLL_S = 0.02
CHANGE_S = 600.0
_REFSPEC = "+refs/heads/*:refs/remotes/origin/*"
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DEFAULT = "refs/remotes/origin/HEAD"
_ADDRESS = "scrubjay-address"  # in a clone: what it is a clone of
_FETCHED = "scrubjay-fetched"  # in a clone: its time is when the last good fetch began


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or tag."""

    name: str  #: all of it, with refs/ in front
    target: str  #: of a tag with a message, that message
    checked_out: str | None  #: the folder that has it as its branch, to be shown


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository that worktrees can be made of."""

    address: RepositoryAddress
    git_dir: Path  #: what all its worktrees have in common
    folder: Path  #: where it was asked for: whose HEAD a branch starts from
    cloned: bool  #: it is our clone of a remote one


class Repositories:
    """The clones in one folder, and the way to repositories that are not ours."""

    def __init__(self, root: Path, git: Git) -> None:
        """``root`` must exist when a repository is opened."""
        self.root, self._git = root, git

    def open(self, address: RepositoryAddress, *, progress: Progress) -> Repository:
        """The repository at an address, up to date; cloned if it is remote and new. Failing leaves nothing behind."""
        if is_remote(address):
            return self._open_remote(address, progress)
        return self._open_local(address)

    def locate(self, address: RepositoryAddress) -> Repository:
        """The same as it is, without asking a remote one for news; RepositoryGone if it is not there."""
        if is_remote(address):
            git_dir = self.root / (_digest(address) + ".git")
            if not git_dir.is_dir():
                raise RepositoryGone(clean(address))
            return Repository(address, git_dir, git_dir, cloned=True)
        try:
            return self._open_local(address)
        except BadRepository as error:
            raise RepositoryGone(address) from error

    def tidy(self) -> None:
        """Delete what is left of clones that were interrupted."""
        for left in self.root.glob("*.new-*"):
            git_dir = self.root / (left.name.partition(".")[0] + ".git")
            try:
                with self.changing(Repository(RepositoryAddress(""), git_dir, git_dir, cloned=True), timeout_s=0):
                    shutil.rmtree(left, ignore_errors=True)
            except RepositoryBusy:
                continue  # being cloned at this moment

    # Local ones.

    def _open_local(self, address: RepositoryAddress) -> Repository:
        folder = Path(os.path.realpath(address))
        if not folder.is_dir():
            raise BadRepository(address, "there is no such folder", hint="check the spelling")
        asked = self._git.run(
            "rev-parse",
            *("--is-bare-repository", "--is-inside-git-dir", "--absolute-git-dir"),
            *("--path-format=absolute", "--git-common-dir", "--show-cdup"),
            cwd=folder,
            check=False,
        )
        if "not a git repository" in asked.stderr:
            raise BadRepository(address, "it is not in a git repository", hint="make one there with 'git init'")
        if asked.status != 0:
            raise failure("rev-parse", asked)
        lines = os.fsdecode(asked.stdout).removesuffix("\n").split("\n")
        bare, inside = lines[0] == "true", lines[1] == "true"
        if len(lines) != (4 if bare else 5):
            raise BadRepository(address, "its path has a line break in it", hint="rename that folder")
        git_dir, common = (Path(os.path.realpath(line)) for line in lines[2:4])
        if inside and not bare:
            raise BadRepository(address, "it is inside a .git folder", hint="give the folder that .git is in")
        if common.parent == self.root and (known := _read_text(common / _ADDRESS)) is not None:
            return Repository(RepositoryAddress(known), common, folder, cloned=True)  # a pod's worktree of a clone
        if bare:
            shown = common
        elif git_dir == common:
            shown = Path(os.path.normpath(folder / lines[4]))
        else:  # in a linked worktree: the one it belongs to
            shown = common.parent if common.name == ".git" else common
        # Where a symbolic link leads may have a name that cannot be shown; the link has not.
        known_as = RepositoryAddress(str(shown)) if str(shown).isprintable() else address
        return Repository(known_as, common, folder, cloned=False)

    # Remote ones.

    def _open_remote(self, address: RepositoryAddress, progress: Progress) -> Repository:
        git_dir = self.root / (_digest(address) + ".git")
        repository = Repository(address, git_dir, git_dir, cloned=True)
        asked_ns = time.time_ns()
        with self.changing(repository, timeout_s=NETWORK_S, progress=progress):
            if not git_dir.exists():
                self._clone(address, git_dir, progress)
            elif _fetched_ns(git_dir) < asked_ns:  # else another pod has fetched while we waited
                progress(f"fetching {clean(address)}")
                self._fetch(address, git_dir, progress)
        return repository

    def _clone(self, address: RepositoryAddress, git_dir: Path, progress: Progress) -> None:
        progress(f"cloning {clean(address)}")
        # We have the lock: whatever is there is of a clone that was interrupted.
        for left in self.root.glob(git_dir.stem + ".new-*"):
            shutil.rmtree(left, ignore_errors=True)
        staged = self.root / f"{git_dir.stem}.new-{os.urandom(4).hex()}"
        try:
            self._git.run("init", "--bare", "--quiet", "--template=", "-b", "main", "--", str(staged), cwd=self.root)
            for name, value in (
                ("remote.origin.url", address),
                ("remote.origin.fetch", _REFSPEC),
                ("core.logAllRefUpdates", "true"),
                # A worktree on a disk that is not there today is not a worktree nobody wants.
                ("gc.worktreePruneExpire", "never"),
            ):
                self._git.run("config", "--", name, value, cwd=staged, git_dir=staged)
            (staged / _ADDRESS).write_text(address)
            self._fetch(address, staged, progress)
            staged.rename(git_dir)
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def _fetch(self, address: RepositoryAddress, git_dir: Path, progress: Progress) -> None:
        began_ns = time.time_ns()
        # The address and not "origin": agents may change the configuration of a clone they work on.
        self._git.run(
            *("fetch", "--progress", "--prune", "--no-auto-maintenance", "--no-write-fetch-head"),
            *("--no-recurse-submodules", "--", address, _REFSPEC),
            cwd=git_dir,
            git_dir=git_dir,
            timeout_s=NETWORK_S,
            progress=progress,
        )
        listed = self._git.run(
            "ls-remote", "--symref", "--", address, "HEAD", cwd=git_dir, git_dir=git_dir, timeout_s=NETWORK_S
        )
        default = _default_branch(listed.stdout)
        if default is not None:
            self._git.run(
                "symbolic-ref", "--", _DEFAULT, f"refs/remotes/origin/{default}", cwd=git_dir, git_dir=git_dir
            )
        marker = git_dir / _FETCHED
        marker.touch()
        os.utime(marker, ns=(began_ns, began_ns))

    # Both.

    @contextmanager
    def changing(
        self, repository: Repository, *, timeout_s: float = CHANGE_S, progress: Progress | None = None
    ) -> Generator[int]:
        """Be the only pod that changes the repository; gives the lock, to be held by a git that may outlive us."""
        path = self.root / (_digest(str(repository.git_dir)) + ".lock")
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise HomeUnusable(str(path), error.strerror or str(error)) from error
        try:
            if not _try_lock(lock):
                if progress is not None:
                    progress("waiting for another pod that uses the repository")
                deadline = time.monotonic() + timeout_s
                while not _try_lock(lock):
                    if time.monotonic() > deadline or self._git.stopped:
                        raise RepositoryBusy(clean(repository.address), timeout_s)
                    time.sleep(_POLL_S)
            yield lock
        finally:
            os.close(lock)

    def refs(self, repository: Repository, *patterns: str) -> dict[str, Ref]:
        """The branches and tags of those full names, or below them; ``*`` stands for anything."""
        listed = self.run(
            repository,
            "for-each-ref",
            "--format=%(refname)%00%(objectname)%00%(worktreepath)%00",
            "--",
            *patterns,
        )
        fields = listed.stdout.split(b"\0")
        found = [
            Ref(os.fsdecode(name.removeprefix(b"\n")), target.decode("ascii"), printable(folder) or None)
            for name, target, folder in zip(fields[0:-1:3], fields[1::3], fields[2::3], strict=True)
        ]
        return {ref.name: ref for ref in found}

    def start_of(self, repository: Repository, base: BaseName | None) -> str:
        """The commit a branch starts from; NoSuchBase if there is none."""
        if base is None:
            candidates = [_DEFAULT] if repository.cloned and repository.folder == repository.git_dir else ["HEAD"]
        else:
            places = ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/remotes/origin/")
            # Of a clone, a branch is the remote's own; what a pod once called by that name comes after.
            ordered = (places[3], places[1], places[0], places[2]) if repository.cloned else places
            known = self.refs(repository, *(place + base for place in ordered))
            candidates = [place + base for place in ordered if place + base in known] or [base]
        commit = self.commit(repository, candidates[0])
        if commit is None:
            raise NoSuchBase(clean(repository.address), base)
        return commit

    def commit(self, repository: Repository, name: str) -> str | None:
        """The commit of a full ref or of digits; None if there is none."""
        found = self.run(repository, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", check=False)
        text = found.stdout.decode("ascii", "replace").strip()
        return text if found.status == 0 and _COMMIT.fullmatch(text) else None

    def run(self, repository: Repository, *words: str, stdin: bytes = b"", check: bool = True) -> Ended:
        """Run a short git command there."""
        git_dir = repository.git_dir if repository.folder == repository.git_dir else None
        return self._git.run(*words, cwd=repository.folder, git_dir=git_dir, stdin=stdin, check=check)


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:32]


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None


def _fetched_ns(git_dir: Path) -> int:
    try:
        return (git_dir / _FETCHED).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _default_branch(listed: bytes) -> BranchName | None:
    """What a remote says its HEAD is; None if that is no branch, or none that we would name."""
    match = re.match(rb"ref: refs/heads/([^\t\n]+)\tHEAD\n", listed)
    try:
        return parse_branch_name(match[1].decode()) if match is not None else None
    except (BadBranch, UnicodeDecodeError):
        return None
