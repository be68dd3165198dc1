"""Searching as a person and as a script would."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Generator

import pytest

from scrubjay.replay.search import SearchIndex
from tests.support.cli import Cli, open_cli

_HOSTILE = "\\033]52;c;aGVsbG8=\\007\\033]0;owned\\007needle\\033[6n in hay \\342\\200\\256 end"


_RECORDED = {
    "builder": "echo compiling; echo 'error: connection refused in src/foo_bar.py'; echo done",
    "rows": "seq -f 'row number %g' 300; sleep 0.5; echo much later",
    "uneven": "for i in $(seq 150); do echo written line $i; sleep 0.001; done; seq -f 'written line %g' 151 300",
    "odd": "echo first; echo an Oddity here",
    "one": "echo word one",
    "two": "echo word two",
    "many": "for i in 1 2 3 4 5; do echo entry $i; done",
    "choosy": "echo choice one; echo choice two; echo choice hash",
    "hostile": f"printf '{_HOSTILE}\\n'",
    "wide": f"echo {'x' * 200} pin {'y' * 200}",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cli]:
    """Recordings that no test changes."""
    with open_cli(tmp_path_factory.mktemp("library")) as cli:
        for name, script in _RECORDED.items():
            cli("run", "-d", "--name", name, "--", "sh", "-c", script)
        cli.wait_for(lambda: all(pod["state"] == "exited" for pod in cli.pods().values()))
        yield cli


def _record(cli: Cli, name: str, script: str) -> str:
    pod = cli.json("run", "-d", "--name", name, "--", "sh", "-c", script)
    cli.wait_until_ended(name)
    return pod["id"]


def test_a_hit_has_its_time_pod_line_and_the_command_that_opens_it(library: Cli) -> None:
    first, second = library("search", "foo_bar.py").stdout.decode().splitlines()

    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  builder  error: connection refused in src/foo_bar\.py", first)
    assert re.fullmatch(r" {21}scrubjay replay builder --at @\d+", second)


def test_the_command_that_is_printed_opens_a_screen_that_shows_it(library: Cli) -> None:
    (hit,) = library.json("search", '"number 150"')

    words = shlex.split(hit["open"])
    assert words[:3] == ["scrubjay", "replay", "rows"]
    shown = library("screen", words[2], *words[3:], "--scrollback", "1000").stdout.decode()
    assert "row number 150" in shown
    assert "much later" not in shown


def test_it_shows_it_also_where_lines_were_written_one_by_one(library: Cli) -> None:
    def shows(number: int) -> bool:
        (hit,) = library.json("search", f'"written line {number}"')
        return f"written line {number}\n" in library("screen", "uneven", "--at", f"@{hit['offset']}").stdout.decode()

    assert [number for number in range(20, 280, 20) if not shows(number)] == []


def test_json_says_everything(library: Cli) -> None:
    (hit,) = library.json("search", "oddity")

    assert hit["pod"] == "odd"
    assert hit["id"] == library.pods()["odd"]["id"]
    assert (hit["kind"], hit["row"], hit["text"], hit["marks"]) == ("shown", 1, "an Oddity here", [[3, 9]])
    assert hit["open"] == f"scrubjay replay odd --at @{hit['offset']}"
    assert hit["at"] > 0
    assert hit["wall"] > 1_700_000_000_000_000


def test_pods_are_chosen_by_name_id_or_in_the_query(library: Cli) -> None:
    one = library.pods()["one"]["id"]

    assert {hit["pod"] for hit in library.json("search", "word")} == {"one", "two"}
    for args in (("--pod", "one"), ("--pod", one), ("pod:one",)):
        assert [hit["text"] for hit in library.json("search", "word", *args)] == ["word one"]
    assert len(library.json("search", "word", "--pod", "one", "--pod", "two")) == 2
    assert "there is no pod 'three'" in library.error("search", "word", "--pod", "three", code=1)


def test_the_command_names_the_data_directory_that_was_given(library: Cli) -> None:
    shown = library("--data", str(library.data), "search", "word").stdout.decode()

    assert f"scrubjay --data {library.data} replay one --at @" in shown


def test_time_filters_take_clocks_and_spans_back_from_now(library: Cli) -> None:
    for args in (("--since", "1h"), ("--since", "3d", "--until", "2099-01-01"), ("--until", "0s")):
        assert library.json("search", "word", *args), args
    for args in (("--until", "1h"), ("--since", "2099-01-01T00:00"), ("--until", "2020-01-01 12:00")):
        assert library.json("search", "word", *args, code=1) == []


def test_there_are_at_most_so_many_hits_and_it_says_that_there_are_more(library: Cli) -> None:
    done = library("search", "entry", "--limit", "2")

    assert re.findall(r"entry \d", done.stdout.decode()) == ["entry 5", "entry 4"]
    assert b"--limit" in done.stderr
    assert library("search", "entry", "--limit", "5").stderr == b""


def test_words_to_leave_out_are_not_taken_for_options(library: Cli) -> None:
    assert [hit["text"] for hit in library.json("search", "choice", "-two", "-hash")] == ["choice one"]


def test_a_search_that_finds_nothing_or_makes_no_sense_says_so(library: Cli) -> None:
    rows = (
        ("absent", 1, "nothing was found"),
        ("...", 2, "there is nothing to search for in '...'; give words"),
        ("-absent", 2, "there is nothing to search for"),
        ("", 2, "Missing argument"),
        ("word --sicne 2h", 2, "No such option"),
        ("word --since soon", 2, "'soon' is not a time; times are like 2h"),
        ("word --since 50%", 2, "'50%' is not a time"),
        ("word --limit 0", 2, "--limit"),
        ("word --kind sung", 2, "--kind"),
    )

    assert library.unlike((f"search {words}", code, said) for words, code, said in rows) == []


def test_without_pods_nothing_is_found_and_nothing_is_made(cli: Cli) -> None:
    rows = (("search word", 1, "there are no pods yet"), ("search", 2, "Missing argument"))

    assert cli.unlike(rows) == []
    assert not cli.data.exists()


def test_what_is_printed_cannot_act_on_a_terminal(library: Cli) -> None:
    piped = library("search", "needle").stdout
    assert b"needle in hay  end" in piped
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xe2\x80\xae|\xc2[\x80-\x9f]", piped)
    assert library.json("search", "needle")[0]["text"] == "needle in hay  end"
    with library.terminal("search", "needle") as terminal:
        shown = terminal.read_until(b"--at @")
        terminal.wait()
    assert re.fullmatch(rb"(?:\x1b\[[0-9;]*m|[^\x00-\x09\x0b\x0c\x0e-\x1f\x7f])*", shown)


def test_a_match_is_marked_on_a_terminal_unless_colours_are_unwanted(library: Cli) -> None:
    with library.terminal("search", "pin*") as terminal:
        assert b"\x1b[33m\x1b[1mpin\x1b[0m" in terminal.read_until(b"--at @")
        terminal.wait()
    plain = Cli(library.data, library.work)
    plain.env["NO_COLOR"] = "1"
    with plain.terminal("search", "pin*", cols=90) as terminal:
        shown = terminal.read_until(b"--at @").decode()
        terminal.wait()
    assert "\x1b" not in shown
    assert "x pin y" in shown
    assert max(map(len, shown.splitlines())) <= 90


# Recordings that change.


def test_the_last_screen_of_a_pod_whose_keeper_was_killed_is_found_too(cli: Cli) -> None:
    cli("run", "-d", "--name", "lost", "--", "sh", "-c", "echo the last words; cat")
    cli.wait_for(lambda: b"last words" in cli("logs", "lost").stdout)
    os.kill(cli.pods()["lost"]["keeper_pid"], signal.SIGKILL)
    cli.wait_for(lambda: cli.pods()["lost"]["state"] == "lost")

    assert b"the last words" in cli("search", "words").stdout


def test_what_is_recorded_later_is_found_too(cli: Cli) -> None:
    cli("run", "-d", "--name", "cat", "--", "cat")
    cli("send", "cat", "hello", "--enter")
    assert cli.wait_for(lambda: b"hello" in cli("logs", "cat").stdout)
    assert cli.json("search", "hello")
    assert cli.json("search", "world", code=1) == []

    cli("send", "cat", "world", "--enter")
    assert cli.wait_for(lambda: b"world" in cli("logs", "cat").stdout)
    assert cli.json("search", "world")


def test_a_search_does_not_keep_what_stands_on_the_screen_from_being_found_later(cli: Cli) -> None:
    cli("run", "-d", "--name", "asking", "--", "sh", "-c", "echo shall I delete everything; sleep 60")
    cli.wait_for(lambda: b"everything" in cli("logs", "asking").stdout)
    cli("search", "unrelated", code=1)
    cli("stop", "asking")

    assert [hit["text"] for hit in cli.json("search", "delete")] == ["shall I delete everything"]


def test_what_was_typed_is_found_and_said_to_be_typed(cli: Cli) -> None:
    cli("run", "-d", "--name", "cat", "--", "cat")
    cli("send", "cat", "secret plan", "--enter")
    cli.wait_for(lambda: cli("logs", "cat").stdout.count(b"secret plan") == 2)

    (typed,) = cli.json("search", "secret", "--kind", "typed")
    assert (typed["text"], typed["kind"]) == ("secret plan", "typed")
    assert cli.json("search", "typed:", "secret") == [typed]
    assert "cat (typed)  secret plan" in cli("search", "secret", "--kind", "typed").stdout.decode()


def test_a_hit_in_an_older_run_of_a_name_is_opened_by_its_id(cli: Cli) -> None:
    older = _record(cli, "again", "echo word older")
    _record(cli, "again", "echo word newer")

    newest, oldest = cli.json("search", "word")

    assert newest["open"].startswith("scrubjay replay again --at @")
    assert oldest["open"].startswith(f"scrubjay replay {older} --at @")
    assert "word older" in cli("screen", older, "--at", f"@{oldest['offset']}").stdout.decode()


def test_a_removed_pod_is_no_longer_found(cli: Cli) -> None:
    _record(cli, "one", "echo secret word")
    _record(cli, "two", "echo other")
    assert cli.json("search", "secret")
    cli("rm", "one")

    assert cli.json("search", "secret", code=1) == []
    with SearchIndex(cli.data / "search.sqlite") as index:
        assert len(index.tapes()) == 1


def test_an_index_that_is_lost_is_made_again_on_the_spot(cli: Cli) -> None:
    _record(cli, "one", "for i in $(seq 200); do echo word $i; done")
    before = cli.json("search", "word", "--limit", "500")
    index = cli.data / "search.sqlite"
    data = index.read_bytes()
    half = len(data) // 2

    for damage in (None, os.urandom(50_000), data[:half] + os.urandom(len(data) - half)):
        if damage is None:
            index.unlink()
        else:
            index.write_bytes(damage)

        assert cli.json("search", "word", "--limit", "500") == before
