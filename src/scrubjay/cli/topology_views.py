"""A topology as text for people, as Mermaid and as Graphviz's DOT, whatever names and reasons hold. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

import click

from scrubjay.cli.context import human_span
from scrubjay.cli.ps_command import plain
from scrubjay.cli.said import short
from scrubjay.cli.waiting import ARROW
from scrubjay.fleet.parties import PERSON
from scrubjay.tape.record import Json

_REASON_COLS = 60
_RED, _GREY = "#cc0000", "#888888"
# What may stand in a Mermaid label besides letters and digits; everything else is written by its number: "#35;" would
# be a character, "%%{init}%%" an order, and "1. this" a list.
_MERMAID_PLAIN = frozenset(" ,/")


# For people.


def render_text(topology: Json) -> str:
    """Pods by machine, then what is between them; deadlocks in red."""
    sections = [
        *_machines(topology),
        _section("bindings", _columns(map(_binding_row(topology), _edges(topology, "bindings")))),
        _section("waits", list(_wait_lines(topology))),
        _section("deadlocks", [click.style(line, fg="red") for line in _deadlock_lines(topology)]),
        _section("held up by", list(_root_lines(topology))),
        _section(f"messages of the last {human_span(_number(topology, 'flow_s'))}", list(_message_lines(topology))),
        _section("channels", list(_channel_lines(topology))),
    ]
    return "\n\n".join("\n".join(section) for section in sections if section)


def _machines(topology: Json) -> Iterator[list[str]]:
    pods: dict[str, list[Json]] = {}
    others: list[Json] = []
    for node in _list(topology, "nodes"):
        if node["kind"] == "pod":
            pods.setdefault(str(node["runner"]), []).append(node)
        elif node["kind"] == "agent":
            others.append(node)
    for runner in _list(topology, "runners"):
        here = pods.pop(str(runner["id"]), [])
        title = plain(str(runner["name"])) + ("" if runner["connected"] else ", not connected")
        if here or runner["connected"]:
            yield _section(title, _pod_lines(here, topology)) or [title, "  no pods"]
    for runner, here in pods.items():  # of a machine that nobody knows any more
        yield _section(plain(runner[:8]), _pod_lines(here, topology))
    yield _section("outside of pods", [f"  {plain(str(node['name']))}" for node in others])


def _pod_lines(pods: Sequence[Json], topology: Json) -> list[str]:
    lines = _columns(_pod_row(pod, topology) for pod in pods)
    return [click.style(line, fg="red") if pod["deadlocked"] else line for pod, line in zip(pods, lines, strict=True)]


def _pod_row(pod: Json, topology: Json) -> tuple[str, ...]:
    status = cast(Json, pod["status"])
    description = plain(str(status["description"]))
    if not pod["reachable"] and not pod["over"]:
        description += ", unreachable"
    return (
        plain(str(pod["name"])),
        description,
        human_span(_age_s(topology, status["since_us"])),
        plain(str(pod["agent"] or "")),
        plain(str(pod["branch"] or "")),
        _held_up(pod),
    )


def _held_up(node: Json) -> str:
    waiters, held_up = cast(int, node["waiters"]), cast(int, node["held_up"])
    if not waiters:
        return ""
    told = f"{waiters} wait{'s' if waiters == 1 else ''} for it"
    return told if held_up == waiters else f"{told}, {held_up} in all"


def _binding_row(topology: Json) -> Callable[[Json], tuple[str, ...]]:
    names = _names(topology)

    def row(binding: Json) -> tuple[str, ...]:
        return (
            f"{names[str(binding['from'])]}{ARROW}{names[str(binding['to'])]}",
            _scopes(binding),
            human_span(_age_s(topology, binding["since_us"])),
            _reason(binding),
        )

    return row


def _wait_lines(topology: Json) -> Iterator[str]:
    names, waits = _names(topology), _edges(topology, "waits")
    rows = [
        (
            f"{names[str(wait['from'])]}{ARROW}{names[str(wait['to'])]}",
            human_span(_number(wait, "age_s")),
            f"{wait['source']}{', starving' if wait['starving'] else ''}",
            _reason(wait),
        )
        for wait in waits
    ]
    for wait, line in zip(waits, _columns(rows), strict=True):
        yield click.style(line, fg="red") if wait["deadlocks"] else line


def _deadlock_lines(topology: Json) -> Iterator[str]:
    names = _names(topology)
    for deadlock in _list(topology, "deadlocks"):
        circle = [names.get(node, node) for node in map(str, cast("list[object]", deadlock["nodes"]))]
        since = human_span(_age_s(topology, deadlock["since_us"]))
        cut = f"scrubjay waits --cancel {str(deadlock['cut'])[:8]}"
        yield f"  {ARROW.join([*circle, circle[0]])}, for {since}; it costs least to cut with '{cut}'"


def _root_lines(topology: Json) -> Iterator[str]:
    names = _names(topology)
    yield from _columns((names[str(root["node"])], f"holds up {root['held_up']}") for root in _list(topology, "roots"))
    chain = cast("list[str]", topology["longest_chain"])
    if len(chain) > 1:
        waits = {str(wait["id"]): wait for wait in _edges(topology, "waits")}
        ends = [waits[chain[0]]["from"], *(waits[wait]["to"] for wait in chain)]
        yield f"  longest chain: {ARROW.join(names[str(end)] for end in ends)}"


def _message_lines(topology: Json) -> Iterator[str]:
    names = _names(topology)
    flows = sorted(_edges(topology, "messages"), key=lambda flow: -cast(int, flow["last_us"]))
    yield from _columns(
        (
            f"{names[str(flow['from'])]}{ARROW}{names[str(flow['to'])]}",
            str(flow["count"]),
            f"{human_span(_age_s(topology, flow['last_us']))} ago",
        )
        for flow in flows
    )


def _channel_lines(topology: Json) -> Iterator[str]:
    yield from _columns(
        (
            f"#{channel['name']}",
            f"{channel['member_count']} in it",
            f"{channel['messages']} messages",
            "" if channel["last_us"] is None else f"{human_span(_age_s(topology, channel['last_us']))} ago",
            short(str(channel["purpose"] or ""), _REASON_COLS),
        )
        for channel in _list(topology, "channels")
    )


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [click.style(title, bold=True), *lines] if lines else []


def _columns(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows of a table, each a line that is indented."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width) for row in rows)
    return [f"  {line.rstrip()}" for line in lines]


# For Mermaid.


def render_mermaid(topology: Json) -> str:
    """A flowchart; thick arrows are waits, dotted ones bindings, others messages."""
    ids = _short_ids(topology)
    lines = ["flowchart LR"]
    for number, (title, nodes) in enumerate(_grouped(topology)):
        indent = "  "
        if title is not None:
            lines.append(f'  subgraph r{number}["{_mermaid(title)}"]')
            indent = "    "
        lines += [f"{indent}{_mermaid_node(ids[str(node['id'])], node)}" for node in nodes]
        lines += ["  end"] if title is not None else []
    links = list(_links(topology))
    for link in links:
        arrow = {"wait": "==>", "binding": "-.->", "message": "-->"}[link.kind]
        lines.append(f'  {ids[link.source]} {arrow}|"{_mermaid(link.label)}"| {ids[link.target]}')
    stuck = [str(number) for number, link in enumerate(links) if link.stuck]
    lines.append(f"  classDef stuck stroke:{_RED},color:{_RED},stroke-width:3px")
    lines.append(f"  classDef over stroke:{_GREY},color:{_GREY}")
    lines += [f"  linkStyle {','.join(stuck)} stroke:{_RED},color:{_RED}"] if stuck else []
    return "\n".join(lines)


def _mermaid_node(id_: str, node: Json) -> str:
    left, right = {
        "agent": ("(", ")"),
        "person": ("([", "])"),
        "artifact": ("[(", ")]"),
        "channel": ("{{", "}}"),
    }.get(str(node["kind"]), ("[", "]"))
    label = "<br/>".join(map(_mermaid, _caption(node)))
    mark = ":::stuck" if node["deadlocked"] else ":::over" if node.get("over") else ""
    return f'{id_}{left}"{label}"{right}{mark}'


def _mermaid(text: str) -> str:
    """A text inside the quotes of a label."""
    return "".join(letter if letter.isalnum() or letter in _MERMAID_PLAIN else f"#{ord(letter)};" for letter in text)


# For Graphviz.


def render_dot(topology: Json) -> str:
    """A directed graph; bold arrows are waits, dashed ones bindings, thin ones messages."""
    ids = _short_ids(topology)
    lines = ["digraph fleet {", "  rankdir=LR;", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    lines.append('  edge [fontname="sans-serif", fontsize=10];')
    for number, (title, nodes) in enumerate(_grouped(topology)):
        drawn = [f"{ids[str(node['id'])]} [{_dot_node(node)}];" for node in nodes]
        if title is None:
            lines += [f"  {line}" for line in drawn]
            continue
        lines += [f"  subgraph cluster_{number} {{", f"    label={_dot(title)};"]
        lines += [*(f"    {line}" for line in drawn), "  }"]
    for link in _links(topology):
        style = {"wait": "bold", "binding": "dashed", "message": "solid"}[link.kind]
        colour = f', color="{_RED}", fontcolor="{_RED}"' if link.stuck else ""
        thin = f', color="{_GREY}", fontcolor="{_GREY}"' if link.kind == "message" else ""
        lines.append(
            f"  {ids[link.source]} -> {ids[link.target]} [label={_dot(link.label)}, style={style}{colour}{thin}];"
        )
    return "\n".join([*lines, "}"])


def _dot_node(node: Json) -> str:
    shape = {"person": "ellipse", "artifact": "cylinder", "channel": "hexagon"}.get(str(node["kind"]))
    attributes = [f"label={_dot(*_caption(node))}"]
    attributes += [f"shape={shape}", 'style=""'] if shape is not None else []
    if node["deadlocked"]:
        attributes += [f'color="{_RED}"', f'fontcolor="{_RED}"', "penwidth=2"]
    elif node.get("over"):
        attributes += [f'color="{_GREY}"', f'fontcolor="{_GREY}"']
    return ", ".join(attributes)


def _dot(*lines: str) -> str:
    """Some lines as a quoted string of which nothing is special."""
    escaped = (line.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(escaped) + '"'


# What all of them need.


class _Link:
    """An arrow between two nodes."""

    __slots__ = ("kind", "label", "source", "stuck", "target")

    def __init__(self, kind: str, edge: Json, label: str, *, stuck: bool = False) -> None:
        self.kind, self.label, self.stuck = kind, label, stuck
        self.source, self.target = str(edge["from"]), str(edge["to"])


def _links(topology: Json) -> Iterator[_Link]:
    for wait in _edges(topology, "waits"):
        reason, age = _reason(wait), human_span(_number(wait, "age_s"))
        yield _Link("wait", wait, f"{reason}, {age}" if reason else age, stuck=bool(wait["deadlocks"]))
    for binding in _edges(topology, "bindings"):
        yield _Link("binding", binding, _scopes(binding))
    for flow in _edges(topology, "messages"):
        yield _Link("message", flow, str(flow["count"]))


def _grouped(topology: Json) -> Iterator[tuple[str | None, list[Json]]]:
    """Pods by machine, then those that have none."""
    runners = {str(runner["id"]): str(runner["name"]) for runner in _list(topology, "runners")}
    groups: dict[str | None, list[Json]] = {}
    for node in _list(topology, "nodes"):
        runner = str(node["runner"]) if node["kind"] == "pod" else None
        groups.setdefault(runner, []).append(node)
    for runner, nodes in sorted(groups.items(), key=lambda group: (group[0] is None, str(group[0]))):
        yield None if runner is None else plain(runners.get(runner, runner[:8])), nodes


def _caption(node: Json) -> list[str]:
    lines = [_label(node)]
    if node["kind"] == "pod":
        lines.append(plain(str(cast(Json, node["status"])["description"])))
    return lines


def _names(topology: Json) -> Mapping[str, str]:
    return {str(node["id"]): _label(node) for node in _list(topology, "nodes")}


def _label(node: Json) -> str:
    name = short(str(node["name"]), _REASON_COLS) or "?"
    match node["kind"]:
        case "artifact":
            return f"artifact {name}"
        case "channel":
            return name if name.startswith("@") else f"#{name}"
        case "person":
            return "you" if node["id"] == PERSON else name
        case _:
            return name


def _short_ids(topology: Json) -> Mapping[str, str]:
    """Ids that every program understands, whatever the nodes are called."""
    return {str(node["id"]): f"n{number}" for number, node in enumerate(_list(topology, "nodes"))}


def _scopes(binding: Json) -> str:
    granted, pending = (", ".join(cast("list[str]", binding[name])) for name in ("granted", "pending"))
    return "; ".join(part for part in (granted, f"{pending} pending" if pending else "") if part) or "nothing"


def _reason(edge: Json) -> str:
    return short(str(edge["reason"]), _REASON_COLS) if edge["reason"] is not None else ""


def _age_s(topology: Json, since_us: object) -> float:
    return (cast(int, topology["at_us"]) - cast(int, since_us)) / 1e6


def _number(data: Json, name: str) -> float:
    return cast(float, data[name])


def _edges(topology: Json, kind: str) -> list[Json]:
    return cast("dict[str, list[Json]]", topology["edges"])[kind]


def _list(topology: Json, name: str) -> list[Json]:
    return cast("list[Json]", topology[name])
