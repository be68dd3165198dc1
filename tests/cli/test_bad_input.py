"""What people get wrong gets one line that says so and what to do, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

from tests.support.cli import Cli

_HEADER = b'{"version": 2, "width": 80, "height": 24}\n'


def _is_untouched(cli: Cli) -> bool:
    return not cli.data.exists() or not [*(cli.data / "pods").iterdir(), *(cli.data / "staging").iterdir()]


_WRONG = (
    (("run", "-d", "--", "no-such-command"), 1, "there is no command 'no-such-command'; check the spelling"),
    (("run", "-d", "--", "./no-such-file"), 1, "there is no command './no-such-file'"),
    (("run", "-d"), 2, "there is nothing to run"),
    (("run", "-d", "--cwd", "/no/such/place", "--", "true"), 1, "there is no directory /no/such/place"),
    (("run", "-d", "--cols", "1", "--rows", "1", "--", "true"), 2, "a terminal of 1x1 is too small"),
    (("run", "-d", "--cols", "65535", "--rows", "65535", "--", "true"), 2, "is too large"),
    (("run", "-d", "--cols", "many", "--", "true"), 2, "'many' is not a valid integer"),
    (("run", "-d", "--name", "../../etc", "--", "true"), 2, "cannot be a pod's name"),
    (("run", "-d", "--name", "-rf", "--", "true"), 2, "cannot be a pod's name"),
    (("run", "-d", "--name", "x" * 300, "--", "true"), 2, "cannot be a pod's name"),
    (("run", "-d", "--name", "a\nb", "--", "true"), 2, "cannot be a pod's name"),
    (("run", "--json", "--", "true"), 2, "add --detach"),
    (("logs", "nobody"), 1, "there is no pod 'nobody'; 'scrubjay ps --all' lists them"),
    (("logs", ""), 1, "there is no pod ''"),
    (("attach", "nobody"), 1, "there is no pod 'nobody'"),
    (("stop", "nobody"), 1, "there is no pod 'nobody'"),
    (("verify", "nobody"), 1, "there is no pod 'nobody'"),
    (("verify", "/etc/hostname"), 1, "/etc/hostname is not a tape"),
    (("import", "/no/such.cast"), 1, "/no/such.cast: No such file or directory"),
    (("import", "/etc"), 1, "/etc: this is a directory"),
    (("fly",), 2, "No such command 'fly'; see 'scrubjay --help'"),
    (("ps", "--jsn"), 2, "No such option"),
    (("sessions", "fly"), 2, "No such command 'fly'; see 'scrubjay sessions --help'"),
    (("sessions", "--all", "show", "x"), 2, "what is before 'show' is for the list of sessions"),
    (("sessions", "handoff", "x", "--note", "y"), 2, "Missing option '--to'"),
    (("memory", "add", "x"), 2, "the memory says nothing; give TEXT, --prompt, --thought or --response"),
    (("memory", "add", "x", "y", "--prompt", "z"), 2, "the prompt was given twice"),
    (("memory", "search", "-x"), 2, "there is nothing to search for in '-x'"),
    (("memory", "list", "x", "--limit", "0"), 2, "0 is not in the range"),
    (("memory", "list", ""), 1, "there is no session ''"),
    (("completion", "tcsh"), 2, "'tcsh' is not one of"),
)


def test_a_wrong_request_is_answered_in_one_line(cli: Cli) -> None:
    assert cli.unlike(_WRONG) == []
    assert _is_untouched(cli)


_BAD_CASTS = (
    (b"", "empty"),
    (b"hello\n", "not JSON"),
    (b"\x00" * 5000, "line 1"),
    (b"SJTAPE01" + b"\x00" * 100, "line 1"),
    (b'{"version": 9, "width": 80, "height": 24}\n', "version 9"),
    (b'{"hello": "world"}\n', "version"),
    (_HEADER + b'[0.5, "o", "ok"]\n[1.0, "o", "cut of', "line 3"),
    (_HEADER + b'[0.5, "o"]\n[1.0, "o", "x"]\n', "line 2"),
    (_HEADER + b'[-1, "o", "x"]\n', "line 2"),
    (_HEADER + b'[1, "r", "zero"]\n', "zero"),
    (_HEADER + b'[1, "o", "a\x00b"]\n[2, "o", "x"]\n', "line 2"),
    (b'{"version": 2, "width": -1, "height": 24}\n', "width"),
)


def test_a_bad_cast_is_named_and_leaves_nothing(cli: Cli) -> None:
    for number, (content, _) in enumerate(_BAD_CASTS):
        (cli.work / f"{number}.cast").write_bytes(content)

    assert cli.unlike((f"import {number}.cast", 1, words) for number, (_, words) in enumerate(_BAD_CASTS)) == []
    assert _is_untouched(cli)


def test_a_truncated_cast_can_be_imported_as_far_as_it_goes(cli: Cli) -> None:
    torn = cli.work / "torn.cast"
    torn.write_bytes(_HEADER + b'[0.5, "o", "ok"]\n[1.0, "o", "cut of')

    assert "--accept-truncated" in cli.error("import", str(torn), code=1)
    imported = cli.json("import", str(torn), "--accept-truncated")
    assert (imported["events"], imported["truncated_line"]) == (1, 3)
    assert cli("logs", "torn").stdout == b"ok"


def test_a_line_of_200_mb_is_refused_without_reading_it_all(cli: Cli) -> None:
    huge = cli.work / "huge.cast"
    with huge.open("wb") as file:
        file.write(_HEADER + b'[1, "o", "')
        file.truncate(200_000_000)

    assert "line 2" in cli.error("import", str(huge), code=1)
    assert _is_untouched(cli)


def test_nul_bytes_in_a_cast_string_are_kept(cli: Cli) -> None:
    (cli.work / "nul.cast").write_bytes(_HEADER + b'[1, "o", "a\\u0000b"]\n')
    cli("import", "nul.cast")

    assert cli("export", "nul", "--format", "raw").stdout == b"a\x00b"


def test_a_name_that_is_taken_is_said_to_be(cli: Cli) -> None:
    cli("run", "-d", "--name", "mine", "--", "sleep", "60")
    (cli.work / "ok.cast").write_bytes(_HEADER + b'[1, "o", "x"]\n')

    assert "the name 'mine' is taken" in cli.error("run", "-d", "--name", "mine", "--", "true", code=1)
    assert "the name 'mine' is taken" in cli.error("import", "ok.cast", "--name", "mine", code=1)
    assert len(cli.json("ps", "--all")) == 1


def test_an_unusable_data_directory_is_named_with_the_remedy(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    for place in (str(tmp_path / "file"), "/proc/scrubjay"):
        cli.env["SCRUBJAY_DATA"] = place

        error = cli.error("run", "-d", "--", "true", code=1)

        assert f"cannot use {place} for recordings" in error
        assert "--data" in error


def test_a_bad_setting_is_named(cli: Cli) -> None:
    for name, value in (("SCRUBJAY_SYNC_MS", "fast"), ("SCRUBJAY_WHEN_FULL", "panic")):
        cli.env[name] = value
        assert f"{name}='{value}'" in cli.error("ps", code=2)
        del cli.env[name]


def test_a_terminal_too_small_to_attach_from_is_refused(cli: Cli) -> None:
    cli("run", "-d", "--name", "nap", "--", "sleep", "60")
    with cli.terminal("attach", "nap", cols=5, rows=1) as terminal:
        terminal.read_until(b"too")
        assert terminal.wait() == 2


def test_export_to_an_impossible_place_leaves_nothing(cli: Cli) -> None:
    cli("run", "-d", "--name", "one", "--", "true")
    cli.wait_until_ended("one")

    assert "/no/such/x.cast" in cli.error("export", "one", "-o", "/no/such/x.cast", code=2)
    assert "is a directory" in cli.error("export", "one", "-o", "/tmp", code=2)


def test_typing_into_a_pod_that_has_ended_is_refused(cli: Cli) -> None:
    cli("run", "-d", "--name", "one", "--", "true")
    cli.wait_until_ended("one")

    assert "pod 'one' is not running: exited 0" in cli.error("send", "one", "hello", code=1)
    assert "there is nothing to send" in cli.error("send", "one", code=2)
    assert "'hyper-x' is not a key" in cli.error("send", "one", "--key", "hyper-x", code=2)
