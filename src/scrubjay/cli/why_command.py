"""``scrubjay why``: what holds a pod up, step by step to the end of it."""

from __future__ import annotations

import time
from typing import cast

import click

from scrubjay.cli.client import pod_path
from scrubjay.cli.context import Context, emit, human_span, json_option, pass_context, pod_argument, say
from scrubjay.cli.past import at_option, clock_of, instant_of
from scrubjay.cli.ps_command import plain
from scrubjay.cli.waiting import describe_circle, describe_since, describe_target, describe_wait
from scrubjay.cli.waits_command import cancel_wait
from scrubjay.errors import BadInput, ScrubjayError
from scrubjay.tape.record import Json


@click.command("why")
@pod_argument
@at_option
@click.option("--cut", is_flag=True, help="Of a circle, cancel the wait that it costs least to.")
@json_option
@pass_context
def command(context: Context, pod: str, raw_at: str | None, *, cut: bool, as_json: bool) -> None:
    """Say why a pod does not go on: whom it waits for, whom they wait for, and who holds all of them up in the end.

    Each step is with since when, why, how that is known, and the command that shows the moment it began.
    """
    if cut and raw_at is not None:
        raise BadInput("what was is not changed", hint="leave --at or --cut out")
    why = cast(Json, context.client.get(pod_path(pod, "why"), at=instant_of(raw_at)))
    if cut:
        _cut(context, why, as_json=as_json)
    elif as_json:
        emit(why)
    else:
        _Account(context, why).print()


def _cut(context: Context, why: Json, *, as_json: bool) -> None:
    circles = [way for way in cast("list[Json]", why["ways"]) if way["end"] == "circle"]
    if not circles:
        raise ScrubjayError(
            f"{why['pod']} is held up by no circle", hint="'scrubjay waits --cancel ID' cancels any wait"
        )
    steps = cast("list[Json]", circles[0]["steps"])
    chosen = next(step for step in steps if step["id"] == circles[0]["cut"])
    if not as_json:
        say(f"scrubjay: {describe_circle(_circle(steps))} is cut by cancelling {describe_wait(chosen)}")
    cancelled = cancel_wait(context, str(chosen["id"]))
    if as_json:
        emit({"circle": _circle(steps), "wait": cancelled})
    elif len(circles) > 1:
        say(f"scrubjay: it was in {len(circles)} circles; 'scrubjay why {why['pod']}' says what is left of them")


def _circle(steps: list[Json]) -> list[str]:
    """Who is in the circle that a way ends in: the last step leads back to one of those before."""
    waiters = [str(step["waiter"]) for step in steps]
    back = str(steps[-1]["on"])
    return waiters[waiters.index(back) :] if back in waiters else waiters


class _Account:
    """What is told of one pod."""

    def __init__(self, context: Context, why: Json) -> None:
        self._context, self._why = context, why
        self._pod = plain(str(why["pod"]))
        self._now_us = cast("int | None", why["at_us"]) or time.time_ns() // 1000
        self._names: dict[str, str] | None = None

    def print(self) -> None:
        """Every way, nearest first."""
        ways = cast("list[Json]", self._why["ways"])
        if not ways:
            click.echo(f"{self._pod} waits for nothing: {self._status(cast(Json, self._why['status']))}")
        for number, way in enumerate(ways):
            if number:
                click.echo()
            self._print_way(way)

    def _print_way(self, way: Json) -> None:
        steps = cast("list[Json]", way["steps"])
        for step in steps:
            reason = f": {plain(str(step['reason']))}" if step["reason"] is not None else ""
            late = ", starving" if step["starving"] else ""
            click.echo(
                f"{plain(str(step['waiter']))} waits for {describe_target(step)} {describe_since(step)}{late}"
                f"{reason} ({_known_by(step)})"
            )
            replay = cast(Json, step["evidence"]).get("replay")
            if isinstance(replay, str):
                click.echo(f"  see it: {self._command(replay, step)}")
        click.echo(self._ending(way, steps))

    def _ending(self, way: Json, steps: list[Json]) -> str:
        last = steps[-1]
        if way["end"] == "circle":
            circle = describe_circle(_circle(steps))
            chosen = next((step for step in steps if step["id"] == way["cut"]), last)
            cut = f"it costs least to cut {describe_wait(chosen)}: {self._program()} why {self._pod} --cut"
            return f"it is a circle: {circle}; {cut}"
        if way["end"] == "nobody":
            if last["kind"] == "channel":
                return f"whoever says something in {describe_target(last)} ends it"
            return f"nobody is known to provide {describe_target(last)}"
        root = plain(str(way["root"]))
        if way["root_kind"] == "person":
            return "you hold it up" if describe_target(last) == "you" else f"{root} holds it up"
        status = way["root_status"]
        if status is None:
            gone = "an agent outside pods" if way["root_kind"] == "agent" else "it is not there any more"
            return f"{root} holds it up: {gone}"
        return f"{root} holds it up: {self._status(cast(Json, status))}"

    def _status(self, status: Json) -> str:
        since_us = cast(Json, status["evidence"]).get("since_us", status["since_us"])
        words = plain(str(status["description"]))
        if not isinstance(since_us, int):
            return words
        return f"{words}, since {clock_of(since_us)} ({human_span((self._now_us - since_us) / 1e6)})"

    def _command(self, replay: str, step: Json) -> str:
        """The command as it works here, with the pod's name where that means the same recording."""
        pod, name = str(step.get("waiter_pod")), str(step["waiter"])
        words = [name if word == pod and self._newest().get(name) == pod else word for word in replay.split(" ")]
        return " ".join([self._program(), *words[1:]])

    def _newest(self) -> dict[str, str]:
        """The pod that a name stands for, which is the newest that has it."""
        if self._names is None:
            pods = cast("list[Json]", self._context.client.get("/api/v1/pods"))
            self._names = {str(pod["name"]): str(pod["id"]) for pod in pods}  # the oldest come first
        return self._names

    def _program(self) -> str:
        return "scrubjay" if self._context.server is None else f"scrubjay --server {self._context.server}"


def _known_by(step: Json) -> str:
    """How a wait is known: its source, and what shows it."""
    evidence = cast(Json, step["evidence"])
    if isinstance(message := evidence.get("message"), str):
        return f"{step['source']}, {plain(message)}"
    for name in ("binding", "handoff"):
        if isinstance(shown := evidence.get(name), str):
            return f"{step['source']}, {name} {shown[:8]}" if step["source"] != name else f"{name} {shown[:8]}"
    return str(step["source"])
