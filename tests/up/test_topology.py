"""The topology: what a viewer sees, sees again of any instant, and keeps up to date by changes alone."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from msgspec import structs
from sqlalchemy import Engine, event

from scrubjay.fleet.access import Principal
from scrubjay.ids import PodId, new_session_id
from scrubjay.server.coordination.actors import HIDDEN, Actor
from scrubjay.server.coordination.channels import Post
from scrubjay.server.coordination.coordination import Coordination
from scrubjay.server.coordination.waits import WaitFor
from scrubjay.server.rest.topology_models import Topology
from scrubjay.settings import Settings
from scrubjay.tape.record import Json
from scrubjay.wire.messages import PodReport, PodStatus
from tests.support.fake_clock import FakeClock
from tests.support.in_process_up import InProcessUp, Onlooker
from tests.support.linked_runner import LinkedRunner, open_control, report_of
from tests.support.tiers import sized
from tests.up.random_fleet import ANN, RandomFleet
from tests.up.topology_follower import Follower, sorted_topology

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _open_town(data: Path, seed: int, clock: FakeClock) -> AsyncGenerator[tuple[RandomFleet, Coordination]]:
    """A town on a clock that the test moves; nobody looks out but the test."""
    async with open_control(data, clock) as control:
        coordination = Coordination(control.tower, Settings(data=data, starving_after_s=30))
        await coordination.begin()
        random_fleet = RandomFleet(coordination, seed)
        await random_fleet.open()
        try:
            yield random_fleet, coordination
        finally:
            await random_fleet.close()


async def _look_out(coordination: Coordination) -> None:
    await coordination.lookout._write_down()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("seed", range(sized(1, 3, 40)))
async def test_of_any_instant_it_is_what_a_viewer_saw_then(tmp_path: Path, seed: int) -> None:
    clock = FakeClock()
    async with _open_town(tmp_path, seed, clock) as (random_fleet, coordination):
        viewer = coordination.reception.actor(ANN)
        remembered: list[Json] = []
        for step in range(150):
            clock.advance(0.5 if step % 10 else 20)
            await random_fleet.step()
            await _look_out(coordination)
            remembered.append(await coordination.topology.at(viewer, everything=step % 2 == 0, flow_s=60))

        for step, seen in enumerate(remembered):
            at_us = cast(int, seen["at_us"])
            then = await coordination.topology.at(viewer, at_us, everything=step % 2 == 0, flow_s=60)
            assert then == seen

    _assert_varied(remembered)


def _assert_varied(seen: list[Json]) -> None:
    """That there was something to see."""
    edges = [cast("dict[str, list[Json]]", each["edges"]) for each in seen]
    for kind in ("bindings", "waits", "messages"):
        assert any(each[kind] for each in edges), kind
    assert any(each["longest_chain"] for each in seen)
    assert any(wait["starving"] for each in edges for wait in each["waits"])


# What is in it.


class _Village:
    """A few pods on one machine, and a clock."""

    def __init__(self, coordination: Coordination, linked: LinkedRunner, clock: FakeClock) -> None:
        self.coordination, self.linked, self.clock = coordination, linked, clock
        self.reports: dict[str, PodReport] = {}

    async def start(self, name: str, *, session: str | None = None) -> str:
        """A pod that runs; its id."""
        self.clock.advance(1)
        started = report_of(name=name)
        now_us = self.clock.wall_us()
        report = structs.replace(started, session=session or new_session_id(), created_us=now_us, since_us=now_us)
        await self.report(report)
        return report.id

    async def report(self, report: PodReport) -> None:
        self.reports[report.id] = report
        await self.coordination.tower.take_reports(self.linked.peer, [report])

    async def end(self, pod: str) -> None:
        report = structs.replace(self.reports[pod], process="exited", exit_status=0, complete=True)
        await self.report(report)

    def agent(self, pod: str) -> Actor:
        return self.coordination.reception.actor(Principal("token:x", "pod", "its agent", PodId(pod)))

    @property
    def person(self) -> Actor:
        return self.coordination.reception.actor(ANN)

    async def meet(self, name: str, *pods: str) -> None:
        """Let pods know each other, by a channel."""
        await self.coordination.channels.create(self.person, name, members=pods)

    async def wait(
        self,
        waiter: str,
        *,
        pod: str | None = None,
        artifact: str | None = None,
        channel: str | None = None,
        reason: str | None = None,
    ) -> str:
        """Let the agent of a pod wait for something; the wait's id."""
        self.clock.advance(1)
        wanted = WaitFor(pod=pod, artifact=artifact, channel=channel, reason=reason)
        answer = await self.coordination.waits.wait_for(self.agent(waiter), wanted, timeout_s=0)
        return str(answer["wait"])

    async def seen(self, actor: Actor | None = None, *, everything: bool = False) -> _Seen:
        return _Seen(await self.coordination.topology.at(actor or self.person, everything=everything))


class _Seen:
    """A topology to ask."""

    def __init__(self, told: Json) -> None:
        self.told = told
        self.nodes = {str(node["id"]): node for node in cast("list[Json]", told["nodes"])}
        self.edges = cast("dict[str, list[Json]]", told["edges"])

    def ends(self, kind: str) -> list[tuple[object, object]]:
        return [(edge["from"], edge["to"]) for edge in self.edges[kind]]


@pytest.fixture
async def village(tmp_path: Path) -> AsyncGenerator[_Village]:
    clock = FakeClock()
    async with open_control(tmp_path, clock) as control:
        coordination = Coordination(control.tower, Settings(data=tmp_path))
        await coordination.begin()
        linked = control.link()
        await linked.introduce()
        yield _Village(coordination, linked, clock)


async def test_waits_lead_to_whoever_or_whatever_is_waited_for(village: _Village) -> None:
    a, b, c = [await village.start(name) for name in ("a", "b", "c")]
    await village.meet("room", a, b, c)
    first = await village.wait(a, pod=b, reason="needs the schema")
    second = await village.wait(b, artifact="api.json")
    await village.wait(c, channel="room")
    await village.wait(c, pod=b)

    seen = await village.seen()

    assert seen.ends("waits")[:2] == [(a, b), (b, "artifact:api.json")]
    assert (seen.nodes["artifact:api.json"]["kind"], seen.nodes["artifact:api.json"]["name"]) == (
        "artifact",
        "api.json",
    )
    heard = seen.nodes[str(seen.edges["waits"][2]["to"])]
    assert (heard["kind"], heard["name"], heard["root"]) == ("channel", "room", True)
    assert [(seen.nodes[pod]["waiters"], seen.nodes[pod]["held_up"]) for pod in (a, b, c)] == [(0, 0), (2, 2), (0, 0)]
    assert seen.told["roots"] == [{"node": "artifact:api.json", "held_up": 3}, {"node": heard["id"], "held_up": 1}]
    assert seen.told["longest_chain"] == [first, second]
    wait = seen.edges["waits"][0]
    assert (wait["reason"], wait["source"], wait["age_s"]) == ("needs the schema", "declared", 3.0)
    assert str(cast(Json, wait["evidence"])["replay"]).startswith(f"scrubjay replay {a} --at @")


async def test_what_a_pod_asks_a_person_is_a_wait_for_a_person(village: _Village) -> None:
    pod = await village.start("asker")
    status = PodStatus(activity="waiting", waiting_for="person:permission", at=1, since_us=1, confidence=0.9)
    await village.report(structs.replace(village.reports[pod], status=status))

    seen = await village.seen()

    assert seen.ends("waits") == [(pod, "person")]
    assert (seen.nodes["person"]["kind"], seen.nodes["person"]["root"]) == ("person", True)
    assert cast(Json, seen.nodes[pod]["status"])["description"] == "waiting: permission"


async def test_a_deadlock_is_told_with_its_nodes_and_waits(village: _Village) -> None:
    a, b, c = [await village.start(name) for name in ("a", "b", "c")]
    await village.meet("room", a, b, c)
    waits = [await village.wait(a, pod=b), await village.wait(b, pod=a)]
    other = await village.wait(c, pod=a)
    await _look_out(village.coordination)

    seen = await village.seen()

    deadlock = cast("list[Json]", seen.told["deadlocks"])[0]
    assert set(cast("list[str]", deadlock["waits"])) == set(waits)
    assert set(cast("list[str]", deadlock["nodes"])) == {a, b}
    assert {pod: seen.nodes[pod]["deadlocked"] for pod in (a, b, c)} == {a: True, b: True, c: False}
    assert {edge["id"]: edge["deadlocks"] for edge in seen.edges["waits"]} == {
        **{wait: [deadlock["id"]] for wait in waits},
        other: [],
    }
    assert seen.told["roots"] == []


async def test_a_pod_that_has_ended_is_shown_while_it_has_an_edge_or_everything_is(village: _Village) -> None:
    gone, told, stays = [await village.start(name) for name in ("gone", "told", "stays")]
    await village.end(gone)
    await village.end(told)
    await village.coordination.channels.post(village.person, Post(text="come back", to=told))

    assert (await village.seen()).nodes.keys() == {told, stays, "person:ann"}
    assert (await village.seen(everything=True)).nodes.keys() == {gone, told, stays, "person:ann"}


async def test_edges_go_to_the_pod_that_goes_on_with_the_session(village: _Village) -> None:
    before, other = await village.start("before"), await village.start("other")
    await village.coordination.bindings.request(
        village.person, initiator=before, target=other, scopes=["terminal:read"], accept=True
    )
    await village.end(before)
    assert (await village.seen()).ends("bindings") == [(before, other)]
    then_us = village.clock.wall_us()

    after = await village.start("before", session=village.reports[before].session)

    assert (await village.seen()).ends("bindings") == [(after, other)]
    assert (await village.seen()).nodes.keys() == {after, other}
    then = _Seen(await village.coordination.topology.at(village.person, then_us))
    assert then.ends("bindings") == [(before, other)]


async def test_messages_are_counted_for_as_long_as_is_asked_for(village: _Village) -> None:
    a = await village.start("a")
    for passed_s in (600, 60, 1):
        await village.coordination.channels.post(village.person, Post(text="hello", to=a))
        village.clock.advance(passed_s)

    topology = village.coordination.topology
    seen = [_Seen(await topology.at(village.person, flow_s=flow_s)) for flow_s in (900, 120, 30, 0)]

    assert [[edge["count"] for edge in each.edges["messages"]] for each in seen] == [[3], [2], [1], []]


async def test_channels_are_told_with_who_is_in_them_and_how_much_was_said(village: _Village) -> None:
    a, b = await village.start("a"), await village.start("b")
    await village.meet("room", a, b)
    for _ in range(3):
        await village.coordination.channels.post(village.person, Post(text="hello", channel="room"))
    said_us = village.clock.wall_us()
    village.clock.advance(10)
    await village.coordination.channels.post(village.person, Post(text="hello", channel="room"))

    now = cast("list[Json]", (await village.seen()).told["channels"])
    then = cast("list[Json]", (await village.coordination.topology.at(village.person, said_us))["channels"])

    assert [(channel["name"], channel["messages"]) for channel in now] == [("room", 4)]
    assert now[0]["members"] == [{"node": a, "name": "a"}, {"node": b, "name": "b"}]
    assert [(channel["messages"], channel["last_us"]) for channel in then] == [(3, said_us)]


async def test_a_machine_that_is_not_connected_makes_its_pods_unreachable(village: _Village) -> None:
    pod = await village.start("pod")
    there_us = village.clock.wall_us()
    village.clock.advance(1)
    await village.linked.leave()

    seen = await village.seen()
    then = _Seen(await village.coordination.topology.at(village.person, there_us))

    assert (seen.nodes[pod]["reachable"], then.nodes[pod]["reachable"]) == (False, True)
    assert [runner["connected"] for runner in cast("list[Json]", seen.told["runners"])] == [False]


async def test_an_agent_sees_those_it_knows_and_that_somebody_is_hidden(village: _Village) -> None:
    ours, known, hidden, far = [await village.start(name) for name in ("ours", "known", "hidden", "far")]
    await village.meet("our-room", ours, known)
    await village.meet("their-room", known, hidden)
    await village.meet("far-room", hidden, far)
    await village.coordination.channels.post(village.agent(known), Post(text="psst", to=hidden))
    await village.wait(known, pod=hidden, reason="a secret of theirs")
    await village.wait(hidden, pod=far)
    await village.wait(hidden, pod=known, reason="another one")
    await village.coordination.bindings.request(
        village.person, initiator=known, target=hidden, scopes=["terminal:read"], accept=True
    )

    seen = await village.seen(village.agent(ours), everything=True)

    assert {node["name"] for node in seen.nodes.values()} == {"ours", "known", HIDDEN}
    assert seen.ends("waits") == [(known, HIDDEN), (HIDDEN, known)]
    assert [wait["reason"] for wait in seen.edges["waits"]] == ["a secret of theirs", HIDDEN]
    assert seen.edges["messages"] == seen.edges["bindings"] == []
    channels = {channel["name"]: channel for channel in cast("list[Json]", seen.told["channels"])}
    assert "members" in channels["our-room"]
    assert "members" not in channels["far-room"]
    told = json.dumps(seen.told)
    assert not [pod for pod in (hidden, far) if pod in told or village.reports[pod].session in told]


async def test_it_takes_as_many_queries_for_many_pods_as_for_few(village: _Village) -> None:
    a, b = await village.start("a"), await village.start("b")
    await village.meet("room", a, b)
    await village.wait(a, pod=b)
    with _statements() as few:
        await village.seen()

    pods = [await village.start(f"pod-{number}") for number in range(20)]
    await village.meet("hall", *pods)
    for one, other in pairwise(pods):
        await village.coordination.channels.post(village.agent(one), Post(text="hello", to=other))
        await village.wait(one, pod=other)
    with _statements() as many:
        seen = await village.seen()

    assert min(map(len, (seen.edges["waits"], seen.edges["messages"]))) >= 19
    assert len(many) == len(few) <= 12


@contextmanager
def _statements() -> Generator[list[str]]:
    """What is asked of the catalog while inside."""
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(Engine, "before_cursor_execute", note)


# Over the network.


async def _get(up: InProcessUp, **query: str | int) -> Json:
    return cast(Json, await up.get("/api/v1/topology", **query))


async def _hear_until(listener: Onlooker, follower: Follower, number: int) -> None:
    while follower.number < number:
        message = await listener.next()
        if isinstance(message, dict) and message["type"] == "change":
            follower.hear(message)


@pytest.mark.parametrize("seed", range(sized(1, 2, 20)))
async def test_who_follows_the_changes_after_its_number_has_what_a_fresh_one_has(up: InProcessUp, seed: int) -> None:
    random_fleet = RandomFleet(up.server.coordination, seed)
    await random_fleet.open()
    before = await _get(up, all="true")
    follower = Follower(before)
    async with up.look(f"/api/v1/fleet?after={before['number']}") as listener:
        for step in range(50):
            for _ in range(3):
                await random_fleet.step()
            everything = step % 2 == 0
            fresh = await _get(up, all=str(everything).lower())
            await _hear_until(listener, follower, cast(int, fresh["number"]))

            at_us, flow_s = cast(int, fresh["at_us"]), cast(float, fresh["flow_s"])
            followed = follower.draw(at_us=at_us, flow_s=flow_s, everything=everything)
            assert sorted_topology(followed) == sorted_topology(fresh)
    await random_fleet.close()


async def test_the_answer_is_what_openapi_says_it_is(up: InProcessUp) -> None:
    random_fleet = RandomFleet(up.server.coordination, 99)
    await random_fleet.open()
    for _ in range(60):
        await random_fleet.step()

    response = await up.http.get("/api/v1/topology", params={"all": "true"})

    assert response.headers["content-type"] == "application/json"
    Topology.model_validate(response.json())
    described = cast(Json, await up.get("/api/v1/openapi.json"))
    answer = cast("dict[str, Json]", cast("dict[str, Json]", described["paths"])["/api/v1/topology"]["get"])
    assert "Topology" in json.dumps(answer["responses"]["200"])
    await random_fleet.close()


@pytest.mark.parametrize("query", ["at=yesterday-ish", "flow_s=-1", "flow_s=1e12", "all=perhaps"])
async def test_what_cannot_be_asked_is_refused(up: InProcessUp, query: str) -> None:
    assert (await up.http.get(f"/api/v1/topology?{query}")).status_code == 400


async def test_what_is_to_come_is_as_it_is_now(up: InProcessUp) -> None:
    now = await _get(up)
    future = await _get(up, at="2099-01-01T00:00")

    assert cast(int, future["at_us"]) >= cast(int, now["at_us"])
    assert cast(int, future["at_us"]) <= up.server.tower.clock.wall_us()
