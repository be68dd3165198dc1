"""The screen that several viewers of a live pod begin with."""

from __future__ import annotations

import asyncio
import gc

import pytest

from scrubjay.ids import new_pod_id
from scrubjay.server.live import LiveKeyframe, LivePod, PodUnwatchable


@pytest.mark.anyio
async def test_a_screen_that_cannot_be_had_is_no_fault_when_every_viewer_has_left() -> None:
    may_fail = asyncio.Event()
    unhandled: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))

    async def fail() -> LiveKeyframe:
        await may_fail.wait()
        raise PodUnwatchable("the connection to its runner was lost")

    live = LivePod(new_pod_id(), fail)
    viewer = asyncio.create_task(live.keyframe())
    await asyncio.sleep(0)
    viewer.cancel()
    await asyncio.wait([viewer])
    may_fail.set()
    for _ in range(5):
        await asyncio.sleep(0)
    gc.collect()

    assert unhandled == []
