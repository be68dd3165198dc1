from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.errors import BadInstant
from scrubjay.replay.instants import (
    FromEnd,
    FromStart,
    Instant,
    Offset,
    Share,
    Span,
    TimeOfDay,
    Wall,
    format_span,
    parse_instant,
    resolve,
    wall_before,
)
from tests.support.tables import every_row

S = 1_000_000
MINUTE, HOUR, DAY = 60 * S, 3_600 * S, 86_400 * S
BERLIN = ZoneInfo("Europe/Berlin")  # the clock is put forward on 29 March and back on 25 October 2026


def _wall(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * S)


# Recorded from 02:13:55 to 03:13:55.
_NIGHT = [Span(0, HOUR, _wall("2026-11-15T02:13:55"))]


@every_row(
    ("raw", "meant"),
    [
        ("12.5s", FromStart(12_500_000)),
        ("90", FromStart(90 * S)),
        ("0", FromStart(0)),
        (" 1.25 ", FromStart(1_250_000)),
        ("1h2m", FromStart(HOUR + 2 * MINUTE)),
        ("1h2m3.5s", FromStart(HOUR + 2 * MINUTE + 3_500_000)),
        ("1.5h", FromStart(90 * MINUTE)),
        ("2d", FromStart(2 * DAY)),
        ("2D1H", FromStart(2 * DAY + HOUR)),
        ("0.000001s", FromStart(1)),
        ("50%", Share(0.5)),
        ("33.3%", Share(0.333)),
        ("-10m", FromEnd(10 * MINUTE)),
        ("-90s", FromEnd(90 * S)),
        ("-90", FromEnd(90 * S)),
        ("02:14", TimeOfDay(2 * HOUR + 14 * MINUTE)),
        ("2:14:07", TimeOfDay(2 * HOUR + 14 * MINUTE + 7 * S)),
        ("02:14:07.250", TimeOfDay(2 * HOUR + 14 * MINUTE + 7_250_000)),
        ("2026-11-15T02:14", Wall(_wall("2026-11-15T02:14"), local=True)),
        ("2026-11-15 02:14:07", Wall(_wall("2026-11-15T02:14:07"), local=True)),
        ("2026-11-15", Wall(_wall("2026-11-15T00:00"), local=True)),
        ("2026-11-15T02:14:07.5Z", Wall(_wall("2026-11-15T02:14:07.500"))),
        ("2026-11-15T02:14+02:00", Wall(_wall("2026-11-15T00:14"))),
        ("2026-11-15t02:14-0530", Wall(_wall("2026-11-15T07:44"))),
        ("@12345", Offset(12345)),
    ],
)
def test_every_form_of_an_instant_is_understood(raw: str, meant: Instant) -> None:
    assert parse_instant(raw) == meant


@every_row(
    "raw",
    [
        *("", "-", "soon", "12x", "1m1h", "1h 2m", "--5s", "-50%", "1:2:3", "24:00", "02:60", "02:14:60", "1e3", "٣s"),
        *("2026-13-01T00:00", "2026-02-30", "1066-10-14T09:00", "9999-12-31", "@", "@-1", "@1.5", "5%%", "x" * 300),
    ],
)
def test_anything_else_is_named_with_the_forms_there_are(raw: str) -> None:
    with pytest.raises(BadInstant) as caught:
        parse_instant(raw)

    assert repr(raw[:60])[:-1] in str(caught.value)
    assert caught.value.hint is not None
    assert all(form in caught.value.hint for form in ("12.5s", "50%", "-10m", "02:14:07", "@OFFSET"))


@given(st.text(max_size=30))
def test_any_text_is_an_instant_or_a_bad_one(raw: str) -> None:
    try:
        instant = parse_instant(raw)
    except BadInstant:
        return
    assert 0 <= resolve(instant, _NIGHT, UTC).time <= HOUR


@given(st.integers(0, 400 * DAY))
def test_a_span_written_out_is_read_back(us: int) -> None:
    seconds, part = divmod(us, S)
    written = f"{seconds // 86_400}d{seconds // 3_600 % 24}h{seconds // 60 % 60}m{seconds % 60}.{part:06d}s"

    assert parse_instant(written) == FromStart(us)
    assert parse_instant("-" + written) == FromEnd(us)


@given(st.integers(-400 * DAY, 400 * DAY))
def test_a_span_shown_to_a_person_says_exactly_how_long(us: int) -> None:
    shown = format_span(us, digits=6)

    sign = -1 if shown.startswith("-") else 1
    total = 0
    for part in shown.removeprefix("-").replace(".", ":").split(":")[:-1]:
        total = total * 60 + int(part)
    assert sign * (total * S + int(shown[-6:])) == us


@every_row(
    ("us", "shown"),
    [(0, "0:00.0"), (7 * S, "0:07.0"), (HOUR + 2 * MINUTE + 3_590_000, "1:02:03.5"), (50 * HOUR, "50:00:00.0")],
)
def test_spans_are_short_to_read(us: int, shown: str) -> None:
    assert format_span(us) == shown
    assert format_span(us, digits=0) == shown[:-2]


@every_row(
    ("raw", "time"),
    [
        *(("12.5s", 12_500_000), ("50%", HOUR // 2), ("100%", HOUR), ("-10m", 50 * MINUTE), ("0", 0), ("60m", HOUR)),
        *(("02:13:55", 0), ("02:14", 5 * S), ("02:14:07.25", 12_250_000), ("03:13:55", HOUR)),
        *(("2026-11-15T02:14", 5 * S), ("2026-11-15T02:14Z", 5 * S), ("2026-11-15T04:14:55+02:00", MINUTE)),
    ],
)
def test_an_instant_within_the_recording_is_found(raw: str, time: int) -> None:
    moment = resolve(parse_instant(raw), _NIGHT, UTC)

    assert (moment.time, moment.offset, moment.clamped) == (time, None, None)


@every_row(
    ("raw", "time", "why"),
    [
        ("2h", HOUR, "2:00:00.0 is after the end of the recording (1:00:00.0); showing its end"),
        ("-2h", 0, "the recording is only 1:00:00.0 long; showing its start"),
        ("150%", HOUR, "150% is after the end; showing the end"),
        ("02:00", 0, "02:00:00 is before the recording began (02:13:55); showing its start"),
        ("04:00", HOUR, "04:00:00 is after the end of the recording (03:13:55); showing its end"),
        ("2026-11-15T02:00", 0, "02:00:00 is before the recording began (02:13:55); showing its start"),
        (
            "2026-11-14T03:00",
            0,
            "2026-11-14 03:00:00 is before the recording began (2026-11-15 02:13:55); showing its start",
        ),
        (
            "2027-01-01",
            HOUR,
            "2027-01-01 00:00:00 is after the end of the recording (2026-11-15 03:13:55); showing its end",
        ),
    ],
)
def test_an_instant_outside_is_clamped_and_says_so(raw: str, time: int, why: str) -> None:
    moment = resolve(parse_instant(raw), _NIGHT, UTC)

    assert (moment.time, moment.clamped) == (time, why)


def test_an_offset_is_one_of_the_newest_tape() -> None:
    moment = resolve(Offset(77), [Span(0, HOUR), Span(HOUR, 2 * HOUR)], UTC)

    assert (moment.time, moment.offset) == (HOUR, 77)


def test_a_recording_of_nothing_has_one_instant() -> None:
    for raw in ("0", "0s", "50%", "-0", "@0"):
        assert resolve(parse_instant(raw), [], UTC).time == 0


def test_a_recording_without_a_clock_says_that_it_has_none() -> None:
    moment = resolve(parse_instant("02:14"), [Span(0, HOUR)], UTC)

    assert moment.time == 0
    assert moment.clamped == "the recording does not say what the time was; showing its start"


def test_the_gap_between_two_tapes_leads_to_the_second() -> None:
    spans = [Span(0, HOUR, _wall("2026-11-15T02:00")), Span(HOUR, 2 * HOUR, _wall("2026-11-15T05:00"))]

    moment = resolve(parse_instant("04:00"), spans, UTC)

    assert moment.time == HOUR
    assert moment.clamped == "nothing was recorded at 04:00:00, from 03:00:00 to 05:00:00; showing what came next"
    assert resolve(parse_instant("05:30"), spans, UTC).time == HOUR + 30 * MINUTE


def test_a_time_of_day_is_the_last_such_time_of_the_recording() -> None:
    spans = [Span(0, 50 * HOUR, _wall("2026-11-15T02:00"))]  # until 04:00 two days later

    assert resolve(parse_instant("03:00"), spans, UTC).time == 49 * HOUR
    assert resolve(parse_instant("05:00"), spans, UTC).time == 27 * HOUR


def test_a_time_of_day_that_never_was_is_clamped_to_the_nearest_end() -> None:
    spans = [Span(0, HOUR, _wall("2026-11-15T23:30"))]

    assert resolve(parse_instant("23:00"), spans, UTC).time == 0
    assert resolve(parse_instant("01:00"), spans, UTC).time == HOUR
    assert resolve(parse_instant("00:10"), spans, UTC).time == 40 * MINUTE


def test_jumps_of_the_clock_are_honoured() -> None:
    start = _wall("2026-11-15T02:00")
    # After ten minutes the clock was put forward by an hour, after another ten back again.
    anchors = [(10 * MINUTE, start + 70 * MINUTE), (20 * MINUTE, start + 20 * MINUTE)]
    spans = [Span(0, 30 * MINUTE, start, anchors)]

    assert resolve(parse_instant("02:05"), spans, UTC).time == 5 * MINUTE
    assert resolve(parse_instant("03:15"), spans, UTC).time == 15 * MINUTE
    assert resolve(parse_instant("02:25"), spans, UTC).time == 25 * MINUTE
    skipped = resolve(parse_instant("02:15"), spans, UTC)
    assert skipped.time == 20 * MINUTE
    assert skipped.clamped is not None


def test_a_time_the_clock_showed_twice_is_the_first_by_date_and_the_last_by_time_of_day() -> None:
    start = _wall("2026-11-15T02:00")
    spans = [Span(0, 40 * MINUTE, start, [(20 * MINUTE, start)])]

    assert resolve(parse_instant("2026-11-15T02:10"), spans, UTC).time == 10 * MINUTE
    assert resolve(parse_instant("02:10"), spans, UTC).time == 30 * MINUTE


def test_a_clock_that_is_corrected_by_a_little_has_no_gaps() -> None:
    start = _wall("2026-11-15T02:00")
    anchors = [(minute * MINUTE, start + minute * (MINUTE + 900)) for minute in range(1, 60)]
    spans = [Span(0, HOUR, start, anchors)]

    for second in range(0, 3_600, 7):
        moment = resolve(Wall(start + second * S), spans, UTC)
        assert moment.clamped is None
        assert abs(moment.time - second * S) < 60 * 1_000


def test_a_tape_whose_clock_is_known_only_later_is_reckoned_back() -> None:
    spans = [Span(0, HOUR, None, [(10 * MINUTE, _wall("2026-11-15T02:10"))])]

    assert resolve(parse_instant("02:05"), spans, UTC).time == 5 * MINUTE


def test_an_hour_that_comes_twice_can_be_told_apart_by_its_zone() -> None:
    spans = [Span(0, 4 * HOUR, _wall("2026-10-24T23:00"))]  # 01:00 in summer to 04:00 in winter

    assert resolve(parse_instant("2026-10-25T02:30"), spans, BERLIN).time == 90 * MINUTE
    assert resolve(parse_instant("02:30"), spans, BERLIN).time == 150 * MINUTE
    assert resolve(parse_instant("2026-10-25T02:30+01:00"), spans, BERLIN).time == 150 * MINUTE


def test_of_an_hour_that_comes_twice_the_one_that_was_recorded_is_meant() -> None:
    spans = [Span(0, HOUR, _wall("2026-10-25T01:00"))]  # the second 02:00 to 03:00

    moment = resolve(parse_instant("2026-10-25T02:30"), spans, BERLIN)

    assert (moment.time, moment.clamped) == (30 * MINUTE, None)


def test_an_hour_that_never_came_is_an_hour_later() -> None:
    spans = [Span(0, 4 * HOUR, _wall("2026-03-29T00:00"))]  # 01:00 in winter to 06:00 in summer

    assert resolve(parse_instant("2026-03-29T02:30"), spans, BERLIN).time == 90 * MINUTE
    assert resolve(parse_instant("03:30"), spans, BERLIN).time == 90 * MINUTE


def test_a_nonsensical_clock_is_no_clock() -> None:
    spans = [Span(0, HOUR, -5), Span(HOUR, 2 * HOUR, 1 << 62)]

    assert resolve(parse_instant("02:14"), spans, UTC).time == 0


@given(
    start=st.integers(0, 2 * 10**15),
    steps=st.lists(st.tuples(st.integers(1, DAY), st.integers(-DAY, DAY)), max_size=5),
    asked=st.integers(0, 2 * 10**15),
)
def test_whatever_the_clock_did_a_reading_of_it_is_found(start: int, steps: list[tuple[int, int]], asked: int) -> None:
    anchors: list[tuple[int, int]] = []
    time, wall = 0, start
    for length, jump in steps:
        time, wall = time + length, max(0, wall + length + jump)
        anchors.append((time, wall))
    span = Span(0, time + HOUR, start, anchors)

    for at, shown in anchors:
        assert resolve(Wall(shown), [span], UTC).clamped is None, at
    assert 0 <= resolve(Wall(asked), [span], UTC).time <= span.stop
    assert 0 <= resolve(TimeOfDay(asked % DAY), [span], UTC).time <= span.stop


def test_speaking_of_the_past_a_time_of_day_is_the_last_one() -> None:
    now = _wall("2026-11-15T03:00")

    assert wall_before(TimeOfDay(2 * HOUR), now, UTC) == _wall("2026-11-15T02:00")
    assert wall_before(TimeOfDay(4 * HOUR), now, UTC) == _wall("2026-11-14T04:00")
    assert wall_before(Wall(_wall("2026-11-01T04:00"), local=True), now, BERLIN) == _wall("2026-11-01T03:00")


def test_without_a_zone_the_clock_is_the_machines() -> None:
    start = datetime(2026, 11, 15, 2, 0).astimezone()
    spans = [Span(0, HOUR, round(start.timestamp()) * S)]

    assert resolve(parse_instant("02:14"), spans, None).time == 14 * MINUTE
    assert resolve(parse_instant("2026-11-15T02:14"), spans, None).time == 14 * MINUTE
