"""Sessions over MCP: each way to come back, each reason not to, one holder at a time, and a plan to change hands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast
from unittest import mock

import pytest

from scrubjay.clock import SystemClock
from scrubjay.fleet.sessions import warn
from scrubjay.ids import SessionId
from scrubjay.store.events import Event, read_events
from scrubjay.tape.record import Json
from tests.support.conditions import until_asked
from tests.support.in_process_up import InProcessUp, open_in_process_up
from tests.support.mcp_client import MODERN_VERSION, Raw, connected, hello, result_of
from tests.up.agents import Agent, acquaint, open_agents

pytestmark = pytest.mark.anyio

_HANDSHAKE = "2025-06-18"
_UNKNOWN = "u" * 26
_DAY_US = 24 * 3600 * 1_000_000


class Visitor:
    """An agent outside pods over a connection of its own."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw

    async def result(self, tool: str, **arguments: object) -> Json:
        """The whole answer to a call."""
        return await self._raw.ask("tools/call", name=tool, arguments=arguments)

    async def call(self, tool: str, **arguments: object) -> Json:
        """What a tool answers; AssertionError if it is a refusal."""
        result = await self.result(tool, **arguments)
        assert not result.get("isError"), (tool, arguments, result["structuredContent"])
        return cast(Json, result["structuredContent"])

    async def refusal(self, tool: str, **arguments: object) -> Json:
        """Why a tool will not; AssertionError if it does."""
        result = await self.result(tool, **arguments)
        assert result.get("isError"), (tool, arguments, result["structuredContent"])
        return cast(Json, cast(Json, result["structuredContent"])["error"])

    async def leave(self) -> None:
        """End the connection as a client does that ends in good order."""
        assert (await self._raw.delete()).status_code == 200


@asynccontextmanager
async def visiting(
    up: InProcessUp, token: str, *, version: str = _HANDSHAKE, session: str | None = None, **headers: str
) -> AsyncGenerator[Visitor]:
    """Come over a new connection, with a session named in its header if there is one."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if session is not None:
        named["Scrubjay-Session"] = session
    async with connected(up.server.url, token) as http:
        http.headers.update(named)
        raw = Raw(http, version)
        await raw.open()
        yield Visitor(raw)


async def _token(up: InProcessUp, name: str) -> str:
    return await up.token("agent", name=name)


async def _events(up: InProcessUp, *kinds: str) -> list[Event]:
    events = await up.server.tower.database.read(lambda connection: read_events(connection, limit=100_000))
    return [event for event in events if event.kind in kinds]


def _sequence(answer: Json) -> list[object]:
    return [memory["seq"] for memory in cast(list[Json], answer["memories"])]


@asynccontextmanager
async def _silence(up: InProcessUp) -> AsyncGenerator[None]:
    """Let all that was heard of anybody be long ago."""
    heartbeats = up.server.coordination.sessions.heartbeats
    with mock.patch.object(heartbeats, "lease_us", 0):
        yield


# Coming back.


@pytest.mark.parametrize("version", [_HANDSHAKE, MODERN_VERSION])
async def test_an_agent_that_comes_back_goes_on_numbering_where_it_was(up: InProcessUp, version: str) -> None:
    token = await _token(up, f"returner-{version}")
    async with visiting(up, token, version=version, Scrubjay_Connection="one") as first:
        begun = await first.call("add_memory", prompt="one")
        assert (begun["seq"], begun["new_session"]) == (1, True)
        assert "warning" not in await first.call("add_memory", prompt="two")
        session = str(begun["session_id"])

    async with visiting(up, token, version=version, Scrubjay_Connection="two") as second:
        back = await second.call("resume_session", session_id=session, takeover=True)
        assert (back["resumed"], back["session_id"], back["requested_id"]) == (True, session, session)
        assert (back["last_seq"], back["epoch"]) == (2, 2)
        assert "warning" not in back
        assert _sequence(back) == [1, 2]
        added = await second.call("add_memory", prompt="three")
        assert (added["session_id"], added["seq"], added["epoch"]) == (session, 3, 2)
        assert _sequence(await second.call("get_session_memories")) == [1, 2, 3]


@pytest.mark.parametrize("version", [_HANDSHAKE, MODERN_VERSION])
@pytest.mark.parametrize("carrier", ["header", "query", "meta"])
async def test_a_session_that_is_named_by_the_connection_needs_no_tool_to_come_back(
    up: InProcessUp, version: str, carrier: str
) -> None:
    token = await _token(up, f"{carrier}-{version}")
    async with visiting(up, token) as first:
        session = str((await first.call("add_memory", prompt="one"))["session_id"])
        await first.leave()

    async with connected(up.server.url, token) as http:
        if carrier == "header":
            http.headers["Scrubjay-Session"] = session
        elif carrier == "query":
            http.params = http.params.set("session", session)
        raw = Raw(http, version)
        if carrier == "meta" and version == _HANDSHAKE:
            response = await raw.post(hello(version, _meta={"dev.scrubjay/session": session}))
            raw.session = response.headers["mcp-session-id"]
            result_of(response)
        else:
            await raw.open()
        visitor = Visitor(raw)
        given = {"session_id": session} if carrier == "meta" and version == MODERN_VERSION else {}
        added = await visitor.call("add_memory", prompt="two", **given)

        assert (added["session_id"], added["seq"]) == (session, 2)
        assert "warning" not in added
        assert added["epoch"] == 2


@pytest.mark.parametrize("version", [_HANDSHAKE, MODERN_VERSION])
async def test_a_connection_that_names_a_session_in_vain_is_told_so_with_each_answer(
    up: InProcessUp, version: str
) -> None:
    token = await _token(up, f"vain-{version}")
    async with visiting(up, token, version=version, session=_UNKNOWN) as visitor:
        for seq in (1, 2):
            added = await visitor.call("add_memory", prompt="hello")

            new = SessionId(str(added["session_id"]))
            assert (added["seq"], added["new_session"], added["requested_id"]) == (seq, True, _UNKNOWN)
            assert added["warning"] == warn("not_found", _UNKNOWN, new)
        refused = await _events(up, "session.refused")
        assert [event.data["session"] for event in refused if event.data["requested"] == _UNKNOWN].count(new) == 1


async def test_the_first_carrier_counts_and_one_that_is_refused_is_never_skipped(up: InProcessUp) -> None:
    token = await _token(up, "carrier")
    async with visiting(up, token) as other:
        of_header = str((await other.call("add_memory", prompt="of the header"))["session_id"])
        await other.leave()
    async with visiting(up, token) as other:
        of_argument = str((await other.call("add_memory", prompt="of the argument"))["session_id"])
        await other.leave()

    async with visiting(up, token, session=of_header) as visitor:
        assert (await visitor.call("add_memory", prompt="a", session_id=of_argument))["session_id"] == of_argument
        assert (await visitor.call("add_memory", prompt="b"))["session_id"] == of_header
        refused = await visitor.refusal("add_memory", prompt="c", session_id=_UNKNOWN)
        assert refused["code"] == "no_such_session"
        assert (await visitor.call("get_session_memories", session_id=of_header))["last_seq"] == 2


async def test_what_is_resumed_by_a_tool_counts_from_then_on_whatever_the_connection_was_made_for(
    up: InProcessUp,
) -> None:
    token = await _token(up, "changer")
    made: list[str] = []
    for _ in range(2):
        async with visiting(up, token) as other:
            made.append(str((await other.call("add_memory", prompt="one"))["session_id"]))
            await other.leave()
    async with visiting(up, token, session=made[0]) as visitor:
        assert (await visitor.call("add_memory", prompt="two"))["session_id"] == made[0]
        await visitor.call("resume_session", session_id=made[1])
        assert (await visitor.call("add_memory", prompt="two"))["session_id"] == made[1]
        refused = await visitor.call("resume_session", session_id="nonsense")
        added = await visitor.call("add_memory", prompt="one")
        assert (added["session_id"], added["warning"]) == (refused["session_id"], refused["warning"])
        again = await visitor.call("resume_session")
        assert (again["resumed"], again["reason"], again["requested_id"]) == (False, "malformed", "nonsense")


async def test_a_connection_may_say_that_it_takes_its_session_over_which_it_does_once(up: InProcessUp) -> None:
    token = await _token(up, "restarted")
    async with visiting(up, token) as dead:
        session = str((await dead.call("add_memory", prompt="one"))["session_id"])
        async with visiting(up, token, session=session) as polite:
            assert (await polite.call("add_memory", prompt="lost"))["session_id"] != session
        async with visiting(up, token, session=session, Scrubjay_Takeover="true") as heir:
            assert (await heir.call("add_memory", prompt="two"))["seq"] == 2
            async with visiting(up, token, session=session, Scrubjay_Takeover="1") as second:
                assert (await second.call("add_memory", prompt="three"))["seq"] == 3
                assert (await heir.refusal("add_memory", prompt="four"))["code"] == "fenced"  # it does not fight back


async def test_who_is_in_no_session_reads_none_and_begins_none(up: InProcessUp) -> None:
    token = await _token(up, "newcomer")
    async with visiting(up, token) as visitor:
        for tool in ("get_session_memories", "get_summary", "finish_session"):
            assert (await visitor.refusal(tool))["code"] == "not_in_session"
        assert (await visitor.call("list_sessions", include_all=True))["sessions"] == []

        fresh = await visitor.call("resume_session")

        assert (fresh["resumed"], fresh["reason"], fresh["last_seq"]) == (False, "new", 0)
        assert (await visitor.call("resume_session"))["session_id"] == fresh["session_id"]


# Why not.


async def test_each_refusal_says_its_reason_opens_a_session_and_is_kept(up: InProcessUp) -> None:
    token = await _token(up, "refused")
    async with visiting(up, token) as holder, visiting(up, token) as owner:
        held = str((await holder.call("add_memory", prompt="mine"))["session_id"])
        finished = str((await owner.call("add_memory", prompt="done"))["session_id"])
        await owner.call("finish_session", reason="all done")
        async with visiting(up, await _token(up, "stranger")) as stranger:
            foreign = str((await stranger.call("add_memory", prompt="theirs"))["session_id"])

        for raw, reason in (
            ("not an id", "malformed"),
            ("", "malformed"),
            ("x" * 200, "malformed"),
            (_UNKNOWN, "not_found"),
            (foreign, "not_found"),
            (held, "held"),
            (finished, "finished"),
        ):
            async with visiting(up, token) as visitor:
                answer = await visitor.call("resume_session", session_id=raw)

                assert (answer["resumed"], answer["reason"], answer["requested_id"]) == (False, reason, raw), raw
                assert answer["last_seq"] == 0
                assert str(answer["warning"]).startswith("NOT RESUMED: ")
                new = str(answer["session_id"])
                assert new not in (held, finished, foreign)
                assert new in str(answer["warning"])
                added = await visitor.call("add_memory", prompt="goes on")
                assert (added["session_id"], added["seq"]) == (new, 1)
                assert added["warning"] == answer["warning"]
                [told] = [event for event in await _events(up, "session.refused") if event.data["session"] == new]
                assert (told.data["reason"], told.data["requested"]) == (reason, raw[:100])
                assert told.data["by"] == "refused"


async def test_who_is_refused_again_and_again_stays_in_one_new_session(up: InProcessUp) -> None:
    token = await _token(up, "stubborn")
    async with visiting(up, token) as visitor:
        answers = [await visitor.call("resume_session", session_id=_UNKNOWN) for _ in range(3)]

        assert len({str(answer["session_id"]) for answer in answers}) == 1
        await visitor.call("add_memory", prompt="used")
        again = await visitor.call("resume_session", session_id=_UNKNOWN)
        assert again["session_id"] != answers[0]["session_id"]  # what has something in it is not made another


async def test_a_finished_session_is_reopened_only_when_that_is_asked_for(up: InProcessUp) -> None:
    token = await _token(up, "finisher")
    async with visiting(up, token) as visitor:
        session = str((await visitor.call("add_memory", prompt="one"))["session_id"])
        done = await visitor.call("finish_session")
        assert done["state"] == "finished"
        assert (await visitor.refusal("add_memory", prompt="late", session_id=session))["code"] == "session_finished"
        taken = await visitor.call("resume_session", session_id=session, takeover=True)
        assert taken["reason"] == "finished"

        back = await visitor.call("resume_session", session_id=session, reopen=True)

        assert (back["resumed"], back["last_seq"]) == (True, 1)
        assert (await visitor.call("add_memory", prompt="two"))["seq"] == 2


async def test_a_session_that_was_left_alone_for_long_has_expired_and_can_be_reopened(tmp_path: Path) -> None:
    async with open_in_process_up(tmp_path) as up:  # of its own, for its clock does not go back
        await _expire(up)


async def _expire(up: InProcessUp) -> None:
    token = await _token(up, "traveller")
    async with visiting(up, token) as visitor:
        session = str((await visitor.call("add_memory", prompt="one"))["session_id"])
        await visitor.leave()
    later = SystemClock().wall_us() + 31 * _DAY_US
    with mock.patch.object(SystemClock, "wall_us", return_value=later):
        async with visiting(up, token) as visitor:
            answer = await visitor.call("resume_session", session_id=session)
            assert (answer["resumed"], answer["reason"]) == (False, "expired")
            refused = await visitor.refusal("add_memory", prompt="late", session_id=session)
            assert refused["code"] == "session_expired"
            back = await visitor.call("resume_session", session_id=session, reopen=True)
            assert (back["resumed"], back["last_seq"]) == (True, 1)


# One at a time.


async def test_a_second_connection_is_refused_until_the_first_leaves_or_lapses(up: InProcessUp) -> None:
    token = await _token(up, "pair")
    async with visiting(up, token) as first, visiting(up, token) as second:
        session = str((await first.call("add_memory", prompt="one"))["session_id"])
        held = await second.call("resume_session", session_id=session)
        assert held["reason"] == "held"
        assert "session " + session + " is held by pair, and is free 60 s after" in str(held["warning"])

        await first.leave()

        assert (await second.call("resume_session", session_id=session))["resumed"] is True


async def test_who_was_silent_for_too_long_holds_nothing_and_goes_on_if_nobody_came(up: InProcessUp) -> None:
    token = await _token(up, "silent")
    async with visiting(up, token) as first:
        session = str((await first.call("add_memory", prompt="one"))["session_id"])
        async with _silence(up):
            await _until_suspended(up, session)

        added = await first.call("add_memory", prompt="two")

        assert (added["session_id"], added["seq"], added["epoch"]) == (session, 2, 1)


async def test_a_late_write_after_a_lost_lease_is_refused_and_not_kept(up: InProcessUp) -> None:
    token = await _token(up, "late")
    async with visiting(up, token) as first, visiting(up, token) as second:
        session = str((await first.call("add_memory", prompt="one"))["session_id"])
        async with _silence(up):
            await _until_suspended(up, session)
        assert (await second.call("resume_session", session_id=session))["epoch"] == 2

        for arguments in ({}, {"session_id": session}):
            refused = await first.refusal("add_memory", prompt="late", **arguments)
            assert refused["code"] == "fenced"
        await second.leave()  # and after the other has left it is still lost
        assert (await first.refusal("add_memory", prompt="late"))["code"] == "fenced"

        back = await first.call("resume_session", session_id=session)
        assert (back["resumed"], back["epoch"], back["last_seq"]) == (True, 3, 1)


async def test_who_is_taken_over_from_is_fenced_at_once_and_does_not_get_it_back_by_writing(up: InProcessUp) -> None:
    token = await _token(up, "taken")
    async with visiting(up, token) as first, visiting(up, token) as second:
        session = str((await first.call("add_memory", prompt="one"))["session_id"])
        assert (await second.call("resume_session", session_id=session, takeover=True))["epoch"] == 2
        for _ in range(3):
            assert (await first.refusal("add_memory", prompt="mine"))["code"] == "fenced"
        assert (await second.call("add_memory", prompt="two"))["seq"] == 2
        [event] = [e for e in await _events(up, "session.taken_over") if e.data["session"] == session]
        assert event.data["epoch"] == 2


async def test_an_epoch_that_is_said_must_be_the_one_there_is(up: InProcessUp) -> None:
    token = await _token(up, "modern")
    async with (
        visiting(up, token, version=MODERN_VERSION) as first,
        visiting(up, token, version=MODERN_VERSION) as second,
    ):
        session = str((await first.call("add_memory", prompt="one"))["session_id"])
        assert (await second.call("resume_session", session_id=session))["epoch"] == 2
    async with visiting(up, token, version=MODERN_VERSION, Scrubjay_Epoch="1") as zombie:
        assert (await zombie.refusal("add_memory", prompt="late"))["code"] == "fenced"
    async with visiting(up, token, version=MODERN_VERSION, Scrubjay_Epoch="2") as holder:
        assert (await holder.call("add_memory", prompt="two"))["seq"] == 2


async def test_whom_a_person_takes_a_session_from_has_to_ask_for_it_again(up: InProcessUp) -> None:
    token = await _token(up, "released")
    async with visiting(up, token) as visitor:
        session = str((await visitor.call("add_memory", prompt="one"))["session_id"])
        released = await up.post(f"/api/v1/sessions/{session}/release", {})
        assert (released["state"], released["held_by"]) == ("suspended", None)

        assert (await visitor.refusal("add_memory", prompt="two"))["code"] == "fenced"

        assert (await visitor.call("resume_session", session_id=session))["epoch"] == 2
    pod = await up.start("cat", name="keeps")
    refused = await up.http.post(f"/api/v1/sessions/{pod.session}/release", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "lease_held")
    assert "scrubjay stop keeps" in refused.json()["error"]["hint"]
    await up.stop(pod)


async def _until_suspended(up: InProcessUp, session: str) -> None:
    async def is_suspended() -> bool:
        return any(event.data["session"] == session for event in await _events(up, "session.suspended"))

    await until_asked(is_suspended, "nobody holds it")


# Lists, summaries, handing over.


async def test_the_list_has_ones_own_resumable_sessions_last_used_first_with_what_each_was_doing(
    up: InProcessUp,
) -> None:
    token = await _token(up, "lister")
    made: list[str] = []
    for prompt in ("fix the door", "paint the wall"):
        async with visiting(up, token) as visitor:
            added = await visitor.call("add_memory", prompt=prompt, response=f"{prompt}: done")
            made.append(str(added["session_id"]))
            await visitor.leave()
    async with visiting(up, token) as visitor:
        listed = cast(list[Json], (await visitor.call("list_sessions"))["sessions"])

        assert [session["session_id"] for session in listed] == made[::-1]
        assert [session["last_prompt"] for session in listed] == ["paint the wall", "fix the door"]
        assert {session["state"] for session in listed} == {"suspended"}
        await visitor.call("resume_session", session_id=made[0])
        first, *_ = cast(list[Json], (await visitor.call("list_sessions"))["sessions"])
        assert (first["session_id"], first["current"]) == (made[0], True)
        async with visiting(up, token) as other:
            assert made[0] not in str(await other.call("list_sessions"))
            everything = cast(list[Json], (await other.call("list_sessions", include_all=True))["sessions"])
            [held] = [each for each in everything if each["session_id"] == made[0]]
            assert (held["resumable"], held["why_not"], held["held_by"]) == (False, "held", "lister")


async def test_a_person_sees_all_sessions_as_they_are_and_as_they_were(up: InProcessUp) -> None:
    token = await _token(up, "seen")
    async with visiting(up, token) as visitor:
        session = str((await visitor.call("add_memory", prompt="first"))["session_id"])
        then = up.server.tower.clock.wall_us()
        await asyncio.sleep(0.01)
        await visitor.call("add_memory", prompt="second")
        await visitor.leave()

    async def seen(**query: str) -> Json:
        listed = cast(list[Json], await up.get("/api/v1/sessions", **query))
        [found] = [each for each in listed if each["session_id"] == session]
        return found

    now, before = await seen(), await seen(at=str(then))
    assert (now["state"], now["last_seq"], now["last_prompt"]) == ("suspended", 2, "second")
    assert (before["state"], before["last_seq"], before["last_prompt"]) == ("open", 1, "first")
    assert now["resumable"] is True
    assert before["resumable"] is None


async def test_what_looks_like_a_key_is_not_kept(up: InProcessUp) -> None:
    token = await _token(up, "leaky")
    key = "sk-ant-api03-" + "a1B2c3D4e5F6g7H8" * 5
    async with visiting(up, token) as visitor:
        await visitor.call("add_memory", prompt=f"use {key} for it", response="done")
        told = str(await visitor.call("get_session_memories"))
        assert key not in told
        assert "use " in told


async def test_a_page_of_memories_leads_to_the_next_and_the_last_to_none(up: InProcessUp) -> None:
    token = await _token(up, "reader-of-pages")
    async with visiting(up, token) as visitor:
        for number in range(5):
            await visitor.call("add_memory", prompt=f"plum {number}")
        seen, cursor = list[object](), None
        while True:
            page = await visitor.call("get_session_memories", limit=2, cursor=cursor)
            seen += _sequence(page)
            cursor = page.get("cursor")
            if cursor is None:
                break
        assert seen == [1, 2, 3, 4, 5]
        found = await visitor.call("query_raw_memories", query="plum", limit=3)
        rest = await visitor.call("query_raw_memories", query="plum", limit=3, cursor=found["cursor"])
        assert _sequence(found) + _sequence(rest) == [5, 4, 3, 2, 1]
        assert "cursor" not in rest
        assert (await visitor.refusal("get_session_memories", cursor="x"))["code"] == "bad_input"


async def test_a_page_holds_no_more_than_an_agent_can_read(up: InProcessUp) -> None:
    token = await _token(up, "verbose")
    async with visiting(up, token) as visitor:
        for _ in range(5):
            await visitor.call("add_memory", prompt="x" * 90_000)

        page = await visitor.call("get_session_memories")

        assert _sequence(page) == [1, 2]
        assert _sequence(await visitor.call("get_session_memories", cursor=page["cursor"])) == [3, 4]


async def test_what_is_too_large_is_refused_and_takes_no_number(up: InProcessUp) -> None:
    token = await _token(up, "large")
    async with visiting(up, token) as visitor:
        refused = await visitor.refusal("add_memory", prompt="x" * 100_001)
        assert (refused["code"], "prompt" in str(refused["message"])) == ("bad_arguments", True)
        assert (await visitor.refusal("add_memory"))["code"] == "bad_input"
        assert (await visitor.call("add_memory", prompt="fits"))["seq"] == 1


async def test_a_summary_covers_what_has_none_and_the_same_again_changes_nothing(up: InProcessUp) -> None:
    token = await _token(up, "summer-up")
    async with visiting(up, token) as visitor:
        for number in range(3):
            await visitor.call("add_memory", prompt=f"step {number}")
        saved = await visitor.call("save_summary", text="three steps")
        assert (saved["from_seq"], saved["to_seq"]) == (1, 3)
        assert await visitor.call("save_summary", text="three steps") == saved
        await visitor.call("add_memory", prompt="step 3")
        assert (await visitor.call("save_summary", text="and one more"))["from_seq"] == 4

        told = await visitor.call("get_summary")

        assert [each["text"] for each in cast(list[Json], told["summaries"])] == ["three steps", "and one more"]
        assert (told["covered_to_seq"], told["last_seq"]) == (4, 4)
        back = await visitor.call("resume_session", session_id=saved["session_id"])
        assert cast(Json, back["summary"])["text"] == "and one more"


async def test_a_session_that_is_handed_over_is_the_takers_and_the_givers_no_more(up: InProcessUp) -> None:
    async with open_agents(up, "giver", "heir") as [giver, heir]:
        await acquaint(giver, heir, channel="family")
        for prompt in ("one", "two"):
            session = str((await giver.call("add_memory", prompt=prompt))["session_id"])
        assert session == giver.pod.session
        offered = await giver.call("handoff_session", to="heir", note="the tests are red")
        assert offered["session_id"] == session
        assert (await giver.call("add_memory", prompt="three"))["seq"] == 3  # until it is taken

        taken = await heir.call("accept_handoff", handoff=offered["id"])

        assert (taken["session_id"], taken["last_seq"], taken["note"]) == (session, 3, "the tests are red")
        added = await heir.call("add_memory", prompt="four")
        assert (added["session_id"], added["seq"], added["epoch"]) == (session, 4, taken["epoch"])
        assert (await giver.refusal("add_memory", prompt="five", session_id=session))["code"] == "no_such_session"
        moved = await giver.call("add_memory", prompt="five")
        assert (moved["new_session"], moved["requested_id"], moved["seq"]) == (True, session, 1)
        assert str(moved["warning"]).startswith("NOT RESUMED: ")
        assert await _texts(heir) == ["one", "two", "three", "four"]


async def _texts(agent: Agent) -> list[object]:
    return [memory["prompt"] for memory in cast(list[Json], (await agent.call("get_session_memories"))["memories"])]


# Pods.


async def test_a_pod_holds_its_session_while_it_runs_and_its_memories_know_where_on_the_tape_they_were(
    up: InProcessUp,
) -> None:
    async with open_agents(up, "worker") as [worker]:
        added = await worker.call("add_memory", prompt="one")
        assert (added["session_id"], added["seq"], added["epoch"]) == (worker.pod.session, 1, 1)
        [memory] = cast(list[Json], (await worker.call("get_session_memories"))["memories"])
        tape = cast(Json, memory["tape"])
        assert tape["pod"] == worker.pod.id
        assert 0 <= cast(int, tape["offset"]) <= worker.pod.tape().end
        assert cast(int, tape["at"]) > 0
        resumed = await worker.call("resume_session", session_id=worker.pod.session)
        assert (resumed["resumed"], resumed["epoch"]) == (True, 1)  # it has it all the time
        await up.stop(worker.pod)
        [event] = [e for e in await _events(up, "session.suspended") if e.data["session"] == worker.pod.session]
        assert event.data["why"] == "exited 143"


async def test_an_agent_that_may_read_a_terminal_finds_its_memories_and_no_others(up: InProcessUp) -> None:
    async with open_agents(up, "author", "fan", "nobody") as [author, fan, nobody]:
        await acquaint(author, fan, nobody, channel="readers")
        await author.call("add_memory", prompt="the plum tree")
        binding = await fan.call("request_binding", pod="author", scopes=["terminal:read"])
        assert (await fan.call("query_raw_memories", query="plum"))["memories"] == []
        await author.call("answer_binding", binding=binding["id"], accept=True)

        assert _sequence(await fan.call("query_raw_memories", query="plum")) == [1]
        assert _sequence(await fan.call("query_raw_memories", query="plum", pod="author")) == [1]
        assert (await nobody.call("query_raw_memories", query="plum"))["memories"] == []
        refused = await fan.refusal("add_memory", prompt="graffiti", session_id=author.pod.session)
        assert refused["code"] == "no_such_session"
