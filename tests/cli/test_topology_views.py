"""A topology as text, Mermaid and DOT: valid whatever names and reasons hold, and nothing of it acts."""

from __future__ import annotations

import html
import re
import subprocess
from typing import Any, cast

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.cli.topology_views import render_dot, render_mermaid, render_text
from scrubjay.tape.record import Json

HOSTILE = (
    'a "quoted" name',
    "back\\slash \\n \\N \\G \\",
    "<b>bold</b> & &amp; <script>alert(1)</script>",
    "#35; #quot; %%{init: {}}%% %% comment",
    "`md` **bold** [x](y) {z} (p) |pipe|",
    "end; subgraph x; n0 --> n1",
    "style n0 fill:#f00; classDef x fill:#f00;",
    "line\nbreak\r\ttab",
    "\x1b[31mred\x1b[0m \x1b]52;c;aGk=\x07 \x9b2J",
    "\u202eright to left\u2028 \u200b",
    "half \ud800 a character",
    "snow \N{SNOWMAN} \U0001f600 \u00e9\u0301 \u65e5\u672c",
    "]]> */ --> --x ==> -.->",
    "1. a list",
    "- another _one_",
    "'",
    "}",
    " ",
)


def _hold(**more: object) -> Json:
    return {"deadlocked": False, "root": False, "waiters": 0, "held_up": 0, **more}


def _pod(id_: str, name: str, **more: object) -> Json:
    status: object = {"process": "running", "activity": "idle", "description": "idle", "since_us": 1}
    facts: Json = {"agent": "claude", "runner": "r1", "reachable": True, "branch": "main", "created_us": 1}
    who: Json = {"id": id_, "kind": "pod", "name": name, "party": f"s{id_}"}
    doing: Json = {"over": False, "status": status}
    return {**who, **facts, **doing, **_hold(**more)}


def _wait(one: str, other: str, **more: object) -> Json:
    facts: Json = {"id": f"{one}{other}", "kind": "pod", "key": None, "channel": None, "source": "declared"}
    times: Json = {"since_us": 1, "age_s": 60.0, "deadline_us": None, "starving": False, "deadlocks": []}
    told: Json = {"from": one, "to": other, **facts, "reason": "needs it", **times, "evidence": {}}
    return {**told, **more}


def _topology(*nodes: Json, **more: Any) -> Json:
    return {
        "number": 7,
        "at_us": 60_000_001,
        "flow_s": 900.0,
        "starving_after_s": 600.0,
        "nodes": list(nodes),
        "edges": {"bindings": [], "waits": [], "messages": []} | more.pop("edges", {}),
        "channels": [],
        "runners": [{"id": "r1", "name": "box", "host": "box", "connected": True, "reason": None, "since_us": 1}],
        "deadlocks": [],
        "roots": [],
        "longest_chain": [],
    } | more


def _example(text: str = "needs the schema") -> Json:
    """One of everything, with a text wherever there may be any."""
    a, b = _pod("a", f"web {text}", deadlocked=True), _pod("b", "api", deadlocked=True, waiters=1, held_up=2)
    status = {**cast(Json, a["status"]), "description": f"waiting: {text}"}
    nodes = [
        a | {"status": status, "branch": text, "agent": text},
        b,
        _pod("c", "old", over=True, reachable=False),
        {"id": f"agent:{text}", "kind": "agent", "name": text, **_hold()},
        {"id": "person", "kind": "person", "name": "person", **_hold()},
        {"id": f"artifact:{text}", "kind": "artifact", "name": text, **_hold(root=True, waiters=1, held_up=3)},
        {"id": "channel:1", "kind": "channel", "name": "room", **_hold()},
    ]
    binding: Json = {"from": "a", "to": "b", "id": "1", "state": "active", "granted": ["terminal:read"]}
    edges = {
        "bindings": [binding | {"pending": ["terminal:write"], "reason": text, "since_us": 1}],
        "waits": [
            _wait("a", "b", reason=text, deadlocks=["d"]),
            _wait("b", "a", reason=None, deadlocks=["d"], starving=True),
            _wait("b", f"artifact:{text}", id=text),
            _wait("c", "person"),
            _wait("c", "channel:1"),
        ],
        "messages": [{"from": f"agent:{text}", "to": "a", "count": 12, "last_us": 30_000_000}],
    }
    channel: Json = {"id": "1", "name": "room", "kind": "open", "purpose": text, "since_us": 1, "messages": 4}
    return _topology(
        *nodes,
        edges=edges,
        channels=[channel | {"last_us": 1, "member_count": 2, "members": [{"node": "a", "name": text}]}],
        runners=[{"id": "r1", "name": f"box {text}", "host": "h", "connected": True, "reason": None, "since_us": 1}],
        deadlocks=[{"id": "d", "nodes": ["a", "b"], "waits": ["ab", "ba"], "cut": "ba", "since_us": 1}],
        roots=[{"node": f"artifact:{text}", "held_up": 3}],
        longest_chain=["ab", text],
    )


# Text.


def test_text_shows_pods_by_machine_and_what_is_between_them() -> None:
    lines = click.unstyle(render_text(_example("schema"))).splitlines()

    assert lines[0] == "box schema"
    assert lines[1].split() == ["web", "schema", "waiting:", "schema", "1m", "schema", "schema"]
    assert lines[2].split() == ["api", "idle", "1m", "claude", "main", "1", "waits", "for", "it,", "2", "in", "all"]
    between = [" ".join(line.replace("\N{RIGHTWARDS ARROW}", "->").split()) for line in lines[4:]]
    assert between == [
        "",
        "outside of pods",
        "schema",
        "",
        "bindings",
        "web schema -> api terminal:read; terminal:write pending 1m schema",
        "",
        "waits",
        "web schema -> api 1m declared schema",
        "api -> web schema 1m declared, starving",
        "api -> artifact schema 1m declared needs it",
        "old -> you 1m declared needs it",
        "old -> #room 1m declared needs it",
        "",
        "deadlocks",
        "web schema -> api -> web schema, for 1m; it costs least to cut with 'scrubjay waits --cancel ba'",
        "",
        "held up by",
        "artifact schema holds up 3",
        "longest chain: web schema -> api -> artifact schema",
        "",
        "messages of the last 15m",
        "schema -> web schema 12 30s ago",
        "",
        "channels",
        "#room 2 in it 4 messages 1m ago schema",
    ]


def test_what_is_deadlocked_is_red() -> None:
    lines = render_text(_example()).splitlines()

    red = [click.unstyle(line) for line in lines if line.startswith("\x1b[31m")]
    assert len(red) == 2 + 2 + 1  # pods, waits, the circle
    assert red[-1].startswith("  web needs the schema \N{RIGHTWARDS ARROW} api \N{RIGHTWARDS ARROW} web")


@pytest.mark.parametrize("text", HOSTILE)
def test_text_has_nothing_that_acts_on_a_terminal(text: str) -> None:
    shown = click.unstyle(render_text(_example(text)))

    assert all(line.isprintable() for line in shown.split("\n"))
    assert shown.encode()


def test_a_fleet_of_nobody_is_drawn_all_the_same() -> None:
    for render in (render_text, render_mermaid, render_dot):
        assert render(_topology(runners=[])) is not None


# Mermaid.

_TEXT = r"(?:[^\W_]|[ ,/]|#\d+;)*"
_LABEL = rf'"{_TEXT}(?:<br/>{_TEXT})*"'
_SHAPES = [
    rf"\[{_LABEL}\]",
    rf"\({_LABEL}\)",
    rf"\(\[{_LABEL}\]\)",
    rf"\[\({_LABEL}\)\]",
    rf"\{{\{{{_LABEL}\}}\}}",
]
_MERMAID = re.compile(
    "|".join(
        [
            r"flowchart LR",
            rf'  subgraph r\d+\["{_TEXT}"\]',
            r"  end",
            rf" {{2,4}}n\d+(?:{'|'.join(_SHAPES)})(?::::(?:stuck|over))?",
            rf'  n\d+ (?:==>|-\.->|-->)\|"{_TEXT}"\| n\d+',
            r"  classDef (?:stuck|over) [\w:#,-]+",
            r"  linkStyle \d+(?:,\d+)* [\w:#,-]+",
        ]
    )
)


def _decoded(label: str) -> str:
    return re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label)


@pytest.mark.parametrize("text", HOSTILE)
def test_every_line_of_mermaid_is_one_whatever_the_names_are(text: str) -> None:
    for line in render_mermaid(_example(text)).split("\n"):
        assert _MERMAID.fullmatch(line), line


@given(st.text())
def test_a_mermaid_label_says_what_the_name_is(text: str) -> None:
    chart = render_mermaid(_topology(_pod("a", text)))

    label = re.search(rf'n0\["({_TEXT})<br/>', chart)
    assert label is not None
    assert _decoded(label[1]) == _shown(text)


def _shown(text: str) -> str:
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
    return (line if len(line) <= 60 else line[:59] + "\N{HORIZONTAL ELLIPSIS}") or "?"


def test_mermaid_marks_what_is_deadlocked() -> None:
    chart = render_mermaid(_example())

    assert "  linkStyle 0,1 stroke:#cc0000,color:#cc0000" in chart.splitlines()
    assert chart.count(":::stuck") == 2
    assert '-.->|"terminal#58;read#59; terminal#58;write pending"| n1' in chart


# DOT.

_STRING = r'"(?:[^"\\]|\\.)*"'
_VALUE = rf"(?:{_STRING}|\w+)"
_ATTRIBUTES = rf"\[\w+={_VALUE}(?:, \w+={_VALUE})*\]"
_DOT = re.compile(
    "|".join(
        [
            r"digraph fleet \{",
            r"  rankdir=LR;",
            rf" {{2,4}}(?:node|edge|n\d+) {_ATTRIBUTES};",
            r"  subgraph cluster_\d+ \{",
            rf"    label={_STRING};",
            r"  ?\}",
            rf"  n\d+ -> n\d+ {_ATTRIBUTES};",
            r"\}",
        ]
    )
)


@pytest.mark.parametrize("text", HOSTILE)
def test_every_line_of_dot_is_one_whatever_the_names_are(text: str) -> None:
    for line in render_dot(_example(text)).split("\n"):
        assert _DOT.fullmatch(line), line


@given(st.text())
def test_a_dot_label_says_what_the_name_is(text: str) -> None:
    graph = render_dot(_topology(_pod("a", text)))

    label = re.search(rf"n0 \[label=({_STRING})", graph)
    assert label is not None
    name = re.sub(r"\\(.)", r"\1", label[1][1:-1].removesuffix("\\nidle"))
    assert html.unescape(name) == _shown(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_graphviz_draws_it_whatever_the_names_are(text: str) -> None:
    drawn = subprocess.run(
        ["dot", "-Tplain"], input=render_dot(_example(text)), capture_output=True, text=True, check=True, timeout=60
    )

    assert drawn.stderr == ""
    assert drawn.stdout.count("\nnode ") == 7
    assert drawn.stdout.count("\nedge ") == 7
