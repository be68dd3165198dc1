"""Every command as a script would use it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from cli.conftest import Jay

_ECHO = ("sh", "-c", "echo hello; exit 3")


def test_a_detached_run_prints_the_name_alone(jay: Jay) -> None:
    done = jay("run", "-d", "--name", "one", "--", *_ECHO)

    assert done.stdout == b"one\n"
    assert jay.wait_until_ended("one")["description"] == "exited 3"


def test_names_follow_the_command_and_do_not_collide(jay: Jay) -> None:
    first = jay.json("run", "-d", "--", "sleep", "60")
    second = jay.json("run", "-d", "--", "/usr/bin/env", "sleep", "60")
    third = jay.json("run", "-d", "--", "sleep", "60")

    assert [pod["name"] for pod in (first, second, third)] == ["sleep", "env", "sleep-2"]
    assert len({pod["id"] for pod in (first, second, third)}) == 3


def test_ps_lists_what_runs_and_all_lists_the_rest(jay: Jay) -> None:
    jay("run", "-d", "--name", "short", "--", "true")
    jay("run", "-d", "--name", "long", "--", "sleep", "60")
    jay.wait_until_ended("short")

    assert [pod["name"] for pod in jay.json("ps")] == ["long"]
    assert {pod["name"] for pod in jay.json("ps", "--all")} == {"short", "long"}
    table = jay("ps", "--all").stdout.decode()
    assert "exited 0" in table
    assert "running" in table


def test_a_unique_prefix_of_a_name_or_id_is_enough(jay: Jay) -> None:
    pod = jay.json("run", "-d", "--name", "builder", "--", *_ECHO)
    jay.wait_until_ended("builder")

    for handle in ("b", "builder", pod["id"], pod["id"][:12]):
        assert b"hello" in jay("logs", handle).stdout


def test_a_prefix_of_several_names_lists_them(jay: Jay) -> None:
    jay("run", "-d", "--name", "worker-a", "--", "sleep", "60")
    jay("run", "-d", "--name", "worker-b", "--", "sleep", "60")

    assert "'work' may be any of worker-a, worker-b" in jay.error("logs", "work", code=1)


def test_a_name_used_again_means_the_newest_run(jay: Jay) -> None:
    jay("run", "-d", "--name", "again", "--", "echo", "first run")
    jay.wait_until_ended("again")
    jay("run", "-d", "--name", "again", "--", "echo", "second run")
    jay.wait_for(lambda: b"second run" in jay("logs", "again").stdout)


def test_send_types_text_keys_and_enter_with_its_author(jay: Jay) -> None:
    jay("run", "-d", "--name", "cat", "--", "cat")
    jay("send", "cat", "hello", "--enter")
    jay.wait_for(lambda: jay("logs", "cat").stdout.count(b"hello") == 2)
    jay("send", "cat", "--key", "ctrl-d")
    jay.wait_until_ended("cat")

    records = [json.loads(line) for line in jay("export", "cat", "--format", "jsonl").stdout.splitlines()]
    typed = [record for record in records if record["kind"] == "input"]
    assert [record["text"] for record in typed] == ["hello", "\r", "\x04"]
    assert typed[0]["author"].startswith("person")


def test_stop_ends_the_program_and_says_how(jay: Jay) -> None:
    jay("run", "-d", "--name", "nap", "--", "sleep", "60")

    assert jay.json("stop", "nap") | {"id": ""} == {"id": "", "name": "nap", "state": "exited", "status": 143}
    assert "exited 143" in jay.error("stop", "nap", code=1)


def test_stop_kills_what_does_not_listen(jay: Jay) -> None:
    jay("run", "-d", "--name", "deaf", "--", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    jay.wait_for(lambda: b"ready" in jay("logs", "deaf").stdout)

    assert jay.json("stop", "deaf", "--grace", "0.2")["status"] == 137


def test_a_mark_is_on_the_tape_when_the_command_returns(jay: Jay) -> None:
    jay("run", "-d", "--name", "nap", "--", "sleep", "60")
    marked = jay.json("mark", "nap", "here it went wrong")

    assert b"here it went wrong" in jay("export", "nap", "--format", "jsonl").stdout
    assert marked["offset"] > 0


def test_logs_follows_until_the_end(jay: Jay) -> None:
    jay("run", "-d", "--name", "slow", "--", "sh", "-c", "for i in 1 2 3; do echo line $i; sleep 0.2; done")

    assert jay("logs", "-f", "slow").stdout == b"line 1\nline 2\nline 3\n"


def test_raw_export_is_byte_exact(jay: Jay) -> None:
    (jay.work / "noise").write_bytes(bytes(range(256)) * 40)
    jay("run", "-d", "--name", "noise", "--", "sh", "-c", "stty raw; cat noise")
    jay.wait_until_ended("noise")

    assert jay("export", "noise", "--format", "raw").stdout == bytes(range(256)) * 40


def test_export_and_import_keep_the_events(jay: Jay) -> None:
    jay("run", "-d", "--name", "one", "--", *_ECHO)
    jay.wait_until_ended("one")
    for version in ("2", "3"):
        cast = jay.work / f"v{version}.cast"
        jay("export", "one", "-o", str(cast), "--format", f"asciicast-v{version}")
        imported = jay.json("import", str(cast), "--name", f"copy{version}")

        assert imported["events"] >= 1
        assert jay("logs", f"copy{version}").stdout == b"hello\n"
    assert jay("verify").returncode == 0
    assert jay.pods()["copy2"]["state"] == "imported"


def test_the_ending_of_the_file_chooses_the_format(jay: Jay) -> None:
    jay("run", "-d", "--name", "one", "--", *_ECHO)
    jay.wait_until_ended("one")
    for name, beginning in (("a.cast", b'{"version": 2'), ("a.jsonl", b'{"offset": 0'), ("a.raw", b"hello\r\n")):
        jay("export", "one", "-o", name)

        assert (jay.work / name).read_bytes().startswith(beginning)
    assert not list(jay.work.glob(".*"))


def test_verify_names_each_pod_and_fails_when_one_is_not_clean(jay: Jay) -> None:
    pod = jay.json("run", "-d", "--name", "one", "--", *_ECHO)
    jay.wait_until_ended("one")
    folder = jay.data / "pods" / pod["id"]
    sealed = jay.wait_for(lambda: list((folder / "tape").glob("*.sealed")))[0]
    assert jay("verify").stdout == b"one: clean\n"

    data = bytearray(sealed.read_bytes())
    data[100] ^= 1
    sealed.write_bytes(data)
    report = jay.json("verify", "one", code=1)

    assert report[0]["verdict"] == "damaged"
    assert report[0]["damage"][0]["offset"] == 0


def test_a_copied_tape_is_unanchored(jay: Jay) -> None:
    pod = jay.json("run", "-d", "--name", "one", "--", *_ECHO)
    jay.wait_until_ended("one")
    jay.wait_for(lambda: list((jay.data / "pods" / pod["id"] / "tape").glob("*.sealed")))
    copy = jay.work / "copy" / "tape"
    copy.mkdir(parents=True)
    for file in (jay.data / "pods" / pod["id"] / "tape").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())

    assert b"unanchored" in jay("verify", str(copy), code=1).stdout


def test_rm_deletes_only_what_has_ended(jay: Jay) -> None:
    jay("run", "-d", "--name", "nap", "--", "sleep", "60")
    assert "is running" in jay.error("rm", "nap", code=1)
    jay("stop", "nap")
    jay("rm", "nap")

    assert jay.json("ps", "--all") == []


def test_everything_is_private_to_its_user(jay: Jay) -> None:
    jay("run", "-d", "--name", "nap", "--", "sleep", "60")
    jay("mark", "nap", "x")
    (jay.work / "a.cast").write_text('{"version": 2, "width": 80, "height": 24}\n[1, "o", "x"]\n')
    jay("import", "a.cast")

    paths = [jay.data, *jay.data.rglob("*")]
    assert len(paths) > 8
    for path in paths:
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_agent_knows_its_pod_and_forgets_other_agents(jay: Jay) -> None:
    jay.env |= {
        "CLAUDECODE": "1",
        "TMUX": "/tmp/x",
        "TERM_PROGRAM": "iTerm.app",
        "MINE": "kept",
        "SCRUBJAY_POD": "other",
    }
    pod = jay.json("run", "-d", "--name", "env", "--", "env")
    jay.wait_until_ended("env")

    seen = dict(line.split("=", 1) for line in jay("logs", "env").stdout.decode().splitlines() if "=" in line)
    assert seen["SCRUBJAY_POD"] == pod["id"]
    assert seen["SCRUBJAY_SESSION"] == pod["session"]
    assert seen["MINE"] == "kept"
    assert not {"CLAUDECODE", "TMUX", "TERM_PROGRAM", "SCRUBJAY_DATA"} & set(seen)


def test_completion_scripts_exist_for_each_shell_and_complete_pods(jay: Jay) -> None:
    jay("run", "-d", "--name", "builder", "--", "true")
    for shell in ("bash", "zsh", "fish"):
        assert b"_SCRUBJAY_COMPLETE" in jay("completion", shell).stdout
    jay.env |= {"_SCRUBJAY_COMPLETE": "bash_complete", "COMP_WORDS": "scrubjay logs b", "COMP_CWORD": "2"}
    done = jay()
    del jay.env["_SCRUBJAY_COMPLETE"]

    assert b"builder" in done.stdout


def test_the_state_directory_follows_xdg(jay: Jay, tmp_path: Path) -> None:
    del jay.env["SCRUBJAY_DATA"]
    jay.env["XDG_STATE_HOME"] = str(tmp_path / "state")
    jay("run", "-d", "--name", "one", "--", "true")
    jay.wait_until_ended("one")

    assert (tmp_path / "state" / "scrubjay" / "pods").is_dir()


def test_two_runs_racing_for_a_name_have_one_winner(jay: Jay) -> None:
    import subprocess

    racers = [
        subprocess.Popen(
            [*jay.argv, "run", "-d", "--name", "prize", "--", "sleep", "60"],
            env=jay.env,
            cwd=jay.work,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(6)
    ]
    codes = sorted(racer.wait() for racer in racers)

    assert codes == [0, 1, 1, 1, 1, 1]
    assert len(jay.json("ps", "--all")) == 1


def test_a_deep_data_directory_is_no_problem_for_the_socket(jay: Jay) -> None:
    jay.data = jay.data / ("deep" * 30)
    jay.env["SCRUBJAY_DATA"] = str(jay.data)
    jay("run", "-d", "--name", "nap", "--", "sleep", "60")

    assert jay.pods()["nap"]["state"] == "running"
    jay("stop", "nap")


@pytest.mark.parametrize("args", [("--help",), ("run", "--help"), ("--version",)])
def test_help_is_quick_and_on_stdout(jay: Jay, args: tuple[str, ...]) -> None:
    began = time.monotonic()
    done = jay(*args)

    assert done.stdout
    assert done.stderr == b""
    assert time.monotonic() - began < 10
