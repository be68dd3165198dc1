"""``checkpoints``, ``diff`` and ``fork`` where no server runs: what a runner kept before is there."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from scrubjay.cli.commands import Commands
from scrubjay.pods.home import Home
from scrubjay.runner.checkpoints import Checkpoints, Moment
from scrubjay.runner.worktrees import Worktrees
from scrubjay.wire.checkpoints import Checkpoint, Why
from tests.support.cli import Cli
from tests.support.conditions import eventually
from tests.support.elsewhere import Elsewhere


class Worker:
    """A pod that changes files, whose worktree is kept as a runner does it."""

    def __init__(self, cli: Cli, project: Path) -> None:
        self.cli, self.project = cli, project
        cli("run", "-d", "--name", "ada", "--repo", str(self.project), "--", "sh", "-c", "read x")
        self.path = cli.data / "worktrees" / "ada"

    def git(self, *words: str) -> str:
        run = ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words]
        return subprocess.run(run, cwd=self.project, check=True, capture_output=True, text=True).stdout

    def keep(self, at: int, why: Why = "idle") -> Checkpoint:
        pod = Home(self.cli.data).find("ada")
        made = Checkpoints(Worktrees(self.cli.data)).make(pod, Moment(why, at, 200, pod.created_us + at))
        assert made is not None
        return made

    def record_for(self, us: int) -> None:
        """Return when the recording is so long."""

        def is_long_enough() -> bool:
            self.cli("send", "ada", "y")
            return max(record.at for record in Home(self.cli.data).find("ada").tape().records()) >= us

        self.cli.wait_for(is_long_enough)

    def end(self) -> None:
        self.cli("send", "ada", "x", "--enter")
        self.cli.wait_until_ended("ada")


@pytest.fixture
def worker(cli: Cli, project: Path) -> Worker:
    return Worker(cli, project)


def test_what_was_kept_is_listed_and_each_is_found_by_the_time_it_is_listed_with(worker: Worker, cli: Cli) -> None:
    assert b"nothing was kept" in cli("checkpoints", "ada").stderr
    (worker.path / "readme").write_text("first\n")
    first = worker.keep(1)
    (worker.path / "readme").write_text("second\n")
    second = worker.keep(100_001, "waiting")
    worker.record_for(300_000)

    listed = cli.json("checkpoints", "ada")
    table = cli("checkpoints", "ada").stdout.decode().splitlines()

    assert [(each["commit"], each["why"], each["at"]) for each in listed] == [
        (first.commit, "idle", 1),
        (second.commit, "waiting", 100_001),
    ]
    assert table[0].split() == ["TIME", "AT", "WHY", "HEAD", "BRANCH", "COMMIT", "REMARKS"]
    assert [line.split()[1:3] for line in table[1:]] == [["0.1s", "idle"], ["0.2s", "waiting"]]
    for line, commit in zip(table[1:], (first.commit, second.commit), strict=True):
        assert cli.json("diff", "ada", "--at", line.split()[1])["at"]["commit"] == commit


def test_the_difference_is_shown_and_cannot_act_on_a_terminal(worker: Worker, cli: Cli) -> None:
    (worker.path / "readme").write_text("hello\nred \x1b[31m\x1b]52;c;AAAA\x07 text\n")
    (worker.path / "new\x1b[2J").write_text("1\n2\n")
    worker.keep(1)
    (worker.path / "readme").write_text("now\n")
    worker.end()

    then = cli("diff", "ada", "--at", "0.001s")
    now = cli("diff", "ada").stdout.decode()
    stat = cli("diff", "ada", "--at", "100%", "--stat").stdout.decode().splitlines()
    since = cli.json("diff", "ada", "--since", "0.001s")

    assert "+red  text\n" in then.stdout.decode()
    assert b"\x1b" not in then.stdout + then.stderr
    assert b"compared with what its worktree was made from" in then.stderr
    assert "-hello\n+now\n" in now
    assert [line.split()[:2] for line in stat[:2]] == [["+2", "-0"], ["+1", "-0"]]
    assert stat[-1] == "2 files, +3 -0; 0 commits"
    assert (since["insertions"], since["deletions"], since["at"]) == (1, 2, None)


def test_two_instants_in_the_wrong_order_are_refused(worker: Worker, cli: Cli) -> None:
    worker.keep(1)
    (worker.path / "readme").write_text("second\n")
    worker.keep(200_000)
    worker.record_for(300_000)

    assert cli.json("diff", "ada", "--at", "0.25s", "--since", "0.1s")["insertions"] == 1
    assert "exchange them" in cli.error("diff", "ada", "--at", "0.1s", "--since", "0.25s", code=2)


def test_a_fork_begins_with_the_files_and_runs_the_same_or_something_else(worker: Worker, cli: Cli) -> None:
    (worker.path / "new").write_text("kept\n")
    (worker.path / "readme").unlink()
    made = worker.keep(1)
    (worker.path / "new").write_text("later\n")
    worker.end()

    forked = cli.json("fork", "ada", "--at", "0.001s", "-d")
    other = cli(
        "fork",
        "ada",
        "--at",
        "100%",
        "--name",
        "other",
        "--",
        "sh",
        "-c",
        "cat new; git -c color.ui=never status --short",
    )

    assert forked["name"] == "ada-fork"
    assert forked["checkpoint"]["commit"] == made.commit
    pod = Home(cli.data).find("ada-fork")
    assert (pod.argv, pod.branch) == (("sh", "-c", "read x"), "scrubjay/ada-fork")
    assert pod.forked_from is not None
    assert (pod.forked_from.pod, pod.forked_from.at) == (Home(cli.data).find("ada").id, 1)
    assert pod.session != pod.forked_from.session
    assert sorted(file.name for file in Path(pod.cwd).iterdir()) == [".git", "new"]
    assert other.stdout.split() == b"kept\r\n D readme\r\n?? new".split()
    assert b"other begins with the files of ada at" in other.stderr


def test_what_cannot_be_is_said_with_a_remedy(worker: Worker, cli: Cli) -> None:
    cli("run", "-d", "--name", "plain", "--", "sleep", "100")
    for words in (("checkpoints",), ("diff",), ("fork", "--at", "1s")):
        assert "--repo" in cli.error(words[0], "plain", *words[1:], code=1)
    assert "scrubjay up" in cli.error("diff", "ada", "--at", "0s", code=1)
    worker.keep(50_000_000)
    worker.end()
    early = cli.error("fork", "ada", "--at", "0s", code=1)
    assert "up to 0s" in early
    assert "the first is 50.0 s into its recording" in early
    assert "not a time" in cli.error("diff", "ada", "--at", "never", code=2)
    assert "--detach" in cli.error("fork", "ada", "--at", "100%", "--json", code=2)

    worker.project.rename(worker.project.with_name("moved"))
    assert "bring it back" in cli.error("checkpoints", "ada", code=1)
    assert "ada" in cli.error("diff", "ada", code=1)


def test_a_fork_that_cannot_be_started_leaves_nothing_behind(worker: Worker, cli: Cli) -> None:
    worker.keep(1)
    worker.end()
    branches = worker.git("branch", "--list")

    cli.error("fork", "ada", "--at", "100%", "--name", "never", "--", "no-such-command", code=1)

    assert worker.git("branch", "--list") == branches
    assert [folder.name for folder in (cli.data / "worktrees").iterdir() if not folder.name.startswith(".")] == ["ada"]


def test_a_pod_that_is_deleted_takes_what_was_kept_with_it(worker: Worker, cli: Cli) -> None:
    worker.keep(1)
    worker.end()
    assert "refs/scrubjay/checkpoints" in worker.git("for-each-ref")

    cli("rm", "ada")

    assert "refs/scrubjay/checkpoints" not in worker.git("for-each-ref")


def test_names_of_pods_are_completed(worker: Worker, cli: Cli) -> None:
    for command in ("checkpoints", "diff", "fork"):
        done = CliRunner().invoke(
            Commands.build(),
            prog_name="scrubjay",
            env={
                "_SCRUBJAY_COMPLETE": "bash_complete",
                "COMP_WORDS": f"scrubjay {command} a",
                "COMP_CWORD": "2",
                "SCRUBJAY_DATA": str(cli.data),
            },
        )
        assert done.output.strip() == "plain,ada", done.output


def test_all_of_it_works_against_a_server_elsewhere(elsewhere: Elsewhere, project: Path) -> None:
    elsewhere.remote("run", "-d", "--name", "ada", "--repo", str(project), "--", "sh", "-c", "echo new > file")

    eventually(lambda: elsewhere.remote_json("checkpoints", "ada"), "its end is kept")
    table = elsewhere.remote("checkpoints", "ada").stdout.splitlines()
    at = table[1].split()[1]
    patch = elsewhere.remote("diff", "ada", "--at", at).stdout
    stat = elsewhere.remote("diff", "ada", "--stat").stdout
    early = elsewhere.remote("diff", "ada", "--at", "0s", expect=1).stderr
    fork = json.loads(elsewhere.remote("fork", "ada", "--at", at, "-d", "--json", "--", "sleep", "100").stdout)

    assert [each["why"] for each in elsewhere.remote_json("checkpoints", "ada")] == ["exit"]
    assert patch.endswith("--- /dev/null\n+++ b/file\n@@ -0,0 +1 @@\n+new\n")
    assert stat.splitlines()[-1] == "1 file, +1 -0; 0 commits"
    assert "the first is" in early
    assert fork["name"] == "ada-fork"
    assert (Path(Home(elsewhere.there).find(fork["id"]).cwd) / "file").read_text() == "new\n"
