"""Summaries in the catalog: each memory in at most one, whoever makes them, and whatever comes in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, update
from sqlalchemy.event import listen, remove

from scrubjay.errors import BadInput, ClaimLost, SummaryStale, SummaryUnfit
from scrubjay.fleet.memories import Turn, input_hash
from scrubjay.fleet.sessions import Holder, Session
from scrubjay.fleet.summaries import ATTEMPTS_MAX, PART_MAX, Job, Summary
from scrubjay.ids import SessionId
from scrubjay.store import schema, sessions
from scrubjay.store.events import read_events
from scrubjay.store.memories import Appending, append_memory, list_memories
from scrubjay.store.summaries import latest_summary, list_summaries, save_summary
from scrubjay.store.summary_claims import claim_job, complete_job, fail_job, give_job_back, has_work, renew_job
from scrubjay.store.summary_jobs import (
    ask_for_summary,
    cancel_all_pending,
    cancel_pending,
    covered_to,
    due_sessions,
    job_of,
    plan_jobs,
)
from tests.store.catalogs import Catalog
from tests.support.tiers import sized

_AFTER_US = 300
_CLAIM_US = 60
_LONG_US = 10_000_000_000  # longer than every delay
_ANN = Holder("connection:ann:1")


class _Work:
    """A session in a catalog, and a clock."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.now_us = 1_000
        self.id = sessions.open_session(connection, holder=_ANN, held_by="ann", wall_us=self.now_us).id

    @property
    def session(self) -> Session:
        return sessions.get_session(self.connection, self.id)

    @property
    def job(self) -> Job | None:
        return job_of(self.connection, self.id)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return [(each.from_seq, each.to_seq) for each in list_summaries(self.connection, self.id)]

    def add(self, count: int = 1, *, length: int = 5) -> None:
        for _ in range(count):
            how = Appending(self.id, self.session.epoch, "agent")
            text = f"turn {self.session.last_seq + 1}".ljust(length, ".")
            append_memory(self.connection, Turn(prompt=text), how, wall_us=self.now_us)

    def leave(self, for_us: int = _AFTER_US) -> None:
        sessions.suspend(self.connection, self.session, why="it was left", wall_us=self.now_us)
        self.now_us += for_us

    def finish(self) -> None:
        sessions.finish(self.connection, self.session, by="ann", why=None, wall_us=self.now_us)

    def resume(self) -> Job | None:
        cancelled = cancel_pending(self.connection, self.session, wall_us=self.now_us)
        sessions.grant(self.connection, self.session, _ANN, held_by="ann", how="resumed", wall_us=self.now_us)
        return cancelled

    def plan(self) -> list[Job]:
        return plan_jobs(self.connection, after_us=_AFTER_US, wall_us=self.now_us)

    def ask(self) -> Job | None:
        return ask_for_summary(self.connection, self.session, by="ann", wall_us=self.now_us)

    def claim(self, token: str = "one") -> Job | None:
        return claim_job(self.connection, token, claim_us=_CLAIM_US, after_us=_AFTER_US, wall_us=self.now_us)

    def complete(self, token: str = "one", text: str = "so") -> Summary:
        return complete_job(self.connection, token, text, made_by="test", model="m", wall_us=self.now_us)

    def fail(self, token: str = "one") -> Job | None:
        return fail_job(self.connection, token, "no model", wall_us=self.now_us)

    def save(self, text: str = "so", *, from_seq: int | None = None, to_seq: int | None = None) -> tuple[Summary, bool]:
        return save_summary(
            self.connection, self.session, text, from_seq=from_seq, to_seq=to_seq, made_by="ann", wall_us=self.now_us
        )

    def told(self, *kinds: str) -> list[tuple[str, object, object]]:
        events = read_events(self.connection, limit=10_000)
        return [
            (event.kind.removeprefix("summary."), event.data.get("from_seq"), event.data.get("to_seq"))
            for event in events
            if event.kind.startswith("summary.") and (not kinds or event.kind.removeprefix("summary.") in kinds)
        ]


@pytest.fixture
def work(connection: Connection) -> _Work:
    """A session with three memories."""
    work = _Work(connection)
    work.add(3)
    return work


# By the agent itself.


def test_what_an_agent_writes_is_kept_with_its_range_and_what_it_was_made_from(work: _Work) -> None:
    summary, new = work.save(" It was begun. ", to_seq=2)

    turns = [memory.turn for memory in list_memories(work.connection, work.id)]
    assert new
    assert summary == Summary(work.id, 1, 2, input_hash(turns[:2]), "It was begun.", "ann", None, work.now_us)
    assert latest_summary(work.connection, work.id) == summary
    assert covered_to(work.connection, work.id) == 2

    rest, new = work.save("And ended.")
    assert (rest.from_seq, rest.to_seq, new) == (3, 3, True)
    assert rest.input_hash == input_hash(turns[2:])
    assert list_summaries(work.connection, work.id) == [summary, rest]
    assert list_summaries(work.connection, work.id, limit=1) == [rest]
    assert list_summaries(work.connection, work.id, before=3) == [summary]
    assert work.told() == [("made", 1, 2), ("made", 3, 3)]


def test_the_same_range_again_is_answered_with_what_there_is(work: _Work) -> None:
    first, _ = work.save("so", to_seq=2)

    for again in (work.save("otherwise", to_seq=2), work.save("so", from_seq=1, to_seq=2)):
        assert again == (first, False)
    rest, _ = work.save("the rest")
    assert work.save("the rest") == (rest, False)
    assert work.told() == [("made", 1, 2), ("made", 3, 3)]


def test_what_is_covered_is_not_covered_again_and_nothing_is_left_out(work: _Work) -> None:
    work.save(to_seq=2)

    for from_seq, to_seq in ((None, 1), (1, 3), (2, 2)):
        with pytest.raises(SummaryUnfit):
            work.save(from_seq=from_seq, to_seq=to_seq)
    work.add()
    with pytest.raises(SummaryUnfit):
        work.save(from_seq=4, to_seq=4)
    for to_seq in (5, 0):
        with pytest.raises(BadInput):
            work.save(to_seq=to_seq)
    assert work.ranges == [(1, 2)]


def test_a_session_without_memories_has_nothing_to_summarise(connection: Connection) -> None:
    work = _Work(connection)

    with pytest.raises(BadInput, match="no memories yet"):
        work.save()
    assert work.ask() is None
    work.finish()
    assert work.plan() == []


# By a job.


def test_a_session_is_summarised_once_it_was_left_alone_for_long_enough(work: _Work) -> None:
    assert work.plan() == []
    work.leave(_AFTER_US - 1)
    assert work.plan() == []
    assert not has_work(work.connection, after_us=_AFTER_US, wall_us=work.now_us)

    work.now_us += 1
    assert has_work(work.connection, after_us=_AFTER_US, wall_us=work.now_us)
    (planned,) = work.plan()
    assert planned == work.job == Job(work.id, "pending", 1, 3, False, work.now_us, 0, work.now_us)
    assert work.plan() == []

    claimed = work.claim()
    assert claimed is not None
    assert claimed == work.job
    assert (claimed.state, claimed.attempts, claimed.part_to_seq) == ("running", 1, 3)
    assert not has_work(work.connection, after_us=_AFTER_US, wall_us=work.now_us)
    summary = work.complete(text="It is done.")

    assert (summary.from_seq, summary.to_seq, summary.made_by, summary.model) == (1, 3, "test", "m")
    assert summary.input_hash == claimed.input_hash
    assert work.job is None
    assert work.plan() == []
    assert work.told() == [("made", 1, 3)]


def test_a_session_that_is_finished_is_summarised_at_once(work: _Work) -> None:
    work.finish()

    assert [job.session for job in work.plan()] == [work.id]


def test_only_what_is_new_is_summarised_the_next_time(work: _Work) -> None:
    work.save(to_seq=2)
    work.leave()

    work.plan()
    work.claim()
    work.complete()

    assert work.ranges == [(1, 2), (3, 3)]


def test_a_resume_cancels_a_job_that_waits(work: _Work) -> None:
    work.leave()
    work.plan()

    cancelled = work.resume()
    assert cancelled is not None
    assert work.job is None
    assert work.claim() is None
    assert work.resume() is None
    assert work.told() == [("cancelled", 1, 3)]


def test_a_resume_while_it_is_made_lets_it_land_as_a_summary_of_its_range(work: _Work) -> None:
    work.leave()
    work.plan()
    work.claim()

    assert work.resume() is None
    work.add(2)
    summary = work.complete()

    assert (summary.from_seq, summary.to_seq) == (1, 3)
    assert work.job is None
    assert work.plan() == []
    work.leave()
    work.plan()
    work.claim()
    work.complete()
    assert work.ranges == [(1, 3), (4, 5)]
    assert work.told("cancelled") == []


def test_what_was_begun_and_did_not_succeed_is_not_begun_again_while_the_session_is_open(work: _Work) -> None:
    for give_up in (
        work.fail,
        lambda: give_job_back(work.connection, "one", wall_us=work.now_us),
    ):
        work.leave()
        work.plan()
        work.claim()
        work.resume()

        assert give_up() is None
        assert work.job is None
    assert work.told() == [("cancelled", 1, 3)] * 2


def test_a_session_that_came_to_be_open_behind_a_jobs_back_is_not_summarised(work: _Work) -> None:
    work.leave()
    work.plan()
    sessions.renew(work.connection, work.session, wall_us=work.now_us)

    assert work.claim() is None
    assert work.job is None
    assert work.told() == [("cancelled", 1, 3)]


def test_an_open_session_is_summarised_if_somebody_asks_up_to_where_it_was_then(work: _Work) -> None:
    asked = work.ask()
    assert asked is not None
    assert asked.asked
    work.add()

    claimed = work.claim()
    assert claimed is not None
    work.complete()

    assert work.ranges == [(1, 3)]
    assert work.job is None
    assert work.told() == [("asked", 1, 3), ("made", 1, 3)]


def test_who_asks_while_it_is_made_gets_what_is_new_since_then_too(work: _Work) -> None:
    work.leave()
    work.plan()
    work.claim()
    work.resume()
    work.add(2)

    job = work.ask()
    assert job is not None
    assert (job.state, job.token) == ("running", "one")
    work.complete()
    assert work.job == Job(work.id, "pending", 4, 5, True, work.now_us, 0, work.now_us)
    work.claim("two")
    work.complete("two")

    assert work.ranges == [(1, 3), (4, 5)]


def test_many_long_turns_are_summarised_in_parts(work: _Work) -> None:
    work.add(3, length=PART_MAX // 2)
    work.add(1, length=3 * PART_MAX)
    work.add()
    assert work.ask() is not None

    while work.claim() is not None:
        work.complete()

    assert work.ranges == [(1, 4), (5, 6), (7, 7), (8, 8)]
    assert work.job is None


def test_what_the_agent_writes_ends_a_job_also_one_that_runs(work: _Work) -> None:
    work.leave()
    work.plan()
    work.claim()
    work.resume()

    work.save("by herself", to_seq=2)

    assert work.job is None
    for late in (work.complete, work.fail, lambda: renew_job(work.connection, "one", claim_us=9, wall_us=work.now_us)):
        with pytest.raises(ClaimLost):
            late()
    assert work.ranges == [(1, 2)]


def test_what_the_agent_writes_leaves_the_rest_of_what_was_asked_for(work: _Work) -> None:
    work.ask()
    work.save(to_seq=1)

    assert work.job is not None
    assert (work.job.state, work.job.from_seq, work.job.to_seq) == ("pending", 2, 3)


def test_a_claim_whose_time_is_over_is_somebody_elses_and_the_first_ones_is_refused(work: _Work) -> None:
    work.leave()
    work.plan()
    work.claim("one")
    work.now_us += _CLAIM_US - 1
    assert work.claim("two") is None
    renew_job(work.connection, "one", claim_us=_CLAIM_US, wall_us=work.now_us)
    work.now_us += _CLAIM_US - 1
    assert work.claim("two") is None

    work.now_us += 1
    second = work.claim("two")
    assert second is not None
    assert second.attempts == 2
    for late in (
        lambda: work.complete("one"),
        lambda: work.fail("one"),
        lambda: give_job_back(work.connection, "one", wall_us=work.now_us),
        lambda: renew_job(work.connection, "one", claim_us=_CLAIM_US, wall_us=work.now_us),
    ):
        with pytest.raises(ClaimLost):
            late()
    work.complete("two", "the second one's")

    assert [each.text for each in list_summaries(work.connection, work.id)] == ["the second one's"]
    with pytest.raises(ClaimLost):
        work.complete("two")


def test_who_is_late_and_has_no_successor_is_not_refused(work: _Work) -> None:
    work.leave()
    work.plan()
    work.claim()
    work.now_us += 100 * _CLAIM_US

    renew_job(work.connection, "one", claim_us=_CLAIM_US, wall_us=work.now_us)
    assert work.claim("two") is None
    work.complete()

    assert work.ranges == [(1, 3)]


def test_memories_that_are_not_what_they_were_are_not_summarised(work: _Work) -> None:
    work.leave()
    work.plan()
    work.claim()
    work.connection.execute(update(schema.memory).where(schema.memory.c.seq == 2).values(prompt="forgotten"))

    with pytest.raises(SummaryStale):
        work.complete()
    again = work.fail()

    assert again is not None
    assert again.state == "pending"
    assert work.ranges == []


def test_what_fails_is_tried_again_later_and_then_has_failed_for_all_to_see(work: _Work) -> None:
    work.leave()
    work.plan()
    for attempt in range(1, ATTEMPTS_MAX):
        work.claim()
        job = work.fail()
        assert job is not None
        assert (job.state, job.attempts, job.error, job.token) == ("pending", attempt, "no model", None)
        assert work.claim() is None
        assert work.plan() == []
        work.now_us = job.not_before_us
    work.claim()
    job = work.fail()

    assert job == work.job
    assert job is not None
    assert (job.state, job.attempts, job.error) == ("failed", ATTEMPTS_MAX, "no model")
    work.now_us += _LONG_US
    assert work.plan() == []
    assert work.claim() is None
    assert work.told() == [("failed", 1, 3)]
    events = [event for event in read_events(work.connection, limit=1000) if event.kind == "summary.failed"]
    assert (events[0].data["error"], events[0].data["attempts"]) == ("no model", ATTEMPTS_MAX)


def _fail_for_good(work: _Work) -> None:
    while work.claim() is not None:
        job = work.fail()
        assert job is not None
        work.now_us = job.not_before_us
    assert work.job is not None
    assert work.job.state == "failed"


def test_what_has_failed_is_tried_again_when_there_is_more_or_somebody_asks(work: _Work) -> None:
    work.leave()
    work.plan()
    _fail_for_good(work)

    work.resume()
    work.leave()
    assert work.plan() == []
    work.resume()
    work.add()
    work.leave()
    (again,) = work.plan()
    assert (again.from_seq, again.to_seq, again.attempts, again.error) == (1, 4, 0, None)
    _fail_for_good(work)

    assert work.ask() is not None
    work.claim()
    work.complete()
    assert work.ranges == [(1, 4)]
    assert work.job is None


def test_whoever_dies_over_it_again_and_again_has_failed(work: _Work) -> None:
    work.leave()
    work.plan()
    for attempt in range(ATTEMPTS_MAX):
        assert work.claim(f"token {attempt}") is not None
        work.now_us += _CLAIM_US

    assert work.claim("one more") is None
    assert work.job is not None
    assert (work.job.state, work.job.error) == ("failed", "whoever made it was not heard of again")


def test_what_is_given_back_was_not_tried(work: _Work) -> None:
    work.leave()
    work.plan()
    for _ in range(2 * ATTEMPTS_MAX):
        claimed = work.claim()
        assert claimed is not None
        assert claimed.attempts == 1
        given_back = give_job_back(work.connection, "one", wall_us=work.now_us)
        assert given_back is not None
        assert (given_back.state, given_back.attempts, given_back.not_before_us) == ("pending", 0, work.now_us)


def test_where_nobody_makes_summaries_any_more_none_is_pending(work: _Work) -> None:
    work.leave()
    work.plan()

    cancel_all_pending(work.connection, why="there is no summariser", wall_us=work.now_us)

    assert work.job is None
    assert work.told() == [("cancelled", 1, 3)]


def test_what_somebody_asks_for_comes_first(connection: Connection) -> None:
    left, asked = _Work(connection), _Work(connection)
    left.add()
    asked.add()
    left.leave()
    left.plan()
    asked.now_us = left.now_us + 5
    asked.ask()

    job = claim_job(connection, "one", claim_us=_CLAIM_US, after_us=_AFTER_US, wall_us=asked.now_us)

    assert job is not None
    assert job.session == asked.id


def test_sessions_that_are_due_are_found_without_looking_at_all_of_them(work: _Work) -> None:
    asked: list[tuple[str, tuple[object, ...]]] = []

    def keep(_connection: object, _cursor: object, statement: str, parameters: tuple[object, ...], *_: object) -> None:
        asked.append((statement, parameters))

    listen(work.connection, "before_cursor_execute", keep)
    due_sessions(work.connection, after_us=_AFTER_US, wall_us=work.now_us, limit=1)
    remove(work.connection, "before_cursor_execute", keep)

    ((statement, parameters),) = asked
    plan = [row[3] for row in work.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    assert [step for step in plan if "SCAN" in step] == ["SCAN session USING INDEX ix_session_uncovered"]


# Everybody at once.


@pytest.mark.anyio
async def test_one_of_many_who_claim_at_once_has_it(catalog: Catalog) -> None:
    def begin(connection: Connection) -> SessionId:
        work = _Work(connection)
        work.add(3)
        work.finish()
        work.plan()
        return work.id

    session = await catalog.database.write(begin)
    claims = [
        partial(claim_job, token=f"token {number}", claim_us=_CLAIM_US, after_us=_AFTER_US, wall_us=2_000)
        for number in range(50)
    ]
    claimed = await asyncio.gather(*(catalog.database.write(claim) for claim in claims))

    winners = [job for job in claimed if job is not None]
    assert len(winners) == 1
    done = [
        partial(complete_job, token=f"token {number}", text=str(number), made_by="x", model=None, wall_us=3_000)
        for number in range(50)
    ]
    ends = await asyncio.gather(*(catalog.database.write(body) for body in done), return_exceptions=True)
    assert [type(end) for end in ends].count(Summary) == 1
    kept = await catalog.database.read(lambda connection: list_summaries(connection, session))
    assert [f"token {each.text}" for each in kept] == [winners[0].token]


# In any order.


@dataclass(frozen=True, slots=True)
class _Do:
    """One of the things that can happen, done by one of those who make summaries."""

    which: int
    who: int
    by_us: int


@dataclass(slots=True)
class _Maker:
    """Somebody who makes summaries, and what they believe to be at."""

    job: Job | None = None


@dataclass(slots=True)
class _World:
    """A session, three who would summarise it, and what must never be."""

    work: _Work
    makers: list[_Maker] = field(default_factory=lambda: [_Maker() for _ in range(3)])
    began: int = 0

    def do(self, did: _Do) -> None:
        self.work.now_us += did.by_us
        can = self._can(did.who)
        can[did.which % len(can)]()

    def _can(self, who: int) -> list[Callable[[], object]]:
        """What can happen now; what is there twice happens more often."""
        work, maker, session = self.work, self.makers[who], self.work.session
        can: list[Callable[[], object]] = [work.plan, work.plan, work.ask]
        if session.state != "finished":
            can += [work.add, work.finish]  # what an agent's hooks told is added to a suspended one, too
        if session.state == "open":
            can += [work.add, lambda: work.leave(0), lambda: work.leave(_AFTER_US)]
        else:
            can += [work.resume, lambda: sessions.renew(work.connection, session, wall_us=work.now_us)]
        covered = covered_to(work.connection, work.id)
        if covered < session.last_seq:
            can.append(lambda: work.save(to_seq=min(session.last_seq, covered + 1 + who)))
        if maker.job is None:
            return [*can, *[lambda: self._claim(maker, who)] * 4]
        token = maker.job.token
        assert token is not None
        return [
            *can,
            *[lambda: self._end(maker, lambda: work.complete(token))] * 3,
            lambda: self._end(maker, lambda: work.fail(token)),
            lambda: self._end(maker, lambda: give_job_back(work.connection, token, wall_us=work.now_us)),
            lambda: self._end(maker, lambda: self._renew(token), goes_on=True),
            lambda: setattr(maker, "job", None),  # it died
        ]

    def _renew(self, token: str) -> None:
        renew_job(self.work.connection, token, claim_us=_CLAIM_US, wall_us=self.work.now_us)

    def _claim(self, maker: _Maker, who: int) -> None:
        work, session = self.work, self.work.session
        before = work.job
        job = work.claim(f"{who}:{self.began}")
        if job is None:
            return
        self.began += 1
        maker.job = job
        assert before is not None
        if session.state == "open":
            assert before.asked, "nothing begins while a session is open, unless it is asked for"
            assert job.to_seq == before.to_seq, "and no more than that"
        if session.state == "suspended" and not before.asked:
            assert work.now_us - session.since_us >= _AFTER_US, "nothing begins before it was left alone"
        if before.state == "running":
            assert before.claimed_until_us is not None
            assert before.claimed_until_us <= work.now_us, "nobody loses a claim whose time is not over"
        assert job.part_to_seq is not None
        assert job.part_to_seq <= session.last_seq

    def _end(self, maker: _Maker, end: Callable[[], object], *, goes_on: bool = False) -> None:
        work, job = self.work, maker.job
        assert job is not None
        there = work.job
        mine = there is not None and there.token == job.token
        try:
            result = end()
        except ClaimLost:
            assert not mine, "who has a claim is not refused"
            maker.job = None
            return
        assert mine, "who has none is"
        if isinstance(result, Summary):
            assert (result.from_seq, result.to_seq, result.input_hash) == (
                job.from_seq,
                job.part_to_seq,
                job.input_hash,
            )
        if not goes_on:
            maker.job = None

    def check(self) -> None:
        """What holds at every moment."""
        work = self.work
        session, job, kept = work.session, work.job, list_summaries(work.connection, work.id)
        turns = [memory.turn for memory in list_memories(work.connection, work.id, limit=1000)]
        covered = covered_to(work.connection, work.id)

        assert covered == (kept[-1].to_seq if kept else 0) <= session.last_seq == len(turns)
        assert [kept[0].from_seq] == [1] if kept else True
        for one, next_ in pairwise(kept):
            assert next_.from_seq == one.to_seq + 1
        for each in kept:
            assert each.from_seq <= each.to_seq
            assert each.input_hash == input_hash(turns[each.from_seq - 1 : each.to_seq])
        if job is not None:
            assert job.from_seq == covered + 1 <= job.to_seq <= session.last_seq
            assert (job.token is None) == (job.state != "running")
            assert job.attempts <= ATTEMPTS_MAX


_dids = st.lists(
    st.builds(
        _Do,
        which=st.integers(0, 999),
        who=st.integers(0, 2),
        by_us=st.sampled_from([0, 0, 0, 7, _CLAIM_US - 20, _CLAIM_US, _AFTER_US, -20, _LONG_US]),
    ),
    min_size=10,
    max_size=60,
)


@settings(max_examples=sized(20, 100, 5_000), deadline=None)
@given(dids=_dids)
def test_whatever_comes_in_between_each_memory_is_in_at_most_one_summary(emptied: Connection, dids: list[_Do]) -> None:
    with emptied.begin() as transaction:
        world = _World(_Work(emptied))
        for did in dids:
            world.do(did)
            world.check()
        _end_well(world)
        transaction.rollback()


def _end_well(world: _World) -> None:
    """In the end, once it is left alone and somebody makes it, everything is summarised."""
    work = world.work
    if work.session.state == "open":
        work.leave()
    work.now_us = max(work.now_us, 0) + 2 * _LONG_US
    work.now_us = max(work.now_us, work.session.since_us + _LONG_US)
    work.ask()  # what has failed for good is begun anew
    while work.claim("last") is not None:
        work.complete("last")
        world.check()
    assert covered_to(work.connection, work.id) == work.session.last_seq
    assert work.job is None
    assert [(first, last) for _, first, last in work.told("made")] == work.ranges
