"""Films that several tests play."""

from __future__ import annotations

import pytest

from scrubjay.replay.frame import Mark
from scrubjay.replay.instants import SECOND_US
from tests.cli.player.films import FakeFilm


@pytest.fixture
def counting() -> FakeFilm:
    """A minute and forty in which each second shows its number, with three marks."""
    output = [(second * SECOND_US, b"\x1b[2J\x1b[Hsecond %d" % second) for second in range(1, 101)]
    marks = [Mark(second * SECOND_US, f"label {second}", "person:test") for second in (20, 50, 80)]
    return FakeFilm(output, marks=marks)
