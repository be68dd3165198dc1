"""Sessions and memories in the catalog: numbered without a gap, found by what they say, as they were at any instant."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from scrubjay.errors import KeyReused
from scrubjay.fleet.memories import Instant, Memory, Turn
from scrubjay.fleet.parties import Party
from scrubjay.fleet.sessions import Holder, Session
from scrubjay.ids import PodId, SessionId
from scrubjay.query import matches, parse_query
from scrubjay.store.events import read_events
from scrubjay.store.memories import (
    Appending,
    append_memory,
    last_memories,
    last_memory_at,
    list_memories,
    memories_of_numbers,
)
from scrubjay.store.memory_text import Among, find_memories
from scrubjay.store.sessions import (
    Attachment,
    attach,
    attached,
    detach,
    find_session,
    find_sessions,
    finish,
    get_session,
    grant,
    held_sessions,
    list_sessions,
    open_session,
    put_back,
    renew,
    sessions_taken_by,
    suspend,
)
from tests.store.catalogs import START_US
from tests.support.catalogs import memory_catalog
from tests.support.tiers import sized

_ANN, _BOB = Party("agent:ann"), Party("agent:bob")
_ONE, _TWO = Holder("wire:token:ann:1"), Holder("wire:token:ann:2")
_POD = PodId("p" * 26)


@pytest.fixture
def catalog() -> Generator[Connection]:
    with memory_catalog() as connection:
        yield connection


def _open(catalog: Connection, owner: Party = _ANN, holder: Holder = _ONE, *, at: int = 0) -> Session:
    return open_session(catalog, owner=owner, holder=holder, held_by=owner, agent=owner, wall_us=START_US + at)


def _append(
    catalog: Connection,
    session: SessionId,
    prompt: str,
    *,
    key: str | None = None,
    at: int = 0,
    pod: PodId | None = None,
) -> Memory:
    tape = None if pod is None else Instant(pod, 5, 10)
    how = Appending(session, 1, "agent", agent="ann", key=key, tape=tape)
    return append_memory(catalog, Turn(prompt), how, wall_us=START_US + at)[0]


def _kinds(catalog: Connection) -> list[str]:
    return [event.kind for event in read_events(catalog)]


# Leases.


def test_each_grant_raises_the_epoch_and_nothing_else_does(catalog: Connection) -> None:
    session = _open(catalog)
    assert (session.state, session.epoch, session.holder) == ("open", 1, _ONE)

    session = suspend(catalog, session, why="it was left", wall_us=START_US)
    assert (session.state, session.epoch, session.holder, session.why) == ("suspended", 1, _ONE, "it was left")
    session = renew(catalog, session, wall_us=START_US)
    assert (session.state, session.epoch, session.holder) == ("open", 1, _ONE)
    session = grant(catalog, session, _TWO, held_by="ann", how="taken_over", wall_us=START_US)
    assert (session.state, session.epoch, session.holder) == ("open", 2, _TWO)
    session = finish(catalog, session, by="ann", why="done", wall_us=START_US)
    assert (session.state, session.epoch) == ("finished", 2)
    session = grant(catalog, session, _ONE, held_by="ann", how="reopened", wall_us=START_US)
    assert (session.state, session.epoch) == ("open", 3)
    told = ["opened", "suspended", "renewed", "taken_over", "finished", "reopened"]
    assert _kinds(catalog) == [f"session.{word}" for word in told]


def test_who_had_a_session_is_known_of_any_instant(catalog: Connection) -> None:
    session = _open(catalog)
    suspend(catalog, session, why="it was left", wall_us=START_US + 10)
    grant(catalog, get_session(catalog, session.id), _TWO, held_by="ann", how="resumed", wall_us=START_US + 20)

    def at(instant: int) -> list[tuple[str, int, str | None]]:
        return [(each.state, each.epoch, each.holder) for each in list_sessions(catalog, at_us=START_US + instant)]

    assert at(-1) == []
    assert at(0) == [("open", 1, _ONE)]
    assert at(10) == at(19) == [("suspended", 1, _ONE)]
    assert at(20) == [("open", 2, _TWO)]


def test_a_grant_that_came_to_nothing_is_put_back_but_for_its_epoch(catalog: Connection) -> None:
    before = suspend(catalog, _open(catalog), why="exited 1", wall_us=START_US)
    grant(catalog, before, _TWO, held_by="ann", how="resumed", wall_us=START_US)

    put_back(catalog, before, why="the agent is not here", wall_us=START_US)

    after = get_session(catalog, before.id)
    assert (after.state, after.holder, after.why, after.epoch) == ("suspended", _ONE, "exited 1", 2)


def test_what_somebody_else_has_got_since_is_not_put_back(catalog: Connection) -> None:
    before = suspend(catalog, _open(catalog), why="exited 1", wall_us=START_US)
    for holder in (_TWO, _ONE):
        session = get_session(catalog, before.id)
        grant(catalog, session, holder, held_by="ann", how="taken_over", wall_us=START_US)

    put_back(catalog, before, why="the agent is not here", wall_us=START_US)

    after = get_session(catalog, before.id)
    assert (after.state, after.holder, after.epoch) == ("open", _ONE, 3)


def test_a_session_that_is_handed_over_has_another_owner(catalog: Connection) -> None:
    session = _open(catalog)

    grant(catalog, session, _TWO, held_by="bob", how="handed_over", owner=_BOB, wall_us=START_US)

    assert list_sessions(catalog, owner=_ANN) == []
    assert [each.id for each in list_sessions(catalog, owner=_BOB)] == [session.id]
    assert sessions_taken_by(catalog, _BOB) == [session.id]


def test_sessions_are_listed_last_used_first_each_to_its_owner(catalog: Connection) -> None:
    first, second, bobs = _open(catalog), _open(catalog, at=1), _open(catalog, _BOB, at=2)
    _append(catalog, first.id, "newer", at=3)

    assert [each.id for each in list_sessions(catalog, owner=_ANN)] == [first.id, second.id]
    assert [each.id for each in list_sessions(catalog)] == [first.id, bobs.id, second.id]
    assert [each.id for each in list_sessions(catalog, limit=1)] == [first.id]
    assert {each.id for each in held_sessions(catalog)} == {first.id, second.id, bobs.id}


def test_a_session_is_found_by_its_id_and_by_a_beginning(catalog: Connection) -> None:
    session = _open(catalog)

    assert find_session(catalog, session.id) == session
    assert find_session(catalog, session.id[:5]) is None
    assert find_sessions(catalog, session.id[:9]) == [session]
    assert find_sessions(catalog, "") == [session]
    assert find_sessions(catalog, "zz") == []


def test_a_connection_is_in_one_session_until_it_is_detached_or_forgotten(catalog: Connection) -> None:
    one, two = _open(catalog), _open(catalog)
    attach(catalog, _ONE, Attachment(one.id), wall_us=START_US)
    refused = Attachment(two.id, "a parameter", "x", "malformed", "no")
    attach(catalog, _ONE, refused, wall_us=START_US)
    assert attached(catalog, _ONE) == refused
    assert attached(catalog, _TWO) is None

    attach(catalog, _TWO, Attachment(one.id), wall_us=START_US + 31 * 24 * 3600 * 1_000_000)
    assert attached(catalog, _ONE) is None
    detach(catalog, _TWO)
    assert attached(catalog, _TWO) is None


# Memories.


def test_memories_are_numbered_from_1_without_a_gap_in_each_session(catalog: Connection) -> None:
    one, two = _open(catalog), _open(catalog)

    numbers = [_append(catalog, session.id, f"turn {n}").seq for n in range(3) for session in (one, two)]

    assert numbers == [1, 1, 2, 2, 3, 3]
    assert [memory.seq for memory in list_memories(catalog, one.id)] == [1, 2, 3]
    assert [memory.seq for memory in list_memories(catalog, one.id, after=1, limit=1)] == [2]
    assert [memory.seq for memory in last_memories(catalog, one.id, limit=2)] == [2, 3]
    assert get_session(catalog, one.id).last_seq == 3


def test_a_memory_keeps_all_that_it_is_told(catalog: Connection) -> None:
    session = _open(catalog)
    turn = Turn("p\0\ud800", "t", "r \U0001f426", "model-1", ("grep", "edit"), 123)
    how = Appending(session.id, 4, "hook", agent="claude", key="k", tape=Instant(_POD, 7, 9))

    memory, new = append_memory(catalog, turn, how, wall_us=START_US)

    assert new
    assert list_memories(catalog, session.id) == [memory]
    assert (memory.turn, memory.source, memory.epoch, memory.agent, memory.key) == (turn, "hook", 4, "claude", "k")
    assert memory.tape == Instant(_POD, 7, 9)
    added = read_events(catalog)[-1]
    assert (added.kind, added.number, added.pod) == ("memory.added", memory.number, _POD)
    assert added.data == {"session": session.id, "seq": 1, "source": "hook"}


def test_the_same_key_appends_once_and_another_text_under_it_is_refused(catalog: Connection) -> None:
    session, other = _open(catalog), _open(catalog)
    first = _append(catalog, session.id, "once", key="k")

    again = append_memory(catalog, Turn("once"), Appending(session.id, 9, "agent", key="k"), wall_us=START_US + 5)
    assert again == (first, False)
    with pytest.raises(KeyReused) as caught:
        _append(catalog, session.id, "something else", key="k")
    assert caught.value.seq == 1

    assert _append(catalog, other.id, "once", key="k").seq == 1  # a key is of one session
    assert _append(catalog, session.id, "next").seq == 2


def test_the_last_memory_of_an_instant_is_the_one_there_was(catalog: Connection) -> None:
    session = _open(catalog)
    for at in (1, 2, 3):
        _append(catalog, session.id, f"turn {at}", at=at)

    seen = [last_memory_at(catalog, session.id, at_us=START_US + at) for at in (0, 1, 2, 9)]

    assert [memory.seq if memory is not None else None for memory in seen] == [None, 1, 2, 3]


_Step = tuple[int, str, int]
_steps = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["add", "again", "undo"]), st.integers(0, 3)), max_size=40
)


@settings(deadline=None, max_examples=sized(20, 60, 2000))
@given(_steps)
def test_whatever_is_appended_repeated_or_undone_each_sequence_has_no_gap(steps: list[_Step]) -> None:
    with memory_catalog() as catalog:
        sessions = [_open(catalog).id for _ in range(3)]
        wanted: dict[SessionId, list[str]] = {session: [] for session in sessions}
        for number, (which, what, key) in enumerate(steps):
            session = sessions[which]
            if what == "undo":
                nested = catalog.begin_nested()
                _append(catalog, session, f"undone {number}")
                nested.rollback()
            elif what == "again" and f"k{key}" in wanted[session]:
                _append(catalog, session, f"k{key}", key=f"k{key}")
            elif f"k{key}" not in wanted[session]:
                _append(catalog, session, f"k{key}", key=f"k{key}")
                wanted[session].append(f"k{key}")
        for session in sessions:
            kept = list_memories(catalog, session)
            assert [memory.seq for memory in kept] == list(range(1, len(kept) + 1))
            assert [memory.turn.prompt for memory in kept] == wanted[session]
            assert get_session(catalog, session).last_seq == len(kept)


# Finding.

_PLUM = parse_query("plum")


def _found(catalog: Connection, raw: str, among: Among | None = None, *, limit: int = 100) -> list[str]:
    numbers = find_memories(catalog, parse_query(raw), among if among is not None else Among(), limit=limit)
    return [memory.turn.prompt for memory in memories_of_numbers(catalog, numbers)]


def test_memories_are_found_by_what_they_say_newest_first(catalog: Connection) -> None:
    session = _open(catalog).id
    for prompt in ("the red fox", "a red panda", "fox and hound, red alike", "\u4e2d\u6587 text"):
        _append(catalog, session, prompt)

    assert _found(catalog, "red") == ["fox and hound, red alike", "a red panda", "the red fox"]
    assert _found(catalog, '"red fox"') == ["the red fox"]
    assert _found(catalog, "pan*") == ["a red panda"]
    assert _found(catalog, "red -fox") == ["a red panda"]
    assert _found(catalog, "\u6587") == ["\u4e2d\u6587 text"]
    assert _found(catalog, "session") == []  # whose and where is not what it says
    assert _found(catalog, "red", limit=1) == ["fox and hound, red alike"]


def test_thoughts_and_responses_are_found_too(catalog: Connection) -> None:
    session = _open(catalog).id
    how = Appending(session, 1, "agent")
    append_memory(catalog, Turn("p", "because of plums", "planted"), how, wall_us=START_US)

    assert _found(catalog, "plums planted") == ["p"]


def test_a_search_keeps_to_sessions_pods_agents_and_times(catalog: Connection) -> None:
    one, two = _open(catalog).id, _open(catalog, _BOB).id
    _append(catalog, one, "plum 1", at=10)
    _append(catalog, two, "plum 2", at=20, pod=_POD)
    append_memory(catalog, Turn("plum 3"), Appending(one, 1, "agent", agent="bob"), wall_us=START_US + 30)

    assert _found(catalog, "plum", Among([one])) == ["plum 3", "plum 1"]
    assert _found(catalog, "plum", Among([one, two])) == ["plum 3", "plum 2", "plum 1"]
    assert _found(catalog, "plum", Among([])) == []
    assert _found(catalog, "plum", Among(pods=[_POD])) == ["plum 2"]
    assert _found(catalog, "plum", Among(agent="bob")) == ["plum 3"]
    assert _found(catalog, "plum -2", Among([one, two], agent="ann")) == ["plum 1"]
    assert _found(catalog, "plum", Among(since_us=START_US + 20)) == ["plum 3", "plum 2"]
    assert _found(catalog, "plum", Among(until_us=START_US + 20)) == ["plum 2", "plum 1"]
    assert _found(catalog, "plum", Among(since_us=START_US + 11, until_us=START_US + 29)) == ["plum 2"]
    assert _found(catalog, "plum", Among(since_us=START_US + 31)) == []


def test_pages_follow_one_another_without_a_gap_or_a_repetition(catalog: Connection) -> None:
    session = _open(catalog).id
    for number in range(7):
        _append(catalog, session, f"plum {number}")
    query, before, pages = parse_query("plum"), None, list[list[int]]()
    while page := find_memories(catalog, query, Among(before=before), limit=3):
        pages.append(page)
        before = page[-1]
        _append(catalog, session, "plum, written while somebody turns pages")

    prompts = [memory.turn.prompt for page in pages for memory in memories_of_numbers(catalog, page)]
    assert prompts == [f"plum {number}" for number in range(6, -1, -1)]


def test_a_party_finds_what_is_its_own_and_what_it_took_over_and_nothing_it_gave_away(catalog: Connection) -> None:
    mine = [_open(catalog).id for _ in range(3)]
    theirs = [_open(catalog, _BOB).id for _ in range(2)]
    given, taken, lent = mine[0], theirs[0], theirs[1]
    for number in range(30):
        session = (*mine, *theirs)[number % 5]
        _append(catalog, session, f"{'plum' if number % 3 else 'pear'} {number}")
    for session, holder, owner in ((given, _TWO, _BOB), (taken, _ONE, _ANN)):
        grant(
            catalog,
            get_session(catalog, session),
            holder,
            held_by="x",
            how="handed_over",
            owner=owner,
            wall_us=START_US,
        )
    _append(catalog, given, "plum, written by the other")
    _append(catalog, taken, "plum, written by me")
    assert sessions_taken_by(catalog, _ANN) == [taken]

    def pages(*besides: SessionId) -> list[int]:
        found, before = list[int](), None
        sessions = [*sessions_taken_by(catalog, _ANN), *besides]
        while page := find_memories(catalog, _PLUM, Among(sessions, _ANN, before=before), limit=3):
            found += page
            before = page[-1]
        return found

    def one_by_one(*sessions: SessionId) -> list[int]:
        found = (find_memories(catalog, _PLUM, Among([session]), limit=100) for session in sessions)
        return sorted((number for numbers in found for number in numbers), reverse=True)

    assert pages() == one_by_one(mine[1], mine[2], taken)
    assert pages(lent) == one_by_one(mine[1], mine[2], taken, lent)


_words = st.lists(
    st.sampled_from(["red", "fox", "Fuchs", "plum-tree", "ünder", "x1", "\u4e2d"]), min_size=1, max_size=5
)


@settings(deadline=None, max_examples=sized(20, 60, 2000))
@given(
    st.lists(_words, max_size=8), st.sampled_from(["red", "fox", '"red fox"', "fu*", "red -fox", "under", "tree plum"])
)
def test_the_index_finds_what_a_reader_would(texts: list[list[str]], raw: str) -> None:
    with memory_catalog() as catalog:
        session = _open(catalog).id
        prompts = [" ".join(words) for words in texts]
        for prompt in prompts:
            _append(catalog, session, prompt)

        query = parse_query(raw)
        assert _found(catalog, raw) == [prompt for prompt in reversed(prompts) if matches(prompt, query)]
