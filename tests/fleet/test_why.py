"""The ways from a party to what holds it up."""

from __future__ import annotations

from scrubjay.fleet.parties import Party
from scrubjay.fleet.waits import Wait
from scrubjay.fleet.why import Way, graph_of, ways_from


def _ways(party: str, *waits: Wait) -> list[Way]:
    return ways_from(Party(party), graph_of(waits), {wait.id: wait for wait in waits})


def _wait(waiter: str, on: str, since_us: int = 0) -> Wait:
    return Wait(f"{waiter} for {on}", Party(waiter), "pod", "declared", on=Party(on), since_us=since_us)


def _told(ways: list[Way]) -> list[tuple[list[str], str, str | None]]:
    return [([wait.id for wait in way.waits], way.end, way.cut) for way in ways]


def test_who_waits_for_nothing_has_no_way() -> None:
    assert _ways("a", _wait("b", "a")) == []


def test_every_way_leads_to_somebody_who_waits_for_nothing_the_nearest_first() -> None:
    told = _told(_ways("a", _wait("a", "b"), _wait("b", "c"), _wait("a", "d")))

    assert told == [(["a for d"], "somebody", None), (["a for b", "b for c"], "somebody", None)]


def test_what_nobody_is_known_to_do_ends_a_way() -> None:
    schema = Wait("for the schema", Party("a"), "artifact", "declared", key="schema")

    assert _told(_ways("a", schema)) == [(["for the schema"], "nobody", None)]


def test_who_is_in_a_circle_is_led_around_it() -> None:
    circle = [_wait("a", "b", 1), _wait("b", "c", 2), _wait("c", "a", 3)]

    for party, first in (("a", 0), ("b", 1), ("c", 2)):
        ids = [wait.id for wait in circle]
        assert _told(_ways(party, *circle)) == [(ids[first:] + ids[:first], "circle", "c for a")]


def test_who_is_led_to_a_circle_comes_to_it_by_the_shortest_way_and_then_around() -> None:
    circle = [_wait("a", "b", 1), _wait("b", "c", 2), _wait("c", "a", 3)]
    way = [_wait("x", "y"), _wait("y", "b"), _wait("x", "z"), _wait("z", "w"), _wait("w", "a")]

    assert _told(_ways("x", *circle, *way)) == [
        (["x for y", "y for b", "b for c", "c for a", "a for b"], "circle", "c for a")
    ]
