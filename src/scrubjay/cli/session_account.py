"""All that is told of one session."""

from __future__ import annotations

import time
from typing import cast

import click

from scrubjay.cli.context import Context, human_span
from scrubjay.cli.past import clock_of
from scrubjay.cli.ps_command import plain
from scrubjay.cli.remembered import Replays, print_memory
from scrubjay.cli.said import inert_lines
from scrubjay.cli.sessions import describe_state, next_step, program_of, session_path
from scrubjay.cli.waiting import describe_since, describe_target
from scrubjay.tape.record import Json

_LABEL_COLS = 14
_TEXT_COLS = 200  # of each text of a memory; 'scrubjay memory list' has all of it


class SessionAccount:
    """What is told of one session."""

    def __init__(self, context: Context, session: str) -> None:
        """Asks the server; ServerRefused if there is no such session."""
        self._context, self._program = context, program_of(context)
        self._session = cast(Json, context.client.get(session_path(session)))
        self._pods = cast("list[Json]", self._session["pods"])
        self._waits = self._waits_of_pods()

    def describe(self) -> Json:
        """The same for a program."""
        return {**self._session, "open_waits": self._waits, "next": self._next()}

    def print(self) -> None:
        """For people."""
        self._print_lease()
        self._print_work()
        self._print_pods()
        self._print_summary()
        for wait in self._waits:
            since = describe_since(wait) if "age_s" in wait else f"since {clock_of(cast(int, wait['since_us']))}"
            reason = f": {plain(str(wait['reason']))}" if wait["reason"] is not None else ""
            what = describe_target(wait) if "on" in wait else str(wait["kind"])
            _print("waits for", f"{what} {since}{reason}")
        self._print_memories()
        _print("next", self._next())

    def _next(self) -> str:
        return next_step(self._session, self._program)

    def _print_lease(self) -> None:
        session = self._session
        since_us, used_us = cast(int, session["since_us"]), cast(int, session["used_us"])
        _print("session", str(session["session_id"]))
        called = [plain(str(session[name])) for name in ("name", "agent") if session[name] is not None]
        _print("name", ", ".join(dict.fromkeys(called)))
        why = f": {plain(str(session['why'])).replace('_', ' ')}" if session["why"] is not None else ""
        _print("state", describe_state(session))
        _print("since", f"{_moment(since_us)}{why}")
        if isinstance(session["free_in_s"], int):
            _print("", f"free in {session['free_in_s']} s unless its holder is heard of")
        if isinstance(session["expires_us"], int) and session["why_not"] != "expired":
            _print("", f"to be resumed until {clock_of(session['expires_us'])}, and after that by --reopen")
        _print("epoch", str(session["epoch"]))
        _print("last used", _moment(used_us))

    def _print_work(self) -> None:
        session = self._session
        place = [str(session[name]) for name in ("worktree", "branch") if session[name] is not None]
        if place:
            of = f" of {session['repository']}" if session["repository"] is not None else ""
            _print("worktree", plain(", branch ".join(place) + of))
        if session["conversation"] is not None:
            _print("conversation", plain(str(session["conversation"])))
        origin = cast(Json, session["origin"] or {})
        for name, value in origin.items():
            _print(name.replace("_", " "), plain(str(value)))

    def _print_pods(self) -> None:
        for number, pod in enumerate(self._pods):
            label, id_ = "pods" if number == 0 else "", str(pod["id"])
            if pod["name"] is None:
                _print(label, f"{id_[:8]}  deleted")
                continue
            begun = clock_of(cast(int, pod["created_us"]))
            _print(label, f"{plain(str(pod['name']))}  {pod['process']}  {begun}  {self._program} replay {id_[:8]}")
        if len(self._pods) > 1:
            _print("", f"all of them as one: {self._program} replay {str(self._session['session_id'])[:8]}")

    def _print_summary(self) -> None:
        summary = cast("Json | None", self._session["summary"])
        if summary is not None:
            _print("summary", f"of memories {summary['from_seq']} to {summary['to_seq']}")
            for line in inert_lines(str(summary["text"])):
                click.echo(f"    {line}".rstrip())
        job = cast("Json | None", self._session["summary_job"])
        if job is not None:
            error = f": {plain(str(job['error']))}" if job["error"] is not None else ""
            _print("next summary", f"{job['state']}, attempts: {job['attempts']}{error}")

    def _print_memories(self) -> None:
        memories, last = cast("list[Json]", self._session["memories"]), self._session["last_seq"]
        more = f", the last {len(memories)} are" if memories and memories[0]["seq"] != 1 else ""
        _print("memories", f"{last}{more}" + ":" * bool(memories))
        replays = Replays(self._context)
        for memory in memories:
            print_memory(memory, replays, most=_TEXT_COLS)

    def _waits_of_pods(self) -> list[Json]:
        """What the session waits for, with all that is known of it where one of its pods does."""
        told = cast("list[Json]", self._session["open_waits"])
        if not self._pods:
            return told
        pods = {pod["id"] for pod in self._pods}
        answer = cast(Json, self._context.client.get("/api/v1/waits"))
        waits = [wait for wait in cast("list[Json]", answer["waits"]) if wait.get("waiter_pod") in pods]
        known = {wait["id"] for wait in waits}
        return waits + [wait for wait in told if wait["id"] not in known]


def _moment(wall_us: int) -> str:
    return f"{clock_of(wall_us)} ({human_span(time.time() - wall_us / 1e6)})"


def _print(label: str, text: str) -> None:
    click.echo(f"{label:<{_LABEL_COLS}}{text}".rstrip())
