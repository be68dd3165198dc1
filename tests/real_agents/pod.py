"""A pod with an agent in it: look at it, wait for it, type into it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from real_agents.stub.server import Request

if TYPE_CHECKING:
    from real_agents.station import Station

_Value = TypeVar("_Value")

WITHIN_S = 30.0
FIRST_TURN_S = 60.0  # opencode takes 25 s to its first request on a busy machine
_AGAIN_S = 3.0  # a key that nothing came of by then was swallowed


class AgentPod:
    """One agent under way. What fails to happen is reported with its screen and Scrubjay's reasons."""

    def __init__(self, station: Station, identity: str) -> None:
        self.station, self.id = station, identity

    def look(self) -> dict[str, Any]:
        """What ps says of it."""
        return next(pod for pod in self.station.pods() if pod["id"] == self.id)

    def screen(self) -> str:
        """What it shows."""
        return self.station("screen", self.id, "--format", "text", expect=None)

    def wait_until_it_shows(self, text: str, *, within_s: float = WITHIN_S) -> None:
        """Wait for a text on its screen, however it is broken into lines."""
        wanted = "".join(text.split())
        self.wait_for(lambda: wanted in "".join(self.screen().split()), f"it shows {text!r}", within_s=within_s)

    def wait_until(
        self, activity: str, waiting_for: str | None = None, *, within_s: float = WITHIN_S
    ) -> dict[str, Any]:
        """Wait for a status; what ps says then."""

        def reached() -> dict[str, Any] | None:
            pod = self.look()
            said = (pod["activity"], pod["waiting_for"] if waiting_for is not None else None)
            return pod if said == (activity, waiting_for) else None

        return self.wait_for(reached, f"it is {activity} {waiting_for or ''}".rstrip(), within_s=within_s)

    def wait_until_exited(self, *, within_s: float = WITHIN_S) -> dict[str, Any]:
        """Wait for its end; what ps says then."""
        return self.wait_for(self._ended, "it ends", within_s=within_s)

    def wait_for_turn(self, heard: str) -> Request:
        """Wait until the model is asked for a turn with this text in the conversation."""
        return self.wait_for(lambda: self._turn(heard), f"the model hears {heard!r}", within_s=FIRST_TURN_S)

    def wait_for(self, condition: Callable[[], _Value | None], what: str, *, within_s: float = WITHIN_S) -> _Value:
        """Wait until something holds."""
        deadline = time.monotonic() + within_s
        while not (value := condition()):
            assert time.monotonic() < deadline, self._describe(f"not within {within_s:g} s: {what}")
            time.sleep(0.1)
        return value

    def press(self, *keys: str) -> None:
        """Press keys, one after the other; those after its end go nowhere."""
        for key in keys:
            self.station("send", self.id, "--key", key, expect=None)

    def press_until(self, keys: tuple[str, ...], condition: Callable[[], _Value | None], what: str) -> _Value:
        """Press keys until something comes of them: an agent that is busy drawing swallows some."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            self.press(*keys)
            again = time.monotonic() + _AGAIN_S
            while time.monotonic() < again:
                if value := condition():
                    return value
                time.sleep(0.1)
            assert time.monotonic() < deadline, self._describe(f"{keys} did nothing: {what}")

    def say(self, text: str) -> Request:
        """Type a prompt and see it arrive at the model; the turn it asks for."""
        self.station("send", self.id, text)
        # An Enter right behind a paste is a new line to some.
        self.wait_until_it_shows(text[-14:])
        return self.press_until(("enter",), lambda: self._turn(text), f"the model hears {text!r}")

    def approve(self) -> None:
        """Let the agent do what it asks for."""
        self.press(*self.station.agent.approve)

    def leave(self) -> dict[str, Any]:
        """End the agent as a person does; what ps says then."""
        return self.press_until(self.station.agent.leave, self._ended, "it ends")

    def _ended(self) -> dict[str, Any] | None:
        pod = self.look()
        return pod if pod["state"] == "exited" else None

    def _turn(self, heard: str) -> Request | None:
        return next((turn for turn in self.station.stub.turns if turn.heard(heard)), None)

    def _describe(self, problem: str) -> str:
        seen = json.dumps(self.look(), indent=2)
        why = self.station("explain", self.id, "--json", expect=None)
        heard = [turn.conversation[-1][:200] for turn in self.station.stub.turns]
        return f"{problem}\n\n{self.screen()}\nps: {seen}\nexplain: {why}\nthe model heard: {heard}"
