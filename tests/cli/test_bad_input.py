"""What people get wrong gets one line that says so and what to do, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Jay

_HEADER = b'{"version": 2, "width": 80, "height": 24}\n'


def _is_untouched(jay: Jay) -> bool:
    return not jay.data.exists() or not [*(jay.data / "pods").iterdir(), *(jay.data / "staging").iterdir()]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
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
    ],
)
def test_a_wrong_request_is_answered_in_one_line(jay: Jay, args: tuple[str, ...], code: int, words: str) -> None:
    assert words in jay.error(*args, code=code)
    assert _is_untouched(jay)


@pytest.mark.parametrize(
    ("content", "words"),
    [
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
    ],
)
def test_a_bad_cast_is_named_and_leaves_nothing(jay: Jay, content: bytes, words: str) -> None:
    bad = jay.work / "bad.cast"
    bad.write_bytes(content)

    assert words in jay.error("import", str(bad), code=1)
    assert _is_untouched(jay)


def test_a_truncated_cast_can_be_imported_as_far_as_it_goes(jay: Jay) -> None:
    torn = jay.work / "torn.cast"
    torn.write_bytes(_HEADER + b'[0.5, "o", "ok"]\n[1.0, "o", "cut of')

    assert "--accept-truncated" in jay.error("import", str(torn), code=1)
    imported = jay.json("import", str(torn), "--accept-truncated")
    assert (imported["events"], imported["truncated_line"]) == (1, 3)
    assert jay("logs", "torn").stdout == b"ok"


def test_a_line_of_200_mb_is_refused_without_reading_it_all(jay: Jay) -> None:
    huge = jay.work / "huge.cast"
    with huge.open("wb") as file:
        file.write(_HEADER + b'[1, "o", "')
        file.truncate(200_000_000)

    assert "line 2" in jay.error("import", str(huge), code=1)
    assert _is_untouched(jay)


def test_nul_bytes_in_a_cast_string_are_kept(jay: Jay) -> None:
    (jay.work / "nul.cast").write_bytes(_HEADER + b'[1, "o", "a\\u0000b"]\n')
    jay("import", "nul.cast")

    assert jay("export", "nul", "--format", "raw").stdout == b"a\x00b"


def test_a_name_that_is_taken_is_said_to_be(jay: Jay) -> None:
    jay("run", "-d", "--name", "mine", "--", "sleep", "60")
    (jay.work / "ok.cast").write_bytes(_HEADER + b'[1, "o", "x"]\n')

    assert "the name 'mine' is taken" in jay.error("run", "-d", "--name", "mine", "--", "true", code=1)
    assert "the name 'mine' is taken" in jay.error("import", "ok.cast", "--name", "mine", code=1)
    assert len(jay.json("ps", "--all")) == 1


@pytest.mark.parametrize("place", ["file", "proc"])
def test_an_unusable_data_directory_is_named_with_the_remedy(jay: Jay, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("not a directory")
    jay.env["SCRUBJAY_DATA"] = str(tmp_path / "file") if place == "file" else "/proc/scrubjay"

    error = jay.error("run", "-d", "--", "true", code=1)
    assert f"cannot use {jay.env['SCRUBJAY_DATA']} for recordings" in error
    assert "--data" in error
    jay.env["SCRUBJAY_DATA"] = str(tmp_path / "data")


@pytest.mark.parametrize(("name", "value"), [("SCRUBJAY_SYNC_MS", "fast"), ("SCRUBJAY_WHEN_FULL", "panic")])
def test_a_bad_setting_is_named(jay: Jay, name: str, value: str) -> None:
    jay.env[name] = value
    assert f"{name}='{value}'" in jay.error("ps", code=2)
    del jay.env[name]


def test_a_terminal_too_small_to_attach_from_is_refused(jay: Jay) -> None:
    jay("run", "-d", "--name", "nap", "--", "sleep", "60")
    with jay.terminal("attach", "nap", cols=5, rows=1) as terminal:
        terminal.read_until(b"too")
        assert terminal.wait() == 2


def test_export_to_an_impossible_place_leaves_nothing(jay: Jay) -> None:
    jay("run", "-d", "--name", "one", "--", "true")
    jay.wait_until_ended("one")

    assert "/no/such/x.cast" in jay.error("export", "one", "-o", "/no/such/x.cast", code=2)
    assert "is a directory" in jay.error("export", "one", "-o", "/tmp", code=2)


def test_typing_into_a_pod_that_has_ended_is_refused(jay: Jay) -> None:
    jay("run", "-d", "--name", "one", "--", "true")
    jay.wait_until_ended("one")

    assert "pod 'one' is not running: exited 0" in jay.error("send", "one", "hello", code=1)
    assert "there is nothing to send" in jay.error("send", "one", code=2)
    assert "'hyper-x' is not a key" in jay.error("send", "one", "--key", "hyper-x", code=2)
