"""A worktree is kept as it was at an instant, and nobody who works in it notices."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scrubjay.errors import NoCheckpoint, NoSuchWorktree, NoWorktree, RepositoryGone, WorktreeDirty
from scrubjay.ids import PodName, new_pod_id, new_session_id
from scrubjay.pods.pod import Pod
from scrubjay.runner import untracked
from scrubjay.runner.checkpoints import Checkpoints, Moment
from scrubjay.runner.worktrees import Worktree
from scrubjay.wire.checkpoints import Checkpoint, Instant, Why, checkpoint_at
from tests.support.checkouts import Checkouts

_REFS = "refs/scrubjay/checkpoints"


class Worker:
    """A pod with a worktree, and what becomes of it."""

    def __init__(self, checkouts: Checkouts, name: str = "ada", project: Path | None = None) -> None:
        self.checkouts = checkouts
        self.project = project if project is not None else checkouts.make()
        self.tree = checkouts.create(name, self.project)
        self.path = self.tree.path
        self.checkpoints = Checkpoints(checkouts.worktrees)
        self.pod = pod_in(self.tree)
        self.at = 0

    def git(self, *words: str) -> str:
        return self.checkouts.git(*words, cwd=self.path)

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text)

    def keep(self, why: Why = "idle") -> Checkpoint | None:
        """Make a checkpoint a second later."""
        self.at += 1_000_000
        return self.checkpoints.make(self.pod, Moment(why, self.at, self.at // 10, 1_700_000_000_000_000 + self.at))

    def must_keep(self, why: Why = "idle") -> Checkpoint:
        made = self.keep(why)
        assert made is not None
        return made

    def fork(self, checkpoint: Checkpoint, name: str = "bob") -> Worktree:
        return self.checkouts.worktrees.create(
            PodName(name),
            repository=str(self.tree.repository),
            branch=None,
            base=checkpoint.head,
            files=checkpoint.commit,
        )


def pod_in(tree: Worktree) -> Pod:
    """A pod that works in a worktree."""
    return Pod(
        folder=Path("/nowhere"),
        id=new_pod_id(),
        name=tree.name,
        session=new_session_id(),
        argv=("agent",),
        cwd=str(tree.path),
        created_us=tree.created_us + 1,
        imported=False,
        repository=tree.repository,
        branch=tree.branch,
        worktree=tree.name,
    )


@pytest.fixture
def worker(checkouts: Checkouts) -> Worker:
    return Worker(checkouts)


def _state(path: Path) -> dict[str, tuple[int, bytes]]:
    """Every file of a worktree: whether it is a link or can be run, and what it holds."""
    found: dict[str, tuple[int, bytes]] = {}
    for file in sorted(path.rglob("*")):
        name = os.fsencode(file.relative_to(path)).decode("latin-1")
        if name == ".git" or (file.is_dir() and not file.is_symlink()):
            continue
        mode = file.lstat().st_mode
        held = os.fsencode(os.readlink(file)) if stat.S_ISLNK(mode) else file.read_bytes()
        found[name] = (stat.S_IFMT(mode) | mode & 0o100, held)
    return found


def _contents(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Every file below a folder with its time; a shared index gets a new one from whoever reads it."""
    return {
        file: (file.read_bytes(), file.stat().st_mtime_ns if "sharedindex" not in file.name else 0)
        for file in folder.rglob("*")
        if file.is_file()
    }


def _change_some(worker: Worker) -> None:
    """Changes of every kind that are not committed: staged, not staged, both, and unknown to git."""
    (worker.path / "number").unlink()
    worker.write({"src/main.py": "print(2)\n", "staged": "new\n", "both": "x\n", "folder/new": "4\n"})
    worker.git("add", "staged", "both")
    worker.write({"both": "y\n", "noise.log": "ignored\n", "build/out": "ignored\n", "grüße \u2603": "unicode\n"})
    (worker.path / "tool").write_text("#!/bin/sh\n")
    (worker.path / "tool").chmod(0o755)
    (worker.path / "link").symlink_to("folder/new")
    (worker.path / "dangling").symlink_to("nowhere")
    (worker.path / "binary").write_bytes(bytes(range(256)))
    (worker.path / os.fsdecode(b"latin-\xe9")).write_bytes(b"\xff\x00")
    (worker.path / "with\nnewline").write_text("odd\n")


def _change_everything(worker: Worker) -> None:
    """The same with commits, and with files, folders and links that became one another."""
    files = {"committed": "1\n", "was-folder/in": "2\n", "was-linked/in": "3\n", "was-file": "4\n", "gone": "5\n"}
    worker.checkouts.commit(worker.path, files)
    _change_some(worker)
    worker.git("rm", "--quiet", "gone")
    for folder in ("was-folder", "was-linked"):
        (worker.path / folder / "in").unlink()
        (worker.path / folder).rmdir()
    (worker.path / "was-folder").write_text("a file\n")
    (worker.path / "was-linked").symlink_to("folder")
    (worker.path / "folder/in").write_text("seen through the link\n")
    (worker.path / "was-file").unlink()
    worker.write({"was-file/in": "a folder\n"})


def _detach(worker: Worker) -> None:
    worker.git("checkout", "--quiet", "--detach")


def _orphan(worker: Worker) -> None:
    worker.git("checkout", "--quiet", "--orphan", "fresh")


def _begin_merge(worker: Worker) -> None:
    main = worker.checkouts.git("rev-parse", "HEAD", cwd=worker.project)
    worker.checkouts.commit(worker.path, {"README": "ours\n"}, "ours")
    worker.git("checkout", "--quiet", "--detach", main)
    other = worker.checkouts.commit(worker.path, {"README": "theirs\n", "more": "from them\n"}, "theirs")
    worker.git("checkout", "--quiet", worker.tree.branch)
    worker.checkouts.git("merge", "--quiet", other, cwd=worker.path, check=False)
    assert "UU README" in worker.git("status", "--porcelain")


def _begin_rebase(worker: Worker) -> None:
    first = worker.checkouts.head(worker.path)
    worker.checkouts.commit(worker.path, {"README": "ours\n"}, "ours")
    worker.git("checkout", "--quiet", "--detach", first)
    other = worker.checkouts.commit(worker.path, {"README": "theirs\n"}, "theirs")
    worker.git("checkout", "--quiet", worker.tree.branch)
    worker.checkouts.git("rebase", "--quiet", other, cwd=worker.path, check=False)
    assert "UU README" in worker.git("status", "--porcelain")


def _lock_index(worker: Worker) -> None:
    entry = Path(worker.git("rev-parse", "--absolute-git-dir"))
    (entry / "index.lock").touch()


def _intend(worker: Worker) -> None:
    worker.write({"intended": "to be added\n"})
    worker.git("add", "--intent-to-add", "intended")


def _forbid(worker: Worker) -> None:
    hooks = Path(worker.git("rev-parse", "--git-common-dir")) / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "post-index-change", "reference-transaction", "commit-msg", "post-commit"):
        (hooks / name).write_text("#!/bin/sh\ntouch ../hook-ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    for setting in ("commit.gpgSign=true", "core.safecrlf=true", "core.autocrlf=input", "core.splitIndex=true"):
        worker.git("config", *setting.split("="))
    worker.git("config", "gpg.program", "/bin/false")
    worker.git("config", "author.name", "Somebody")
    (worker.path / "windows").write_bytes(b"one\r\ntwo\n")


_PREDICAMENTS: list[Callable[[Worker], None]] = [
    *(_detach, _orphan, _begin_merge, _begin_rebase, _lock_index, _intend, _forbid),
]


@pytest.mark.parametrize("predicament", _PREDICAMENTS, ids=lambda each: each.__name__)
def test_whatever_a_worktree_is_in_the_middle_of_it_is_kept_and_nothing_of_it_changes(
    worker: Worker, predicament: Callable[[Worker], None]
) -> None:
    if predicament is not _lock_index:
        predicament(worker)
        _change_some(worker)
    else:
        _change_some(worker)
        predicament(worker)
    entry = Path(worker.git("rev-parse", "--absolute-git-dir"))
    for ran in worker.checkouts.folder.rglob("hook-ran"):
        ran.unlink()
    before = _contents(entry)
    refs = worker.checkouts.git("for-each-ref", "refs/heads", "refs/tags", cwd=worker.project)
    status = worker.git("--no-optional-locks", "status", "--porcelain=v2", "--branch")
    held = _state(worker.path)

    made = worker.must_keep()

    assert _contents(entry) == before
    assert worker.checkouts.git("for-each-ref", "refs/heads", "refs/tags", cwd=worker.project) == refs
    assert worker.git("--no-optional-locks", "status", "--porcelain=v2", "--branch") == status
    assert _state(worker.path) == held
    assert not list(worker.checkouts.folder.rglob("hook-ran"))
    names = worker.checkouts.git("ls-tree", "-r", "-z", "--name-only", made.commit, cwd=worker.project).split("\0")
    assert {os.fsencode(name) for name in names[:-1]} == {
        name.encode("latin-1") for name in held if name not in ("noise.log", "build/out")
    }
    assert worker.git("show", f"{made.commit}:both") == "y"


def test_a_checkpoint_says_of_what_and_when_it_is(worker: Worker) -> None:
    worker.write({"new": "1\n"})

    made = worker.must_keep("waiting")

    [listed] = worker.checkpoints.list(worker.pod)
    assert listed == made
    assert (made.pod, made.session, made.number) == (worker.pod.id, worker.pod.session, 1)
    assert (made.why, made.at, made.offset, made.wall_us) == ("waiting", 1_000_000, 100_000, 1_700_000_001_000_000)
    assert (made.head, made.branch, made.base) == (
        worker.checkouts.head(worker.path),
        "scrubjay/ada",
        worker.tree.base,
    )
    assert abs(made.taken_us - time.time_ns() // 1000) < 60_000_000
    shown = worker.checkouts.git("log", "-1", "--format=%an %P%n%B", f"{_REFS}/{worker.pod.id}/000001", cwd=worker.path)
    assert shown.startswith(f"Scrubjay {made.head}\nCheckpoint 1 of pod ada: waiting\n")


def test_on_no_branch_and_without_a_commit_it_says_so(worker: Worker) -> None:
    _detach(worker)
    detached = worker.must_keep()
    _orphan(worker)
    unborn = worker.must_keep()

    assert (detached.head, detached.branch) == (worker.tree.base, None)
    assert (unborn.head, unborn.branch) == (None, "fresh")
    assert detached.tree == unborn.tree
    assert worker.checkpoints.list(worker.pod) == [detached, unborn]


def test_what_has_not_changed_is_not_kept_again(worker: Worker) -> None:
    worker.write({"new": "1\n"})
    first = worker.must_keep()
    again = worker.keep()
    worker.git("add", "new")
    staged = worker.keep()
    worker.write({"noise.log": "ignored\n"})
    ignored = worker.keep()
    worker.checkouts.commit(worker.path, {}, "the same files")
    committed = worker.must_keep()
    worker.git("switch", "--quiet", "--create", "other")
    switched = worker.must_keep("exit")

    assert (again, staged, ignored) == (None, None, None)
    assert first.tree == committed.tree == switched.tree
    assert worker.checkpoints.list(worker.pod) == [first, committed, switched]


def test_a_file_that_changes_in_the_moment_it_is_added_is_kept_as_it_is(worker: Worker) -> None:
    for number in range(20):
        worker.write({"quick": f"{number:04}\n"})
        worker.git("add", "quick")
        (worker.path / "quick").write_text(f"{number + 5000:04}\n")
        made = worker.must_keep()

        assert worker.git("show", f"{made.commit}:quick") == f"{number + 5000:04}"


def test_too_large_too_many_and_unreadable_files_are_left_out_and_named(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untracked, "FILE_MAX_BYTES", 2 << 20)
    monkeypatch.setattr(untracked, "TOTAL_MAX_BYTES", 3000)
    (worker.path / "huge\x1b[31m").write_bytes(b"\0" * (3 << 20))
    for name in ("a", "b", "c", "d"):
        (worker.path / name).write_text(name * 1000)
    nested = worker.path / "nested"
    nested.mkdir()
    worker.checkouts.git("init", "--quiet", cwd=nested)

    made = worker.must_keep()

    assert made.left_out == ("huge\\x1b[31m (3 MiB)", "nested/ (a repository of its own)", "d (too many new files)")
    assert worker.checkpoints.list(worker.pod) == [made]
    names = worker.checkouts.git("ls-tree", "--name-only", made.commit, cwd=worker.project).split()
    assert {"a", "b", "c"} <= set(names)
    assert not {"d", "nested"} & set(names)


def test_of_a_submodule_the_commit_is_kept(checkouts: Checkouts) -> None:
    library, project = checkouts.make("library"), checkouts.make()
    checkouts.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib", cwd=project)
    checkouts.commit(project, {}, "with a submodule")
    worker = Worker(checkouts, project=project)
    worker.git("-c", "protocol.file.allow=always", "submodule", "update", "--init", "--quiet")
    moved = checkouts.commit(worker.path / "lib", {"inside": "1\n"}, "inside")

    made = worker.must_keep()

    assert worker.git("ls-tree", made.commit, "lib").split()[:3] == ["160000", "commit", moved]


def test_an_instant_has_the_last_checkpoint_up_to_it(worker: Worker) -> None:
    made: list[Checkpoint] = []
    for number in range(3):
        worker.write({"number": f"changed {number}\n"})
        made.append(worker.must_keep())

    def at(us: int | None = None, offset: int | None = None) -> Checkpoint:
        return checkpoint_at("ada", made, Instant(at=us or 0, offset=offset, shown="0.5s"))

    assert [at(1_000_000), at(1_999_999), at(2_000_000), at(99_000_000)] == [made[0], made[0], made[1], made[2]]
    assert [at(offset=100_000), at(offset=200_001)] == [made[0], made[1]]
    with pytest.raises(NoCheckpoint, match=r"up to 0\.5s") as early:
        at(999_999)
    assert "1.0 s into its recording" in str(early.value.hint)
    with pytest.raises(NoCheckpoint, match="nothing was kept"):
        checkpoint_at("ada", [], Instant(at=1))


def test_the_difference_at_an_instant_is_that_of_the_files_then(worker: Worker) -> None:
    worker.write({"README": "first\n", "new": "1\n2\n"})
    first = worker.must_keep()
    (worker.path / "src/main.py").unlink()
    worker.checkouts.commit(worker.path, {"README": "second\n"}, "work")
    second = worker.must_keep()
    worker.write({"README": "third\n", "later": "x\n"})

    then = worker.checkpoints.summary(worker.pod, first, None)
    between = worker.checkpoints.summary(worker.pod, second, first)
    since = worker.checkpoints.summary(worker.pod, None, second)
    now = worker.checkpoints.summary(worker.pod, None, None)

    assert [(file.path, file.change, file.insertions, file.deletions) for file in then.files] == [
        ("README", "modified", 1, 1),
        ("new", "added", 2, 0),
    ]
    assert (then.commits, then.insertions, then.deletions) == (0, 3, 1)
    assert [(file.path, file.change) for file in between.files] == [("README", "modified"), ("src/main.py", "deleted")]
    assert [commit.subject for commit in between.log] == ["work"]
    assert {file.path for file in since.files} == {"README", "later"}
    assert {file.path for file in now.files} == {"README", "new", "later", "src/main.py"}
    assert "-first\n+second\n" in worker.checkpoints.patch(worker.pod, second, first)
    assert "-hello\n+first\n" in worker.checkpoints.patch(worker.pod, first, None)
    assert "-second\n+third\n" in worker.checkpoints.patch(worker.pod, None, second)
    assert "goes on after 10 bytes" in worker.checkpoints.patch(worker.pod, first, None, limit_bytes=10)


def test_a_fork_has_exactly_the_files_of_the_checkpoint_and_none_is_committed_or_staged(worker: Worker) -> None:
    _change_everything(worker)
    held = {name: file for name, file in _state(worker.path).items() if name not in ("noise.log", "build/out")}
    made = worker.must_keep()
    shutil.rmtree(worker.path / "folder")
    worker.checkouts.commit(worker.path, {"later": "not in it\n"}, "later")

    fork = worker.fork(made)

    assert _state(fork.path) == held
    assert worker.checkouts.head(fork.path) == made.head
    assert worker.checkouts.git("branch", "--show-current", cwd=fork.path) == "scrubjay/bob" == fork.branch
    assert worker.checkouts.git("diff", "--cached", "--name-only", cwd=fork.path) == ""
    status = worker.checkouts.git("-c", "core.quotePath=false", "status", "--porcelain", "-uall", cwd=fork.path)
    assert {" D number", " M src/main.py", "?? staged", "?? tool", " D was-file"} <= set(status.split("\n"))
    assert fork.base == made.head


def test_a_fork_of_a_fork_and_of_a_worktree_that_is_gone_work(worker: Worker) -> None:
    worker.write({"new": "1\n"})
    made = worker.must_keep()
    worker.checkouts.worktrees.remove(worker.tree, force=True)

    again = worker.checkpoints.find(worker.pod, made.commit)
    fork = worker.fork(again, "bob")
    kept = worker.checkpoints.make(pod_in(fork), Moment("idle", 1, 1, 1))

    assert again == made
    assert (fork.path / "new").read_text() == "1\n"
    assert kept is not None
    assert (kept.tree, kept.head, kept.number) == (made.tree, made.head, 1)
    with pytest.raises(NoSuchWorktree):
        worker.keep()


def test_a_fork_that_fails_leaves_nothing_behind(worker: Worker) -> None:
    made = worker.must_keep()
    branches = worker.checkouts.branches(worker.project)

    with pytest.raises(Exception, match="read-tree"):
        worker.checkouts.worktrees.create(
            PodName("bob"), repository=str(worker.project), branch=None, base=made.head, files="0" * 40
        )

    assert worker.checkouts.branches(worker.project) == branches
    assert [tree.name for tree in worker.checkouts.worktrees.list()] == ["ada"]
    assert worker.checkouts.known_worktrees(worker.project) == {str(worker.path)}
    assert worker.checkouts.leftovers() == []


def test_a_fork_of_a_clone_does_not_ask_its_server(checkouts: Checkouts) -> None:
    bare = checkouts.make_bare()
    tree = checkouts.create("ada", f"file://{bare}")
    (tree.path / "new").write_text("1\n")
    pod = pod_in(tree)
    made = Checkpoints(checkouts.worktrees).make(pod, Moment("idle", 1, 1, 1))
    bare.rename(bare.with_name("away"))
    assert made is not None

    fork = checkouts.worktrees.create(
        PodName("bob"), repository=tree.repository, branch=None, base=made.head, files=made.commit
    )

    assert (fork.path / "new").read_text() == "1\n"


def test_commits_that_only_a_checkpoint_has_count_as_on_no_branch(worker: Worker) -> None:
    _detach(worker)
    stray = worker.checkouts.commit(worker.path, {"new": "1\n"}, "on no branch")
    worker.must_keep()

    with pytest.raises(WorktreeDirty, match="commits on no branch"):
        worker.checkouts.worktrees.remove(worker.tree, force=False)
    removal = worker.checkouts.worktrees.remove(worker.tree, force=True)

    assert removal.kept == f"refs/scrubjay/kept/{stray}"


def test_a_pod_that_is_deleted_takes_its_checkpoints_and_no_others_with_it(worker: Worker) -> None:
    worker.must_keep()
    worker.write({"new": "1\n"})
    worker.must_keep()
    other = Worker(worker.checkouts, "bob", worker.project)
    stays = other.must_keep()

    assert worker.checkpoints.forget(worker.pod) == 2
    assert worker.checkpoints.forget(worker.pod) == 0
    assert worker.checkpoints.list(worker.pod) == []
    assert other.checkpoints.list(other.pod) == [stays]


def test_a_checkpoint_that_is_spoilt_or_forged_is_passed_over(worker: Worker) -> None:
    made = worker.must_keep()
    worker.write({"new": "1\n"})
    lost = worker.must_keep()
    common = Path(worker.git("rev-parse", "--path-format=absolute", "--git-common-dir"))
    (common / "objects" / lost.commit[:2] / lost.commit[2:]).unlink()
    worker.git("update-ref", f"{_REFS}/{worker.pod.id}/000007", worker.tree.base)
    worker.git("update-ref", f"{_REFS}/{worker.pod.id}/odd", worker.tree.base)

    assert worker.checkpoints.list(worker.pod) == [made]
    after = worker.must_keep()
    assert after.number == 8
    assert worker.checkpoints.list(worker.pod) == [made, after]


def test_where_there_is_nothing_to_keep_or_to_find_it_is_said_why(worker: Worker) -> None:
    homeless = Pod(
        folder=Path("/nowhere"),
        id=new_pod_id(),
        name=PodName("plain"),
        session=new_session_id(),
        argv=("cat",),
        cwd="/",
        created_us=1,
        imported=False,
    )
    with pytest.raises(NoWorktree, match="'plain' has no worktree") as none:
        worker.checkpoints.list(homeless)
    assert "--repo" in str(none.value.hint)
    with pytest.raises(NoWorktree):
        worker.checkpoints.summary(homeless, None, None)
    with pytest.raises(NoCheckpoint):
        worker.checkpoints.find(worker.pod, "0" * 40)

    worker.project.rename(worker.project.with_name("moved"))
    with pytest.raises(RepositoryGone, match="is gone"):
        worker.checkpoints.list(worker.pod)


def test_a_worktree_that_another_pod_has_made_since_is_not_taken_for_the_old_one(worker: Worker) -> None:
    worker.must_keep()
    worker.checkouts.worktrees.remove(worker.tree, force=True)
    worker.checkouts.create("ada", worker.project)

    with pytest.raises(NoSuchWorktree):
        worker.keep()
    with pytest.raises(NoSuchWorktree):
        worker.checkpoints.summary(worker.pod, None, None)
