"""Searching as a person and as a script would."""

from __future__ import annotations

import os
import re
import shlex
import signal
import time

import pytest

from cli.conftest import Jay
from scrubjay.replay.search import SearchIndex

_HOSTILE = "\\033]52;c;aGVsbG8=\\007\\033]0;owned\\007needle\\033[6n in hay \\342\\200\\256 end"


def _record(jay: Jay, name: str, script: str) -> str:
    pod = jay.json("run", "-d", "--name", name, "--", "sh", "-c", script)
    jay.wait_until_ended(name)
    return pod["id"]


def test_a_hit_has_its_time_pod_line_and_the_command_that_opens_it(jay: Jay) -> None:
    _record(jay, "builder", "echo compiling; echo 'error: connection refused in src/foo_bar.py'; echo done")

    first, second = jay("search", "foo_bar.py").stdout.decode().splitlines()

    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  builder  error: connection refused in src/foo_bar\.py", first)
    assert re.fullmatch(r" {21}scrubjay replay builder --at @\d+", second)


def test_the_command_that_is_printed_opens_a_screen_that_shows_it(jay: Jay) -> None:
    _record(jay, "builder", "seq -f 'row number %g' 300; sleep 0.5; echo much later")
    (hit,) = jay.json("search", '"number 150"')

    words = shlex.split(hit["open"])
    assert words[:3] == ["scrubjay", "replay", "builder"]
    shown = jay("screen", words[2], *words[3:], "--scrollback", "1000").stdout.decode()
    assert "row number 150" in shown
    assert "much later" not in shown


def test_the_last_screen_of_a_pod_whose_keeper_was_killed_is_found_too(jay: Jay) -> None:
    jay("run", "-d", "--name", "lost", "--", "sh", "-c", "echo the last words; cat")
    jay.wait_for(lambda: b"last words" in jay("logs", "lost").stdout)
    os.kill(jay.pods()["lost"]["keeper_pid"], signal.SIGKILL)
    jay.wait_for(lambda: jay.pods()["lost"]["state"] == "lost")

    time.sleep(0.5)  # so long a row must stand

    assert b"the last words" in jay("search", "words").stdout


def test_json_says_everything(jay: Jay) -> None:
    pod = _record(jay, "builder", "echo first; echo an Error here")

    (hit,) = jay.json("search", "error")

    assert hit["pod"] == "builder"
    assert hit["id"] == pod
    assert (hit["kind"], hit["row"], hit["text"], hit["marks"]) == ("shown", 1, "an Error here", [[3, 8]])
    assert hit["open"] == f"scrubjay replay builder --at @{hit['offset']}"
    assert hit["at"] > 0
    assert hit["wall"] > 1_700_000_000_000_000


def test_what_is_recorded_later_is_found_too(jay: Jay) -> None:
    jay("run", "-d", "--name", "cat", "--", "cat")
    jay("send", "cat", "hello", "--enter")
    assert jay.wait_for(lambda: b"hello" in jay("logs", "cat").stdout)
    assert jay.json("search", "hello")
    assert jay.json("search", "world", code=1) == []

    jay("send", "cat", "world", "--enter")
    assert jay.wait_for(lambda: b"world" in jay("logs", "cat").stdout)
    assert jay.json("search", "world")


def test_a_search_does_not_keep_what_stands_on_the_screen_from_being_found_later(jay: Jay) -> None:
    jay("run", "-d", "--name", "asking", "--", "sh", "-c", "echo shall I delete everything; sleep 60")
    jay.wait_for(lambda: b"everything" in jay("logs", "asking").stdout)
    jay("search", "unrelated", code=1)
    jay("stop", "asking")

    assert [hit["text"] for hit in jay.json("search", "delete")] == ["shall I delete everything"]


def test_what_was_typed_is_found_and_said_to_be_typed(jay: Jay) -> None:
    jay("run", "-d", "--name", "cat", "--", "cat")
    jay("send", "cat", "secret plan", "--enter")
    jay.wait_for(lambda: jay("logs", "cat").stdout.count(b"secret plan") == 2)

    (typed,) = jay.json("search", "secret", "--kind", "typed")
    assert (typed["text"], typed["kind"]) == ("secret plan", "typed")
    assert jay.json("search", "typed:", "secret") == [typed]
    assert "cat (typed)  secret plan" in jay("search", "secret", "--kind", "typed").stdout.decode()


def test_pods_are_chosen_by_name_id_or_in_the_query(jay: Jay) -> None:
    one = _record(jay, "one", "echo word one")
    _record(jay, "two", "echo word two")

    assert {hit["pod"] for hit in jay.json("search", "word")} == {"one", "two"}
    for args in (("--pod", "one"), ("--pod", one), ("pod:one",)):
        assert [hit["text"] for hit in jay.json("search", "word", *args)] == ["word one"]
    assert len(jay.json("search", "word", "--pod", "one", "--pod", "two")) == 2
    assert "there is no pod 'three'" in jay.error("search", "word", "--pod", "three", code=1)


def test_a_hit_in_an_older_run_of_a_name_is_opened_by_its_id(jay: Jay) -> None:
    older = _record(jay, "again", "echo word older")
    _record(jay, "again", "echo word newer")

    newest, oldest = jay.json("search", "word")

    assert newest["open"].startswith("scrubjay replay again --at @")
    assert oldest["open"].startswith(f"scrubjay replay {older} --at @")
    assert "word older" in jay("screen", older, "--at", f"@{oldest['offset']}").stdout.decode()


def test_the_command_names_the_data_directory_that_was_given(jay: Jay) -> None:
    _record(jay, "one", "echo word")

    shown = jay("--data", str(jay.data), "search", "word").stdout.decode()

    assert f"scrubjay --data {jay.data} replay one --at @" in shown


def test_time_filters_take_clocks_and_spans_back_from_now(jay: Jay) -> None:
    _record(jay, "one", "echo word")

    for args in (("--since", "1h"), ("--since", "3d", "--until", "2099-01-01"), ("--until", "0s")):
        assert jay.json("search", "word", *args), args
    for args in (("--until", "1h"), ("--since", "2099-01-01T00:00"), ("--until", "2020-01-01 12:00")):
        assert jay.json("search", "word", *args, code=1) == []


def test_there_are_at_most_so_many_hits_and_it_says_that_there_are_more(jay: Jay) -> None:
    _record(jay, "many", "for i in 1 2 3 4 5; do echo word $i; done")

    done = jay("search", "word", "--limit", "2")
    assert re.findall(r"word \d", done.stdout.decode()) == ["word 5", "word 4"]
    assert b"--limit" in done.stderr
    assert jay("search", "word", "--limit", "5").stderr == b""


def test_words_to_leave_out_are_not_taken_for_options(jay: Jay) -> None:
    _record(jay, "one", "echo error one; echo error two; echo error hash")

    assert [hit["text"] for hit in jay.json("search", "error", "-two", "-hash")] == ["error one"]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("absent",), 1, "nothing was found"),
        (("...",), 2, "there is nothing to search for in '...'; give words"),
        (("-absent",), 2, "there is nothing to search for"),
        ((), 2, "Missing argument"),
        (("word", "--sicne", "2h"), 2, "No such option"),
        (("word", "--since", "soon"), 2, "'soon' is not a time; times are like 2h"),
        (("word", "--since", "50%"), 2, "'50%' is not a time"),
        (("word", "--limit", "0"), 2, "--limit"),
        (("word", "--kind", "sung"), 2, "--kind"),
    ],
)
def test_a_search_that_finds_nothing_or_makes_no_sense_says_so(
    jay: Jay, args: tuple[str, ...], code: int, words: str
) -> None:
    assert words in jay.error("search", *args, code=code)


def test_without_pods_nothing_is_found_and_nothing_is_made(jay: Jay) -> None:
    assert "there are no pods yet" in jay.error("search", "word", code=1)
    assert not jay.data.exists()


def test_what_is_printed_cannot_act_on_a_terminal(jay: Jay) -> None:
    _record(jay, "one", f"printf '{_HOSTILE}\\n'")

    piped = jay("search", "needle").stdout
    assert b"needle in hay  end" in piped
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xe2\x80\xae|\xc2[\x80-\x9f]", piped)
    assert jay.json("search", "needle")[0]["text"] == "needle in hay  end"
    with jay.terminal("search", "needle") as terminal:
        shown = terminal.read_until(b"--at @")
        terminal.wait()
    assert re.fullmatch(rb"(?:\x1b\[[0-9;]*m|[^\x00-\x09\x0b\x0c\x0e-\x1f\x7f])*", shown)


def test_a_match_is_marked_on_a_terminal_unless_colours_are_unwanted(jay: Jay) -> None:
    _record(jay, "one", f"echo {'x' * 200} needle {'y' * 200}")

    with jay.terminal("search", "need*") as terminal:
        assert b"\x1b[33m\x1b[1mneedle\x1b[0m" in terminal.read_until(b"--at @")
        terminal.wait()
    jay.env["NO_COLOR"] = "1"
    with jay.terminal("search", "need*", cols=90) as terminal:
        shown = terminal.read_until(b"--at @").decode()
        terminal.wait()
    assert "\x1b" not in shown
    assert "x needle y" in shown
    assert max(map(len, shown.splitlines())) <= 90


def test_a_removed_pod_is_no_longer_found(jay: Jay) -> None:
    _record(jay, "one", "echo secret word")
    _record(jay, "two", "echo other")
    assert jay.json("search", "secret")
    jay("rm", "one")

    assert jay.json("search", "secret", code=1) == []
    with SearchIndex(jay.data / "search.sqlite") as index:
        assert len(index.tapes()) == 1


@pytest.mark.parametrize("damage", ["deleted", "garbage", "rotten"])
def test_an_index_that_is_lost_is_made_again_on_the_spot(jay: Jay, damage: str) -> None:
    _record(jay, "one", "for i in $(seq 200); do echo word $i; done")
    before = jay.json("search", "word", "--limit", "500")
    index = jay.data / "search.sqlite"
    match damage:
        case "deleted":
            index.unlink()
        case "garbage":
            index.write_bytes(os.urandom(50_000))
        case _:
            data = bytearray(index.read_bytes())
            data[len(data) // 2 :] = os.urandom(len(data) - len(data) // 2)
            index.write_bytes(data)

    assert jay.json("search", "word", "--limit", "500") == before
