"""``topology``, against a real server with real pods."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from scrubjay.tape.record import Json
from tests.support.cli import Cli, open_cli
from tests.support.up_process import open_up_process

_NAMES = ("ann", "bob", "cid")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cli]:
    """Three pods, of which one waits for another to grant it something."""
    with open_cli(tmp_path_factory.mktemp("fleet")) as cli, open_up_process(cli):
        for name in _NAMES:
            cli("run", "-d", "--name", name, "--", "cat")
        cli.wait_for(lambda: {pod["name"] for pod in cli.json("ps")} == set(_NAMES))
        cli("bind", "ann", "bob", "--scope", "terminal:read", "--reason", "to \x1b[31mlook")
        cli("channel", "create", "build", "--member", "ann", "--member", "cid")
        cli("tell", "cid", "hello")
        yield cli


def _ids(topology: Json) -> dict[str, str]:
    nodes: Any = topology["nodes"]
    return {node["name"]: node["id"] for node in nodes}


def test_people_see_pods_and_what_is_between_them(fleet: Cli) -> None:
    shown = fleet("topology").stdout.decode()

    assert "\x1b" not in shown
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert [name for name in _NAMES if any(line.startswith(f"{name} ") for line in lines)] == list(_NAMES)
    assert any(line.startswith("ann \N{RIGHTWARDS ARROW} bob terminal:read pending") for line in lines)
    assert any("binding terminal:read asked for: to ?[31mlook" in line for line in lines)
    assert any(line.startswith("#build 2 in it") for line in lines)


def test_programs_get_the_answer_of_the_server(fleet: Cli) -> None:
    topology = fleet.json("topology")

    ids = _ids(topology)
    waits = [(edge["from"], edge["to"]) for edge in topology["edges"]["waits"]]
    assert waits == [(ids["ann"], ids["bob"])]
    assert [edge["to"] for edge in topology["edges"]["messages"]] == [ids["cid"]]
    assert topology["number"] > 0


def test_it_is_drawn_by_others(fleet: Cli) -> None:
    chart, graph = (fleet("topology", form).stdout.decode() for form in ("--mermaid", "--dot"))

    assert chart.startswith("flowchart LR\n")
    assert "==>" in chart
    assert graph.startswith("digraph fleet {\n")
    assert graph.endswith("}\n")


def test_what_was_can_be_looked_at(fleet: Cli) -> None:
    before = str(time.time_ns() // 1000)
    fleet("bind", "cid", "bob", "--scope", "terminal:write", "--accept")
    now, then = fleet.json("topology"), fleet.json("topology", "--at", before)
    fleet("unbind", "cid", "bob")

    assert [len(each["edges"]["bindings"]) for each in (now, then)] == [2, 1]
    assert fleet.json("topology", "--at", "1h")["nodes"] == []
    assert b"nobody is there" in fleet("topology", "--at", "1h").stderr


def test_who_has_ended_is_shown_when_all_are_asked_for(fleet: Cli) -> None:
    fleet("run", "-d", "--name", "gone", "--", "true")
    fleet.wait_for(lambda: "gone" in _ids(fleet.json("topology", "--all")))
    fleet.wait_for(lambda: "gone" not in _ids(fleet.json("topology")))

    assert "gone" in _ids(fleet.json("topology", "--all"))


def test_one_form_at_a_time(fleet: Cli, tmp_path: Path) -> None:
    assert "one form" in fleet.error("topology", "--json", "--dot", code=2)
    assert "'soon'" in fleet.error("topology", "--at", "soon", code=2)
    alone = Cli(tmp_path / "data", fleet.work)
    assert "no server answers" in alone.error("topology", code=1)
