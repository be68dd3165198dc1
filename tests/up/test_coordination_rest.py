"""Bindings, channels, waits and handoffs over the API, between real pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import cast

import httpx
import pytest

from scrubjay.errors import NoSuchMessage
from scrubjay.fleet.access import Principal
from scrubjay.pods.pod import Pod
from scrubjay.server.coordination.actors import Actor
from scrubjay.server.coordination.channels import Post
from scrubjay.server.coordination.waits import WaitFor
from scrubjay.server.guard import LOCAL
from scrubjay.tape.record import Json
from tests.support.conditions import until, until_asked
from tests.support.in_process_up import InProcessUp

pytestmark = pytest.mark.anyio

_READ, _WRITE = "terminal:read", "terminal:write"


@dataclass(frozen=True, slots=True)
class Trio:
    """Three pods, and what their agents would do by tools."""

    up: InProcessUp
    pods: dict[str, Pod]

    def actor(self, name: str) -> Actor:
        principal = Principal(f"token:{name}", "pod", name, self.pods[name].id)
        return self.up.server.coordination.reception.actor(principal)

    async def wait(self, waiter: str, **wanted: str | int) -> str:
        """Let a pod wait for something; the id of the wait."""
        asked = WaitFor(**wanted)  # pyright: ignore[reportArgumentType]
        waits = self.up.server.coordination.waits
        return str((await waits.wait_for(self.actor(waiter), asked, timeout_s=0))["wait"])

    async def know_each_other(self) -> None:
        """Put all of them into a channel."""
        await self.up.post("/api/v1/channels", {"name": "all", "members": list(self.pods)})

    async def part(self) -> None:
        """Leave nothing between them."""
        up = self.up
        for channel in cast(list[Json], await up.get("/api/v1/channels")):
            await _ask(up, "DELETE", f"/api/v1/channels/{channel['name']}")
        for handoff in cast(list[Json], await up.get("/api/v1/handoffs")):
            await up.post(f"/api/v1/handoffs/{handoff['id']}/decline", {})
        for binding in cast(list[Json], await up.get("/api/v1/bindings")):
            await up.post(f"/api/v1/bindings/{binding['id']}/unbind", {})
        for wait in cast(list[Json], (await _ask(up, "GET", "/api/v1/waits"))["waits"]):
            await _ask(up, "DELETE", f"/api/v1/waits/{wait['id']}")
        channels = up.server.coordination.channels
        for name in self.pods:
            told = cast(list[Json], (await channels.inbox(self.actor(name)))["messages"])
            await channels.acknowledge(self.actor(name), [str(message["id"]) for message in told])


@pytest.fixture(scope="module")
async def pods(up: InProcessUp) -> dict[str, Pod]:
    return {name: await up.start("cat", name=name) for name in ("ann", "bob", "cid")}


@pytest.fixture
async def trio(up: InProcessUp, pods: dict[str, Pod]) -> AsyncGenerator[Trio]:
    trio = Trio(up, pods)
    yield trio
    await trio.part()


async def _ask(up: InProcessUp, method: str, path: str, body: Json | None = None, **query: str) -> Json:
    response = await up.http.request(method, path, json=body, params=query)
    assert response.status_code in (200, 201), (path, response.status_code, response.text)
    return cast(Json, response.json())


async def _refused(up: InProcessUp, method: str, path: str, body: Json | None = None) -> tuple[int, str, str]:
    response = await up.http.request(method, path, json=body)
    error = cast(Json, response.json())["error"]
    assert isinstance(error, dict)
    told = cast(dict[str, str], error)
    return response.status_code, told["code"], told["message"]


async def _list(up: InProcessUp, path: str, **query: str | int) -> list[Json]:
    return cast(list[Json], await up.get(path, **query))


def _now(up: InProcessUp) -> int:
    return up.server.tower.clock.wall_us()


async def _tick(up: InProcessUp) -> int:
    """An instant after everything so far and before everything that follows."""
    before = _now(up)
    await until(lambda: _now(up) > before + 1, "the clock goes on")
    return before + 1


# Bindings.


async def test_a_binding_is_asked_for_granted_in_part_and_ended(trio: Trio) -> None:
    up = trio.up
    before = await _tick(up)
    asked = await up.post(
        "/api/v1/bindings",
        {"initiator": "ann", "target": "bob", "scopes": [_READ, _WRITE], "reason": "to review", "accept": False},
    )
    assert (asked["initiator"], asked["target"], asked["state"]) == ("ann", "bob", "pending")
    assert (asked["initiator_pod"], asked["target_pod"]) == (trio.pods["ann"].id, trio.pods["bob"].id)
    assert (asked["granted"], asked["pending"], asked["reason"]) == ([], [_READ, _WRITE], "to review")
    pending = await _tick(up)

    short = str(asked["id"])[:8]
    granted = await up.post(f"/api/v1/bindings/{short}/accept", {"scopes": [_READ]})
    assert (granted["id"], granted["state"], granted["granted"], granted["pending"]) == (
        asked["id"],
        "active",
        [_READ],
        [],
    )
    active = await _tick(up)
    ended = await up.post(f"/api/v1/bindings/{asked['id']}/unbind", {"reason": "done"})

    assert (ended["state"], ended["granted"], ended["answer"]) == ("inactive", [], "done")
    assert await _list(up, "/api/v1/bindings", pod="ann") == []
    everything = await _list(up, "/api/v1/bindings", pod="ann", all="true")
    assert (everything[-1]["id"], everything[-1]["state"]) == (asked["id"], "inactive")
    assert await _list(up, "/api/v1/bindings", pod="ann", at=before) == []
    assert [one["state"] for one in await _list(up, "/api/v1/bindings", pod="ann", at=pending)] == ["pending"]
    assert [one["granted"] for one in await _list(up, "/api/v1/bindings", pod="ann", at=active)] == [[_READ]]


async def test_a_person_grants_at_once_and_what_is_asked_for_more_can_be_refused(trio: Trio) -> None:
    up = trio.up
    body: Json = {"initiator": "ann", "target": "bob", "scopes": [_READ], "accept": True}
    bound = await up.post("/api/v1/bindings", body)
    assert (bound["state"], bound["granted"], bound["pending"]) == ("active", [_READ], [])

    more = await up.post("/api/v1/bindings", {"initiator": "ann", "target": "bob", "scopes": [_WRITE]})
    assert (more["id"], more["state"], more["granted"], more["pending"]) == (bound["id"], "active", [_READ], [_WRITE])
    refused = await up.post(f"/api/v1/bindings/{bound['id']}/reject", {"reason": "not now"})

    assert (refused["state"], refused["granted"], refused["pending"]) == ("active", [_READ], [])
    told = cast(list[Json], (await _ask(up, "GET", "/api/v1/pods/ann/inbox"))["messages"])
    assert "was refused: not now" in str(told[-1]["text"])


async def test_bindings_are_found_by_their_sides(trio: Trio) -> None:
    up = trio.up
    for initiator, target in (("ann", "bob"), ("bob", "ann"), ("bob", "cid")):
        await up.post("/api/v1/bindings", {"initiator": initiator, "target": target, "scopes": [_READ]})

    async def pairs(**query: str) -> list[tuple[object, object]]:
        found = await _list(up, "/api/v1/bindings", **query)
        return [(one["initiator"], one["target"]) for one in found]

    assert await pairs(pod="ann") == [("ann", "bob"), ("bob", "ann")]
    assert await pairs(initiator="bob") == [("bob", "ann"), ("bob", "cid")]
    assert await pairs(initiator="bob", target="cid") == [("bob", "cid")]
    assert await pairs(initiator="cid", target="bob") == []


async def test_an_ended_binding_names_pods_that_are_deleted(up: InProcessUp) -> None:
    pods = [await up.start("cat", name=name) for name in ("gone-one", "gone-two")]
    await up.post("/api/v1/bindings", {"initiator": "gone-one", "target": "gone-two", "scopes": [_READ]})
    for pod in pods:
        await up.stop(pod)
        await up.http.delete(f"/api/v1/pods/{pod.id}")

    ended = await _list(up, "/api/v1/bindings", all="true")

    assert ("gone-one", "gone-two", "inactive") in {(one["initiator"], one["target"], one["state"]) for one in ended}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"initiator": "ann", "target": "nobody", "scopes": [_READ]}, 404, "there is no pod 'nobody'"),
        ({"initiator": "nobody", "target": "bob", "scopes": [_READ]}, 404, "there is no pod 'nobody'"),
        ({"initiator": "ann", "target": "bob", "scopes": ["terminal:fly"]}, 400, "'terminal:fly' is not a scope"),
        ({"initiator": "ann", "target": "bob", "scopes": []}, 400, "no scope is named"),
        ({"initiator": "ann", "target": "ann", "scopes": [_READ]}, 400, "nobody is bound to itself"),
        ({"target": "bob", "scopes": [_READ]}, 403, "a person needs no binding"),
        ({"initiator": "ann", "target": "bob", "scopes": [_READ], "reason": " "}, 400, "the reason says nothing"),
        ({"initiator": "ann", "target": "bob", "scopes": [_READ], "reason": "x" * 501}, 400, "501 characters"),
        ({"initiator": "ann", "target": "bob", "scopes": [_READ], "surprise": 1}, 400, "surprise"),
    ],
)
async def test_a_bad_binding_is_refused_with_what_is_wrong(trio: Trio, body: Json, status: int, said: str) -> None:
    found, _, message = await _refused(trio.up, "POST", "/api/v1/bindings", body)

    assert (found, said in message) == (status, True), message
    assert await _list(trio.up, "/api/v1/bindings") == []


async def test_what_has_ended_is_not_bound(trio: Trio) -> None:
    up = trio.up
    over = await up.start("sleep", "600", name="over")
    await up.stop(over)
    await until(lambda: up.server.tower.pods[over.id].over, "it ended")

    for initiator, target in (("over", "ann"), ("ann", "over")):
        body: Json = {"initiator": initiator, "target": target, "scopes": [_READ]}
        assert (await _refused(up, "POST", "/api/v1/bindings", body))[:2] == (409, "pod_not_running")


async def test_a_binding_that_is_not_there_or_not_fit_is_refused(trio: Trio) -> None:
    up = trio.up
    asked = await up.post("/api/v1/bindings", {"initiator": "ann", "target": "bob", "scopes": [_READ]})
    await up.post(f"/api/v1/bindings/{asked['id']}/reject", {})

    for verb in ("accept", "reject", "unbind"):
        path = f"/api/v1/bindings/{asked['id']}/{verb}"
        assert (await _refused(up, "POST", path))[:2] == (409, "binding_unfit")
        assert (await _refused(up, "POST", f"/api/v1/bindings/zzz/{verb}"))[:2] == (404, "no_such_binding")
    bad = await _refused(up, "POST", f"/api/v1/bindings/{asked['id']}/unbind", {"reason": "x" * 600})
    assert bad[0] == 400


# Channels.


async def test_a_channel_is_made_joined_spoken_in_read_and_archived(trio: Trio) -> None:
    up = trio.up
    before = await _tick(up)
    made = await up.post(
        "/api/v1/channels", {"name": "#build", "purpose": "what is built", "private": True, "members": ["ann"]}
    )
    assert (made["name"], made["kind"], made["purpose"], made["members"]) == (
        "build",
        "private",
        "what is built",
        ["ann"],
    )
    joined = await _ask(up, "PUT", "/api/v1/channels/build/members/bob")
    assert joined["members"] == ["ann", "bob"]
    await _ask(up, "DELETE", "/api/v1/channels/build/members/ann")
    first = await up.post("/api/v1/channels/build/messages", {"text": "hello @bob"})
    assert (first["id"], first["author"], first["mentions"], first["asks"]) == ("build#1", LOCAL.name, ["bob"], False)
    between = await _tick(up)
    second = await up.post(
        "/api/v1/channels/build/messages",
        {"text": "and you", "mentions": ["cid"], "reply_to": 1, "expects_reply": True},
    )
    assert (second["mentions"], second["reply_to"], second["asks"]) == (["cid"], 1, True)

    said = await _ask(up, "GET", "/api/v1/channels/build/messages")
    assert [one["text"] for one in cast(list[Json], said["messages"])] == ["hello @bob", "and you"]
    assert (said["channel"], said["last"]) == ("build", 2)
    then = await _ask(up, "GET", "/api/v1/channels/build/messages", at=str(between))
    assert ([one["seq"] for one in cast(list[Json], then["messages"])], then["last"]) == ([1], 1)
    after = await _ask(up, "GET", "/api/v1/channels/build/messages", after="1")
    assert [one["seq"] for one in cast(list[Json], after["messages"])] == [2]
    newest = await _ask(up, "GET", "/api/v1/channels/build/messages", limit="1")
    assert [one["seq"] for one in cast(list[Json], newest["messages"])] == [2]

    [now] = await _list(up, "/api/v1/channels")
    assert (now["name"], now["members"], now["messages"]) == ("build", ["bob", "cid"], 2)
    [past] = await _list(up, "/api/v1/channels", at=between)
    assert (past["members"], past["messages"]) == (["bob"], 1)
    assert await _list(up, "/api/v1/channels", at=before) == []

    archived = await _ask(up, "DELETE", "/api/v1/channels/build")
    assert await _list(up, "/api/v1/channels") == []
    assert (await _refused(up, "GET", "/api/v1/channels/build/messages"))[:2] == (404, "no_such_channel")
    kept = await _ask(up, "GET", f"/api/v1/channels/{archived['id']}/messages")
    assert kept["last"] == 2
    past_read = await _ask(up, "GET", "/api/v1/channels/build/messages", at=str(between))
    assert past_read["last"] == 1


async def test_a_message_is_in_the_inbox_of_whom_it_is_for_and_looking_changes_nothing(trio: Trio) -> None:
    up = trio.up
    told = await up.post("/api/v1/pods/ann/messages", {"text": "look at\nthe tests", "expects_reply": True})
    assert (told["channel"], told["mentions"], told["asks"]) == ("@ann", ["ann"], True)
    first = cast(int, told["seq"])
    await up.post("/api/v1/channels/@ann/messages", {"text": "again"})

    for _ in range(2):
        inbox = await _ask(up, "GET", "/api/v1/pods/ann/inbox")
        assert [(one["text"], one["state"]) for one in cast(list[Json], inbox["messages"])] == [
            ("look at\nthe tests", "queued"),
            ("again", "queued"),
        ]
    channels = up.server.coordination.channels
    await channels.acknowledge(trio.actor("ann"), [f"inbox#{first}"])
    left = await _ask(up, "GET", "/api/v1/pods/ann/inbox")
    assert [one["seq"] for one in cast(list[Json], left["messages"])] == [first + 1]
    everything = await _ask(up, "GET", "/api/v1/pods/ann/inbox", all="true")
    assert [one["state"] for one in cast(list[Json], everything["messages"])][-2:] == ["acknowledged", "queued"]
    assert (await _ask(up, "GET", "/api/v1/pods/bob/inbox")) == {"pod": "bob", "messages": []}
    assert (await _ask(up, "GET", "/api/v1/channels/@ann/messages"))["last"] == first + 1


async def test_text_is_kept_as_it_is_and_what_is_no_text_is_refused(trio: Trio) -> None:
    up = trio.up
    await up.post("/api/v1/channels", {"name": "odd"})
    text = "\x00\x1b[31m \u202e \N{PILE OF POO} \r\n\t"

    said = await up.post("/api/v1/channels/odd/messages", {"text": text})

    assert said["text"] == text
    headers = {"Content-Type": "application/json"}
    for raw in (b'{"text": "\\ud800"}', b'{"text": 7}', b'{"text"', b"\xff", b'["text"]'):
        path = "/api/v1/channels/odd/messages"
        assert (await up.http.post(path, content=raw, headers=headers)).status_code == 400, raw
    assert (await _ask(up, "GET", "/api/v1/channels/odd/messages"))["last"] == 1


async def test_what_came_from_a_channel_that_is_archived_can_be_taken_note_of(trio: Trio) -> None:
    up, channels = trio.up, trio.up.server.coordination.channels
    for _ in range(2):  # the second time there is another of the same name
        await up.post("/api/v1/channels", {"name": "brief", "members": ["ann"]})
        await up.post("/api/v1/channels/brief/messages", {"text": "hello @ann"})
        await _ask(up, "DELETE", "/api/v1/channels/brief")

    for left in (1, 0):
        assert await channels.acknowledge(trio.actor("ann"), ["brief#1"]) == {"acknowledged": 1}
        inbox = await _ask(up, "GET", "/api/v1/pods/ann/inbox")
        assert len(cast(list[Json], inbox["messages"])) == left
    assert await channels.acknowledge(trio.actor("ann"), ["brief#1"]) == {"acknowledged": 0}
    with pytest.raises(NoSuchMessage):
        await channels.acknowledge(trio.actor("bob"), ["brief#1"])


async def test_an_agent_outside_pods_is_told_something_too(trio: Trio) -> None:
    up = trio.up
    await up.token("agent", name="outsider")

    await up.post("/api/v1/pods/outsider/messages", {"text": "hello"})

    inbox = await _ask(up, "GET", "/api/v1/pods/outsider/inbox")
    assert [one["text"] for one in cast(list[Json], inbox["messages"])] == ["hello"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "said"),
    [
        ("POST", "/channels", {"name": "Not A Name"}, 400, "cannot be a channel's name"),
        ("POST", "/channels", {"name": ""}, 400, "cannot be a channel's name"),
        ("POST", "/channels", {"name": "x" * 64}, 400, "cannot be a channel's name"),
        ("POST", "/channels", {"name": "team", "members": ["nobody"]}, 404, "there is no pod 'nobody'"),
        ("POST", "/channels", {"name": "team", "purpose": "x" * 501}, 400, "501 characters"),
        ("POST", "/channels", {"name": "talk"}, 409, "there is a channel 'talk' already"),
        ("POST", "/channels/talk/messages", {"text": ""}, 400, "the message says nothing"),
        ("POST", "/channels/talk/messages", {"text": " \n"}, 400, "the message says nothing"),
        ("POST", "/channels/talk/messages", {"text": "x" * 20_001}, 400, "20001 characters"),
        ("POST", "/channels/talk/messages", {"text": "x", "mentions": ["nobody"]}, 404, "there is no pod 'nobody'"),
        ("POST", "/channels/talk/messages", {"text": "x", "reply_to": 7}, 404, "there is no message 'talk#7'"),
        ("POST", "/channels/talk/messages", {"text": "x", "reply_to": 0}, 400, "reply_to"),
        ("POST", "/channels/nowhere/messages", {"text": "x"}, 404, "there is no channel 'nowhere'"),
        ("GET", "/channels/nowhere/messages", None, 404, "there is no channel 'nowhere'"),
        ("GET", "/channels/talk/messages?limit=0", None, 400, "limit"),
        ("GET", "/channels/talk/messages?after=-1", None, 400, "after"),
        ("GET", "/channels/talk/messages?at=yesterday-ish", None, 400, "is not a time"),
        ("GET", "/channels?at=50%25", None, 400, "is not a time"),
        ("PUT", "/channels/nowhere/members/ann", None, 404, "there is no channel 'nowhere'"),
        ("PUT", "/channels/talk/members/nobody", None, 404, "there is no pod 'nobody'"),
        ("PUT", "/channels/@ann/members/bob", None, 400, "an inbox is one pod's own"),
        ("DELETE", "/channels/@ann/members/ann", None, 400, "an inbox is one pod's own"),
        ("DELETE", "/channels/@ann", None, 400, "an inbox is one pod's own"),
        ("DELETE", "/channels/nowhere", None, 404, "there is no channel 'nowhere'"),
        ("POST", "/pods/nobody/messages", {"text": "x"}, 404, "there is no pod 'nobody'"),
        ("POST", "/pods/ann/messages", {"text": "\t"}, 400, "the message says nothing"),
        ("GET", "/pods/nobody/inbox", None, 404, "there is no pod 'nobody'"),
    ],
)
async def test_bad_talk_is_refused_with_what_is_wrong(
    trio: Trio, method: str, path: str, body: Json | None, status: int, said: str
) -> None:
    up = trio.up
    await up.post("/api/v1/channels", {"name": "talk"})
    await up.post("/api/v1/pods/ann/messages", {"text": "so that it has an inbox"})

    found, _, message = await _refused(up, method, f"/api/v1{path}", body)

    assert (found, said in message) == (status, True), message


# Waits.


async def test_a_wait_is_seen_with_its_reason_now_and_then_and_cancelled(trio: Trio) -> None:
    up = trio.up
    await trio.know_each_other()
    before = await _tick(up)
    wait = await trio.wait("ann", pod="bob", artifact="schema", reason="needs the schema")
    during = await _tick(up)

    listed = await _ask(up, "GET", "/api/v1/waits")
    [seen] = cast(list[Json], listed["waits"])
    assert (seen["id"], seen["waiter"], seen["on"], seen["kind"], seen["key"]) == (
        wait,
        "ann",
        "bob",
        "artifact",
        "schema",
    )
    assert (seen["reason"], seen["source"], seen["state"], seen["starving"]) == (
        "needs the schema",
        "declared",
        "open",
        False,
    )
    replay = str(cast(Json, seen["evidence"])["replay"])
    assert replay.startswith(f"scrubjay replay {trio.pods['ann'].id} --at @")
    assert listed["deadlocks"] == []

    cancelled = await _ask(up, "DELETE", f"/api/v1/waits/{wait[:8]}", reason="not needed")
    assert (cancelled["state"], cancelled["detail"]) == ("cancelled", f"{LOCAL.name} cancelled it: not needed")
    assert (await _ask(up, "GET", "/api/v1/waits"))["waits"] == []
    assert (await _ask(up, "GET", "/api/v1/waits", at=str(before)))["waits"] == []
    [then] = cast(list[Json], (await _ask(up, "GET", "/api/v1/waits", at=str(during)))["waits"])
    assert (then["id"], then["state"], then["age_s"]) == (wait, "open", pytest.approx(0, abs=1))
    [told] = cast(list[Json], (await _ask(up, "GET", "/api/v1/pods/ann/inbox"))["messages"])
    assert f"Your wait for bob is cancelled: {LOCAL.name} cancelled it: not needed" in str(told["text"])
    again = await _ask(up, "DELETE", f"/api/v1/waits/{wait}")
    assert again["detail"] == f"{LOCAL.name} cancelled it: not needed"
    assert len(cast(list[Json], (await _ask(up, "GET", "/api/v1/pods/ann/inbox"))["messages"])) == 1


async def test_a_wait_past_its_deadline_starves(trio: Trio) -> None:
    up = trio.up
    await trio.know_each_other()
    await trio.wait("ann", pod="bob", artifact="late", deadline_us=_now(up) + 1000)
    await _tick(up)

    async def starving() -> bool:
        waits = cast(list[Json], (await _ask(up, "GET", "/api/v1/waits"))["waits"])
        return waits[0]["starving"] is True

    await until_asked(starving, "it starves")


async def test_why_walks_to_what_holds_a_pod_up(trio: Trio) -> None:
    up = trio.up
    await trio.know_each_other()
    before = await _tick(up)
    await trio.wait("ann", pod="bob", artifact="schema", reason="needs the schema")
    await trio.wait("bob", pod="cid", artifact="facts", reason="needs the facts")
    during = await _tick(up)

    why = await _ask(up, "GET", "/api/v1/pods/ann/why")
    [way] = cast(list[Json], why["ways"])
    steps = cast(list[Json], way["steps"])
    assert [(step["waiter"], step["on"], step["reason"]) for step in steps] == [
        ("ann", "bob", "needs the schema"),
        ("bob", "cid", "needs the facts"),
    ]
    assert (why["pod"], why["pod_id"], way["end"], way["root"]) == ("ann", trio.pods["ann"].id, "somebody", "cid")
    assert (way["root_pod"], cast(Json, way["root_status"])["process"]) == (trio.pods["cid"].id, "running")
    assert (await _ask(up, "GET", "/api/v1/pods/cid/why"))["ways"] == []
    assert (await _ask(up, "GET", "/api/v1/pods/ann/why", at=str(before)))["ways"] == []

    await up.post("/api/v1/handoffs", {"note": "no facts", "to": "bob", "artifact": "facts"})
    await trio.wait("bob", artifact="elsewhere")
    then = await _ask(up, "GET", "/api/v1/pods/ann/why", at=str(during))
    assert [way["root"] for way in cast(list[Json], then["ways"])] == ["cid"]
    # What a person hands over is not of the pod that was asked for it: that wait goes on.
    now = await _ask(up, "GET", "/api/v1/pods/ann/why")
    assert {str(way["end"]) for way in cast(list[Json], now["ways"])} == {"somebody", "nobody"}


async def test_a_circle_is_named_cut_and_remembered(trio: Trio) -> None:
    up = trio.up
    await trio.know_each_other()
    for waiter, on in (("ann", "bob"), ("bob", "cid"), ("cid", "ann")):
        await trio.wait(waiter, pod=on, artifact=f"of-{on}", reason=f"{waiter} needs {on}")

    await _until_deadlocks(up, 1)
    [deadlock] = cast(list[Json], (await _ask(up, "GET", "/api/v1/waits"))["deadlocks"])
    pods = cast(list[str], deadlock["pods"])
    first = pods.index("ann")
    assert pods[first:] + pods[:first] == ["ann", "bob", "cid"]
    edges = cast(list[Json], deadlock["edges"])
    assert [(edge["waiter"], edge["on"]) for edge in edges] == list(zip(pods, [*pods[1:], pods[0]], strict=True))
    [way] = cast(list[Json], (await _ask(up, "GET", "/api/v1/pods/ann/why"))["ways"])
    assert (way["end"], way["cut"], way["root"]) == ("circle", deadlock["cut"], None)

    await _ask(up, "DELETE", f"/api/v1/waits/{deadlock['cut']}")
    await _until_deadlocks(up, 0)

    ended = (await _list(up, "/api/v1/deadlocks", limit=1))[0]
    assert (ended["id"], ended["pods"]) == (deadlock["id"], pods)
    assert f"cancelled: {LOCAL.name} cancelled it" in str(ended["outcome"])
    assert [edge["id"] for edge in cast(list[Json], ended["edges"])] == [edge["id"] for edge in edges]
    assert {str(edge["state"]) for edge in cast(list[Json], ended["edges"])} == {"open", "cancelled"}


async def _until_deadlocks(up: InProcessUp, count: int) -> None:
    async def are_so_many() -> bool:
        return len(cast(list[Json], (await _ask(up, "GET", "/api/v1/waits"))["deadlocks"])) == count

    await until_asked(are_so_many, f"there are {count} deadlocks")


async def test_a_deadlock_names_pods_that_are_deleted(up: InProcessUp) -> None:
    trio = Trio(up, {name: await up.start("cat", name=name) for name in ("dora", "emil")})
    await trio.know_each_other()
    await trio.wait("dora", pod="emil", artifact="a")
    await trio.wait("emil", pod="dora", artifact="b")
    await _until_deadlocks(up, 1)
    for pod in trio.pods.values():
        await up.stop(pod)
        await up.http.delete(f"/api/v1/pods/{pod.id}")
    await _until_deadlocks(up, 0)
    await _ask(up, "DELETE", "/api/v1/channels/all")

    last = (await _list(up, "/api/v1/deadlocks"))[0]

    assert set(cast(list[str], last["pods"])) == {"dora", "emil"}
    assert {str(edge["waiter"]) for edge in cast(list[Json], last["edges"])} == {"dora", "emil"}


async def test_a_wait_for_a_channel_tells_its_name_and_one_for_an_answer_the_message(trio: Trio) -> None:
    up = trio.up
    await trio.know_each_other()
    await trio.wait("ann", channel="all")
    bob, channels = trio.actor("bob"), up.server.coordination.channels
    await channels.post(bob, Post("is it done?", channel="all", mentions=["cid"], expects_reply=True))

    # Whoever listened has heard it; whoever asked waits for the answer.
    [asking] = cast(list[Json], (await _ask(up, "GET", "/api/v1/waits"))["waits"])
    assert (asking["waiter"], asking["on"], asking["channel"]) == ("bob", "cid", "all")
    evidence = cast(Json, asking["evidence"])
    assert evidence["message"] == "all#1"
    assert str(evidence["replay"]).startswith(f"scrubjay replay {trio.pods['bob'].id} --at 20")
    await trio.wait("ann", channel="all")
    waits = cast(list[Json], (await _ask(up, "GET", "/api/v1/waits"))["waits"])
    kinds = {str(wait["kind"]): wait for wait in waits}
    assert (kinds["channel"]["channel"], kinds["channel"]["on"]) == ("all", None)


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("DELETE", "/waits/nothing", 404, "there is no wait 'nothing'"),
        ("GET", "/waits?at=nonsense", 400, "is not a time"),
        ("GET", "/pods/nobody/why", 404, "there is no pod 'nobody'"),
        ("GET", "/pods/ann/why?at=nonsense", 400, "is not a time"),
        ("GET", "/pods/ann/why?at=1990-01-01T00:00", 404, "there is no pod 'ann'"),
        ("GET", "/deadlocks?limit=0", 400, "limit"),
    ],
)
async def test_bad_questions_about_waits_are_refused(
    trio: Trio, method: str, path: str, status: int, said: str
) -> None:
    found, _, message = await _refused(trio.up, method, f"/api/v1{path}")

    assert (found, said in message) == (status, True), message


async def test_what_is_to_come_is_as_it_is_now(trio: Trio) -> None:
    up = trio.up
    await trio.know_each_other()
    await trio.wait("ann", pod="bob", artifact="x")

    [wait] = cast(list[Json], (await _ask(up, "GET", "/api/v1/waits", at="2200-01-01T00:00"))["waits"])

    assert cast(float, wait["age_s"]) < 60
    assert wait["starving"] is False
    assert [channel["name"] for channel in await _list(up, "/api/v1/channels", at="2200-01-01")] == ["all"]


# Handoffs.


async def test_a_handoff_to_a_pod_is_accepted_on_its_behalf_or_declined(trio: Trio) -> None:
    up = trio.up
    before = await _tick(up)
    body: Json = {"note": "the schema", "to": "bob", "files": ["schema.sql"], "commit": "abc123"}
    offered = await up.post("/api/v1/handoffs", body)
    assert (offered["offered_by"], offered["recipient"], offered["state"]) == (LOCAL.name, "bob", "offered")
    assert (offered["note"], offered["files"], offered["commit"], offered["met"]) == (
        "the schema",
        ["schema.sql"],
        "abc123",
        [],
    )
    open_ = await _tick(up)
    taken = await up.post(f"/api/v1/handoffs/{str(offered['id'])[:8]}/accept", {})
    assert (taken["state"], taken["takers"]) == ("accepted", ["bob"])
    assert await _list(up, "/api/v1/handoffs") == []
    assert [one["id"] for one in await _list(up, "/api/v1/handoffs", at=open_)] == [offered["id"]]
    assert await _list(up, "/api/v1/handoffs", at=before) == []
    everything = await _list(up, "/api/v1/handoffs", all="true")
    assert everything[-1]["state"] == "accepted"

    other = await trio_offer(trio, "ann", to="cid", note="for you")
    declined = await up.post(f"/api/v1/handoffs/{other}/decline", {})
    assert declined["state"] == "declined"
    assert (await _refused(up, "POST", f"/api/v1/handoffs/{other}/accept"))[:2] == (409, "handoff_unfit")


async def trio_offer(trio: Trio, name: str, *, to: str, note: str) -> str:
    """Let a pod offer something to another it knows."""
    await trio.know_each_other()
    handoffs = trio.up.server.coordination.handoffs
    return str((await handoffs.offer(trio.actor(name), note=note, to=to, artifact=f"from-{name}"))["id"])


async def test_who_waits_for_an_artifact_has_it_with_the_offer(trio: Trio) -> None:
    up = trio.up
    await trio.wait("ann", artifact="report")

    offered = await up.post("/api/v1/handoffs", {"note": "it is done", "artifact": "report"})

    assert (offered["met"], offered["state"], offered["takers"]) == (["ann"], "accepted", ["ann"])
    assert (await _ask(up, "GET", "/api/v1/waits"))["waits"] == []
    mine = await trio_offer(trio, "bob", to="cid", note="only for cid")
    by_key = await up.post("/api/v1/handoffs/from-bob/accept", {})
    assert (by_key["id"], by_key["takers"]) == (mine, ["cid"])


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("", {"note": "x"}, 400, "say whom it is for"),
        ("", {"note": "", "to": "ann"}, 400, "the note says nothing"),
        ("", {"note": "x" * 20_001, "to": "ann"}, 400, "20001 characters"),
        ("", {"note": "x", "to": "nobody"}, 404, "there is no pod 'nobody'"),
        ("", {"note": "x", "artifact": " "}, 400, "the artifact's key says nothing"),
        ("", {"note": "x", "artifact": "k", "files": ["f"] * 201}, 400, "files"),
        ("", {"note": "x", "artifact": "k", "files": [""]}, 400, "the path says nothing"),
        ("/nothing/accept", {}, 404, "there is no handoff 'nothing'"),
        ("/nothing/decline", {}, 404, "there is no handoff 'nothing'"),
    ],
)
async def test_a_bad_handoff_is_refused(trio: Trio, path: str, body: Json, status: int, said: str) -> None:
    found, _, message = await _refused(trio.up, "POST", f"/api/v1/handoffs{path}", body)

    assert (found, said in message) == (status, True), message


# Everything that changes something.


async def test_the_same_key_changes_something_once(trio: Trio) -> None:
    up = trio.up
    requests: list[tuple[str, Json]] = [
        ("/api/v1/channels", {"name": "once"}),
        ("/api/v1/channels/once/messages", {"text": "once"}),
        ("/api/v1/pods/ann/messages", {"text": "once"}),
        ("/api/v1/handoffs", {"note": "once", "to": "bob"}),
        ("/api/v1/bindings", {"initiator": "ann", "target": "bob", "scopes": [_READ]}),
    ]
    for path, body in requests:
        answers = await asyncio.gather(*(up.post(path, body, **{"Idempotency-Key": "k"}) for _ in range(3)))
        assert answers[0] == answers[1] == answers[2], path
    assert (await _ask(up, "GET", "/api/v1/channels/once/messages"))["last"] == 1
    inbox = cast(list[Json], (await _ask(up, "GET", "/api/v1/pods/ann/inbox"))["messages"])
    assert [one["text"] for one in inbox] == ["once"]
    [handoff] = await _list(up, "/api/v1/handoffs")
    [binding] = await _list(up, "/api/v1/bindings")

    for path in (
        f"/api/v1/bindings/{binding['id']}/accept",
        f"/api/v1/bindings/{binding['id']}/unbind",
        f"/api/v1/handoffs/{handoff['id']}/decline",
    ):
        twice = [await up.post(path, {}, **{"Idempotency-Key": "k"}) for _ in range(2)]
        assert twice[0] == twice[1]


async def test_two_people_of_one_name_have_keys_of_their_own(trio: Trio) -> None:
    up = trio.up
    await up.post("/api/v1/channels", {"name": "both"})
    for token in (await up.token("operator", name="kim"), await up.token("operator", name="kim")):
        headers = {"Idempotency-Key": "1", "Authorization": f"Bearer {token}"}
        said = await up.post("/api/v1/channels/both/messages", {"text": "hello"}, **headers)
        assert said["author"] == "kim"

    assert (await _ask(up, "GET", "/api/v1/channels/both/messages"))["last"] == 2


async def test_a_viewer_sees_everything_and_changes_nothing(trio: Trio) -> None:
    up = trio.up
    await trio.know_each_other()
    wait = await trio.wait("ann", pod="bob", artifact="x")
    bound = await up.post("/api/v1/bindings", {"initiator": "ann", "target": "bob", "scopes": [_READ]})
    offered = await up.post("/api/v1/handoffs", {"note": "x", "to": "bob"})
    headers = {"Authorization": f"Bearer {await up.token('viewer')}"}
    looks = (
        "/bindings",
        "/channels",
        "/channels/all/messages",
        "/waits",
        "/deadlocks",
        "/handoffs",
        "/pods/ann/inbox",
        "/pods/ann/why",
    )
    changes: list[tuple[str, str, Json]] = [
        ("POST", "/bindings", {"initiator": "ann", "target": "bob", "scopes": [_WRITE]}),
        ("POST", f"/bindings/{bound['id']}/accept", {}),
        ("POST", f"/bindings/{bound['id']}/reject", {}),
        ("POST", f"/bindings/{bound['id']}/unbind", {}),
        ("POST", "/channels", {"name": "mine"}),
        ("DELETE", "/channels/all", {}),
        ("PUT", "/channels/all/members/ann", {}),
        ("DELETE", "/channels/all/members/ann", {}),
        ("POST", "/channels/all/messages", {"text": "x"}),
        ("DELETE", f"/waits/{wait}", {}),
        ("POST", "/handoffs", {"note": "x", "to": "ann"}),
        ("POST", f"/handoffs/{offered['id']}/accept", {}),
        ("POST", f"/handoffs/{offered['id']}/decline", {}),
        ("POST", "/pods/ann/messages", {"text": "x"}),
    ]
    before = up.server.tower.changes.number

    async def ask(method: str, path: str, body: Json | None) -> httpx.Response:
        return await up.http.request(method, f"/api/v1{path}", json=body, headers=headers)

    for path in looks:
        assert (await ask("GET", path, None)).status_code == 200, path
    for method, path, body in changes:
        assert (await ask(method, path, body)).status_code == 403, path

    after = cast(list[Json], cast(Json, await up.get("/api/v1/events", after=before))["events"])
    kinds = {str(event["kind"]).partition(".")[0] for event in after}
    assert not kinds & {"binding", "channel", "message", "wait", "handoff"}
