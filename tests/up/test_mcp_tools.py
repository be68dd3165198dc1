"""What agents do with each other through the tools of a real server, with real pods."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import cast

import pytest

from scrubjay.fleet.access import Principal
from scrubjay.server.coordination.waits import BLOCKED_MAX
from scrubjay.tape.record import Json
from tests.support.conditions import DEADLINE_S, until, until_asked
from tests.support.in_process_up import InProcessUp
from tests.up.agents import Agent, acquaint, bind, open_agent, open_agents

pytestmark = pytest.mark.anyio

_DESCRIPTION_MAX = 320  # characters of a tool's description
_LIST_MAX = 22_000  # of the whole list as an agent's model gets it: some 5,500 tokens


async def _typed(up: InProcessUp, agent: Agent, text: str) -> None:
    """Have something on an agent's screen."""
    await up.post(f"/api/v1/pods/{agent.pod.id}/input", {"text": text, "enter": True})


async def _until_screen(asker: Agent, pod: str, text: str) -> Json:
    async def look() -> Json | None:
        seen = await asker.call("view_screen", pod=pod)
        return seen if text in str(seen["text"]) else None

    return await until_asked(look, f"{pod} shows {text}")


async def test_tools_are_described_in_few_words_and_say_what_they_change(up: InProcessUp) -> None:
    async with open_agents(up, "lister") as [agent]:
        tools = await agent.tools()

    names = [str(tool["name"]) for tool in tools]
    assert {"whoami", "list_pods", "get_status", "view_screen", "search_history", "send_input", "mark"} <= set(names)
    assert {"request_binding", "answer_binding", "list_bindings", "wait_for", "list_waits"} <= set(names)
    assert {"offer_handoff", "accept_handoff", "post_message", "read_inbox", "acknowledge"} <= set(names)
    assert {"create_channel", "list_channels"} <= set(names)
    assert {"resume_session", "list_sessions", "finish_session", "handoff_session"} <= set(names)
    assert {"add_memory", "query_raw_memories", "get_session_memories", "save_summary", "get_summary"} <= set(names)
    for tool in tools:
        assert 20 < len(str(tool["description"])) <= _DESCRIPTION_MAX, tool["name"]
        assert cast(Json, tool["inputSchema"])["additionalProperties"] is False
    reading = {str(tool["name"]) for tool in tools if cast(Json, tool["annotations"])["readOnlyHint"]}
    assert reading == {
        "whoami",
        "list_pods",
        "get_status",
        "view_screen",
        "search_history",
        "list_bindings",
        "list_channels",
        "list_waits",
        "list_handoffs",
        "list_sessions",
        "query_raw_memories",
    }
    told = [{name: tool[name] for name in ("name", "description", "inputSchema")} for tool in tools]
    assert len(json.dumps(told)) <= _LIST_MAX


async def test_agents_know_only_whom_they_share_a_channel_or_a_binding_with(up: InProcessUp) -> None:
    async with open_agents(up, "ann", "ben", "cas") as [ann, ben, cas]:
        assert await _names(ann) == ["ann"]
        assert (await ann.refusal("get_status", pod="ben"))["code"] == "no_such_pod"

        await acquaint(ann, ben, channel="pair")

        assert await _names(ann) == ["ann", "ben"]
        assert (await ann.call("get_status", pod="ben"))["process"] == "running"
        assert await _names(cas) == ["cas"]
        [seen] = cast(list[Json], (await cas.call("list_channels"))["channels"])
        assert "members" not in seen  # until it joins

        await ben.call("leave_channel", channel="pair")
        assert await _names(ann) == ["ann"]


async def _names(agent: Agent) -> list[str]:
    return [str(pod["name"]) for pod in cast(list[Json], (await agent.call("list_pods"))["pods"])]


async def test_a_private_channel_does_not_exist_for_others(up: InProcessUp) -> None:
    async with open_agents(up, "deb", "eve", "fay") as [deb, eve, fay]:
        await acquaint(deb, eve, fay, channel="all-three")
        await deb.call("create_channel", name="secret", private=True, members=["eve"])

        await eve.call("post_message", channel="secret", text="between us")
        assert (await fay.refusal("read_inbox", channel="secret"))["code"] == "no_such_channel"
        assert (await fay.refusal("post_message", channel="secret", text="hello?"))["code"] == "no_such_channel"
        assert (await fay.refusal("join_channel", channel="secret"))["code"] == "no_such_channel"
        listed = cast(list[Json], (await fay.call("list_channels"))["channels"])
        assert "secret" not in [channel["name"] for channel in listed]


async def test_a_wait_blocks_until_the_artifact_is_there_and_the_waiter_needs_no_second_word(
    up: InProcessUp, promised: Callable[[float], float]
) -> None:
    async with open_agents(up, "gil", "hal") as [gil, hal]:
        await acquaint(gil, hal, channel="makers")
        began = time.monotonic()
        wanted = {"pod": "gil", "artifact": "plan", "reason": "to begin", "timeout_s": 2 * DEADLINE_S}
        waiting = asyncio.create_task(hal.call("wait_for", **wanted))
        await until(lambda: up.server.coordination.lookout.graph.edges_of(_party(hal)), "it waits")

        offered = await gil.call("offer_handoff", note="the plan", artifact="plan", commit="abc123")
        answer = await waiting

        assert time.monotonic() - began < promised(10)
        assert offered["met"] == ["hal"]
        assert (answer["state"], cast(Json, answer["handoff"])["commit"]) == ("met", "abc123")
        assert (await hal.call("read_inbox"))["messages"] == []
        again = await hal.call("wait_for", artifact="plan", timeout_s=0)  # it is there for whoever comes later
        assert again["state"] == "met"


def _party(agent: Agent) -> str:
    return agent.pod.session


async def test_a_wait_that_nobody_blocks_on_any_more_is_told_of_in_the_inbox(up: InProcessUp) -> None:
    async with open_agents(up, "ida", "jon") as [ida, jon]:
        await acquaint(ida, jon, channel="two")
        asked = await jon.call("wait_for", pod="ida", reason="its answer", timeout_s=0)
        assert asked["state"] == "open"
        assert (await jon.call("wait_for", wait=asked["wait"], timeout_s=0.05))["state"] == "open"

        await ida.call("post_message", to="jon", text="here is my answer")

        [answer, notice] = sorted(
            cast(list[Json], (await jon.call("read_inbox"))["messages"]), key=lambda message: str(message["author"])
        )
        assert (answer["author"], answer["text"]) == ("ida", "here is my answer")
        assert notice["author"] == "scrubjay"
        assert "Your wait for ida is met" in str(notice["text"])
        await jon.call("acknowledge", messages=[answer["id"], notice["id"]])
        assert (await jon.call("read_inbox"))["messages"] == []
        assert (await jon.call("whoami"))["open_waits"] == []


async def test_the_end_of_a_pod_fails_the_waits_on_it(up: InProcessUp) -> None:
    async with open_agents(up, "kim", "lea") as [kim, lea]:
        await acquaint(kim, lea, channel="both")
        waiting = asyncio.create_task(lea.call("wait_for", pod="kim", timeout_s=DEADLINE_S))
        await until(lambda: up.server.coordination.lookout.graph.edges_of(_party(lea)), "it waits")

        await up.stop(kim.pod)

        answer = await waiting
        assert (answer["state"], "exited" in str(answer["detail"])) == ("failed", True)
        assert (await lea.call("wait_for", pod="kim", timeout_s=DEADLINE_S))["state"] == "failed"


async def test_who_closes_a_circle_is_told_so_at_once(up: InProcessUp) -> None:
    async with open_agents(up, "max", "ned") as [max_, ned]:
        await acquaint(max_, ned, channel="circle")
        await max_.call("wait_for", pod="ned", timeout_s=0)
        closing = await ned.call("wait_for", pod="max", timeout_s=0)

        assert closing["deadlocks"] == [["ned", "max"]]
        deadlock = await _first_deadlock(max_)
        assert sorted(cast(list[str], deadlock["pods"])) == ["max", "ned"]
        assert (await max_.refusal("cancel_wait", wait=closing["wait"]))["code"] == "no_such_wait"
        await ned.call("cancel_wait", wait=closing["wait"])
        await until(lambda: not up.server.coordination.lookout.graph.cycles, "it is open")


async def _first_deadlock(agent: Agent) -> Json:
    async def deadlocks() -> list[Json]:
        return cast(list[Json], (await agent.call("list_waits"))["deadlocks"])

    return (await until_asked(deadlocks, "a deadlock is known"))[0]


async def test_a_terminal_is_read_and_typed_into_only_by_who_was_granted_that(up: InProcessUp) -> None:
    async with open_agents(up, "ola", "pia") as [ola, pia]:
        await acquaint(ola, pia, channel="doors")
        await _typed(up, pia, "the word is plover")
        assert (await ola.refusal("view_screen", pod="pia"))["code"] == "scope_missing"
        assert (await ola.refusal("search_history", query="plover", pod="pia"))["code"] == "scope_missing"
        assert (await ola.refusal("search_history", query="plover pod:pia"))["code"] == "scope_missing"
        assert (await ola.call("search_history", query="plover"))["hits"] == []

        binding = await bind(ola, pia, "terminal:read")

        shown = await _until_screen(ola, "pia", "plover")
        assert (shown["untrusted"], shown["source"]) == (True, "terminal of pod pia")
        await until_found(ola, "plover")
        refused = await ola.refusal("send_input", pod="pia", text="hi", idempotency_key="k")
        assert refused["code"] == "scope_missing"
        await ola.call("unbind", binding=binding)
        assert (await ola.refusal("view_screen", pod="pia"))["code"] == "scope_missing"


async def until_found(agent: Agent, text: str) -> None:
    async def search() -> object:
        return (await agent.call("search_history", query=text))["hits"]

    await until_asked(search, f"{text} is found")


async def test_the_past_of_a_screen_can_be_seen(up: InProcessUp) -> None:
    async with open_agents(up, "qua", "rex") as [qua, rex]:
        await acquaint(qua, rex, channel="past")
        await bind(qua, rex, "terminal:read")
        await _typed(up, rex, "first")
        first = await _until_screen(qua, "rex", "first")
        await _typed(up, rex, "second")
        await _until_screen(qua, "rex", "second")

        then = await qua.call("view_screen", pod="rex", at=f"@{first['offset']}")

        assert "first" in str(then["text"])
        assert "second" not in str(then["text"])
        assert (await qua.refusal("view_screen", pod="rex", at="yesterday-ish"))["code"] == "bad_instant"


async def test_what_is_typed_needs_a_key_and_is_typed_once(up: InProcessUp) -> None:
    async with open_agents(up, "sam", "tea") as [sam, tea]:
        await acquaint(sam, tea, channel="typing")
        await bind(sam, tea, "terminal:read", "terminal:write")
        assert (await sam.refusal("send_input", pod="tea", text="no key"))["code"] == "bad_input"

        answers = [await sam.call("send_input", pod="tea", text="knock", idempotency_key="once") for _ in range(3)]

        assert answers[0] == answers[1] == answers[2]
        shown = str((await _until_screen(sam, "tea", "knock\nknock"))["text"])
        assert shown.count("knock") == 2  # as it was typed, and as cat printed it
        typed = [record for record in tea.pod.tape().records() if record.kind_name == "input"]
        assert {record.typed().author for record in typed} == {"pod:sam"}


async def test_messages_come_to_those_they_mention_in_order_and_answers_to_who_asked(up: InProcessUp) -> None:
    async with open_agents(up, "una", "vic", "wim") as [una, vic, wim]:
        await acquaint(una, vic, wim, channel="room")
        for number in range(3):
            await una.call("post_message", channel="room", text=f"@vic number {number}", idempotency_key=f"p{number}")
            await una.call("post_message", channel="room", text=f"@vic number {number}", idempotency_key=f"p{number}")
        await una.call("post_message", channel="room", text="@everyone listen")

        inbox = cast(list[Json], (await vic.call("read_inbox"))["messages"])
        assert [message["text"] for message in inbox] == [*(f"@vic number {n}" for n in range(3)), "@everyone listen"]
        assert [message["text"] for message in cast(list[Json], (await wim.call("read_inbox"))["messages"])] == [
            "@everyone listen"
        ]
        asked = await una.call("post_message", channel="room", text="@wim done?", expects_reply=True)
        waits = cast(list[Json], (await una.call("list_waits"))["waits"])
        assert [(wait["waiter"], wait["on"], wait["source"]) for wait in waits] == [("una", "wim", "message")]
        await wim.call("post_message", channel="room", text="yes", reply_to=asked["seq"])
        assert (await una.call("list_waits"))["waits"] == []
        answers = cast(list[Json], (await una.call("read_inbox"))["messages"])
        assert "yes" in [message["text"] for message in answers]
        whole = await vic.call("read_inbox", channel="room", after=3)
        assert [message["seq"] for message in cast(list[Json], whole["messages"])] == [4, 5, 6]


async def test_a_person_who_is_asked_back_is_waited_for_until_they_answer(up: InProcessUp) -> None:
    async with open_agents(up, "ren") as [ren]:
        await up.post("/api/v1/pods/ren/messages", {"text": "how far are you?"})
        [told] = cast(list[Json], (await ren.call("read_inbox"))["messages"])
        answer: Json = {"channel": "inbox", "text": "done; shall I push?", "reply_to": told["seq"]}
        await ren.call("post_message", **answer, expects_reply=True)

        [wait] = await _all_waits(up)
        assert (wait["waiter"], wait["kind"], wait["on"], wait["source"]) == (
            "ren",
            "person",
            told["author"],
            "message",
        )
        await up.post("/api/v1/pods/ren/messages", {"text": "yes, please"})

        assert await _all_waits(up) == []
        ended = await ren.call("wait_for", wait=wait["id"], timeout_s=0)
        assert (ended["state"], ended["detail"]) == ("met", "it has answered")


async def _all_waits(up: InProcessUp) -> list[Json]:
    return cast(list[Json], cast(Json, await up.get("/api/v1/waits"))["waits"])


async def test_what_is_asked_for_again_with_its_key_is_done_once(up: InProcessUp) -> None:
    async with open_agents(up, "lou", "mia") as [lou, mia]:
        await acquaint(lou, mia, channel="twice")
        offered = await mia.call("offer_handoff", note="here", to="lou")
        marks = [await lou.call("mark", label="here", idempotency_key="m") for _ in range(2)]
        declined = [await lou.call("decline_handoff", handoff=offered["id"], idempotency_key="d") for _ in range(2)]
        assert marks[0] == marks[1]
        assert declined[0] == declined[1]
        await lou.call("mark", label="there", idempotency_key="n")

        labels = [record.json()["label"] for record in lou.pod.tape().records() if record.kind_name == "mark"]
        assert labels == ["here", "there"]


async def test_an_answer_within_somebodys_inbox_comes_to_who_asked_and_can_be_acknowledged(up: InProcessUp) -> None:
    async with open_agents(up, "pat", "quin") as [pat, quin]:
        await acquaint(pat, quin, channel="letters")
        await pat.call("post_message", to="quin", text="a word with you?")
        [asked] = cast(list[Json], (await quin.call("read_inbox"))["messages"])

        await quin.call("post_message", channel="inbox", text="of course", reply_to=asked["seq"])

        [answer] = cast(list[Json], (await pat.call("read_inbox"))["messages"])
        assert (answer["author"], answer["text"]) == ("quin", "of course")
        await pat.call("acknowledge", messages=[answer["id"]])
        assert (await pat.call("read_inbox"))["messages"] == []


async def test_bad_calls_say_what_is_wrong_and_what_to_do(up: InProcessUp) -> None:
    async with open_agents(up, "xia", "yan") as [xia, yan]:
        await acquaint(xia, yan, channel="mistakes")
        cases: list[tuple[str, dict[str, object], str]] = [
            ("wait_for", {}, "bad_input"),
            ("wait_for", {"pod": "xia"}, "bad_input"),
            ("wait_for", {"pod": "nobody"}, "no_such_pod"),
            ("wait_for", {"pod": "yan", "deadline": "yesterday"}, "bad_instant"),
            ("wait_for", {"pod": "yan", "timeout_s": 1e9}, "bad_arguments"),
            ("wait_for", {"artifact": "a", "channel": "mistakes"}, "bad_input"),
            ("wait_for", {"wait": "x" * 26}, "no_such_wait"),
            ("post_message", {"text": "nowhere"}, "bad_input"),
            ("post_message", {"channel": "mistakes", "text": "   "}, "bad_input"),
            ("post_message", {"channel": "mistakes", "text": "x" * 20_001}, "bad_input"),
            ("post_message", {"channel": "mistakes", "text": "x", "reply_to": 99}, "no_such_message"),
            ("post_message", {"channel": "mistakes", "text": "x", "mentions": ["nobody"]}, "no_such_pod"),
            ("create_channel", {"name": "Not A Name"}, "bad_input"),
            ("create_channel", {"name": "mistakes"}, "channel_taken"),
            ("acknowledge", {"messages": ["mistakes#99"]}, "no_such_message"),
            ("request_binding", {"pod": "yan", "scopes": ["everything"]}, "bad_arguments"),
            ("request_binding", {"pod": "xia", "scopes": ["terminal:read"]}, "bad_input"),
            ("answer_binding", {"binding": "x" * 26, "accept": True}, "no_such_binding"),
            ("accept_handoff", {"handoff": "nothing"}, "no_such_handoff"),
            ("offer_handoff", {"note": "for nobody"}, "bad_input"),
            ("view_screen", {"pod": "yan", "at": "noon"}, "scope_missing"),
            ("mark", {"label": ""}, "bad_input"),
            ("no_such_tool", {}, "no_such_tool"),
        ]
        for tool, arguments, code in cases:
            refusal = await xia.refusal(tool, **arguments)
            assert refusal["code"] == code, (tool, arguments, refusal)
            assert refusal["hint"], (tool, refusal)


async def test_a_person_sees_all_and_does_not_do_what_only_agents_do(up: InProcessUp) -> None:
    async with open_agents(up, "zoe", "abe") as [zoe, abe], open_agent(up, "operator", "boss") as boss:
        await acquaint(zoe, abe, channel="staff")
        assert {"zoe", "abe"} <= set(await _names(boss))
        await boss.call("post_message", channel="staff", text="@zoe please stop")
        [said] = cast(list[Json], (await zoe.call("read_inbox"))["messages"])
        assert (said["author"], said["author_kind"]) == ("boss", "person")
        for tool, arguments in (("wait_for", {"pod": "zoe"}), ("read_inbox", {}), ("request_binding", None)):
            given = arguments if arguments is not None else {"pod": "zoe", "scopes": ["terminal:read"]}
            assert (await boss.refusal(tool, **given))["code"] == "not_for_role"


async def test_a_viewer_looks_and_changes_nothing(up: InProcessUp) -> None:
    async with open_agents(up, "cid", "dot") as [cid, dot], open_agent(up, "viewer", "guest") as guest:
        await acquaint(cid, dot, channel="hall")
        assert {"cid", "dot"} <= set(await _names(guest))
        await guest.call("view_screen", pod="cid")
        before = len(await up.deeds())
        for tool, arguments in (
            ("post_message", {"channel": "hall", "text": "hi"}),
            ("create_channel", {"name": "mine"}),
            ("send_input", {"pod": "cid", "text": "hi", "idempotency_key": "k"}),
            ("mark", {"pod": "cid", "label": "here"}),
            ("offer_handoff", {"note": "x", "to": "cid"}),
        ):
            assert (await guest.refusal(tool, **arguments))["code"] in ("not_for_role", "scope_missing"), tool
        assert len(await up.deeds()) == before


async def test_an_agent_outside_pods_takes_part_too(up: InProcessUp) -> None:
    async with open_agents(up, "eli") as [eli], open_agent(up, "agent", "outsider") as outsider:
        await eli.call("create_channel", name="open-door")
        await outsider.call("join_channel", channel="open-door")
        assert await _names(outsider) == ["eli"]
        await eli.call("post_message", channel="open-door", text="@outsider welcome")
        [said] = cast(list[Json], (await outsider.call("read_inbox"))["messages"])
        assert said["text"] == "@outsider welcome"
        asked = await outsider.call("request_binding", pod="eli", scopes=["terminal:read"])
        assert asked["initiator"] == "outsider"
        await eli.call("answer_binding", binding=asked["id"], accept=True)
        await outsider.call("view_screen", pod="eli")


async def test_so_many_calls_of_one_agent_wait_at_once_and_more_are_answered(up: InProcessUp) -> None:
    async with open_agents(up, "amy", "bea") as [amy, bea]:
        await acquaint(amy, bea, channel="waiters")
        handle = (await amy.call("wait_for", pod="bea", reason="need it", timeout_s=0))["wait"]
        waiting = [asyncio.create_task(amy.call("wait_for", wait=handle, timeout_s=60)) for _ in range(BLOCKED_MAX)]
        party = up.server.coordination.reception.party
        person = up.server.coordination.reception.actor(Principal("local", "operator", "test"))
        await until(lambda: up.server.coordination.waits.blocked_calls(party(person, "amy")) == BLOCKED_MAX, "all wait")

        further = await asyncio.wait_for(amy.call("wait_for", wait=handle, timeout_s=60), DEADLINE_S)
        assert (further["state"], "hint" in further) == ("open", True)

        await bea.call("offer_handoff", to="amy", note="here")
        assert {str(answer["state"]) for answer in await asyncio.gather(*waiting)} == {"met"}
        assert up.server.coordination.waits.blocked_calls(party(person, "amy")) == 0


async def test_an_agent_whose_token_is_revoked_is_gone_for_the_others(up: InProcessUp) -> None:
    async with open_agents(up, "ava") as [ava], open_agent(up, "agent", "ci") as ci:
        await ava.call("create_channel", name="outsiders")
        await ci.call("join_channel", channel="outsiders")
        await ci.call("wait_for", pod="ava", reason="need it", timeout_s=0)
        await ava.call("post_message", to="ci", text="are you there?", expects_reply=True)
        [token] = [one for one in cast(list[Json], await up.get("/api/v1/tokens")) if one["name"] == "ci"]

        assert (await up.http.delete(f"/api/v1/tokens/{token['id']}")).status_code == 204

        waits = cast(list[Json], cast(Json, await up.get("/api/v1/waits"))["waits"])
        assert not [wait for wait in waits if "ava" in (wait["waiter"], wait["on"])]
        told = [str(message["text"]) for message in cast(list[Json], (await ava.call("read_inbox"))["messages"])]
        assert any("shut out" in text for text in told), told
        assert (await ava.refusal("post_message", to="ci", text="and now?"))["code"] == "no_such_pod"
