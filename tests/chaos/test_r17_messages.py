"""R17 for messages: whatever dies or gets lost on the way, each comes into its terminal once, and in order."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import cast
from unittest import mock

import pytest

from chaos.cluster import Service
from chaos.fleet import Fleet, open_fleet
from chaos.listeners import AGENT, ListenerPod, Teller, await_all, await_next, know_listeners, start_listeners
from chaos.machine import eventually, kill
from chaos.proxy import open_proxy
from scrubjay.cli.client import ServerRefused
from scrubjay.ids import PodId
from scrubjay.pods.home import Home
from scrubjay.server.coordination import courier, prompts
from scrubjay.tape.record import Json
from scrubjay.wire.messages import Type
from tiers import sized
from up.faulty_runner import FAULTS, Fate, faulty
from up.listeners import start_listener
from up.machine import open_machine

_KILLS = sized(6, 100)
_FLAPS = sized(5, 60)
_DEATHS = sized(3, 40)
_MESSAGES = sized(10, 300)
_COME_S = sized(60, 600)
_AN_ERRAND_S = 0.4  # from the first key to the note that a message has come, to an agent that takes its time
_BROKEN = 0.2  # of what is typed, as often without as after it was done
_QUICK, _SLOW = ("--work-ms", "100"), ("--work-ms", "100", "--deaf-ms", "150")


@pytest.fixture
def fleet(tmp_path: Path) -> Generator[Fleet]:
    with open_fleet(tmp_path / "data", tmp_path / "logs") as fleet:
        know_listeners(fleet)
        yield fleet


@pytest.mark.timeout(sized(240, 3600))
def test_r17_messages_come_once_and_in_order_while_server_and_runner_are_killed(fleet: Fleet) -> None:
    chance = random.Random(17)
    up = fleet.up()
    listeners = start_listeners(fleet, ["a", "b", "c"], *_SLOW)
    eventually(lambda: len(up.processes()) == 3, "they are in the fleet", within_s=20)
    teller = Teller(up.client, listeners)

    for _ in range(_KILLS):
        await_next(listeners)
        time.sleep(chance.uniform(0, _AN_ERRAND_S))  # the moment is what is tested
        up.kill()
        up.start()
    teller.stop()
    await_all(up, listeners, within_s=_COME_S)

    told, resumed = sum(listener.told for listener in listeners), up.log.count('"resumed": true')
    print(f"{told} messages, {teller.tries} requests, {_KILLS} kills, {resumed} gone on with")
    assert told > _KILLS
    assert resumed, "nobody was killed in the middle of it"
    fleet.finish(*(listener.member for listener in listeners))


@pytest.mark.timeout(sized(240, 3600))
def test_r17_messages_come_once_and_in_order_over_a_link_that_breaks(fleet: Fleet) -> None:
    chance = random.Random(18)
    with open_proxy() as proxy:
        server, _ = fleet.server_and_runner(through=proxy.port)
        address = eventually(lambda: re.search(r'"url": ".*:([0-9]+)"', server.log), "it says where", within_s=10)
        proxy.target = int(address[1])
        listeners = start_listeners(fleet, ["a", "b"], *_SLOW)
        eventually(lambda: len(server.processes()) == 2, "they are in the fleet", within_s=30)
        teller = Teller(server.client, listeners)

        for _ in range(_FLAPS):
            await_next(listeners)
            time.sleep(chance.uniform(0, _AN_ERRAND_S))
            proxy.cut()
            if chance.random() < 0.5:
                proxy.set_down()
                time.sleep(chance.uniform(0.1, 1.0))
                proxy.set_up()
        teller.stop()
        await_all(server, listeners, within_s=_COME_S)

        told, resumed = sum(listener.told for listener in listeners), server.log.count('"resumed": true')
        print(f"{told} messages, {len(proxy.passages)} connections, {resumed} gone on with")
        assert told > _FLAPS
        assert resumed, "nothing was cut in the middle of it"
        fleet.finish(*(listener.member for listener in listeners))


@pytest.mark.timeout(sized(240, 3600))
def test_r17_what_a_pod_that_is_killed_has_not_taken_comes_to_the_next_of_its_session(fleet: Fleet) -> None:
    chance = random.Random(19)
    up = fleet.up()
    (listener,) = start_listeners(fleet, ["a"], *_SLOW)
    eventually(lambda: len(up.processes()) == 1, "it is in the fleet", within_s=20)
    session = listener.member.pod.session
    agent = listener.member.agent_pid
    teller = Teller(up.client, [listener])

    for number in range(_DEATHS):
        await_next([listener])
        time.sleep(chance.uniform(0, _AN_ERRAND_S))
        kill(agent)
        agent = _go_on(up, listener, session, name=f"a{number}")
    teller.stop()
    await_all(up, [listener], within_s=_COME_S)

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


@pytest.mark.timeout(sized(300, 3600))
@pytest.mark.parametrize("swallows", [False, True], ids=["takes-all", "swallows-some"])
def test_r17_messages_come_once_and_in_order_through_a_runner_that_does_it_and_says_it_did_not(
    tmp_path: Path, *, swallows: bool
) -> None:
    chance = random.Random(20)
    options = ("--swallow-enters", "3", "--swallow-texts", "1") if swallows else ()

    def fate_of(typed: Type) -> Fate:
        broken = typed.author == "scrubjay:message" and chance.random() < _BROKEN
        return chance.choice(FAULTS) if broken else "Done"

    async def tell_and_hear() -> list[str]:
        async with open_machine(tmp_path / "home") as machine:
            listener = await start_listener(machine, "faulty", tmp_path, *_QUICK, *options)
            with faulty(fate_of):
                for number in range(_MESSAGES):
                    await listener.tell(f"number {number}")
                await listener.hears(_MESSAGES, within_s=20.0 * _MESSAGES)
                await listener.has_all(_MESSAGES)
            return listener.heard

    with (
        mock.patch.object(courier, "AGAIN_AFTER_S", 0.1),
        mock.patch.object(courier, "REST_S", 0.5),
        mock.patch.object(prompts, "RESTED_S", 0.2),
    ):
        heard = asyncio.run(tell_and_hear())

    found = [re.findall(r"«number ([0-9]+)»", line) for line in heard]
    assert found == [[str(number)] for number in range(_MESSAGES)]
