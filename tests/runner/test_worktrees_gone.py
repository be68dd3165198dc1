"""Worktrees are known until they are removed, and nothing that was done in them is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scrubjay.errors import (
    BadName,
    NoSuchWorktree,
    WorktreeDirty,
    WorktreeMissing,
)
from tests.support.checkouts import Checkouts
from tests.support.paths import PROGRAMS

_INTERRUPTED = PROGRAMS / "interrupted_create.py"


def test_worktrees_are_known_after_a_restart_oldest_first(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made = [checkouts.create(name, project) for name in ("zoe", "ada", "bob.json", "bob")]

    assert checkouts.reopen().list() == made
    assert checkouts.reopen().find("bob.json") == made[2]


def test_no_worktrees_are_no_error(checkouts: Checkouts) -> None:
    assert checkouts.worktrees.list() == []
    assert checkouts.worktrees.tidy() == []
    with pytest.raises(NoSuchWorktree):
        checkouts.worktrees.find("ada")
    with pytest.raises(BadName):
        checkouts.worktrees.find("../ada")
    assert not checkouts.home.exists()


def test_what_somebody_else_wrote_is_not_a_worktree(checkouts: Checkouts) -> None:
    made = checkouts.create("ada", checkouts.make())
    facts = checkouts.home / "worktrees" / ".facts"
    (facts / "empty.json").write_text("")
    (facts / "odd.json").write_text('{"made":true,"branch":"--force","base":"HEAD","git_dir":"/"}')
    (facts / "UPPER.json").write_text("{}")

    assert checkouts.worktrees.list() == [made]


def test_missing_ones_are_marked(checkouts: Checkouts) -> None:
    project, other = checkouts.make(), checkouts.make("other")
    gone, orphan, cut = (
        checkouts.create("gone", project),
        checkouts.create("orphan", other),
        checkouts.create("cut", project),
    )
    shutil.rmtree(gone.path)
    shutil.rmtree(other)
    (cut.path / ".git").unlink()

    listed = {str(tree.name): tree.missing or "" for tree in checkouts.worktrees.list()}

    assert "folder is gone" in listed["gone"]
    assert "repository" in listed["orphan"]
    assert ".git file" in listed["cut"]
    for tree in (gone, orphan, cut):
        assert checkouts.worktrees.inspect(tree).missing == listed[tree.name]
        with pytest.raises(WorktreeMissing):
            checkouts.worktrees.diff_summary(tree)


def test_a_damaged_one_does_not_hide_the_others(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made = checkouts.create("ada", project)
    (project / ".git/worktrees/ada/HEAD").write_text("nonsense\n")

    assert "git status failed" in (checkouts.worktrees.inspect(made).missing or "")


def test_the_state_says_what_is_where(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made = checkouts.create("ada", project)
    checkouts.commit(made.path, {"one": "1\n", "two": "2\n", "three": "3\n"})
    (made.path / "one").write_text("changed\n")
    (made.path / "two").write_text("changed\n")
    (made.path / "x.log").write_text("ignored\n")
    (made.path / "build").mkdir()
    (made.path / "build/out").write_text("ignored\n")
    checkouts.git("add", "two", cwd=made.path)
    checkouts.git("mv", "three", "drei", cwd=made.path)
    (made.path / "new\nline").write_text("untracked\n")
    checkouts.git("config", "status.showUntrackedFiles", "no", cwd=project)

    state = checkouts.worktrees.inspect(made)

    assert (state.head, state.branch) == (checkouts.head(made.path), "scrubjay/ada")
    assert (state.ahead, state.staged, state.unstaged, state.untracked, state.ignored) == (1, 3, 1, 1, 2)
    assert not state.clean


def test_looking_does_not_get_in_the_way_of_an_agents_git(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made = checkouts.create("ada", project)
    (made.path / "README").touch()
    (made.path / "new").write_text("1\n")
    entry = project / ".git/worktrees/ada"
    (entry / "index.lock").touch()
    before = (entry / "index").read_bytes()

    assert checkouts.worktrees.inspect(made).untracked == 1
    assert checkouts.worktrees.diff_summary(made).insertions == 1

    assert (entry / "index").read_bytes() == before


def test_a_persons_git_does_not_take_a_pods_worktree(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made = checkouts.create("ada", project)

    checkouts.git("worktree", "remove", str(made.path), cwd=project, check=False)
    made.path.rename(checkouts.folder / "aside")
    checkouts.git("worktree", "prune", "--expire=now", cwd=project)
    checkouts.git("gc", "--quiet", "--prune=now", cwd=project)
    (checkouts.folder / "aside").rename(made.path)

    assert checkouts.worktrees.inspect(made).clean


def test_one_that_was_released_is_for_anybody(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made = checkouts.create("ada", project)
    held = checkouts.git("worktree", "list", "--porcelain", cwd=project)

    checkouts.worktrees.release(made)
    checkouts.worktrees.release(made)
    free = checkouts.git("worktree", "list", "--porcelain", cwd=project)
    checkouts.git("worktree", "remove", str(made.path), cwd=project)

    assert "locked a pod of Scrubjay works here" in held
    assert "locked" not in free
    assert checkouts.worktrees.find("ada").missing is not None


def test_somebody_elses_lock_is_not_ours_to_release(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made = checkouts.create("ada", project)
    checkouts.git("worktree", "unlock", str(made.path), cwd=project)
    checkouts.git("worktree", "lock", "--reason", "hands off", str(made.path), cwd=project)

    checkouts.worktrees.release(made)

    assert "locked hands off" in checkouts.git("worktree", "list", "--porcelain", cwd=project)


def test_a_clean_one_goes_and_its_branch_stays(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made = checkouts.create("ada", project)
    commit = checkouts.commit(made.path, {"new": "1\n"})
    (made.path / "x.log").write_text("ignored\n")

    removal = checkouts.worktrees.remove(made, force=False)

    assert (removal.branch, removal.ignored, removal.kept, removal.left) == ("scrubjay/ada", 1, None, None)
    assert checkouts.git("rev-parse", "scrubjay/ada", cwd=project) == commit
    assert checkouts.known_worktrees(project) == set()
    assert not made.path.exists()
    assert checkouts.worktrees.list() == []
    assert checkouts.leftovers() == []
    with pytest.raises(NoSuchWorktree):
        checkouts.worktrees.remove(made, force=True)


@pytest.mark.parametrize("what", ["staged", "unstaged", "untracked", "deleted", "merge", "stray", "submodule", "lock"])
def test_one_that_would_take_work_with_it_stays_unless_forced(checkouts: Checkouts, what: str) -> None:
    project = checkouts.make()
    made = checkouts.create("ada", project)
    reason = _dirty(checkouts, made.path, what)

    with pytest.raises(WorktreeDirty, match=reason) as refused:
        checkouts.worktrees.remove(made, force=False)

    assert checkouts.worktrees.find("ada") == made
    assert refused.value.hint is not None
    branches = checkouts.branches(project)
    checkouts.worktrees.remove(made, force=True)
    assert not made.path.exists()
    assert checkouts.branches(project) == branches
    assert checkouts.known_worktrees(project) == set()


def test_commits_on_no_branch_are_kept(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made = checkouts.create("ada", project)
    checkouts.git("checkout", "--quiet", "--detach", cwd=made.path)
    commit = checkouts.commit(made.path, {"new": "1\n"})

    removal = checkouts.worktrees.remove(made, force=True)

    assert removal.kept == f"refs/scrubjay/kept/{commit}"
    checkouts.git("-c", "gc.reflogExpire=now", "gc", "--quiet", "--prune=now", cwd=project)
    assert checkouts.git("show", f"{commit}:new", cwd=project) == "1"


def test_one_whose_folder_is_gone_takes_only_its_own_entry(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made, away = checkouts.create("ada", project), checkouts.create("away", project)
    checkouts.git("worktree", "add", "--quiet", "--detach", str(checkouts.folder / "usb"), cwd=project)
    checkouts.git("checkout", "--quiet", "--detach", cwd=made.path)
    commit = checkouts.commit(made.path, {"new": "1\n"})
    for folder in (made.path, away.path, checkouts.folder / "usb"):
        folder.rename(checkouts.folder / f"unmounted-{folder.name}")

    removal = checkouts.worktrees.remove(made, force=False)

    assert removal.kept == f"refs/scrubjay/kept/{commit}"
    assert checkouts.known_worktrees(project) == {str(away.path), str(checkouts.folder / "usb")}
    (checkouts.folder / "unmounted-away").rename(away.path)
    assert checkouts.worktrees.inspect(away).clean


def test_one_that_a_person_has_moved_is_theirs(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made = checkouts.create("ada", project)
    moved = checkouts.folder / "moved"
    checkouts.git("worktree", "move", "--force", "--force", str(made.path), str(moved), cwd=project)

    checkouts.worktrees.remove(made, force=True)

    assert checkouts.worktrees.list() == []
    assert checkouts.known_worktrees(project) == {str(moved)}
    assert checkouts.git("status", "--porcelain", cwd=moved) == ""


def test_one_whose_repository_is_gone_is_removed_by_force_only(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made = checkouts.create("ada", project)
    shutil.rmtree(project)

    with pytest.raises(WorktreeMissing, match="is gone"):
        checkouts.worktrees.remove(made, force=False)

    checkouts.worktrees.remove(made, force=True)
    assert not made.path.exists()
    assert checkouts.worktrees.list() == []


def test_a_link_that_an_agent_put_in_its_place_is_not_followed(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made, other = checkouts.create("ada", project), checkouts.create("other", project)
    shutil.rmtree(made.path)
    made.path.symlink_to(other.path)

    with pytest.raises(WorktreeMissing):
        checkouts.worktrees.remove(made, force=False)
    checkouts.worktrees.remove(made, force=True)

    assert checkouts.worktrees.list() == [other]
    assert checkouts.worktrees.inspect(other).clean


def test_a_git_file_that_an_agent_pointed_elsewhere_is_not_followed(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made, other = checkouts.create("ada", project), checkouts.create("other", project)
    (made.path / "work").write_text("not committed\n")
    shutil.copy(other.path / ".git", made.path / ".git")

    with pytest.raises(WorktreeMissing, match="leads elsewhere"):
        checkouts.worktrees.remove(made, force=False)
    checkouts.worktrees.remove(made, force=True)

    assert checkouts.worktrees.list() == [other]
    assert checkouts.worktrees.inspect(other).clean


def test_folders_that_are_read_only_go_too(checkouts: Checkouts) -> None:
    made = checkouts.create("ada", checkouts.make())
    (made.path / "build/cache/module").mkdir(parents=True)
    (made.path / "build/cache/module/file").write_text("x")
    (made.path / "build/cache/module").chmod(0o500)
    (made.path / "build/cache").chmod(0o500)
    made.path.chmod(0o500)

    removal = checkouts.worktrees.remove(made, force=True)

    assert removal.left is None
    assert checkouts.leftovers() == []


def test_a_submodule_that_was_never_fetched_is_in_nobodys_way(checkouts: Checkouts) -> None:
    inner, outer = checkouts.make("inner"), checkouts.make("outer")
    allow = ("-c", "protocol.file.allow=always")
    checkouts.git(*allow, "submodule", "--quiet", "add", "--", str(inner), "part", cwd=outer)
    checkouts.git("commit", "--quiet", "--message", "part", cwd=outer)
    made = checkouts.create("ada", outer)

    checkouts.worktrees.remove(made, force=False)

    assert not made.path.exists()


def _dirty(checkouts: Checkouts, path: Path, what: str) -> str:
    """Leave work in a worktree; what a refusal says of it."""
    match what:
        case "staged":
            (path / "README").write_text("changed\n")
            checkouts.git("add", "README", cwd=path)
            return "1 staged change$"
        case "unstaged":
            (path / "README").write_text("changed\n")
            return "1 unstaged change$"
        case "untracked":
            (path / "one").write_text("1\n")
            (path / "two").write_text("2\n")
            return "2 untracked files"
        case "deleted":
            (path / "README").unlink()
            return "1 unstaged change"
        case "merge":
            checkouts.git("merge", "--no-commit", "--strategy=ours", "--no-ff", _side_commit(checkouts, path), cwd=path)
            return "a merge in progress"
        case "stray":
            checkouts.git("checkout", "--quiet", "--detach", cwd=path)
            checkouts.commit(path, {"new": "1\n"})
            return "commits on no branch"
        case "submodule":
            inner = checkouts.make("inner")
            allow = ("-c", "protocol.file.allow=always")
            checkouts.git(*allow, "submodule", "--quiet", "add", "--", str(inner), "part", cwd=path)
            checkouts.git("commit", "--quiet", "--message", "part", cwd=path)
            return "1 submodule with commits of its own"
        case _:
            checkouts.git("worktree", "unlock", ".", cwd=path)
            checkouts.git("worktree", "lock", "--reason", "hands off", ".", cwd=path)
            return "hands off"


def _side_commit(checkouts: Checkouts, path: Path) -> str:
    tree = checkouts.git("rev-parse", "HEAD^{tree}", cwd=path)
    return checkouts.git("commit-tree", tree, "-p", "HEAD", "-m", "side", cwd=path)
