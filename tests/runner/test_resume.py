"""Go on with the work of a pod that has ended: same session, worktree and conversation, or nothing at all."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from scrubjay.errors import (
    BadInput,
    LeaseHeld,
    NoSuchPod,
    ResumeRefused,
    ScrubjayError,
    StartFailed,
)
from scrubjay.ids import new_pod_id, new_session_id
from scrubjay.pods import launch as pods_launch
from scrubjay.pods.pod import read_pod
from scrubjay.runner.entries import entry_of, lock_of
from scrubjay.runner.requests import carry_out
from scrubjay.runner.runner import Runner
from scrubjay.tape.format import Kind
from scrubjay.wire.messages import Resume
from tests.support.checkouts import Checkouts, git_daemon
from tests.support.conditions import DEADLINE_S, eventually, until
from tests.support.conversing_agents import Talkers, wait_a_second
from tests.support.processes import descriptors_of
from tests.support.tiers import sized


@pytest.fixture
def talkers(checkouts: Checkouts) -> Generator[Talkers]:
    talkers = Talkers(checkouts)
    yield talkers
    talkers.close()


def test_a_killed_agent_goes_on_with_its_conversation_in_the_same_session_and_worktree(talkers: Talkers) -> None:
    project = talkers.checkouts.make()
    old = talkers.talked("--loud", name="ada", repository=str(project), cwd="src")

    new = talkers.resume_pod(old)

    talkers.wait_until_shown(new, "goes on after 1: PLUM-4711")
    same = ("name", "session", "worktree", "branch", "repository", "cwd", "agent", "arguments", "conversation", "size")
    assert {name: getattr(new, name) for name in same} == {name: getattr(old, name) for name in same}
    assert new.id != old.id
    assert new.resumed_from == old.id
    assert "--loud" in talkers.shown(new)
    talkers.say(new, "and then")
    assert (talkers.talks / f"{old.conversation}.jsonl").read_text() == "PLUM-4711\nand then\n"


def test_it_goes_on_again_and_again_from_the_newest_pod(talkers: Talkers) -> None:
    first = talkers.talked(name="ada", cwd=str(talkers.checkouts.folder))
    second = talkers.resume_pod(first)
    talkers.wait_until_shown(second, "goes on after 1")
    talkers.kill(second)

    third = talkers.resume_pod(first)

    talkers.wait_until_shown(third, "goes on after 1")
    assert third.resumed_from == second.id
    assert [pod.id for pod in talkers.home.of_session(first.session)] == [first.id, second.id, third.id]


def test_arguments_may_be_given_anew_and_a_prompt_is_passed(talkers: Talkers) -> None:
    old = talkers.talked("--loud", name="ada", cwd=str(talkers.checkouts.folder), prompt="first")

    new = talkers.resume_pod(old, arguments=("--soft",), prompt="what was it?", cols=101, rows=33)

    talkers.wait_until_shown(new, "heard 3: what was it?")
    assert new.arguments == ("--soft",)
    assert "--loud" not in talkers.shown(new)
    assert new.size == (101, 33)


def test_the_program_is_the_very_one_that_was_started_by_its_path(talkers: Talkers) -> None:
    moved = talkers.program.parent.parent / "other" / "talker"
    moved.parent.mkdir()
    shutil.move(talkers.program, moved)
    old = talkers.start(str(moved), "--talk", "abc", agent=None, name="ada", cwd=str(talkers.checkouts.folder))
    talkers.say(old, "PLUM-4711")
    talkers.kill(old)

    new = talkers.resume_pod(old, conversation="abc")

    talkers.wait_until_shown(new, "goes on after 1")
    assert new.argv[0] == str(moved)


def test_a_plain_command_is_run_again_and_that_it_has_no_conversation_is_said(talkers: Talkers) -> None:
    old = talkers.start("sh", "-c", "echo once; exit 3", agent=None, name="ada", cwd=str(talkers.checkouts.folder))
    talkers.wait_for_end(old)

    resumed = talkers.resume(old)

    assert resumed.pod is not None
    assert resumed.pod.argv == old.argv
    assert resumed.pod.session == old.session
    assert [finding.kind for finding in resumed.findings] == ["no_conversation"]
    with pytest.raises(BadInput, match="nobody knows how to give 'sh' a prompt"):
        talkers.resume(old, prompt="go on")


def test_a_new_conversation_may_be_begun_in_the_same_session(talkers: Talkers) -> None:
    old = talkers.talked("--talk", "mine", name="ada", cwd=str(talkers.checkouts.folder))

    assert talkers.findings(old)["conversation"].startswith("!which conversation Talker had is not known")
    with pytest.raises(ResumeRefused, match="not known") as refused:
        talkers.resume(old)
    assert "--new-conversation" in str(refused.value.hint)
    new = talkers.resume_pod(old, new_conversation=True)

    talkers.wait_until_shown(new, f"begins {new.conversation}")
    assert new.session == old.session
    assert new.conversation not in (None, "mine")


def test_variables_that_were_given_are_missed_by_name(talkers: Talkers) -> None:
    talk_home = str(talkers.checkouts.folder / "talks")
    old = talkers.start(name="ada", cwd=str(talkers.checkouts.folder), environment={"TALK_HOME": talk_home})
    talkers.say(old, "PLUM-4711")
    talkers.kill(old)

    found = talkers.findings(old)
    assert "--env TALK_HOME" in found["environment"]
    assert "has no conversation" in found["conversation"]

    new = talkers.resume_pod(old, environment={"TALK_HOME": talk_home})
    talkers.wait_until_shown(new, "goes on after 1")


# What is found.


def test_everything_about_the_worktree_is_said_at_once_and_in_its_way_is_nothing(talkers: Talkers) -> None:
    old = talkers.talked(name="ada", repository=str(talkers.checkouts.make()))
    tree = talkers.worktrees.find("ada")
    assert talkers.findings(old) == {}

    wait_a_second()
    git = talkers.checkouts.git
    talkers.checkouts.commit(tree.path, {"README": "theirs\n"}, "of somebody else")
    git("switch", "--quiet", "--create", "elsewhere", "HEAD~1", cwd=tree.path)
    talkers.checkouts.commit(tree.path, {"README": "ours\n"}, "of us")
    git("merge", "scrubjay/ada", cwd=tree.path, check=False)
    (tree.path / "new").write_text("x")
    (tree.path / "number").write_text("changed")
    (tree.path / ".gitignore").write_text("changed")
    git("add", ".gitignore", cwd=tree.path)

    found = talkers.findings(old)
    assert found["dirty"] == (
        "its worktree has changes that are not committed: 1 staged, 1 unstaged, 1 unmerged, 1 untracked"
    )
    assert found["merge"] == "a merge is in progress in its worktree"
    assert found["branch"] == "its worktree is on branch elsewhere, and was made with scrubjay/ada"
    assert found["moved"].startswith("HEAD was at ")
    assert set(found) == {"dirty", "merge", "branch", "moved"}
    talkers.wait_until_shown(talkers.resume_pod(old), "goes on after 1")


def test_all_that_is_in_the_way_is_said_together(talkers: Talkers) -> None:
    old = talkers.talked(name="ada", repository=str(talkers.checkouts.make()))
    shutil.rmtree(talkers.worktrees.find("ada").path)
    (talkers.talks / f"{old.conversation}.jsonl").unlink()
    talkers.program.unlink()
    before = talkers.state()

    with pytest.raises(ResumeRefused) as refused:
        talkers.resume(old)

    said = f"{refused.value}; {refused.value.hint}"
    assert "its worktree ada is not there: its folder is gone" in said
    assert "there is no 'talker' on the PATH" in said
    assert "install it with: make talker" in said
    assert f"Talker has no conversation {old.conversation}: it was deleted" in said
    assert talkers.state() == before


def test_a_worktree_that_is_gone_comes_back_by_the_command_that_is_shown(talkers: Talkers) -> None:
    old = talkers.talked(name="ada", repository=str(talkers.checkouts.make()))
    shutil.rmtree(talkers.worktrees.find("ada").path)
    found = talkers.findings(old)["worktree"]
    assert found.startswith("!its worktree ada is not there: its folder is gone; bring it back: git -C ")

    talkers.checkouts.git(*found.partition("bring it back: git ")[2].split(), cwd=talkers.checkouts.folder)

    assert "worktree" not in talkers.findings(old)
    talkers.wait_until_shown(talkers.resume_pod(old), "goes on after 1")


def test_a_worktree_that_was_removed_or_a_folder_that_is_gone_stops_it(talkers: Talkers) -> None:
    kept = talkers.talked(name="ada", repository=str(talkers.checkouts.make()))
    talkers.worktrees.remove(talkers.worktrees.find("ada"), force=True)
    folder = talkers.checkouts.folder / "away"
    folder.mkdir()
    away = talkers.talked(name="bob", cwd=str(folder))
    folder.rmdir()

    assert talkers.findings(kept)["worktree"].startswith(
        "!its worktree ada was removed; its branch scrubjay/ada is kept"
    )
    assert talkers.findings(away)["folder"].startswith(f"!the folder it ran in, {folder}, is gone")


def test_an_argument_that_was_a_secret_has_to_be_given_again(talkers: Talkers) -> None:
    secret = "hunter2-hunter2-hunter2"
    old = talkers.start(
        "--key", secret, name="ada", cwd=str(talkers.checkouts.folder), environment={"TALKER_API_KEY": secret}
    )
    talkers.say(old, "PLUM-4711")
    talkers.kill(old)

    assert talkers.findings(old)["secret"].startswith("!one of its arguments was a secret")
    new = talkers.resume_pod(old, arguments=("--key", secret), environment={"TALKER_API_KEY": secret})
    talkers.wait_until_shown(new, "goes on after 1")


def test_a_running_pod_holds_its_session_and_a_name_in_use_is_said(talkers: Talkers) -> None:
    folder = str(talkers.checkouts.folder)
    old = talkers.talked(name="ada", cwd=folder)
    new = talkers.resume_pod(old)

    with pytest.raises(LeaseHeld, match=f"is held by running pod 'ada' .{new.id[:8]}") as held:
        talkers.resume(old)
    assert "--takeover" in str(held.value.hint)
    assert held.value.session == old.session

    talkers.kill(new)
    other = talkers.start(name="ada", cwd=folder)
    assert talkers.findings(old)["name"].startswith("!running pod 'ada'")
    renamed = talkers.resume_pod(old, name="bea")
    assert renamed.name == "bea"
    assert other.alive


def test_a_conversation_that_another_pod_has_open_gets_no_second_writer(talkers: Talkers) -> None:
    folder = str(talkers.checkouts.folder)
    old = talkers.talked(name="ada", cwd=folder)
    assert old.conversation is not None
    other = talkers.start("talker", "--go-on", old.conversation, agent=None, name="bob", cwd=folder)
    talkers.wait_until_shown(other, "goes on after 1")
    before = talkers.state()

    with pytest.raises(ResumeRefused, match="has its conversation open"):
        talkers.resume(old)
    with pytest.raises(ResumeRefused, match="has its conversation open"):
        talkers.resume(old, takeover=True)

    assert talkers.state() == before
    talkers.kill(other)
    talkers.wait_until_shown(talkers.resume_pod(old), "goes on after 1")


@pytest.mark.parametrize("how", ["arguments", "file", "registry"])
def test_a_conversation_that_is_open_in_somebodys_terminal_gets_no_second_writer(talkers: Talkers, how: str) -> None:
    old = talkers.talked(name="ada", cwd=str(talkers.checkouts.folder))
    assert old.conversation is not None
    words = [str(talkers.program), "--go-on", old.conversation]
    code = "import sys; open(sys.argv[1], 'a').write(''); file = open(sys.argv[1], 'a'); sys.stdin.read()"
    file = talkers.talks / f"{old.conversation}.jsonl"
    live = talkers.talks / "live"
    ours, theirs = pty.openpty()
    shutil.rmtree(live)
    live.mkdir()
    if how == "file":  # as by a menu of its own
        words = [sys.executable, "-c", code, str(file)]
    elif how == "registry":
        words = [str(talkers.program), "--talk", "another"]
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=talkers.environ)
    try:
        if how == "registry":
            eventually(lambda: any(file.read_bytes() for file in live.iterdir()), "it registers")
            told = {"pid": process.pid, "sessionId": old.conversation}
            (live / f"{process.pid}.json").write_text(json.dumps(told))
        eventually(lambda: "open" in talkers.findings(old), "it is seen")

        with pytest.raises(ResumeRefused, match=f"process {process.pid} .* has its conversation open"):
            talkers.resume(old, takeover=True)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)
    talkers.wait_until_shown(talkers.resume_pod(old), "goes on after 1")


def test_who_only_looks_at_a_conversation_is_no_writer(talkers: Talkers) -> None:
    old = talkers.talked(name="ada", cwd=str(talkers.checkouts.folder))
    file = str(talkers.talks / f"{old.conversation}.jsonl")
    reader = subprocess.Popen(["tail", "-f", file], stdout=subprocess.DEVNULL)
    try:
        eventually(lambda: file in descriptors_of(reader.pid).values(), "it has it open")
        assert talkers.findings(old) == {}
    finally:
        reader.kill()
        reader.wait()


def test_a_registry_that_a_killed_agent_has_left_does_not_stop_it_for_ever(talkers: Talkers) -> None:
    old = talkers.talked(name="ada", cwd=str(talkers.checkouts.folder))
    live = talkers.talks / "live"
    assert len(list(live.iterdir())) == 1  # of the one that was killed
    # Its number is another process's by now, which began after the file was written: a talker even.
    another = subprocess.Popen([str(talkers.program), "--talk", "x"], stdin=subprocess.PIPE, env=talkers.environ)
    try:
        stale = live / f"{another.pid}.json"
        eventually(lambda: stale.exists() and stale.read_bytes() != b"", "it registers")
        stale.write_text(json.dumps({"pid": another.pid, "conversation": old.conversation}))
        os.utime(stale, (time.time() - 3600, time.time() - 3600))
        (live / "1.json").write_text(json.dumps({"pid": 1, "conversation": old.conversation}))
        (live / "2.json").write_text("{half")
        (live / "3.json").write_text(json.dumps({"pid": 4194303, "conversation": old.conversation}))

        assert talkers.findings(old) == {}
    finally:
        another.kill()
        another.wait()
        assert another.stdin is not None
        another.stdin.close()


def test_an_agent_that_has_gone_on_to_another_conversation_holds_the_first_no_more(talkers: Talkers) -> None:
    old = talkers.talked(name="ada", cwd=str(talkers.checkouts.folder))
    assert old.conversation is not None
    words = [str(talkers.program), "--go-on", old.conversation]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=talkers.environ)
    try:
        live = talkers.talks / "live" / f"{process.pid}.json"
        eventually(lambda: live.exists() and live.read_bytes() != b"", "it registers")
        assert "open" in talkers.findings(old)
        live.write_text(json.dumps({"pid": process.pid, "conversation": "another"}))

        assert talkers.findings(old) == {}
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


# Taking over.


def test_taking_over_ends_the_running_pod_first_and_its_tape_says_who_asked(talkers: Talkers) -> None:
    old = talkers.start(name="ada", repository=str(talkers.checkouts.make()))
    talkers.say(old, "PLUM-4711")

    resumed = talkers.resume(old, takeover=True, author="person:ann")

    assert resumed.pod is not None
    assert [finding.kind for finding in resumed.findings] == ["held"]
    talkers.wait_until_shown(resumed.pod, "goes on after 1: PLUM-4711")
    assert not old.alive
    signals = [record.json() for record in old.tape().records() if record.kind == Kind.SIGNAL]
    assert signals[0]["author"] == "person:ann"
    assert len(talkers.talkers()) == 1


def test_nothing_is_ended_by_taking_over_if_something_else_is_in_the_way(talkers: Talkers) -> None:
    old = talkers.start(name="ada", cwd=str(talkers.checkouts.folder))
    talkers.say(old, "PLUM-4711")
    talkers.program.unlink()

    with pytest.raises(ResumeRefused, match="there is no 'talker'"):
        talkers.resume(old, takeover=True)

    assert old.alive
    talkers.say(old, "still here")


# Failing.


def test_a_start_that_fails_leaves_everything_as_it_was(talkers: Talkers, monkeypatch: pytest.MonkeyPatch) -> None:
    old = talkers.talked(name="ada", repository=str(talkers.checkouts.make()))
    tree = talkers.worktrees.find("ada")
    talkers.worktrees.release(tree)
    (tree.path / "new").write_text("not committed")
    before = talkers.state()

    def fail(_folder: Path, _environ: object) -> None:
        raise StartFailed("the keeper died while starting")

    monkeypatch.setattr(pods_launch, "_start_keeper", fail)
    with pytest.raises(StartFailed, match="keeper died"):
        talkers.resume(old)
    monkeypatch.undo()

    assert talkers.state() == before
    talkers.program.chmod(0o644)  # found, and cannot be run
    with pytest.raises(ScrubjayError):
        talkers.resume(old)
    talkers.program.write_text("#!/no/such/interpreter\n")
    talkers.program.chmod(0o755)
    with pytest.raises(StartFailed, match="cannot start"):
        talkers.resume(old)
    assert talkers.state() == before
    assert (tree.path / "new").read_text() == "not committed"


def test_the_worktree_is_kept_from_others_again(talkers: Talkers) -> None:
    old = talkers.talked(name="ada", repository=str(talkers.checkouts.make()))
    tree = talkers.worktrees.find("ada")
    talkers.worktrees.release(tree)
    entry = entry_of(tree.path)
    assert entry is not None
    assert lock_of(entry) is None

    talkers.resume_pod(old)

    assert lock_of(entry) == "a pod of Scrubjay works here"


def test_looking_starts_nothing(talkers: Talkers) -> None:
    old = talkers.talked(name="ada", repository=str(talkers.checkouts.make()))
    before = talkers.state()

    resumed = talkers.resume(old, check=True)

    assert resumed.pod is None
    assert resumed.describe() == {"findings": []}
    assert talkers.state() == before


def test_what_cannot_be_asked_for_is_refused(talkers: Talkers) -> None:
    old = talkers.talked(name="ada", cwd=str(talkers.checkouts.folder))

    for more, words in (
        ({"prompt": "  "}, "says nothing"),
        ({"cols": 1}, "too small"),
        ({"name": "../x"}, "cannot be a pod's name"),
        ({"environment": {"A=B": "c"}}, "environment variable"),
        ({"new": "x"}, "not a pod id"),
    ):
        with pytest.raises(BadInput, match=words):
            talkers.resume(old, **more)
    with pytest.raises(ResumeRefused, match="not known"):
        talkers.resume(old, conversation="--dangerous")


# One winner.

_RACERS = 4
_ROUNDS = sized(2, 25, 250)
_RACER = """
import json, os, sys
from pathlib import Path
from scrubjay.errors import LeaseHeld
from scrubjay.pods.home import Home
from scrubjay.runner.resume import resume
from scrubjay.runner.worktrees import Worktrees
from scrubjay.settings import Settings
from scrubjay.wire.messages import Resume
data, agents, pod = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
home = Home(data)
for line in sys.stdin:
    try:
        resumed = resume(Resume(pod=pod), home=home, worktrees=Worktrees(data, environ=os.environ),
                         settings=Settings(data=data, agents=agents), environ=os.environ)
        print("won", resumed.pod.id, flush=True)
    except LeaseHeld:
        print("held", flush=True)
    except Exception as error:
        print("failed", type(error).__name__, error, flush=True)
"""


def test_of_racing_resumes_exactly_one_wins_and_one_agent_runs(talkers: Talkers) -> None:
    old = talkers.talked(name="ada", repository=str(talkers.checkouts.make()))
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACER, str(talkers.home.path), str(talkers.settings.agents), old.id],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=talkers.environ,
            text=True,
        )
        for _ in range(_RACERS)
    ]
    try:
        for _ in range(_ROUNDS):
            for racer in racers:
                assert racer.stdin is not None
                racer.stdin.write("go\n")
                racer.stdin.flush()
            told = [racer.stdout.readline().split(maxsplit=1) for racer in racers if racer.stdout is not None]

            assert sorted(words[0] for words in told) == ["held"] * (_RACERS - 1) + ["won"], told
            living = [pod for pod in talkers.home.of_session(old.session) if pod.alive]
            assert [pod.id for pod in living] == [words[1].strip() for words in told if words[0] == "won"]
            assert len(talkers.talkers()) == 1
            talkers.kill(living[0])
    finally:
        for racer in racers:
            racer.communicate(timeout=DEADLINE_S)


# On a machine that never had it.


def test_a_machine_that_never_had_it_begins_with_the_pushed_branch_and_a_new_conversation(
    talkers: Talkers, tmp_path: Path
) -> None:
    talkers.checkouts.make_bare("project.git")
    with git_daemon(talkers.checkouts) as url:
        repository = f"{url}/project.git"
        old = talkers.talked(name="ada", repository=repository, cwd="src")
        tree = talkers.worktrees.find("ada")
        done = talkers.checkouts.commit(tree.path, {"done": "half\n"})
        elsewhere = Talkers(_another(tmp_path / "elsewhere"))
        request = {
            "name": old.name,
            "session": old.session,
            "agent": old.agent,
            "begun_with": ("--go-on", "x", "--loud"),
            "repository": repository,
            "branch": old.branch,
            "cwd": "src",
        }
        try:
            with pytest.raises(ResumeRefused, match="branch scrubjay/ada was not pushed to") as refused:
                elsewhere.resume(old, **request)
            assert "push the branch" in str(refused.value.hint)
            assert elsewhere.home.pods() == []
            assert elsewhere.worktrees.list() == []
            shutil.rmtree(elsewhere.home.path / "repositories")
            talkers.checkouts.git(
                "push", "--quiet", str(talkers.checkouts.folder / "project.git"), "HEAD:scrubjay/ada", cwd=tree.path
            )

            checked = elsewhere.resume(old, check=True, **request)
            assert [finding.kind for finding in checked.findings] == ["elsewhere"]
            assert checked.pod is None
            resumed = elsewhere.resume(old, **request)

            assert [finding.kind for finding in resumed.findings] == ["elsewhere"]
            pod = resumed.pod
            assert pod is not None
            elsewhere.wait_until_shown(pod, f"begins {pod.conversation}")
            assert (pod.session, pod.name, pod.branch, pod.resumed_from) == (old.session, "ada", old.branch, old.id)
            assert pod.conversation != old.conversation
            assert "--loud" in elsewhere.shown(pod)
            assert elsewhere.checkouts.head(elsewhere.worktrees.find("ada").path) == done
            assert pod.cwd.endswith("/ada/src")
            with pytest.raises(LeaseHeld):
                elsewhere.resume(old, **(request | {"name": "bea", "branch": "main"}))
        finally:
            elsewhere.close()


def _another(folder: Path) -> Checkouts:
    folder.mkdir()
    return Checkouts(folder)


def test_what_only_the_other_machine_has_is_refused_with_the_reason(talkers: Talkers) -> None:
    told: dict[str, object] = {"session": new_session_id(), "name": "ada", "agent": "talker"}
    gone = talkers.talked(name="ada", cwd=str(talkers.checkouts.folder))
    stranger = replace(gone, id=new_pod_id())

    with pytest.raises(NoSuchPod):
        talkers.resume(stranger)
    with pytest.raises(ResumeRefused, match="this machine never had it, and it had no worktree"):
        talkers.resume(stranger, **told)
    with pytest.raises(ResumeRefused, match="its repository is a folder of another machine") as refused:
        talkers.resume(stranger, **told, repository="/home/ann/project", branch="scrubjay/ada")
    assert "on the machine it ran on" in str(refused.value.hint)


def test_a_pod_whose_keeper_was_killed_goes_on_at_once(talkers: Talkers) -> None:
    old = talkers.start(name="ada", cwd=str(talkers.checkouts.folder))
    talkers.say(old, "PLUM-4711")
    live = old.observe().live
    assert live is not None
    keeper = live["keeper_pid"]
    assert isinstance(keeper, int)
    os.kill(keeper, 9)

    eventually(lambda: not old.alive, "it is lost")
    new = talkers.resume_pod(old)

    talkers.wait_until_shown(new, "goes on after 1")
    eventually(lambda: len(talkers.talkers()) == 1, "one talker runs")
    kept = read_pod(new.folder)
    assert kept is not None
    assert kept.resumed_from == old.id


# By a runner.


@pytest.mark.anyio
async def test_a_runner_carries_it_out_reports_it_and_keeps_the_worktree_locked(talkers: Talkers) -> None:
    old = talkers.talked(name="ada", repository=str(talkers.checkouts.make()))
    entry = entry_of(talkers.worktrees.find("ada").path)
    assert entry is not None
    runner = Runner(talkers.home, talkers.settings, talkers.environ)
    running = asyncio.create_task(runner.run())
    try:
        await until(lambda: lock_of(entry) is None, "the runner has found that nobody works there")
        answer = await carry_out(runner, Resume(pod=old.id, new=new_pod_id(), cols=90, rows=30))
        new = runner.find(str(answer["id"]))

        assert answer["process"] == "running"
        assert answer["findings"] == []
        assert new.report().resumed_from == old.id
        assert new.report().arguments == ()
        assert lock_of(entry) == "a pod of Scrubjay works here"
        with pytest.raises(LeaseHeld):
            await carry_out(runner, Resume(pod=old.id))

        # The first pod is found to have ended once more, while the second works in the same worktree.
        again = Runner(talkers.home, talkers.settings, talkers.environ)
        finding = asyncio.create_task(again.run())
        await again.found_all.wait()
        await until(lambda: old.id in again.pods, "the first one is known")
        await asyncio.wait_for(again._tasks[old.id], DEADLINE_S)  # pyright: ignore[reportPrivateUsage]
        assert lock_of(entry) == "a pod of Scrubjay works here"
        finding.cancel()
        await asyncio.gather(finding, return_exceptions=True)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
