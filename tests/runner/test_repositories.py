"""Remote repositories are cloned once, fetched again, and never lose a pod's commits."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from scrubjay.errors import BadRepository, GitFailed, NoSuchBase
from scrubjay.ids import PodName, parse_repository, without_credentials
from tests.support.checkouts import Checkouts, git_daemon


def _clones(checkouts: Checkouts) -> list[Path]:
    return sorted((checkouts.home / "repositories").glob("*.git"))


def test_a_remote_repository_is_cloned_once_and_fetched_again(checkouts: Checkouts) -> None:
    project = checkouts.make()
    with git_daemon(checkouts) as server:
        first = checkouts.create("first", f"{server}/project")
        commit = checkouts.commit(project, {"later": "1\n"})
        second = checkouts.create("second", f"{server}/project/")

    assert first.repository == second.repository == f"{server}/project"
    assert (second.base, (second.path / "later").read_text()) == (commit, "1\n")
    assert not (first.path / "later").exists()
    assert len(_clones(checkouts)) == 1
    assert checkouts.worktrees.inspect(first).clean


def test_a_file_url_is_cloned_too(checkouts: Checkouts) -> None:
    project = checkouts.make("a b")
    before = checkouts.git("for-each-ref", cwd=project)

    made = checkouts.create("ada", f"file://{checkouts.folder}/a%20b")
    checkouts.commit(made.path, {"new": "1\n"})

    assert made.base == checkouts.head(project)
    assert checkouts.git("for-each-ref", cwd=project) == before
    assert checkouts.known_worktrees(project) == set()


def test_the_branch_starts_from_the_remotes_default_branch_even_when_that_changes(checkouts: Checkouts) -> None:
    project = checkouts.make()
    checkouts.git("checkout", "--quiet", "-b", "trunk", cwd=project)
    on_trunk = checkouts.commit(project, {"trunk": "1\n"})
    first = checkouts.create("first", f"file://{project}")
    checkouts.git("checkout", "--quiet", "main", cwd=project)

    second = checkouts.create("second", f"file://{project}")

    assert first.base == on_trunk
    assert second.base == checkouts.head(project)


def test_a_base_is_the_remotes_and_not_what_a_pod_calls_by_its_name(checkouts: Checkouts) -> None:
    project = checkouts.make()
    checkouts.git("branch", "topic", cwd=project)
    pods = checkouts.create("ada", f"file://{project}", branch="topic")
    checkouts.commit(pods.path, {"new": "1\n"})
    theirs = checkouts.git("rev-parse", "topic", cwd=project)

    assert pods.base == theirs
    assert checkouts.create("bob", f"file://{project}", base="topic").base == theirs


def test_fetching_leaves_the_branches_and_commits_of_pods_alone(checkouts: Checkouts) -> None:
    project = checkouts.make()
    checkouts.git("branch", "topic", cwd=project)
    url = f"file://{project}"
    made = checkouts.create("ada", url, branch="topic")
    commit = checkouts.commit(made.path, {"new": "1\n"})
    own = checkouts.create("bob", url)
    kept = checkouts.commit(own.path, {"own": "1\n"})
    checkouts.worktrees.remove(own, force=False)

    # The remote moves the branch, then drops it.
    checkouts.git("branch", "--force", "topic", checkouts.commit(project, {"theirs": "1\n"}), cwd=project)
    checkouts.create("second", url)
    checkouts.git("branch", "--delete", "--force", "topic", cwd=project)
    checkouts.create("third", url)

    assert checkouts.head(made.path) == commit
    assert checkouts.worktrees.inspect(made).clean
    clone = _clones(checkouts)[0]
    assert checkouts.git("rev-parse", "scrubjay/bob", cwd=clone) == kept
    assert checkouts.git("fsck", cwd=clone) == ""


def test_an_agent_can_push_its_branch(checkouts: Checkouts) -> None:
    bare = checkouts.make_bare()
    made = checkouts.create("ada", f"file://{bare}")
    commit = checkouts.commit(made.path, {"new": "1\n"})

    checkouts.git("push", "--quiet", "origin", "HEAD", cwd=made.path)

    assert checkouts.git("rev-parse", "scrubjay/ada", cwd=bare) == commit


def test_a_pod_started_in_a_clones_worktree_belongs_to_the_same_remote(checkouts: Checkouts) -> None:
    url = f"file://{checkouts.make()}"
    first = checkouts.create("first", url)
    commit = checkouts.commit(first.path, {"new": "1\n"})

    second = checkouts.create("second", first.path / "src")

    assert (second.repository, second.base) == (url, commit)


def test_eight_pods_start_at_once_on_a_repository_that_is_new(checkouts: Checkouts) -> None:
    project = checkouts.make()
    start = Barrier(8)

    def create(number: int) -> str:
        start.wait()
        return checkouts.reopen().create(PodName(f"pod-{number}"), repository=f"file://{project}", branch=None).base

    with ThreadPoolExecutor(8) as pool:
        bases = set(pool.map(create, range(8)))

    assert bases == {checkouts.head(project)}
    assert len(_clones(checkouts)) == 1
    assert checkouts.leftovers() == []


def test_a_failed_clone_leaves_nothing_behind_and_says_why(checkouts: Checkouts) -> None:
    checkouts.make()
    with git_daemon(checkouts) as server:
        with pytest.raises(GitFailed) as refused:
            checkouts.create("ada", f"{server}/nothing")
        assert "git fetch failed" in str(refused.value)
        assert refused.value.hint is not None
        assert _clones(checkouts) == []
        assert checkouts.leftovers() == []

        assert checkouts.create("ada", f"{server}/project").name == "ada"


def test_an_interrupted_clone_leaves_nothing_behind(checkouts: Checkouts) -> None:
    project = checkouts.make()
    heard: list[str] = []

    def interrupt(message: str) -> None:
        heard.append(message)
        if "objects" in message:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkouts.worktrees.create(PodName("ada"), repository=f"file://{project}", branch=None, progress=interrupt)

    assert heard[0] == f"cloning file://{project}"
    assert _clones(checkouts) == []
    assert checkouts.leftovers() == []


def test_a_failed_fetch_leaves_the_clone_and_its_pods_alone(checkouts: Checkouts) -> None:
    project = checkouts.make()
    made = checkouts.create("ada", f"file://{project}")
    commit = checkouts.commit(made.path, {"new": "1\n"})
    project.rename(checkouts.folder / "away")

    with pytest.raises(GitFailed):
        checkouts.create("bob", f"file://{project}")

    assert checkouts.head(made.path) == commit
    assert checkouts.worktrees.inspect(made).clean
    (checkouts.folder / "away").rename(project)
    assert checkouts.create("bob", f"file://{project}").name == "bob"


def test_a_remote_without_commits_is_refused_until_it_has_some(checkouts: Checkouts) -> None:
    project = checkouts.make(commits=0)

    with pytest.raises(NoSuchBase, match="no commit to start from"):
        checkouts.create("ada", f"file://{project}")

    commit = checkouts.commit(project, {"first": "1\n"})
    assert checkouts.create("ada", f"file://{project}").base == commit


def test_collecting_garbage_in_a_clone_takes_no_pods_worktree(checkouts: Checkouts) -> None:
    made = checkouts.create("ada", f"file://{checkouts.make()}")
    checkouts.worktrees.release(made)
    made.path.rename(checkouts.folder / "unmounted")

    checkouts.git("gc", "--quiet", "--prune=now", cwd=_clones(checkouts)[0])

    (checkouts.folder / "unmounted").rename(made.path)
    assert checkouts.worktrees.inspect(made).clean


def test_an_agent_that_changes_the_clones_configuration_does_not_change_where_it_is_fetched_from(
    checkouts: Checkouts,
) -> None:
    project, other = checkouts.make(), checkouts.make("other")
    first = checkouts.create("first", f"file://{project}")
    checkouts.git("config", "remote.origin.url", str(other), cwd=first.path)
    checkouts.git("config", "remote.origin.uploadpack", "touch /nowhere; false", cwd=first.path)
    commit = checkouts.commit(project, {"later": "1\n"})

    assert checkouts.create("second", f"file://{project}").base == commit


@pytest.mark.parametrize(
    ("raw", "normal"),
    [
        ("https://example.org/a/b.git", "https://example.org/a/b.git"),
        ("HTTPS://Example.ORG:443/a/b/", "https://example.org/a/b"),
        ("https://ada@example.org:8443/a", "https://ada@example.org:8443/a"),
        ("https://ada-of-the-analytical-engine@example.org/a", "https://ada-of-the-analytical-engine@example.org/a"),
        ("ssh://git@example.org:22/~ada/b.git", "ssh://git@example.org/~ada/b.git"),
        ("ssh://git@[::1]:2222/b.git", "ssh://git@[::1]:2222/b.git"),
        ("git@example.org:a/b.git", "git@example.org:a/b.git"),
        ("git@Example.org:/srv/b.git/", "git@example.org:/srv/b.git"),
        ("git://example.org/a", "git://example.org/a"),
        ("file:///srv/a%20b", "file:///srv/a%20b"),
        ("/srv//a/./b/", "/srv/a/b"),
        ("/srv/größe", "/srv/größe"),
    ],
)
def test_an_address_is_written_in_one_way(raw: str, normal: str) -> None:
    assert parse_repository(raw) == normal
    assert parse_repository(normal) == normal


@pytest.mark.parametrize("raw", ["https://ada:hunter2@example.org/a", "ssh://git:hunter2@example.org/a"])
def test_a_password_in_an_address_is_refused_and_not_repeated(raw: str) -> None:
    with pytest.raises(BadRepository, match="password") as refused:
        parse_repository(raw)

    assert "hunter2" not in str(refused.value) + repr(refused.value) + refused.value.address


@pytest.mark.parametrize(
    "token", ["ghp_0123456789", "glpat-x", "0123456789abcdef0123456789abcdef01234567", "ATBBs3cr3t0fSomebody1234"]
)
def test_a_token_in_an_address_is_refused_and_not_repeated(token: str) -> None:
    with pytest.raises(BadRepository, match="token") as refused:
        parse_repository(f"https://{token}@example.org/a")

    assert token not in str(refused.value)
    assert "SSH" in str(refused.value.hint)


def test_credentials_are_taken_out_of_any_text() -> None:
    text = "fatal: unable to access 'https://ada:p@ss@example.org/a': https://x@y/ and git@example.org:a"

    assert without_credentials(text) == (
        "fatal: unable to access 'https://example.org/a': https://y/ and git@example.org:a"
    )


def test_a_clone_is_left_to_the_one_who_is_at_it(checkouts: Checkouts) -> None:
    project = checkouts.make()
    checkouts.create("ada", f"file://{project}")
    clone = _clones(checkouts)[0]
    left = clone.with_name(f"{clone.stem}.new-12345678")
    subprocess.run(["git", "init", "--quiet", "--bare", str(left)], env=checkouts.environ, check=True)

    checkouts.worktrees.tidy()

    assert checkouts.leftovers() == []
    assert _clones(checkouts) == [clone]
