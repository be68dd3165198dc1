"""A pod with an agent in it: look at it, wait for it, type into it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from scrubjay.cli.client import ServerRefused
from scrubjay.status.claims import SURE
from tests.real_agents.stub.server import Request

if TYPE_CHECKING:
    from tests.real_agents.station import Station

_Value = TypeVar("_Value")

WITHIN_S = 180.0  # opencode takes 25 s to its first request on a busy machine, and more beside another agent
_LOOK_EVERY_S = 0.1
_AGAIN_S = 2.0  # after which a person presses a key again that nothing came of
_STUCK_S = 20.0  # after which it is taken to wait for a key, whatever it shows
_BETWEEN_KEYS_S = 0.2  # as a person's: Esc and Esc at once are another key
_NO_LETTERS = re.compile(r"[\W\d_]+")


class AgentPod:
    """One agent under way. What fails to happen is reported with its screen and Scrubjay's reasons."""

    def __init__(self, station: Station, identity: str) -> None:
        self.station, self.id = station, identity

    def look(self) -> dict[str, Any]:
        """What ps says of it."""
        return next(pod for pod in self.station.pods() if pod["id"] == self.id)

    def screen(self) -> str:
        """What it shows."""
        try:
            return self.station.client.fetch(f"/api/v1/pods/{self.id}/screen", {"format": "text"})[1].decode()
        except ServerRefused as error:
            if error.status != HTTPStatus.NOT_FOUND:  # the server hears of a new pod in a moment
                raise
            return ""

    def shows(self, text: str) -> bool:
        """Whether a text is on its screen, however it is broken into lines."""
        return "".join(text.split()) in "".join(self.screen().split())

    def wait_until_it_shows(self, text: str) -> None:
        """Wait for a text on its screen."""
        self.wait_for(lambda: self.shows(text), f"it shows {text!r}")

    def wait_until(self, activity: str, waiting_for: str | None = None) -> dict[str, Any]:
        """Wait for a status that others may act on; what ps says then."""
        return self.wait_for(
            lambda: self._surely(activity, waiting_for), f"it is {activity} {waiting_for or ''}".rstrip()
        )

    def wait_until_it_failed(self) -> None:
        """Wait until it is idle because something went wrong. Qwen Code is idle a moment before its hook says why."""
        self.wait_for(lambda: (self._surely("idle") or {}).get("problem"), "it is idle and says what went wrong")

    def wait_for_turn(self, heard: str) -> Request:
        """Wait until the model is asked for a turn with this text in the conversation."""
        return self.wait_for(lambda: self._turn(heard), f"the model hears {heard!r}")

    def wait_for(self, condition: Callable[[], _Value | None], what: str) -> _Value:
        """Wait until something holds."""
        deadline = time.monotonic() + WITHIN_S
        while not (value := condition()):
            assert time.monotonic() < deadline, self._describe(f"not within {WITHIN_S:g} s: {what}")
            time.sleep(_LOOK_EVERY_S)
        return value

    def press(self, *keys: str) -> None:
        """Press keys, one after the other; those after its end go nowhere."""
        for number, key in enumerate(keys):
            if number:
                time.sleep(_BETWEEN_KEYS_S)
            self.station("send", self.id, "--key", key, expect=None)

    def press_until(
        self,
        keys: tuple[str, ...],
        condition: Callable[[], _Value | None],
        what: str,
        *,
        again: Callable[[], bool] = lambda: True,
    ) -> _Value:
        """Press keys and wait for what comes of them; press them ``again`` if they were lost, as a person does.

        Agents drop keys that come while they draw a prompt or a dialog. Claude Code drops an Enter that comes as soon
        as its dialog is on the screen.
        """
        pressed = 0.0

        def came() -> _Value | None:
            nonlocal pressed
            if value := condition():
                return value
            if not pressed or (time.monotonic() - pressed > _AGAIN_S and again()):
                self.press(*keys)
                pressed = time.monotonic()
            return None

        return self.wait_for(came, f"{what}, by the keys {' '.join(keys)}")

    def answer(self, keys: tuple[str, ...], condition: Callable[[], _Value | None], what: str) -> _Value:
        """Press keys that answer what it asks, and again only while it asks: or they would answer what comes next."""
        return self.press_until(keys, condition, what, again=self._asks)

    def say(self, text: str) -> Request:
        """Type a prompt and see it arrive at the model; the turn it asks for."""
        self.type(text)
        return self._press_on_prompt(("enter",), lambda: self._turn(text), f"the model hears {text!r}")

    def type(self, text: str) -> None:
        """Type a text and see it in the prompt: an Enter right behind it is a new line to some agents."""
        self.station("send", self.id, text)
        self.wait_until_it_shows(text[-14:])

    def queue(self, text: str) -> None:
        """Type a prompt while it works, and see that it is taken out of the input."""
        self.type(text)
        before = self._settled()
        self.press_until(("enter",), lambda: self._letters() != before, f"it takes {text!r}")

    def approve(self) -> None:
        """Let the agent do what it asks for."""
        agent = self.station.agent
        self.wait_until_it_shows(agent.asks)  # its status says so before it has drawn the dialog
        self.answer(agent.approve, lambda: not self._asks(), "it does what it asked for")

    def interrupt(self) -> None:
        """Interrupt its turn and wait until it is idle. A key more at its prompt would end some agents."""
        keys = self.station.agent.interrupt
        self.press_until(
            keys, lambda: self._surely("idle"), "it is idle", again=lambda: self.look()["activity"] == "executing"
        )

    def leave(self) -> dict[str, Any]:
        """End the agent as a person does; what ps says then."""
        return self._press_on_prompt(self.station.agent.leave, self._ended, "it ends")

    def _press_on_prompt(self, keys: tuple[str, ...], condition: Callable[[], _Value | None], what: str) -> _Value:
        """Press keys at its prompt, and again only while that stands there as it did, or if nothing moves for long.

        Copilot CLI says that its turn is over before it has drawn the end of its answer, and drops keys until then.
        """
        seen = before = self._settled()
        since = time.monotonic()

        def are_lost() -> bool:
            nonlocal seen, since
            letters = self._letters()
            if letters != seen:
                seen, since = letters, time.monotonic()
            return letters == before or time.monotonic() - since > _STUCK_S

        return self.press_until(keys, condition, what, again=are_lost)

    def _surely(self, activity: str, waiting_for: str | None = None) -> dict[str, Any] | None:
        pod = self.look()
        said = (pod["activity"], pod["waiting_for"] if waiting_for is not None else None)
        return pod if said == (activity, waiting_for) and pod["confidence"] >= SURE else None

    def _asks(self) -> bool:
        return self.look()["activity"] == "waiting"

    def _ended(self) -> dict[str, Any] | None:
        pod = self.look()
        return pod if pod["state"] == "exited" else None

    def _turn(self, heard: str) -> Request | None:
        return next((turn for turn in self.station.stub.turns if turn.heard(heard)), None)

    def _settled(self) -> str:
        """What its screen reads when it has drawn all of it."""
        looks = [self._letters()]

        def stands_still() -> bool:
            looks.append(self._letters())
            return looks[-1] == looks[-2]

        self.wait_for(stands_still, "its screen stands still")
        return looks[-1]

    def _letters(self) -> str:
        """What its screen reads, without clocks, cursors and frames."""
        return _NO_LETTERS.sub("", self.screen())

    def _describe(self, problem: str) -> str:
        seen = json.dumps(self.look(), indent=2)
        why = self.station("explain", self.id, "--json", expect=None)
        heard = [turn.conversation[-1][:200] for turn in self.station.stub.turns]
        return f"{problem}\n\n{self.screen()}\nps: {seen}\nexplain: {why}\nthe model heard: {heard}"
