from __future__ import annotations

import pytest

from scrubjay.cli.player.transport import SPEEDS, Transport
from scrubjay.replay.instants import SECOND_US


def test_it_stays_until_it_plays() -> None:
    transport = Transport(time=7)

    assert transport.position(1000.0) == 7


def test_playing_follows_the_clock() -> None:
    transport = Transport()
    transport.play(10.0)

    assert transport.position(12.5) == 2_500_000


@pytest.mark.parametrize("speed", SPEEDS)
def test_playing_follows_the_clock_at_any_speed(speed: float) -> None:
    transport = Transport(speed=speed)
    transport.play(0.0)

    assert transport.position(8.0) == 8 * SECOND_US * speed


def test_a_pause_keeps_the_place_and_playing_goes_on_from_it() -> None:
    transport = Transport()
    transport.play(0.0)
    transport.pause(3.0)

    assert transport.position(50.0) == 3 * SECOND_US

    transport.play(60.0)

    assert transport.position(61.0) == 4 * SECOND_US


def test_a_change_of_speed_does_not_move_the_place() -> None:
    transport = Transport()
    transport.play(0.0)
    transport.faster(4.0)

    assert transport.position(4.0) == 4 * SECOND_US
    assert transport.position(5.0) == 6 * SECOND_US


def test_going_somewhere_while_it_plays_plays_on_from_there() -> None:
    transport = Transport()
    transport.play(0.0)
    transport.go(90 * SECOND_US, 5.0)

    assert transport.position(6.0) == 91 * SECOND_US


def test_there_is_nothing_before_the_start() -> None:
    transport = Transport()
    transport.go(-5, 0.0)

    assert transport.position(0.0) == 0


def test_speeds_end_where_the_list_ends() -> None:
    transport = Transport()
    for _ in range(20):
        transport.faster(0.0)
    fastest = transport.speed
    for _ in range(20):
        transport.slower(0.0)

    assert (fastest, transport.speed) == (SPEEDS[-1], SPEEDS[0])


def test_a_speed_that_is_not_in_the_list_changes_to_its_neighbours() -> None:
    transport = Transport(speed=3.0)
    transport.faster(0.0)
    assert transport.speed == 4.0

    transport = Transport(speed=3.0)
    transport.slower(0.0)
    assert transport.speed == 2.0
