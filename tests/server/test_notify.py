"""From a change of the fleet to a service that really gets it: once, soon, and without telling anybody the URL."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import Connection
from structlog.testing import capture_logs

from scrubjay.errors import CatalogUnavailable
from scrubjay.fleet.notices import Message
from scrubjay.fleet.process import Process
from scrubjay.ids import PodId, PodName, SessionId, new_pod_id
from scrubjay.server.changes import Changes
from scrubjay.server.drop_oldest import DropOldest
from scrubjay.server.notify import Notifier
from scrubjay.server.outlet import Outlet, Pace, deliver
from scrubjay.settings import Settings
from scrubjay.store.events import Event, append_event
from scrubjay.store.notices import mute_pod, unmute_pod
from scrubjay.store.pods import PodFacts, add_pod, remove_pod
from scrubjay.store.sqlite import SqliteDatabase
from scrubjay.store.status import Status, set_status
from scrubjay.tape.record import Json
from tests.support.catalogs import make_catalog
from tests.support.conditions import until
from tests.support.fake_clock import FakeClock
from tests.support.notification_inbox import DEADLINE_S, SECRET, Inbox, open_inbox

# Apprise imports every plugin it has, and some import what Python is going to drop.
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

_PACE = Pace(send_within_s=DEADLINE_S, retry_first_s=0.02, retry_most_s=0.1, give_up_after_s=DEADLINE_S)
_HELLO = Message("needs_you", "ada needs you", "asks a question")


@pytest.fixture
def inbox() -> Generator[Inbox]:
    with open_inbox() as opened:
        yield opened


class _Fleet:
    """A catalog on disk and a notifier that follows it."""

    def __init__(self, database: SqliteDatabase, clock: FakeClock, notifier: Notifier) -> None:
        self.database, self.clock, self.notifier = database, clock, notifier
        self.attended: set[PodId] = set()

    async def start(self, name: str, **status: Any) -> PodId:
        pod = new_pod_id()
        facts = PodFacts(
            id=pod,
            name=PodName(name),
            session=SessionId("s" * 26),
            runner="r" * 26,
            argv=("agent",),
            cwd="/",
            cols=80,
            rows=24,
            agent=None,
            repository=None,
            branch=None,
            worktree=None,
            imported=False,
            created_us=self.clock.wall_us(),
        )
        await self.database.write(
            partial(add_pod, facts=facts, status=Status("running", **status), wall_us=self.clock.wall_us())
        )
        return pod

    async def become(self, pod: PodId, process: Process = "running", **status: Any) -> None:
        await self.database.write(partial(set_status, pod=pod, process=process, wall_us=self.clock.wall_us(), **status))

    async def fail(self, pod: PodId) -> None:
        await self.become(pod, "exited", exit_status=1)

    async def wait(self, pod: PodId, what: str = "person:question") -> None:
        await self.become(pod, activity="waiting", waiting_for=what)


class _FollowedChanges(Changes):
    """Knows whether somebody has begun to follow them."""

    followed = False

    async def after(self, number: int) -> list[Event]:
        self.followed = True
        return await super().after(number)


@asynccontextmanager
async def _open_fleet(path: Path, clock: FakeClock, *urls: str, quiet_s: int = 600) -> AsyncGenerator[_Fleet]:
    changes = _FollowedChanges()
    make_catalog(path)
    database = await SqliteDatabase.open(path, on_events=changes.publish)
    await changes.begin(database)
    settings = Settings(data=path.parent, notify_urls=urls, notify_quiet_s=quiet_s, notify_done_after_s=300)
    fleet: _Fleet

    def attended(pod: PodId) -> bool:
        return pod in fleet.attended

    notifier = Notifier(
        database, changes, clock, settings, attended=attended, random=Random(1), pace=_PACE, gather_s=0.1
    )
    fleet = _Fleet(database, clock, notifier)
    running = asyncio.create_task(notifier.run())
    try:
        # What happens before it has begun is the past, and not told.
        await until(lambda: changes.followed or running.done(), "it follows what happens")
        yield fleet
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await database.close()


@pytest.fixture
async def fleet(tmp_path: Path, clock: FakeClock, inbox: Inbox) -> AsyncGenerator[_Fleet]:
    async with _open_fleet(tmp_path / "catalog.sqlite", clock, inbox.url) as opened:
        yield opened


async def _until(condition: Callable[[], object]) -> None:
    await until(condition, "it is told of", within_s=DEADLINE_S)


async def test_a_pod_that_fails_is_told_of_with_title_and_words(fleet: _Fleet, inbox: Inbox) -> None:
    pod = await fleet.start("builder")
    fleet.clock.advance(720)
    await fleet.fail(pod)
    await _until(lambda: inbox.messages)

    assert inbox.messages[0]["title"] == "builder failed"
    assert inbox.messages[0]["message"] == "ended with status 1 after 12 min"
    assert inbox.messages[0]["type"] == "failure"


async def test_a_deadlock_of_agents_outside_pods_is_told_of_once(fleet: _Fleet, inbox: Inbox) -> None:
    data: Json = {"deadlock": "d" * 26, "names": ["ci", "bot"]}
    for _ in range(2):
        await fleet.database.write(
            partial(append_event, kind="deadlock.found", wall_us=fleet.clock.wall_us(), data=data)
        )
        await _until(lambda: inbox.messages)
    await fleet.fail(await fleet.start("builder"))
    await _until(lambda: len(inbox.messages) == 2)

    assert [message["title"] for message in inbox.messages] == ["ci is in a deadlock", "builder failed"]
    assert str(inbox.messages[0]["message"]).startswith("ci waits for bot waits for ci")


async def test_each_kind_is_told_once_and_ends_that_were_asked_for_are_not(fleet: _Fleet, inbox: Inbox) -> None:
    asks, works, stopped = [await fleet.start(name) for name in ("asks", "works", "stopped")]
    await fleet.become(works, activity="executing")
    fleet.clock.advance(400)
    await fleet.wait(asks)
    await fleet.become(works, activity="idle")
    await fleet.become(stopped, "exited", exit_status=143, evidence={"stopped_by": "person:ada"})
    await fleet.become(works, "lost", reason="keeper killed")
    await _until(lambda: len(inbox.messages) == 3)

    assert inbox.titles() == ["asks needs you", "works failed", "works is done"]


async def test_many_at_once_come_as_one(fleet: _Fleet, inbox: Inbox) -> None:
    pods = [await fleet.start(f"pod-{number}") for number in range(5)]
    wait = partial(set_status, process="running", activity="waiting", waiting_for="person:question")

    def all_wait(connection: Connection) -> None:
        for pod in pods:
            wait(connection, pod=pod, wall_us=fleet.clock.wall_us())

    await fleet.database.write(all_wait)
    await _until(lambda: inbox.messages)
    last = await fleet.start("last")
    await fleet.fail(last)
    await _until(lambda: "last failed" in inbox.titles())

    assert inbox.titles() == ["5 pods need you: pod-0, pod-1, pod-2, pod-3, pod-4", "last failed"]


async def test_the_same_is_told_once_within_the_quiet_time_also_after_a_restart(
    tmp_path: Path, clock: FakeClock, inbox: Inbox
) -> None:
    path = tmp_path / "catalog.sqlite"
    async with _open_fleet(path, clock, inbox.url) as fleet:
        pod = await fleet.start("asks")
        await fleet.wait(pod)
        await _until(lambda: inbox.messages)
        await fleet.become(pod, activity="executing")
    async with _open_fleet(path, clock, inbox.url) as fleet:
        await fleet.wait(pod)
        await fleet.fail(await fleet.start("marker"))
        await _until(lambda: "marker failed" in inbox.titles())
        assert inbox.titles() == ["asks needs you", "marker failed"]

        fleet.clock.advance(601)
        await fleet.become(pod, activity="executing")
        await fleet.wait(pod)
        await _until(lambda: inbox.titles().count("asks needs you") == 2)


async def test_what_happened_before_a_start_is_not_told_at_the_start(
    tmp_path: Path, clock: FakeClock, inbox: Inbox
) -> None:
    path = tmp_path / "catalog.sqlite"
    async with _open_fleet(path, clock) as fleet:  # with nobody to tell
        await fleet.fail(await fleet.start("old"))
        await fleet.wait(await fleet.start("waits"))
    async with _open_fleet(path, clock, inbox.url) as fleet:
        await fleet.fail(await fleet.start("new"))
        await _until(lambda: inbox.messages)

    assert inbox.titles() == ["new failed"]


async def test_who_still_needs_somebody_after_the_quiet_time_says_so_once_more(
    tmp_path: Path, clock: FakeClock, inbox: Inbox
) -> None:
    async with _open_fleet(tmp_path / "catalog.sqlite", clock, inbox.url, quiet_s=1) as fleet:
        pod, answered = await fleet.start("asks"), await fleet.start("answered")
        for each in (pod, answered):
            await fleet.wait(each)
        await _until(lambda: len(inbox.messages) == 2)
        for each in (pod, answered):
            await fleet.become(each, activity="executing")
            await fleet.wait(each)
        await fleet.fail(await fleet.start("marker"))
        await _until(lambda: "marker failed" in inbox.titles())
        assert len(inbox.messages) == 3

        await fleet.become(answered, activity="executing")
        clock.advance(1.5)
        await _until(lambda: inbox.titles().count("asks needs you") == 2)
        assert inbox.titles().count("answered needs you") == 1


async def test_a_muted_pod_is_not_told_of_until_it_is_unmuted(fleet: _Fleet, inbox: Inbox) -> None:
    pod = await fleet.start("noisy")
    await fleet.database.write(partial(mute_pod, pod=pod, wall_us=fleet.clock.wall_us()))
    await fleet.wait(pod)
    await fleet.fail(await fleet.start("other"))
    await _until(lambda: inbox.messages)
    await fleet.database.write(partial(unmute_pod, pod=pod, wall_us=fleet.clock.wall_us()))
    await fleet.fail(pod)
    await _until(lambda: len(inbox.messages) == 2)

    assert inbox.titles() == ["other failed", "noisy failed"]


async def test_a_pod_that_is_muted_for_a_while_is_told_of_after_it(fleet: _Fleet, inbox: Inbox) -> None:
    pod, wall_us = await fleet.start("noisy"), fleet.clock.wall_us()
    await fleet.database.write(partial(mute_pod, pod=pod, wall_us=wall_us, ends_us=wall_us + 3600_000_000))
    await fleet.wait(pod)
    await fleet.fail(await fleet.start("other"))
    await _until(lambda: inbox.messages)
    await fleet.database.write(partial(mute_pod, pod=pod, wall_us=wall_us, ends_us=fleet.clock.wall_us()))
    await fleet.fail(pod)
    await _until(lambda: len(inbox.messages) == 2)

    assert inbox.titles() == ["other failed", "noisy failed"]


async def test_what_an_agent_calls_out_arrives_as_plain_text_unless_somebody_looks(fleet: _Fleet, inbox: Inbox) -> None:
    pod, watched = await fleet.start("claude"), await fleet.start("watched")
    fleet.attended.add(watched)
    fleet.notifier.called(watched, "bell", "", "")
    await _until(
        lambda: fleet.notifier.called(pod, "notification", "x\x1b[31m", "@everyone \u202e{{1}}") or inbox.messages
    )

    assert inbox.titles() == ["claude needs you"]
    assert inbox.messages[0]["message"] == "x: @\u2060everyone {{1}}"


async def test_a_key_that_an_agent_calls_out_does_not_leave_the_machine(fleet: _Fleet, inbox: Inbox) -> None:
    pod, secret = await fleet.start("claude"), "a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8"
    await _until(lambda: fleet.notifier.called(pod, "notification", "", f"use ghp_{secret} now") or inbox.messages)

    assert str(inbox.messages[0]["message"]).startswith("use ghp_")
    assert secret not in str(inbox.messages)


async def test_a_pod_that_is_deleted_at_once_is_still_told_of(fleet: _Fleet, inbox: Inbox) -> None:
    pod = await fleet.start("gone")
    await fleet.fail(pod)
    await fleet.database.write(partial(remove_pod, pod=pod, wall_us=fleet.clock.wall_us()))
    await _until(lambda: inbox.messages)

    assert inbox.titles() == ["gone failed"]


async def test_a_service_that_fails_is_tried_again_and_its_url_is_in_no_log(fleet: _Fleet, inbox: Inbox) -> None:
    inbox.refuse = 3
    with capture_logs() as logs:
        await fleet.fail(await fleet.start("builder"))
        await _until(lambda: inbox.messages)
        await _until(lambda: any(line["event"] == "notice.sent" for line in logs))

    assert inbox.refused == 3
    failures = [line for line in logs if line["event"] == "notice.not_sent"]
    assert [line["attempts"] for line in failures] == [1, 2, 3]
    assert all(line["service"] == "json://…" and "503" in line["error"] for line in failures)
    assert SECRET not in repr(logs)
    assert str(inbox.port) not in repr(logs)


async def test_a_dead_service_keeps_no_other_waiting(tmp_path: Path, clock: FakeClock, inbox: Inbox) -> None:
    with open_inbox() as dead:
        dead.hold.clear()
        async with _open_fleet(tmp_path / "catalog.sqlite", clock, dead.url, inbox.url) as fleet:
            await fleet.fail(await fleet.start("builder"))
            await _until(lambda: inbox.messages)

            assert dead.messages == []


async def test_while_the_catalog_cannot_be_written_people_are_told_all_the_same(
    fleet: _Fleet, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = await fleet.start("asks")
    write = fleet.database.write

    async def fail(body: Any) -> Any:
        if getattr(body, "func", None) is set_status:
            return await write(body)
        raise CatalogUnavailable("catalog.sqlite", "disk full")

    monkeypatch.setattr(fleet.database, "write", fail)
    for _ in range(3):
        await fleet.wait(pod)
        await fleet.become(pod, activity="executing")
    await _until(lambda: inbox.messages)

    assert inbox.titles() == ["asks needs you"]


async def test_with_nobody_to_tell_it_returns_at_once(tmp_path: Path, clock: FakeClock) -> None:
    database = await SqliteDatabase.open(tmp_path / "catalog.sqlite")
    notifier = Notifier(database, Changes(), clock, Settings(data=tmp_path), attended=lambda _: False)
    async with asyncio.timeout(DEADLINE_S):
        await notifier.run()
    await database.close()


async def test_thousands_of_changes_hold_the_fleet_up_no_longer_with_a_dead_service(
    tmp_path: Path, clock: FakeClock
) -> None:
    with open_inbox() as dead:
        dead.hold.clear()
        async with _open_fleet(tmp_path / "catalog.sqlite", clock, dead.url) as fleet:
            pods = [await fleet.start(f"pod-{number}") for number in range(20)]

            def flood(connection: Any) -> None:
                for number in range(2000):
                    data: Json = {"process": "running", "waiting_for": f"person:{number}"}
                    append_event(connection, "pod.status", wall_us=1, pod=pods[number % 20], data=data)

            await fleet.database.write(flood)
            async with asyncio.timeout(DEADLINE_S):
                await fleet.become(pods[0], activity="executing")


async def test_what_nobody_takes_is_given_up_and_the_next_is_sent(inbox: Inbox) -> None:
    inbox.refuse = 10**6
    outlet = Outlet(inbox.url, random=Random(1), pace=replace(_PACE, give_up_after_s=0.3))
    sending = asyncio.create_task(outlet.run())
    with capture_logs() as logs:
        outlet.put(_HELLO)
        await _until(lambda: any(line["event"] == "notice.given_up" for line in logs))
        inbox.refuse = 0
        outlet.put(replace(_HELLO, title="next"))
        await _until(lambda: inbox.messages)
    sending.cancel()

    assert inbox.titles() == ["next"]


async def test_a_send_that_hangs_is_one_thread_however_often_it_is_tried() -> None:
    began: list[float] = []
    logs: list[Any]
    let_go = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(_url: str, _message: Message) -> None:
        began.append(time.monotonic())
        asyncio.run_coroutine_threadsafe(let_go.wait(), loop).result()

    outlet = Outlet("json://x", random=Random(1), pace=replace(_PACE, send_within_s=0.05), deliver=hang)
    with capture_logs() as logs:
        sending = asyncio.create_task(outlet.run())
        outlet.put(_HELLO)
        await _until(lambda: len([line for line in logs if line["event"] == "notice.not_sent"]) > 3)
    assert len(began) == 1
    assert logs[0]["error"] == "no answer within 0.05 s"

    let_go.set()
    await _until(lambda: len(began) == 2)
    sending.cancel()


async def test_the_newest_are_kept_when_nobody_takes_them() -> None:
    queue: DropOldest[int] = DropOldest(3)

    assert [queue.put(number) for number in range(5)] == [False, False, False, True, True]
    assert await queue.get() == 2
    assert queue.take_all() == [3, 4]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await queue.get()


@pytest.mark.parametrize(
    "url",
    [
        f"json://127.0.0.1:1/{SECRET}",
        f"json://user:{SECRET}@127.0.0.1:1",
        f"jsons://127.0.0.1:1/{SECRET}?verify=no&x={SECRET}",
        f"nosuch://{SECRET}",
        f"json:{SECRET}",
        f"mailto://{SECRET}:{SECRET}@127.0.0.1:1?smtp=127.0.0.1",
        f"form://127.0.0.1:1/%68unter2/{SECRET}",
    ],
)
def test_why_something_was_not_sent_says_nothing_of_the_url(
    url: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    failure = deliver(url, _HELLO)

    assert failure
    out, err = capfd.readouterr()
    for text in (failure, out, err, caplog.text):
        assert "hunter2" not in text


def test_nothing_is_kept_on_disk_and_no_template_is_filled_in(
    inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert deliver(inbox.url, replace(_HELLO, body="{{app_id}} :smile: \\n <b>")) is None

    assert inbox.messages[0]["message"] == "{{app_id}} :smile: \\n <b>"
    assert list(tmp_path.iterdir()) == []
