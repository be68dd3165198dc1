"""Every command as a script would use it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.support.cli import Cli

_ECHO = ("sh", "-c", "echo hello; exit 3")


def test_a_detached_run_prints_the_name_alone(cli: Cli) -> None:
    done = cli("run", "-d", "--name", "one", "--", *_ECHO)

    assert done.stdout == b"one\n"
    assert cli.wait_until_ended("one")["description"] == "exited 3"


def test_names_follow_the_command_and_do_not_collide(cli: Cli) -> None:
    first = cli.json("run", "-d", "--", "sleep", "60")
    second = cli.json("run", "-d", "--", "/usr/bin/env", "sleep", "60")
    third = cli.json("run", "-d", "--", "sleep", "60")

    assert [pod["name"] for pod in (first, second, third)] == ["sleep", "env", "sleep-2"]
    assert len({pod["id"] for pod in (first, second, third)}) == 3


def test_ps_lists_what_runs_and_all_lists_the_rest(cli: Cli) -> None:
    cli("run", "-d", "--name", "short", "--", "true")
    cli("run", "-d", "--name", "long", "--", "sleep", "60")
    cli.wait_until_ended("short")

    assert [pod["name"] for pod in cli.json("ps")] == ["long"]
    assert {pod["name"] for pod in cli.json("ps", "--all")} == {"short", "long"}
    table = cli("ps", "--all").stdout.decode()
    assert "exited 0" in table
    assert "running" in table


def test_a_unique_prefix_of_a_name_or_id_is_enough(cli: Cli) -> None:
    pod = cli.json("run", "-d", "--name", "builder", "--", *_ECHO)
    cli.wait_until_ended("builder")

    for handle in ("b", "builder", pod["id"], pod["id"][:12]):
        assert b"hello" in cli("logs", handle).stdout


def test_a_prefix_of_several_names_lists_them(cli: Cli) -> None:
    cli("run", "-d", "--name", "worker-a", "--", "sleep", "60")
    cli("run", "-d", "--name", "worker-b", "--", "sleep", "60")

    assert "'work' may be any of worker-a, worker-b" in cli.error("logs", "work", code=1)


def test_a_name_used_again_means_the_newest_run(cli: Cli) -> None:
    cli("run", "-d", "--name", "again", "--", "echo", "first run")
    cli.wait_until_ended("again")
    cli("run", "-d", "--name", "again", "--", "echo", "second run")
    cli.wait_for(lambda: b"second run" in cli("logs", "again").stdout)


def test_send_types_text_keys_and_enter_with_its_author(cli: Cli) -> None:
    cli("run", "-d", "--name", "cat", "--", "cat")
    cli("send", "cat", "hello", "--enter")
    cli.wait_for(lambda: cli("logs", "cat").stdout.count(b"hello") == 2)
    cli("send", "cat", "--key", "ctrl-d")
    cli.wait_until_ended("cat")

    records = [json.loads(line) for line in cli("export", "cat", "--format", "jsonl").stdout.splitlines()]
    typed = [record for record in records if record["kind"] == "input"]
    assert [record["text"] for record in typed] == ["hello", "\r", "\x04"]
    assert typed[0]["author"].startswith("person")


def test_stop_ends_the_program_and_says_how(cli: Cli) -> None:
    cli("run", "-d", "--name", "nap", "--", "sleep", "60")

    assert cli.json("stop", "nap") | {"id": ""} == {"id": "", "name": "nap", "state": "exited", "status": 143}
    assert "exited 143" in cli.error("stop", "nap", code=1)


def test_stop_kills_what_does_not_listen(cli: Cli) -> None:
    cli("run", "-d", "--name", "deaf", "--", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done")
    cli.wait_for(lambda: b"ready" in cli("logs", "deaf").stdout)

    assert cli.json("stop", "deaf", "--grace", "0.2")["status"] == 137


def test_a_mark_is_on_the_tape_when_the_command_returns(cli: Cli) -> None:
    cli("run", "-d", "--name", "nap", "--", "sleep", "60")
    marked = cli.json("mark", "nap", "here it went wrong")

    assert b"here it went wrong" in cli("export", "nap", "--format", "jsonl").stdout
    assert marked["offset"] > 0


def test_logs_follows_until_the_end(cli: Cli) -> None:
    cli("run", "-d", "--name", "slow", "--", "sh", "-c", "for i in 1 2 3; do echo line $i; sleep 0.05; done")

    assert cli("logs", "-f", "slow").stdout == b"line 1\nline 2\nline 3\n"


def test_raw_export_is_byte_exact(cli: Cli) -> None:
    (cli.work / "noise").write_bytes(bytes(range(256)) * 40)
    cli("run", "-d", "--name", "noise", "--", "sh", "-c", "stty raw; cat noise")
    cli.wait_until_ended("noise")

    assert cli("export", "noise", "--format", "raw").stdout == bytes(range(256)) * 40


def test_export_and_import_keep_the_events(cli: Cli) -> None:
    cli("run", "-d", "--name", "one", "--", *_ECHO)
    cli.wait_until_ended("one")
    for version in ("2", "3"):
        cast = cli.work / f"v{version}.cast"
        cli("export", "one", "-o", str(cast), "--format", f"asciicast-v{version}")
        imported = cli.json("import", str(cast), "--name", f"copy{version}")

        assert imported["events"] >= 1
        assert cli("logs", f"copy{version}").stdout == b"hello\n"
    assert cli("verify").returncode == 0
    assert cli.pods()["copy2"]["state"] == "imported"


def test_the_ending_of_the_file_chooses_the_format(cli: Cli) -> None:
    cli("run", "-d", "--name", "one", "--", *_ECHO)
    cli.wait_until_ended("one")
    for name, beginning in (("a.cast", b'{"version": 2'), ("a.jsonl", b'{"offset": 0'), ("a.raw", b"hello\r\n")):
        cli("export", "one", "-o", name)

        assert (cli.work / name).read_bytes().startswith(beginning)
    assert not list(cli.work.glob(".*"))


def test_verify_names_each_pod_and_fails_when_one_is_not_clean(cli: Cli) -> None:
    pod = cli.json("run", "-d", "--name", "one", "--", *_ECHO)
    cli.wait_until_ended("one")
    folder = cli.data / "pods" / pod["id"]
    sealed = cli.wait_for(lambda: list((folder / "tape").glob("*.sealed")))[0]
    assert cli("verify").stdout == b"one: clean\n"

    data = bytearray(sealed.read_bytes())
    data[100] ^= 1
    sealed.write_bytes(data)
    report = cli.json("verify", "one", code=1)

    assert report[0]["verdict"] == "damaged"
    assert report[0]["damage"][0]["offset"] == 0


def test_a_copied_tape_is_unanchored(cli: Cli) -> None:
    pod = cli.json("run", "-d", "--name", "one", "--", *_ECHO)
    cli.wait_until_ended("one")
    cli.wait_for(lambda: list((cli.data / "pods" / pod["id"] / "tape").glob("*.sealed")))
    copy = cli.work / "copy" / "tape"
    copy.mkdir(parents=True)
    for file in (cli.data / "pods" / pod["id"] / "tape").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())

    assert b"unanchored" in cli("verify", str(copy), code=1).stdout


def test_rm_deletes_only_what_has_ended(cli: Cli) -> None:
    cli("run", "-d", "--name", "nap", "--", "sleep", "60")
    assert "is running" in cli.error("rm", "nap", code=1)
    cli("stop", "nap")
    cli("rm", "nap")

    assert cli.json("ps", "--all") == []


def test_everything_is_private_to_its_user(cli: Cli) -> None:
    cli("run", "-d", "--name", "nap", "--", "sleep", "60")
    cli("mark", "nap", "x")
    (cli.work / "a.cast").write_text('{"version": 2, "width": 80, "height": 24}\n[1, "o", "x"]\n')
    cli("import", "a.cast")

    paths = [cli.data, *cli.data.rglob("*")]
    assert len(paths) > 8
    for path in paths:
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_agent_knows_its_pod_and_forgets_other_agents(cli: Cli) -> None:
    cli.env |= {
        "CLAUDECODE": "1",
        "TMUX": "/tmp/x",
        "TERM_PROGRAM": "iTerm.app",
        "MINE": "kept",
        "SCRUBJAY_POD": "other",
    }
    pod = cli.json("run", "-d", "--name", "env", "--", "env")
    cli.wait_until_ended("env")

    seen = dict(line.split("=", 1) for line in cli("logs", "env").stdout.decode().splitlines() if "=" in line)
    assert seen["SCRUBJAY_POD"] == pod["id"]
    assert seen["SCRUBJAY_SESSION"] == pod["session"]
    assert seen["MINE"] == "kept"
    assert not {"CLAUDECODE", "TMUX", "TERM_PROGRAM", "SCRUBJAY_DATA"} & set(seen)


def test_completion_scripts_exist_for_each_shell_and_complete_pods(cli: Cli) -> None:
    cli("run", "-d", "--name", "builder", "--", "true")
    for shell in ("bash", "zsh", "fish"):
        assert b"_SCRUBJAY_COMPLETE" in cli("completion", shell).stdout
    cli.env |= {"_SCRUBJAY_COMPLETE": "bash_complete", "COMP_WORDS": "scrubjay logs b", "COMP_CWORD": "2"}
    done = cli()
    del cli.env["_SCRUBJAY_COMPLETE"]

    assert b"builder" in done.stdout


def test_the_state_directory_follows_xdg(cli: Cli, tmp_path: Path) -> None:
    del cli.env["SCRUBJAY_DATA"]
    cli.env["XDG_STATE_HOME"] = str(tmp_path / "state")
    cli("run", "-d", "--name", "one", "--", "true")
    cli.wait_until_ended("one")

    assert (tmp_path / "state" / "scrubjay" / "pods").is_dir()


def test_two_runs_racing_for_a_name_have_one_winner(cli: Cli) -> None:
    racers = [
        subprocess.Popen(
            [*cli.argv, "run", "-d", "--name", "prize", "--", "sleep", "60"],
            env=cli.env,
            cwd=cli.work,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    codes = sorted(racer.wait() for racer in racers)

    assert codes == [0, 1, 1, 1]
    assert len(cli.json("ps", "--all")) == 1


def test_a_deep_data_directory_is_no_problem_for_the_socket(cli: Cli) -> None:
    cli.data = cli.data / ("deep" * 30)
    cli.env["SCRUBJAY_DATA"] = str(cli.data)
    cli("run", "-d", "--name", "nap", "--", "sleep", "60")

    assert cli.pods()["nap"]["state"] == "running"
    cli("stop", "nap")


def test_help_is_on_stdout(cli: Cli) -> None:
    for args in (("--help",), ("run", "--help"), ("--version",)):
        done = cli(*args)

        assert done.stdout, args
        assert done.stderr == b""
