"""What a runner tells its server."""

from __future__ import annotations

from pathlib import Path

import pytest

from scrubjay.clock import SystemClock
from scrubjay.pods.home import Home
from scrubjay.runner.runner import Runner
from scrubjay.runner.screens import Heard
from scrubjay.runner.tended import Tended
from scrubjay.runner.uplink import Uplink
from scrubjay.screen.engine import Effect
from scrubjay.settings import Settings
from scrubjay.wire.messages import Answer, Called, FromRunner, UnknownRequest
from tests.runner.fake_keeper import FakeKeeper

pytestmark = pytest.mark.anyio


async def test_many_bells_at_once_are_one_and_of_many_notifications_the_last_are_told(tmp_path: Path) -> None:
    runner = Runner(Home(tmp_path), Settings(data=tmp_path), {})
    runner.found_all.set()
    said: list[FromRunner] = []
    await Uplink(runner).connect(said.append)
    tended = Tended(FakeKeeper(tmp_path / "pods").pod, runner, SystemClock())
    calls = [effect for n in range(100) for effect in (Effect("bell"), Effect("notification", b"%d" % n))]

    runner.on_called(tended, Heard(7, 0, b"", tuple(calls)))

    called = [message for message in said if isinstance(message, Called)]
    assert [call.kind for call in called] == ["notification"] * 8 + ["bell"]
    assert [call.body for call in called[:8]] == [str(n) for n in range(92, 100)]


async def test_what_only_a_newer_server_knows_is_declined_with_the_reason(tmp_path: Path) -> None:
    runner = Runner(Home(tmp_path), Settings(data=tmp_path), {})
    runner.found_all.set()
    said: list[FromRunner] = []
    uplink = Uplink(runner)
    await uplink.connect(said.append)

    uplink.decline(UnknownRequest(7, "levitate"))
    uplink.decline(UnknownRequest(0, "levitate"))  # nobody waits for the answer

    (answer,) = [message for message in said if isinstance(message, Answer)]
    assert answer.re == 7
    assert answer.fault is not None
    assert (answer.fault.kinds[0], answer.fault.message) == (
        "RunnerTooOld",
        "this runner does not know how to levitate",
    )
