"""A pod gets a folder and a branch of its own, whatever the repository is like."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scrubjay.errors import (
    BadBranch,
    BadRepository,
    BranchInUse,
    GitFailed,
    HomeUnusable,
    NoSuchBase,
    WorktreeError,
)
from scrubjay.ids import PodName
from scrubjay.runner.worktrees import Worktrees
from tests.support.checkouts import Checkouts
from tests.support.paths import PROGRAMS

_INTERRUPTED = PROGRAMS / "interrupted_create.py"


def _snapshot(checkout: Path) -> dict[str, bytes]:
    """Every file of a checkout and of its .git, but for what git adds for another worktree."""
    found: dict[str, bytes] = {}
    for folder, _, files in os.walk(checkout):
        for file in files:
            path = Path(folder, file)
            name = str(path.relative_to(checkout))
            if not name.startswith((".git/worktrees", ".git/refs/heads/scrubjay", ".git/logs/refs/heads/scrubjay")):
                found[name] = path.read_bytes()
    return found


def test_a_pod_gets_the_files_of_head_on_a_branch_of_its_own(checkouts: Checkouts) -> None:
    project = checkouts.make()

    made = checkouts.create("ada", project)

    assert made.path == checkouts.home / "worktrees" / "ada"
    assert (made.path / "src/main.py").read_text() == "print(1)\n"
    assert (made.repository, made.branch, made.base) == (str(project), "scrubjay/ada", checkouts.head(project))
    assert checkouts.git("symbolic-ref", "HEAD", cwd=made.path) == "refs/heads/scrubjay/ada"
    assert checkouts.git("status", "--porcelain", cwd=made.path) == ""
    assert made.missing is None


def test_a_persons_checkout_is_as_it_was(checkouts: Checkouts) -> None:
    project = checkouts.make()
    (project / "README").write_text("changed, not staged\n")
    (project / "staged").write_text("staged\n")
    checkouts.git("add", "staged", cwd=project)
    before = _snapshot(project)

    made = checkouts.create("ada", project)
    checkouts.commit(made.path, {"README": "the pod's\n"})
    checkouts.worktrees.inspect(made)
    checkouts.worktrees.diff_summary(made)
    checkouts.worktrees.remove(made, force=False)
    after = _snapshot(project)

    assert {name for name in before if before[name] != after.get(name)} == set()
    assert all(name.startswith(".git/objects") for name in after.keys() - before.keys())
    assert checkouts.git("status", "--porcelain", cwd=project) == "M README\nA  staged"


@pytest.mark.parametrize("name", ["a b", "größe", "it's", 'say "x"', "$(touch x)", "-f", "a;b", "%2e%2e"])
def test_a_repository_may_have_any_name_that_can_be_shown(checkouts: Checkouts, name: str) -> None:
    made = checkouts.create("ada", checkouts.make(name))

    assert (made.path / "README").exists()
    assert checkouts.worktrees.inspect(made).clean
    assert checkouts.worktrees.list() == [made]


def test_any_folder_of_a_repository_will_do(checkouts: Checkouts) -> None:
    project = checkouts.make()
    (checkouts.folder / "link").symlink_to(project / "src")

    deep = checkouts.create("deep", project / "src")
    linked = checkouts.create("linked", checkouts.folder / "link")

    assert deep.repository == linked.repository == str(project)
    assert (deep.path / "src/main.py").exists()


def test_in_another_worktree_a_branch_starts_from_what_is_checked_out_there(checkouts: Checkouts) -> None:
    project = checkouts.make()
    first = checkouts.create("first", project)
    commit = checkouts.commit(first.path, {"new": "1\n"})

    second = checkouts.create("second", first.path)

    assert second.base == commit
    assert second.repository == str(project)


def test_a_bare_repository_works(checkouts: Checkouts) -> None:
    bare = checkouts.make_bare()

    made = checkouts.create("ada", bare)

    assert made.repository == str(bare)
    assert checkouts.worktrees.inspect(made).clean


def test_a_detached_head_works(checkouts: Checkouts) -> None:
    project = checkouts.make(commits=2)
    checkouts.git("checkout", "--quiet", "--detach", "HEAD~1", cwd=project)

    made = checkouts.create("ada", project)

    assert made.base == checkouts.head(project)


def test_a_submodule_is_a_repository_of_its_own(checkouts: Checkouts) -> None:
    inner, outer = checkouts.make("inner"), checkouts.make("outer")
    allow = ("-c", "protocol.file.allow=always")
    checkouts.git(*allow, "submodule", "--quiet", "add", "--", str(inner), "part", cwd=outer)

    made = checkouts.create("ada", outer / "part")
    checkouts.commit(made.path, {"new": "1\n"})

    assert made.repository == str(outer / "part")
    assert checkouts.worktrees.inspect(made).ahead == 1
    assert checkouts.worktrees.remove(made, force=False).branch == "scrubjay/ada"
    assert checkouts.git("status", "--porcelain", cwd=outer / "part") == ""


def test_a_repository_without_commits_is_refused(checkouts: Checkouts) -> None:
    project = checkouts.make(commits=0)

    with pytest.raises(NoSuchBase, match="no commit to start from"):
        checkouts.create("ada", project)


def test_what_is_no_repository_is_refused(checkouts: Checkouts) -> None:
    project = checkouts.make()
    (checkouts.folder / "plain").mkdir()

    for address, why in (
        (checkouts.folder / "plain", "not in a git repository"),
        (checkouts.folder / "nowhere", "no such folder"),
        (project / "README", "no such folder"),
        (project / ".git", "inside a .git folder"),
        (project / ".git/refs", "inside a .git folder"),
        (f"{project}/../project", "has '..' in it"),
        ("project", "neither an absolute path"),
        (f"{project}\nx", "cannot be shown"),
        (f"{project}\udcff", "cannot be shown"),
    ):
        with pytest.raises(BadRepository, match=why) as refused:
            checkouts.create("ada", address)
        assert refused.value.hint


def test_a_path_that_leads_to_unprintable_names_through_a_link_works(checkouts: Checkouts) -> None:
    project = checkouts.make()
    odd = Path(os.fsdecode(os.fsencode(checkouts.folder) + b"/\xff\xfe"))
    project.rename(odd)
    (checkouts.folder / "link").symlink_to(odd)

    made = checkouts.create("ada", checkouts.folder / "link")

    assert made.repository == str(checkouts.folder / "link")
    assert checkouts.worktrees.inspect(made).clean
    assert checkouts.reopen().list() == [made]
    with pytest.raises(BranchInUse, match=r"is in use in .*\\xff\\xfe$"):
        checkouts.create("bob", checkouts.folder / "link", branch="main")


def test_a_failed_one_leaves_nothing_behind(checkouts: Checkouts) -> None:
    project = checkouts.make()
    checkouts.commit(project, {".gitattributes": "README filter=broken\n"})
    checkouts.git("config", "filter.broken.smudge", "false", cwd=project)
    checkouts.git("config", "filter.broken.required", "true", cwd=project)
    before = checkouts.branches(project)

    with pytest.raises(GitFailed, match="smudge filter broken failed"):
        checkouts.create("ada", project)

    assert checkouts.branches(project) == before
    assert checkouts.known_worktrees(project) == set()
    assert checkouts.worktrees.list() == []
    assert not (checkouts.home / "worktrees" / "ada").exists()
    assert checkouts.leftovers() == []


def test_whoever_listens_can_end_it(checkouts: Checkouts) -> None:
    project = checkouts.make()

    def give_up(message: str) -> None:
        if message.startswith("writing"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkouts.worktrees.create(PodName("ada"), repository=str(project), branch=None, progress=give_up)

    assert checkouts.known_worktrees(project) == set()
    assert checkouts.branches(project) == {"main"}
    assert checkouts.leftovers() == []


def test_a_folder_that_is_not_ours_is_left_alone(checkouts: Checkouts) -> None:
    project = checkouts.make()
    checkouts.create("x", project)
    foreign = checkouts.home / "worktrees" / "ada"
    foreign.mkdir()
    (foreign / "mine").write_text("1")

    made = checkouts.create("ada", project)

    assert made.name == "ada-2"
    assert (foreign / "mine").exists()


def test_a_symbolic_link_in_the_way_is_refused(checkouts: Checkouts) -> None:
    project = checkouts.make()
    elsewhere = checkouts.folder / "elsewhere"
    elsewhere.mkdir()
    checkouts.home.mkdir()
    (checkouts.home / "worktrees").symlink_to(elsewhere)

    with pytest.raises(HomeUnusable, match="symbolic link"):
        checkouts.create("ada", project)

    assert list(elsewhere.iterdir()) == []


def test_a_data_directory_may_be_a_symbolic_link(checkouts: Checkouts) -> None:
    project = checkouts.make()
    (checkouts.folder / "disk").mkdir()
    checkouts.home.symlink_to(checkouts.folder / "disk")

    made = checkouts.reopen().create(PodName("ada"), repository=str(project), branch=None)

    assert made.path == checkouts.folder / "disk" / "worktrees" / "ada"
    assert checkouts.reopen().list() == [made]


def test_a_later_pod_of_the_same_name_gets_a_number(checkouts: Checkouts) -> None:
    project = checkouts.make()

    made = [checkouts.create("ada", project) for _ in range(3)]

    assert [tree.name for tree in made] == ["ada", "ada-2", "ada-3"]
    assert [tree.branch for tree in made] == ["scrubjay/ada", "scrubjay/ada-2", "scrubjay/ada-3"]


def test_a_branch_with_an_earlier_pods_commits_is_not_gone_on_with(checkouts: Checkouts) -> None:
    project = checkouts.make()
    earlier = checkouts.create("ada", project)
    commit = checkouts.commit(earlier.path, {"new": "1\n"})
    checkouts.worktrees.remove(earlier, force=False)

    later = checkouts.create("ada", project)

    assert (later.name, later.branch) == ("ada-2", "scrubjay/ada-2")
    assert not (later.path / "new").exists()
    assert checkouts.git("rev-parse", "scrubjay/ada", cwd=project) == commit


def test_a_branch_without_commits_of_its_own_is_as_good_as_new(checkouts: Checkouts) -> None:
    project = checkouts.make()
    checkouts.worktrees.remove(checkouts.create("ada", project), force=False)

    again = checkouts.create("ada", project)

    assert (again.name, again.branch) == ("ada", "scrubjay/ada")
    assert checkouts.branches(project) == {"main", "scrubjay/ada"}


def test_a_branch_that_is_named_is_gone_on_with(checkouts: Checkouts) -> None:
    project = checkouts.make()
    earlier = checkouts.create("ada", project)
    commit = checkouts.commit(earlier.path, {"new": "1\n"})
    checkouts.worktrees.remove(earlier, force=False)

    later = checkouts.create("ada", project, branch="scrubjay/ada")
    counted = checkouts.create("bob", project, branch="topic", base="scrubjay/ada")

    assert (later.branch, later.base) == ("scrubjay/ada", commit)
    assert (later.path / "new").read_text() == "1\n"
    assert (counted.branch, counted.base) == ("topic", commit)


def test_changes_on_a_branch_that_is_gone_on_with_can_be_counted_from_an_older_base(checkouts: Checkouts) -> None:
    project = checkouts.make()
    checkouts.git("branch", "topic", cwd=project)
    first = checkouts.create("ada", project, branch="topic")
    checkouts.commit(first.path, {"new": "1\n"})
    checkouts.worktrees.remove(first, force=False)

    later = checkouts.create("bob", project, branch="topic", base="main")

    assert checkouts.worktrees.inspect(later).ahead == 1
    assert later.base == checkouts.head(project)


def test_a_branch_in_use_is_refused_and_said_where(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made = checkouts.create("ada", project)

    with pytest.raises(BranchInUse) as main:
        checkouts.create("bob", project, branch="main")
    with pytest.raises(BranchInUse) as pods:
        checkouts.create("bob", project, branch="scrubjay/ada")

    assert main.value.where == str(project)
    assert pods.value.where == str(made.path)
    assert [tree.name for tree in checkouts.worktrees.list()] == ["ada"]


def test_a_branch_that_is_being_rebased_elsewhere_is_refused(checkouts: Checkouts) -> None:
    project = checkouts.make(commits=2)
    checkouts.git("checkout", "--quiet", "-b", "topic", "HEAD~1", cwd=project)
    checkouts.commit(project, {"number": "conflict\n"})
    checkouts.git("rebase", "main", cwd=project, check=False)
    assert checkouts.git("symbolic-ref", "--quiet", "HEAD", cwd=project, check=False) == ""

    with pytest.raises(BranchInUse):
        checkouts.create("ada", project, branch="topic")


def test_a_branch_of_the_remote_is_followed(checkouts: Checkouts) -> None:
    project = checkouts.make()
    commit = checkouts.head(project)
    checkouts.git("update-ref", "refs/remotes/origin/topic", commit, cwd=project)
    checkouts.commit(project, {"later": "1\n"})

    made = checkouts.create("ada", project, branch="topic")

    assert (made.branch, made.base) == ("topic", commit)


@pytest.mark.parametrize("base", ["old", "v1", "light", "topic/größe", "origin/theirs"])
def test_a_base_may_be_any_branch_or_tag(checkouts: Checkouts, base: str) -> None:
    project = checkouts.make()
    commit = checkouts.head(project)
    checkouts.git("branch", "old", cwd=project)
    checkouts.git("branch", "topic/größe", cwd=project)
    checkouts.git("tag", "--annotate", "--message", "one", "v1", cwd=project)
    checkouts.git("tag", "light", cwd=project)
    checkouts.git("update-ref", "refs/remotes/origin/theirs", commit, cwd=project)
    checkouts.commit(project, {"later": "1\n"})

    assert checkouts.create("ada", project, base=base).base == commit
    assert checkouts.create("bob", project, base=commit).base == commit
    assert checkouts.create("eve", project, base=commit[:9]).base == commit


def test_a_base_that_is_not_there_is_refused(checkouts: Checkouts) -> None:
    project = checkouts.make()
    checkouts.git("tag", "tree", "HEAD^{tree}", cwd=project)

    for base in ("nothing", "0123456789abcdef", "tree"):
        with pytest.raises(NoSuchBase, match=base):
            checkouts.create("ada", project, base=base)


def test_names_that_exclude_each_other_are_refused_before_anything_is_left(checkouts: Checkouts) -> None:
    project = checkouts.make()
    checkouts.git("branch", "topic", cwd=project)
    with pytest.raises(GitFailed, match="cannot lock ref") as refused:
        checkouts.create("ada", project, branch="topic/one")
    checkouts.git("branch", "scrubjay", cwd=project)

    with pytest.raises(WorktreeError, match="has a branch 'scrubjay'"):
        checkouts.create("ada", project)

    assert refused.value.hint is not None
    assert checkouts.known_worktrees(project) == set()
    assert checkouts.branches(project) == {"main", "topic", "scrubjay"}


def test_a_bad_branch_says_what_a_good_one_is(checkouts: Checkouts) -> None:
    with pytest.raises(BadBranch) as refused:
        checkouts.create("ada", checkouts.make(), branch="--force")

    assert refused.value.hint is not None


def test_the_longest_names_get_numbers_too(checkouts: Checkouts) -> None:
    project = checkouts.make()

    made = [checkouts.create("x" * 63, project) for _ in range(2)]

    assert [tree.name for tree in made] == ["x" * 63, "x" * 56 + "-2"]


def test_two_data_directories_may_use_one_repository(checkouts: Checkouts) -> None:
    project = checkouts.make()
    other = Worktrees(checkouts.folder / "other-home", environ=checkouts.environ)
    first = checkouts.create("ada", project)
    checkouts.commit(first.path, {"new": "1\n"})

    second = other.create(PodName("ada"), repository=str(project), branch=None)
    other.remove(second, force=True)

    assert second.branch == "scrubjay/ada-2"
    assert checkouts.worktrees.inspect(first).clean
