"""What an agent did is counted whether it was committed or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from scrubjay.runner.changes import Change, FileChange
from scrubjay.runner.worktrees import Worktree
from tests.support.checkouts import Checkouts


@pytest.fixture
def worked(checkouts: Checkouts) -> Worktree:
    """A worktree with changes of every kind."""
    project = checkouts.make()
    checkouts.commit(
        project,
        {
            "moved": "".join(f"line {number}\n" for number in range(20)),
            "removed": "gone 1\ngone 2\ngone 3\n",
            "edited": "one\ntwo\n",
            "both": "one\n",
            "kept": "the same\n",
        },
    )
    (project / "picture").write_bytes(b"\0\1\2")
    checkouts.commit(project, {})
    made = checkouts.create("ada", project)
    path = made.path

    checkouts.git("mv", "moved", "renamed", cwd=path)
    checkouts.git("rm", "--quiet", "removed", cwd=path)
    (path / "picture").write_bytes(b"\0\3")
    checkouts.commit(path, {"committed": "new\n", "both": "two\n"}, "first\x1b[31m work")
    (path / "edited").write_text("one\nTWO\nthree\n")
    (path / "both").write_text("two\nthree\n")
    (path / "staged").write_text("1\n2\n")
    checkouts.git("add", "staged", cwd=path)
    (path / "folder").mkdir()
    (path / "folder/untracked").write_text("1\n2\n3\n")
    (path / "x.log").write_text("ignored\n")
    return made


def test_the_summary_has_every_change_since_the_base(checkouts: Checkouts, worked: Worktree) -> None:
    summary = checkouts.worktrees.diff_summary(worked)

    def change(path: str, what: Change, plus: int | None, minus: int | None, **more: str | bool) -> FileChange:
        old = more.get("old")
        return FileChange(path, what, plus, minus, str(old) if old else None, untracked=bool(more.get("untracked")))

    assert list(summary.files) == [
        change("both", "modified", 2, 1),
        change("committed", "added", 1, 0),
        change("edited", "modified", 2, 1),
        change("folder/untracked", "added", 3, 0, untracked=True),
        change("picture", "modified", None, None),
        change("removed", "deleted", 0, 3),
        change("renamed", "renamed", 0, 0, old="moved"),
        change("staged", "added", 2, 0),
    ]
    assert (summary.files_changed, summary.insertions, summary.deletions) == (8, 10, 5)
    assert (summary.untracked, summary.untracked_files) == (("folder/untracked",), 1)
    assert (summary.base, summary.head) == (worked.base, checkouts.head(worked.path))
    assert summary.commits == 1
    assert [(commit.subject, commit.author, commit.id) for commit in summary.log] == [
        ("first work", "Ada", summary.head)
    ]


def test_the_patch_has_the_same(checkouts: Checkouts, worked: Worktree) -> None:
    patch = checkouts.worktrees.diff(worked)

    assert patch.count("diff --git ") == 8
    assert "rename from moved\nrename to renamed\n" in patch
    assert "--- /dev/null\n+++ b/folder/untracked\n@@ -0,0 +1,3 @@\n+1\n" in patch
    assert "Binary files a/picture and b/picture differ" in patch


def test_what_was_looked_at_is_as_it_was(checkouts: Checkouts, worked: Worktree) -> None:
    before = checkouts.git("status", "--porcelain", cwd=worked.path)

    checkouts.worktrees.diff_summary(worked)
    checkouts.worktrees.diff(worked)

    assert checkouts.git("status", "--porcelain", cwd=worked.path) == before
    assert "?? folder/" in before


def test_a_persons_settings_change_nothing(checkouts: Checkouts, worked: Worktree) -> None:
    before = checkouts.worktrees.diff_summary(worked), checkouts.worktrees.diff(worked)
    project = Path(worked.repository)
    for name, value in (
        ("diff.noprefix", "true"),
        ("diff.renames", "false"),
        ("diff.relative", "true"),
        ("diff.external", "false"),
        ("diff.mnemonicPrefix", "true"),
        ("color.ui", "always"),
        ("color.diff", "always"),
        ("core.pager", "false"),
        ("status.showUntrackedFiles", "no"),
        ("log.showSignature", "true"),
        ("log.decorate", "full"),
        ("alias.diff", "!false"),
        ("core.quotePath", "true"),
    ):
        checkouts.git("config", name, value, cwd=project)

    assert (checkouts.worktrees.diff_summary(worked), checkouts.worktrees.diff(worked)) == before


def test_nothing_done_is_nothing(checkouts: Checkouts) -> None:
    made = checkouts.create("ada", checkouts.make())

    summary = checkouts.worktrees.diff_summary(made)

    assert (summary.files, summary.untracked, summary.commits, summary.log) == ((), (), 0, ())
    assert checkouts.worktrees.diff(made) == ""


def test_names_are_shown_without_what_a_terminal_would_obey(checkouts: Checkouts) -> None:
    made = checkouts.create("ada", checkouts.make())
    names = [b"esc\x1b[2J", b"line\nbreak", b"\xff\xfe", "größe ".encode(), "\u202etxt.exe".encode(), b":(glob)**"]
    for name in names:
        Path(str(made.path), name.decode("utf-8", "surrogateescape")).write_text("1\n")

    summary = checkouts.worktrees.diff_summary(made)

    assert set(summary.untracked) == {
        "esc\\x1b[2J",
        "line\\nbreak",
        "\\xff\\xfe",
        "größe ",
        "\\u202etxt.exe",
        ":(glob)**",
    }
    assert {change.path for change in summary.files} == set(summary.untracked)
    assert summary.insertions == len(names)


def test_a_repository_within_is_listed_and_not_entered(checkouts: Checkouts) -> None:
    made = checkouts.create("ada", checkouts.make())
    inner = made.path / "inner"
    inner.mkdir()
    checkouts.git("init", "--quiet", cwd=inner)
    checkouts.commit(inner, {"deep": "1\n"})

    summary = checkouts.worktrees.diff_summary(made)

    assert summary.untracked == ("inner/",)
    assert summary.files == ()
    assert checkouts.worktrees.inspect(made).untracked == 1


def test_a_patch_beyond_the_limit_says_that_it_goes_on(checkouts: Checkouts) -> None:
    made = checkouts.create("ada", checkouts.make())
    (made.path / "large").write_text("line\n" * 200_000)

    patch = checkouts.worktrees.diff(made, limit_bytes=10_000)

    assert len(patch) < 10_100
    assert patch.endswith("(the patch goes on after 10000 bytes)\n")
    assert checkouts.worktrees.diff_summary(made).insertions == 200_000


def test_work_on_another_branch_and_on_none_is_counted_too(checkouts: Checkouts) -> None:
    made = checkouts.create("ada", checkouts.make())
    checkouts.git("checkout", "--quiet", "-b", "other", cwd=made.path)
    checkouts.commit(made.path, {"new": "1\n"})
    on_other = checkouts.worktrees.inspect(made)
    checkouts.git("checkout", "--quiet", "--detach", cwd=made.path)
    on_none = checkouts.worktrees.inspect(made)

    assert (on_other.branch, on_other.ahead, on_other.stray) == ("other", 1, False)
    assert (on_none.branch, on_none.ahead, on_none.stray) == (None, 1, False)
    assert checkouts.worktrees.diff_summary(made).commits == 1


def test_a_branch_without_a_commit_is_no_error(checkouts: Checkouts) -> None:
    made = checkouts.create("ada", checkouts.make())
    checkouts.git("checkout", "--quiet", "--orphan", "fresh", cwd=made.path)

    state, summary = checkouts.worktrees.inspect(made), checkouts.worktrees.diff_summary(made)

    assert (state.head, state.branch, state.ahead) == (None, "fresh", 0)
    assert (summary.head, summary.commits, summary.files) == (None, 0, ())
