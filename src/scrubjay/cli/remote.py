"""The commands, against a server elsewhere (``--server URL``).

What asks or changes a pod goes over its API. What looks back, such as ``replay`` and ``export``, first brings the
recording here, by offset, so that the next time only what is new is fetched; then everything works as at home.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import quote

import click

from scrubjay.cli.client import Client, NotScrubjay, ServerRefused, pod_path
from scrubjay.cli.context import Context, emit, human_bytes, human_span, progress, say
from scrubjay.cli.ps_command import one_line, print_table
from scrubjay.errors import ScrubjayError
from scrubjay.fleet.process import OVER
from scrubjay.ids import PodId, parse_pod_id
from scrubjay.pods.home import Home
from scrubjay.pods.pod import write_facts
from scrubjay.replay.instants import Span, parse_instant, resolve
from scrubjay.tape.format import skim_records, tape_salt
from scrubjay.tape.record import Json
from scrubjay.wire.messages import Start

_PS = ("NAME", "ID", "STATE", "SINCE", "AGE", "TAPE", "BRANCH", "COMMAND")
# As long as the server may take for it, and a little.
_START_WITHIN_S = 630.0  # of which a clone of a large repository has 600
_STOP_WITHIN_S = 90.0  # and the grace


def run_elsewhere(context: Context, wanted: Start, *, mcp: bool, detach: bool, as_json: bool) -> int:
    """Start a pod on the server's machine."""
    body: Json = {
        "command": list(wanted.argv),
        "agent": wanted.agent,
        "prompt": wanted.prompt,
        "name": wanted.name,
        "cwd": wanted.cwd,
        "repository": wanted.repository,
        "branch": wanted.branch,
        "base": wanted.base,
        "environment": wanted.environment,
        "cols": wanted.cols,
        "rows": wanted.rows,
    }
    if not mcp:
        body["mcp"] = False  # only then, for an older server does not know the word
    key = uuid.uuid4().hex
    started = cast(Json, context.client.post("/api/v1/pods", body, timeout_s=_START_WITHIN_S, key=key))
    if not detach:
        from scrubjay.cli.remote_terminal import join_elsewhere

        return join_elsewhere(context.client, str(started["name"]))
    if as_json:
        emit(started)
    else:
        click.echo(started["name"])
    return 0


def list_elsewhere(context: Context, *, show_all: bool, as_json: bool) -> None:
    """What ``ps`` prints."""
    pods = cast(list[Json], context.client.get("/api/v1/pods", all=str(show_all).lower()))
    if as_json:
        emit(pods)
        return
    if not pods:
        say("no pods are running there; 'scrubjay ps --all' shows the others")
        return
    rows = [_PS, *(_row(pod) for pod in pods)]
    print_table(rows)


def _row(pod: Json) -> tuple[str, ...]:
    status = cast(Json, pod["status"])
    over = status["process"] in OVER
    until = cast(int, status["since_us"]) / 1e6 if over else time.time()
    since_us = cast(Json, status["evidence"]).get("since_us")
    return (
        str(pod["name"]),
        str(pod["id"])[:8],
        str(status["description"]) if pod["reachable"] or over else f"{status['description']}, unreachable",
        human_span(time.time() - since_us / 1e6) if isinstance(since_us, int) else "-",
        human_span(until - cast(int, pod["created_us"]) / 1e6),
        human_bytes(cast(int, pod["tape_bytes"] or 0)),
        str(pod["branch"] or "-"),
        one_line(tuple(cast(list[str], pod["argv"]))),
    )


def type_elsewhere(context: Context, pod: str, data: bytes, *, enter: bool, as_json: bool) -> None:
    """What ``send`` does."""
    import base64

    body: Json = {"data": base64.b64encode(data).decode(), "enter": enter}
    done = cast(Json, context.client.post(pod_path(pod, "input"), body))
    if as_json:
        emit({"bytes": len(data) + enter, "offset": done["offset"]})


def mark_elsewhere(context: Context, pod: str, label: str, *, as_json: bool) -> None:
    """What ``mark`` does."""
    done = cast(Json, context.client.post(pod_path(pod, "mark"), {"label": label}))
    if as_json:
        emit({"label": label, "offset": done["offset"]})


def explain_elsewhere(context: Context, pod: str, raw_at: str | None) -> Json:
    """What ``explain`` prints."""
    then = _moment_elsewhere(context, pod, raw_at) if raw_at is not None else None
    when = {"at": str(then.wall_us)} if then is not None else {}
    status = cast(Json, context.client.get(pod_path(pod, "status"), **when))
    told = cast(Json, status["evidence"])
    if status["activity"] is None:
        raise ScrubjayError(f"{pod} is {status['description']}: nothing is known of its agent", hint="try --at")
    at = told.get("at")
    return {
        "pod": pod,
        "process": status["process"],
        "at_s": then.time / 1e6 if then is not None else None,
        **{name: status[name] for name in ("activity", "waiting_for", "confidence")},
        "detail": told.get("detail"),
        "problem": told.get("problem"),
        "since_s": at / 1e6 if isinstance(at, int) else None,
        "since_us": told.get("since_us"),
        "clear_at_offset": told.get("offset"),
        "evidence": told.get("signals", []),
        "outvoted": told.get("outvoted", []),
    }


class _Then(NamedTuple):
    """An instant of a recording."""

    time: int  #: microseconds since it began
    wall_us: int


def _moment_elsewhere(context: Context, pod: str, raw_at: str) -> _Then | None:
    """An instant of a recording by the fleet's clock, by which statuses of the past are known; None for its end."""
    timeline = cast(Json, context.client.get(pod_path(pod, "timeline"), parts="1"))
    wall_us = timeline["wall_us"]
    if not isinstance(wall_us, int):
        raise ScrubjayError(f"nobody knows when {pod} was recorded", hint="leave --at out")
    moment = resolve(parse_instant(raw_at), [Span(0, cast(int, timeline["duration"]), wall_us)], None)
    if moment.clamped is not None:
        say(f"scrubjay: {moment.clamped}")
    if timeline["live"] and moment.offset is None and moment.time == timeline["duration"]:
        return None
    if moment.offset is None:
        return _Then(moment.time, wall_us + moment.time)
    shown = cast(Json, context.client.get(pod_path(pod, "screen"), at=raw_at))
    return _Then(cast(int, shown["time"]), cast(int, shown["wall"]))


def stop_elsewhere(context: Context, pod: str, grace_s: float, *, as_json: bool) -> None:
    """What ``stop`` does."""
    timeout_s = grace_s + _STOP_WITHIN_S
    ended = cast(Json, context.client.post(pod_path(pod, "stop"), {"grace_s": grace_s}, timeout_s=timeout_s))
    if as_json:
        emit({"name": pod, "state": ended["process"], "status": ended["exit_status"]})
    else:
        say(f"scrubjay: pod {pod} {ended['process']} {ended['exit_status']}")


def remove_elsewhere(context: Context, pods: tuple[str, ...], *, as_json: bool) -> None:
    """What ``rm`` does."""
    for pod in pods:
        context.client.delete(pod_path(pod))
        if not as_json:
            say(f"scrubjay: deleted {pod}")
    if as_json:
        emit({"removed": list(pods)})


def search_elsewhere(context: Context, query: Json, *, as_json: bool) -> int:
    """What ``search`` prints."""
    hits = cast(list[Json], context.client.get("/api/v1/search", **query))
    if as_json:
        emit(hits)
        return 0 if hits else 1
    for hit in hits:
        wall = hit["wall_us"]
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall / 1e6)) if isinstance(wall, int) else "?"
        click.echo(f"{stamp}  {hit['name']}  {hit['text']}")
        click.echo(f"{' ' * len(stamp)}  scrubjay --server {context.server} replay {hit['pod']} --at @{hit['offset']}")
    if not hits:
        say("scrubjay: nothing was found")
    return 0 if hits else 1


# Recordings.


@dataclass(frozen=True, slots=True)
class Brought:
    """A recording that was brought here."""

    home: Home
    id: PodId
    over: bool  #: whether nothing was to be added to it any more when this began


def bring_recordings(context: Context, raw: str) -> tuple[Home, str]:
    """The same of one pod, or of all pods of a session; and what to call it there."""
    try:
        brought = bring_recording(context, raw)
    except ServerRefused as error:
        if error.code != "no_such_pod":
            raise
        session = _find_session(context, raw)
        if session is None:
            raise
        pods = [str(pod["id"]) for pod in cast("list[Json]", session["pods"]) if pod.get("name") is not None]
        if not pods:
            raise
        *_, last = [bring_recording(context, pod) for pod in pods]
        return last.home, str(session["session_id"])
    return brought.home, brought.id


def _find_session(context: Context, raw: str) -> Json | None:
    try:
        return cast(Json, context.client.get(f"/api/v1/sessions/{quote(raw, safe='')}"))
    except ServerRefused:
        return None


def bring_recording(context: Context, raw: str) -> Brought:
    """A data directory of our own with the recording of one pod there, up to now."""
    client = context.client
    pod = cast(Json, client.get(pod_path(raw)))
    home = Home(_cache(context))
    with home.changing():
        pass  # makes the folders
    pod_id = parse_pod_id(str(pod["id"]))
    folder = home.path / "pods" / pod_id
    status = cast(Json, pod["status"])
    _fetch(client, pod_id, home.path / "pods", str(pod["name"]), total=cast(int, pod["tape_bytes"] or 0))
    if not (folder / "pod.json").exists():
        write_facts(
            folder / "pod.json",
            id=pod_id,
            name=pod["name"],
            session=pod["session"],
            argv=pod["argv"],
            cwd=pod["cwd"],
            cols=pod["cols"],
            rows=pod["rows"],
            created=pod["created_us"],
            imported=True,
        )
    if status["process"] == "exited" and not (folder / "end.json").exists():
        write_facts(folder / "end.json", status=status["exit_status"], wall=status["since_us"])
    return Brought(home, pod_id, over=status["process"] in OVER)


def _cache(context: Context) -> Path:
    assert context.server is not None
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "scrubjay" / hashlib.sha256(context.server.encode()).hexdigest()[:16]


def _fetch(client: Client, pod: PodId, folder: Path, name: str, *, total: int) -> None:
    from scrubjay.store.tapes import ReplicatedTapes

    with closing(ReplicatedTapes(folder)) as tapes:
        have = tapes.have(pod).have
        rest = b""
        with progress(f"fetching {name}", max(0, total - have)) as step:
            while True:
                query = {"offset": have + len(rest)}
                headers, data = client.fetch(pod_path(pod, "tape"), query)
                end = headers["Scrubjay-End"]
                if end is None or not end.isdecimal():
                    raise NotScrubjay(client.where)
                rest += data
                size, *_ = skim_records(rest, offset=have, salt=tape_salt(pod), stop=-1)
                if size:
                    have = tapes.append(pod, have, rest[:size])
                    rest = rest[size:]
                step(len(data))
                if not data or have + len(rest) >= int(end):
                    return


def show_elsewhere(context: Context, pod: str, query: Json) -> bytes:
    """The screen of a pod in one of the formats."""
    _, data = context.client.fetch(pod_path(pod, "screen"), query)
    return data
