"""Sessions are summarised by a real program and a real endpoint: once, when they may be, and whoever dies over it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AsyncExitStack
from pathlib import Path
from unittest import mock

import pytest
from sqlalchemy import Connection

from scrubjay.errors import CatalogUnavailable, NoSummariser
from scrubjay.fleet.summaries import ATTEMPTS_MAX, Job
from scrubjay.ids import SessionId
from scrubjay.server.sessions import summaries as room
from scrubjay.settings import Settings
from scrubjay.store import sessions
from scrubjay.store.summaries import save_summary
from tests.server.fake_model import Model, open_model
from tests.server.summary_server import Office, open_office
from tests.support.conditions import until, until_asked
from tests.support.paths import ROOT
from tests.support.processes import is_alive

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def impatient() -> Generator[None]:
    """Nobody waits for long: tests would."""
    with mock.patch.object(room, "LOOK_EVERY_S", 0.05), mock.patch.object(room, "TROUBLE_S", 0.05):
        yield


@pytest.fixture
def model() -> Generator[Model]:
    with open_model() as opened:
        yield opened


@pytest.fixture
async def office(tmp_path: Path) -> AsyncGenerator[Office]:
    async with open_office(tmp_path) as opened:
        yield opened


def _by_command(tmp_path: Path, script: str, *, after_s: int = 0) -> Settings:
    path = tmp_path / "sum.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return Settings(data=tmp_path, summary_command=(str(path),), summarise_after_s=after_s)


def _by_model(tmp_path: Path, model: Model) -> Settings:
    return Settings(data=tmp_path, summary_url=model.url, summary_model="llama3", summarise_after_s=0)


async def test_a_session_that_is_left_alone_is_summarised_by_a_command(office: Office, tmp_path: Path) -> None:
    settings = _by_command(tmp_path, "echo Turns: $(grep -c '^Turn [0-9]')")
    async with office.working(settings):
        session = await office.open("fix it", "test it")
        await office.leave(session)
        (summary,) = await office.made(session)

        assert (summary.from_seq, summary.to_seq, summary.text) == (1, 2, "Turns: 2")
        assert (summary.made_by, summary.model) == ("summariser:sum.sh", None)
        assert await office.job(session) is None

        await office.resume(session)
        await office.add(session, "and again")
        await office.leave(session)
        _, next_ = await office.made(session, 2)
        assert (next_.from_seq, next_.to_seq, next_.text) == (3, 3, "Turns: 1")
    assert await office.told() == ["summary.made", "summary.made"]


async def test_a_session_is_summarised_by_a_model_which_hears_what_was_before(
    office: Office, tmp_path: Path, model: Model
) -> None:
    key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    async with office.working(_by_model(tmp_path, model)):
        session = await office.open(f"use {key}")
        await office.leave(session)
        (summary,) = await office.made(session)
        await office.resume(session)
        await office.add(session, "go on")
        await office.leave(session)
        await office.made(session, 2)

    assert (summary.text, summary.model) == ("It was summed up.", "llama3")
    first, second = (asked.turns for asked in model.asked)
    assert "use ghp_" in first
    assert key not in first, "what is sent elsewhere has no keys in it"
    assert "<earlier>\nIt was summed up.\n</earlier>" in second
    assert "Turn 2\nPrompt: go on" in second


async def test_a_session_that_is_open_or_was_just_left_is_let_be(office: Office, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    async with office.working(_by_command(tmp_path, f"echo . >> {begun}; echo so", after_s=3600)):
        open_, left, other = await office.open("a"), await office.open("b"), await office.open("c")
        await office.leave(left)
        await office.ask(other)
        await office.made(other)  # long enough for the others, too

        assert [await office.job(session) for session in (open_, left)] == [None, None]
        assert begun.read_text() == ".\n"

        office.clock.ahead_us += 3600 * 1_000_000
        await office.made(left)
        assert await office.job(open_) is None


async def test_who_asks_is_not_kept_waiting(office: Office, tmp_path: Path) -> None:
    listeners = office.reception.tower.changes.listeners
    before = len(listeners)
    with mock.patch.object(room, "LOOK_EVERY_S", 600.0):
        async with office.working(_by_command(tmp_path, "echo so")):
            await until(lambda: len(listeners) > before, "it has begun")
            session = await office.open("a")  # by then it has looked, and does so again in ten minutes
            await office.ask(session)

            await office.made(session)
    assert await office.told() == ["summary.asked", "summary.made"]


async def test_what_fails_is_tried_again_later_and_is_seen_to_have_failed(office: Office, tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    async with office.working(_by_command(tmp_path, f"echo . >> {tries}; echo no model here >&2; exit 1")):
        session = await office.open("a")
        await office.leave(session)
        for attempt in range(1, ATTEMPTS_MAX):
            await until(lambda count=attempt: tries.exists() and len(tries.read_text()) == 2 * count, "it was tried")
            job = await office.job_that(session, "pending")
            assert (job.attempts, job.error) == (attempt, "sum.sh ended with status 1: no model here")
            office.clock.ahead_us += job.not_before_us - office.now_us
        failed = await office.job_that(session, "failed")

        assert (failed.attempts, failed.error) == (ATTEMPTS_MAX, "sum.sh ended with status 1: no model here")
    assert tries.read_text().count(".") == ATTEMPTS_MAX
    assert await office.kept(session) == []
    assert await office.told() == ["summary.failed"]


@pytest.mark.parametrize("status", [429, 503])
async def test_a_model_that_is_busy_is_asked_again(office: Office, tmp_path: Path, model: Model, status: int) -> None:
    model.errors = [(status, b'{"error": {"message": "later"}}')]
    async with office.working(_by_model(tmp_path, model)):
        session = await office.open("a")
        await office.leave(session)
        await until(lambda: not model.errors, "it was asked")
        job = await office.job_that(session, "pending")
        assert job.error == f"127.0.0.1:{model.port} answered {status}: later"

        office.clock.ahead_us += 3600 * 1_000_000
        await office.made(session)
    assert len(model.asked) == 2


async def test_a_server_that_ends_gives_back_what_it_was_at(office: Office, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    async with office.working(_by_command(tmp_path, f"echo $$ > {pid}; exec sleep 1000")) as working:
        session = await office.open("a")
        await office.leave(session)
        await until(lambda: pid.exists() and pid.read_text().strip(), "it runs")
        working.cancel()
        await asyncio.wait([working])

    assert not is_alive(int(pid.read_text()))
    job = await office.job(session)
    assert job is not None
    assert (job.state, job.attempts, job.token) == ("pending", 0, None)
    async with office.working(_by_command(tmp_path, "echo so")):
        await office.made(session)


async def test_a_server_that_is_killed_over_it_is_followed_by_another_once_its_claim_is_over(tmp_path: Path) -> None:
    script = tmp_path / "endless.sh"
    script.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/begun\nexec sleep 1000\n")
    script.chmod(0o755)
    command = [sys.executable, "-m", "tests.server.summary_server", str(tmp_path), str(script)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        session = SessionId(process.stdout.readline().strip())
        process.kill()
    os.kill(int((tmp_path / "begun").read_text()), 9)  # nobody else would, and its summary would go nowhere

    async with open_office(tmp_path) as office:
        asked = tmp_path / "asked"
        async with office.working(_by_command(tmp_path, f"echo . >> {asked}; echo by another")):
            other = await office.open("b")
            await office.leave(other)
            await office.made(other)
            job = await office.job(session)
            assert job is not None
            assert (job.state, job.attempts) == ("running", 1)
            assert await office.kept(session) == []

            office.clock.ahead_us += 61 * 1_000_000
            (summary,) = await office.made(session)
        assert (summary.from_seq, summary.to_seq, summary.text) == (1, 2, "by another")
        assert asked.read_text().count(".") == 2


async def test_a_claim_is_kept_for_as_long_as_it_takes_and_nobody_else_begins(office: Office, tmp_path: Path) -> None:
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"
    script = f"echo . >> {begun}; until [ -e {go_on} ]; do sleep 0.05; done; echo so"
    settings = _by_command(tmp_path, script)
    claim_us = int(room.CLAIM_S * 1e6)

    async def renewed() -> Job | None:
        job = await office.job(session)
        until_us = job.claimed_until_us if job is not None else None
        return job if until_us is not None and until_us > office.now_us + claim_us * 3 // 4 else None

    with mock.patch.object(room, "RENEW_EVERY_S", 0.05):
        async with AsyncExitStack() as workers:
            for _ in range(3):
                await workers.enter_async_context(office.working(settings))
            session = await office.open("a")
            await office.leave(session)
            first = await office.job_that(session, "running")
            assert first.claimed_until_us is not None
            for _ in range(3):
                office.clock.ahead_us += claim_us // 2
                now = await until_asked(renewed, "the claim is renewed")
                assert (now.token, now.attempts) == (first.token, 1)
            assert office.now_us > first.claimed_until_us

            go_on.touch()
            await office.made(session)
    assert begun.read_text() == ".\n"
    assert await office.told() == ["summary.made"]


async def test_a_session_that_is_resumed_meanwhile_gets_its_summary(office: Office, tmp_path: Path) -> None:
    go_on = tmp_path / "go_on"
    async with office.working(_by_command(tmp_path, f"until [ -e {go_on} ]; do sleep 0.05; done; echo so")):
        session = await office.open("a", "b")
        await office.leave(session)
        await office.job_that(session, "running")
        await office.resume(session)
        await office.add(session, "c")
        go_on.touch()

        (summary,) = await office.made(session)
        assert (summary.from_seq, summary.to_seq) == (1, 2)
        assert await office.job(session) is None
    assert await office.told() == ["summary.made"]


async def test_what_the_agent_has_written_meanwhile_ends_what_is_being_made(office: Office, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with mock.patch.object(room, "RENEW_EVERY_S", 0.1):
        async with office.working(_by_command(tmp_path, f"echo $$ > {pid}; exec sleep 1000")):
            session = await office.open("a")
            await office.leave(session)
            await until(lambda: pid.exists() and pid.read_text().strip(), "it runs")

            def save(connection: Connection) -> None:
                found = sessions.get_session(connection, session)
                save_summary(connection, found, "by ann herself", made_by="ann", wall_us=office.now_us)

            await office.reception.tower.database.write(save)
            await until(lambda: not is_alive(int(pid.read_text())), "nobody makes it any more")
    assert [summary.text for summary in await office.kept(session)] == ["by ann herself"]


async def test_a_summary_that_cannot_be_written_down_is_not_made_again(office: Office, tmp_path: Path) -> None:
    begun, database = tmp_path / "begun", office.reception.tower.database
    write, refused = database.write, 0

    async def failing(body: Callable[[Connection], object]) -> object:
        nonlocal refused
        if begun.exists() and refused < 3:
            refused += 1
            raise CatalogUnavailable("catalog", "the disk is full")
        return await write(body)

    with mock.patch.object(database, "write", failing):
        async with office.working(_by_command(tmp_path, f"echo . >> {begun}; echo so")):
            session = await office.open("a")
            await office.leave(session)
            await office.made(session)
    assert refused == 3
    assert begun.read_text() == ".\n"


async def test_a_catalog_in_trouble_ends_nothing(office: Office, tmp_path: Path) -> None:
    database = office.reception.tower.database
    asked = 0

    async def failing(_: Callable[[Connection], object]) -> object:
        nonlocal asked
        asked += 1
        raise CatalogUnavailable("catalog", "the disk is full")

    session = await office.open("a")
    await office.leave(session)
    with mock.patch.object(database, "read", failing):
        async with office.working(_by_command(tmp_path, "echo so")) as working:
            await until(lambda: asked >= 3, "it looked again")
            assert not working.done()
            with mock.patch.object(database, "read", type(database).read.__get__(database)):
                await office.made(session)


async def test_without_a_summariser_nothing_is_planned_and_nothing_waits(office: Office, tmp_path: Path) -> None:
    session = await office.open("a")
    await office.ask(session)
    nobody = office.summaries(Settings(data=tmp_path, summarise_after_s=0))

    await nobody.run()  # which ends

    assert await office.job(session) is None
    assert await office.told() == ["summary.asked", "summary.cancelled"]
    with pytest.raises(NoSummariser) as refused:
        nobody.require()
    assert refused.value.hint
    office.summaries(_by_command(tmp_path, "")).require()
