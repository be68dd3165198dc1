"""Git does what it was asked for and nothing that a repository, its server or a surrounding git would like."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scrubjay.errors import GitFailed, GitMissing
from scrubjay.ids import PodName
from scrubjay.runner.git import Git, clean
from scrubjay.runner.worktrees import Worktrees
from tests.support.checkouts import Checkouts
from tests.support.conditions import eventually
from tests.support.processes import command_of, is_alive, kill, pids

_HOOKS = ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-merge", "post-rewrite")


def _trap(path: Path, witness: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {path.name} >> {witness}\n")
    path.chmod(0o755)
    return path


def test_no_program_of_a_repositorys_choice_is_run(checkouts: Checkouts) -> None:
    project, witness = checkouts.make(), checkouts.folder / "witness"
    for hook in _HOOKS:
        _trap(project / ".git/hooks" / hook, witness)
        _trap(project / "tracked-hooks" / hook, witness)
    checkouts.commit(project, {".gitattributes": "*.md diff=evil\n", "a.md": "1\n"})
    witness.unlink(missing_ok=True)
    trap = _trap(checkouts.folder / "trap", witness)
    for name in ("core.fsmonitor", "diff.external", "diff.evil.textconv", "diff.evil.command", "core.pager"):
        checkouts.git("config", name, str(trap), cwd=project)

    for hooks in (None, "tracked-hooks"):
        if hooks is not None:
            checkouts.git("config", "core.hooksPath", hooks, cwd=project)
        made = checkouts.create("ada", project)
        (made.path / "a.md").write_text("2\n")
        (made.path / "new.md").write_text("2\n")
        checkouts.worktrees.inspect(made)
        checkouts.worktrees.diff_summary(made)
        checkouts.worktrees.diff(made)
        checkouts.worktrees.release(made)
        checkouts.worktrees.remove(made, force=True)

    assert not witness.exists()


def test_an_agents_own_git_runs_hooks_as_ever(checkouts: Checkouts) -> None:
    project, witness = checkouts.make(), checkouts.folder / "witness"
    _trap(project / ".git/hooks/pre-commit", witness)

    checkouts.commit(checkouts.create("ada", project).path, {"new": "1\n"})

    assert witness.read_text() == "pre-commit\n"


def test_a_surrounding_git_does_not_mislead_ours(checkouts: Checkouts) -> None:
    project, other = checkouts.make(), checkouts.make("other")
    misleading = {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / ".git/index"),
        "GIT_COMMON_DIR": str(other / ".git"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git/objects"),
        "GIT_NAMESPACE": "x",
        "GIT_PREFIX": "src/",
        "GIT_CONFIG_PARAMETERS": "'core.bare=true'",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_TRACE": "1",
        "GIT_CEILING_DIRECTORIES": str(project),
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "de_DE.UTF-8",
        "LANGUAGE": "de",
    }
    before = checkouts.git("for-each-ref", cwd=other)
    worktrees = Worktrees(checkouts.home, environ=checkouts.environ | misleading)

    made = worktrees.create(PodName("ada"), repository=str(project / "src"), branch=None)

    assert worktrees.inspect(made).clean
    assert checkouts.known_worktrees(project) == {str(made.path)}
    assert checkouts.git("for-each-ref", cwd=other) == before


@pytest.mark.parametrize("url", ["ext::touch% witness", "fd::3", "testgit::x", "ext::sh -c touch% witness"])
def test_no_helper_of_an_odd_protocol_is_run(checkouts: Checkouts, url: str) -> None:
    git = Git(checkouts.environ)
    checkouts.git("config", "--global", "protocol.ext.allow", "always", cwd=checkouts.folder)

    with pytest.raises(GitFailed, match="not allowed"):
        git.run("ls-remote", "--", url, cwd=checkouts.folder)

    assert not (checkouts.folder / "witness").exists()


def test_a_command_that_does_not_end_is_ended_with_all_it_started(checkouts: Checkouts) -> None:
    git = Git(checkouts.environ)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"git://127.0.0.1:{silent.getsockname()[1]}/x"

        with pytest.raises(GitFailed, match=r"took longer than 0\.3 s"):
            git.run("fetch", "--", url, cwd=checkouts.make(), timeout_s=0.3)

        eventually(lambda: not any(url.encode() in command_of(pid) for pid in pids()), "git is gone")


def test_what_runs_is_ended_when_we_are(checkouts: Checkouts) -> None:
    git = _script(checkouts, f"touch {checkouts.folder}/begun; exec sleep 600\n")

    with ThreadPoolExecutor() as threads:
        running = threads.submit(git.run, "fetch", cwd=checkouts.folder)
        eventually((checkouts.folder / "begun").exists, "git runs")
        git.stop()

    with pytest.raises(GitFailed, match="being ended"):
        running.result()
    with pytest.raises(GitFailed, match="being ended"):
        git.run("version", cwd=checkouts.folder)


def test_something_left_in_the_background_is_not_waited_for(checkouts: Checkouts) -> None:
    # As an ssh that stays for the next connection does, with our pipe as its standard error.
    lingering = _script(checkouts, "sleep 600 & echo done $!; exit 0\n")

    ended = lingering.run("anything", cwd=checkouts.folder)

    done, pid = ended.stdout.split()
    assert done == b"done"
    assert is_alive(int(pid))
    kill(int(pid))


def test_an_error_has_gits_words_without_controls_and_credentials(checkouts: Checkouts) -> None:
    failing = _script(
        checkouts,
        "printf 'remote: \\033]0;title\\007\\033[31mno\\033[0m\\nReceiving objects:  10%% (1/10)\\r' >&2\n"
        "printf \"fatal: unable to access 'https://ada:hunter2@example.org/a': \\033[1mno\\n\" >&2; exit 128\n",
    )

    with pytest.raises(GitFailed) as failed:
        failing.run("fetch", cwd=checkouts.folder)

    assert str(failed.value) == "git fetch failed: unable to access 'https://example.org/a': no"
    assert failed.value.stderr == "remote: no\nfatal: unable to access 'https://example.org/a': no"
    assert failed.value.status == 128
    assert failed.value.hint == "check the address and the network"


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("Host key verification failed.\nfatal: Could not read from remote repository.", "accept its key"),
        ("git@example.org: Permission denied (publickey).\nfatal: Could not read from remote repository.", "ssh key"),
        ("fatal: could not read Username for 'https://example.org': terminal prompts disabled", "credential helper"),
        ("fatal: detected dubious ownership in repository at '/srv/a'", "safe.directory"),
        ("fatal: cannot create directory at 'a': No space left on device", "free some space"),
        ("fatal: something nobody has thought of", None),
    ],
)
def test_an_error_says_what_can_be_done(checkouts: Checkouts, said: str, hint: str | None) -> None:
    (checkouts.folder / "said").write_text(said)
    failing = _script(checkouts, f"cat {checkouts.folder / 'said'} >&2; exit 1\n")

    with pytest.raises(GitFailed) as failed:
        failing.run("fetch", cwd=checkouts.folder)

    assert (hint in (failed.value.hint or "")) if hint is not None else failed.value.hint is None


def test_more_than_was_asked_for_is_not_waited_for(checkouts: Checkouts) -> None:
    endless = _script(checkouts, "while :; do echo line; done\n")

    ended = endless.run("log", cwd=checkouts.folder, limit_bytes=1000)

    assert ended.cut
    assert len(ended.stdout) == 1000


def test_nobody_can_be_asked_for_a_password(checkouts: Checkouts) -> None:
    asked = _script(
        checkouts,
        'echo "$GIT_TERMINAL_PROMPT|$GIT_ASKPASS|$SSH_ASKPASS|$SSH_ASKPASS_REQUIRE|$LC_ALL"\n'
        "(: < /dev/tty) 2>/dev/null && echo terminal || echo no terminal\n",
        SSH_ASKPASS="/bin/false",
        GIT_ASKPASS="/bin/false",
    )

    assert asked.run("fetch", cwd=checkouts.folder).stdout == b"0|||never|C\nno terminal\n"


def test_no_git_is_said_so(checkouts: Checkouts) -> None:
    with pytest.raises(GitMissing):
        Git({"PATH": str(checkouts.folder)}).run("version", cwd=checkouts.folder)


def test_a_folder_of_the_repository_in_path_is_not_where_git_comes_from(checkouts: Checkouts) -> None:
    project = checkouts.make()
    _trap(project / "git", checkouts.folder / "witness")

    Git(checkouts.environ | {"PATH": "." + os.pathsep + checkouts.environ["PATH"]}).run("status", cwd=project)

    assert not (checkouts.folder / "witness").exists()


def test_clean_text_has_no_controls() -> None:
    assert clean("a\x1b[31mb\x1b]0;t\x07c\x9bd\x00e\tf\x7f") == "abcdef"


def _script(checkouts: Checkouts, text: str, **environ: str) -> Git:
    """A git that is a shell script."""
    folder = checkouts.folder / "bin"
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\n{text}")
    (folder / "git").chmod(0o755)
    return Git(checkouts.environ | environ | {"PATH": f"{folder}:{checkouts.environ['PATH']}"})
