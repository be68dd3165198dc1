"""R17 for messages: whatever dies or gets lost on the way, each comes into its terminal once, and in order."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Generator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast
from unittest import mock

import pytest

from scrubjay.cli.client import ServerRefused
from scrubjay.ids import PodId
from scrubjay.pods.home import Home
from scrubjay.tape.record import Json
from scrubjay.wire.messages import Type
from tests.chaos.listeners import AGENT, ListenerPod, Teller, await_all, await_next, know_listeners, start_listeners
from tests.support.conditions import DEADLINE_S, eventually
from tests.support.faulty_runner import FAULTS, Fate, faulty
from tests.support.fleet import Fleet, open_fleet
from tests.support.in_process_up import open_in_process_up
from tests.support.listeners import start_listener
from tests.support.processes import kill
from tests.support.proxy import open_proxy
from tests.support.services import Service
from tests.support.tiers import sized

_KILLS = sized(1, 6, 100)
_FLAPS = sized(1, 5, 60)
_DEATHS = sized(1, 3, 40)
_MESSAGES = sized(3, 10, 300)
_MISSES_MAX = 20  # of kills and breaks, until one comes in the middle of a message
_EVERY_S = 0.3  # somebody says something
_TIMES = {
    "scrubjay.server.coordination.courier.AGAIN_AFTER_S": 0.1,
    "scrubjay.server.coordination.courier.REST_S": 0.5,
    "scrubjay.server.coordination.prompts.RESTED_S": 0.2,
}
# Nobody swallows anything where these are set, and a busy machine is late with much.
_PATIENCE = {"scrubjay.fleet.errand.SHOWN_WITHIN_S": DEADLINE_S, "scrubjay.fleet.errand.AGAIN_AFTER_S": DEADLINE_S}
_AN_ERRAND_S = 0.4  # from the first key to the note that a message has come, to an agent that takes its time
_BROKEN = 0.2  # of what is typed, as often without as after it was done
_QUICK, _SLOW = ("--work-ms", "100"), ("--work-ms", "100", "--deaf-ms", "150")


@pytest.fixture
def fleet(tmp_path: Path) -> Generator[Fleet]:
    with open_fleet(tmp_path / "data", tmp_path / "logs") as fleet:
        know_listeners(fleet)
        fleet.times |= _TIMES | _PATIENCE
        yield fleet


def test_r17_messages_come_once_and_in_order_while_server_and_runner_are_killed(fleet: Fleet) -> None:
    chance = random.Random(17)
    up = fleet.up()
    listeners = start_listeners(fleet, ["a", "b", "c"][: sized(2, 3, 3)], *_SLOW)
    eventually(lambda: len(up.processes()) == len(listeners), "they are in the fleet")
    teller = Teller(up.client, listeners, _EVERY_S)

    kills = 0
    while kills < _KILLS or '"resumed": true' not in up.log:  # one of them comes in the middle of a message
        await_next(listeners)
        time.sleep(chance.uniform(0, _AN_ERRAND_S))  # the moment is what is tested
        up.kill()
        up.start()
        kills += 1
        assert kills < _KILLS + _MISSES_MAX, "nobody was killed in the middle of it"
        await_next(listeners)
    teller.stop()
    await_all(up, listeners)

    told, resumed = sum(listener.told for listener in listeners), up.log.count('"resumed": true')
    print(f"{told} messages, {teller.tries} requests, {kills} kills, {resumed} resumed")
    fleet.finish(*(listener.member for listener in listeners))


def test_r17_messages_come_once_and_in_order_over_a_link_that_breaks(fleet: Fleet) -> None:
    chance = random.Random(18)
    with open_proxy() as proxy:
        server, _ = fleet.server_and_runner(through=proxy.port)
        address = eventually(lambda: re.search(r'"url": ".*:([0-9]+)"', server.log), "it says where")
        proxy.target = int(address[1])
        listeners = start_listeners(fleet, ["a", "b"], *_SLOW)
        eventually(lambda: len(server.processes()) == 2, "they are in the fleet")
        teller = Teller(server.client, listeners, _EVERY_S)

        flaps = 0
        while flaps < _FLAPS or '"resumed": true' not in server.log:  # one of them comes in the middle of a message
            await_next(listeners)
            time.sleep(chance.uniform(0, _AN_ERRAND_S))  # the moment is what is tested
            proxy.cut()
            if chance.random() < 0.5:
                proxy.set_down()
                time.sleep(chance.uniform(0.1, 1.0))
                proxy.set_up()
            flaps += 1
            assert flaps < _FLAPS + _MISSES_MAX, "nothing was cut in the middle of it"
            await_next(listeners)
        teller.stop()
        await_all(server, listeners)

        told, resumed = sum(listener.told for listener in listeners), server.log.count('"resumed": true')
        print(f"{told} messages, {len(proxy.passages)} connections, {resumed} resumed")
        fleet.finish(*(listener.member for listener in listeners))


def test_r17_what_a_pod_that_is_killed_has_not_taken_comes_to_the_next_of_its_session(fleet: Fleet) -> None:
    chance = random.Random(19)
    up = fleet.up()
    (listener,) = start_listeners(fleet, ["a"], *_SLOW)
    eventually(lambda: len(up.processes()) == 1, "it is in the fleet")
    session = listener.member.pod.session
    agent = listener.member.agent_pid
    teller = Teller(up.client, [listener], _EVERY_S)

    for number in range(_DEATHS):
        await_next([listener])
        time.sleep(chance.uniform(0, _AN_ERRAND_S))  # the moment is what is tested
        kill(agent)
        agent = _go_on(up, listener, session, name=f"a{number}")
    teller.stop()
    await_all(up, [listener])

    print(f"{listener.told} messages, {_DEATHS} pods")
    for pod in Home(fleet.data).pods():
        with suppress(ServerRefused):
            up.client.post(f"/api/v1/pods/{pod.id}/stop", {"grace_s": 0})


def _go_on(up: Service, listener: ListenerPod, session: str, *, name: str) -> int:
    """Start another pod for the same session; its agent's process."""
    wanted: Json = {"agent": AGENT, "command": [str(listener.log), *_SLOW], "name": name, "session": session}
    made = cast(Json, up.client.post("/api/v1/pods", wanted))
    listener.pod = next(pod for pod in Home(up.data).pods() if pod.id == PodId(str(made["id"])))
    with listener.pod.connect() as keeper:
        status = cast(Json, keeper.ask({"do": "status"})["status"])
    return cast(int, status["agent_pid"])


@pytest.mark.parametrize(
    "swallows",
    # What is swallowed is waited for; tests/up/test_courier.py shows in make test what becomes of it.
    [pytest.param(False, id="takes-all"), pytest.param(True, id="swallows-some", marks=pytest.mark.chaos)],
)
def test_r17_messages_come_once_and_in_order_through_a_runner_that_does_it_and_says_it_did_not(
    tmp_path: Path, *, swallows: bool
) -> None:
    chance = random.Random(20)
    options = ("--swallow-enters", "3", "--swallow-texts", "1") if swallows else ()

    def fate_of(typed: Type) -> Fate:
        broken = typed.author == "scrubjay:message" and chance.random() < _BROKEN
        return chance.choice(FAULTS) if broken else "Done"

    async def tell_and_hear() -> list[str]:
        async with open_in_process_up(tmp_path / "home") as up:
            listener = await start_listener(up, "faulty", tmp_path, *_QUICK, *options)
            with faulty(fate_of):
                for number in range(_MESSAGES):
                    await listener.tell(f"number {number}")
                await listener.hears(_MESSAGES, within_s=DEADLINE_S + 20.0 * _MESSAGES)
                await listener.has_all(_MESSAGES)
            return listener.heard

    with ExitStack() as stack:
        for path, seconds in (_TIMES if swallows else _TIMES | _PATIENCE).items():
            stack.enter_context(mock.patch(path, seconds))
        heard = asyncio.run(tell_and_hear())

    found = [re.findall(r"«number ([0-9]+)»", line) for line in heard]
    assert found == [[str(number)] for number in range(_MESSAGES)]
