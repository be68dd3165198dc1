"""What people call an instant, and where on a recording's line of time it is. Pure but for the local time zone."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from itertools import pairwise
from typing import assert_never

from scrubjay.errors import BadInstant

SECOND_US = 1_000_000
_UNITS_S = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DAY_US = 86_400 * SECOND_US
_STEADY_US = SECOND_US  # a clock that is corrected by less has not jumped, and nobody is told of less
_WALL_MAX_US = 250_000_000_000 * SECOND_US  # within what a date can say, the zone included: the year 9892

_PAST = "2h (ago), 02:14:07 or 2026-11-15T02:14"
_TO_COME = "15m (from now), 02:14:07 or 2026-11-15T02:14, and not over"

_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_SPAN = re.compile(
    rf"(?P<bare>{_NUMBER})|(?:(?P<d>{_NUMBER})d)?(?:(?P<h>{_NUMBER})h)?(?:(?P<m>{_NUMBER})m)?(?:(?P<s>{_NUMBER})s)?",
    re.I,
)
_SHARE = re.compile(rf"({_NUMBER})%")
_OFFSET = re.compile(r"@([0-9]{1,18})")
_CLOCK = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<part>[0-9]{1,9}))?)?"
_TIME_OF_DAY = re.compile(_CLOCK)
_WALL = re.compile(
    rf"(?P<date>[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})(?:[T ]{_CLOCK})?(?P<zone>Z|[+-][0-9]{{2}}:?[0-9]{{2}})?", re.I
)


@dataclass(frozen=True, slots=True)
class FromStart:
    """So long after the recording began: ``12.5s``, ``1h2m``, ``90``."""

    us: int


@dataclass(frozen=True, slots=True)
class FromEnd:
    """So long before its end: ``-10m``."""

    us: int


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the whole: ``50%``."""

    fraction: float


@dataclass(frozen=True, slots=True)
class TimeOfDay:
    """What a clock on the wall showed, on whichever day: ``02:14:07``."""

    us: int  #: since midnight by that clock


@dataclass(frozen=True, slots=True)
class Wall:
    """What clock and calendar showed: ``2026-11-15T02:14``, ``2026-11-15T02:14:07+02:00``."""

    us: int  #: since 1970 in UTC; where ``local``, as if the local zone were UTC
    local: bool = False


@dataclass(frozen=True, slots=True)
class Offset:
    """A byte of the newest tape: ``@12345``."""

    offset: int


Instant = FromStart | FromEnd | Share | TimeOfDay | Wall | Offset


@dataclass(frozen=True, slots=True)
class Span:
    """One tape on the line of time, in microseconds."""

    start: int
    stop: int
    wall_us: int | None = None  #: the wall clock at its start
    anchors: Sequence[tuple[int, int]] = ()  #: more of the same: a time on the line and the wall clock then, in order


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant that was found."""

    time: int  #: microseconds on the line of time; of an offset, where its tape begins
    offset: int | None = None  #: in the newest tape, if that is what was asked for
    clamped: str | None = None  #: why it is not the one that was asked for, for people


def parse_instant(raw: str) -> Instant:
    """Accept any of the forms above; anything else is BadInstant."""
    text = raw.strip()
    if match := _OFFSET.fullmatch(text):
        return Offset(int(match[1]))
    if match := _SHARE.fullmatch(text):
        return Share(float(Decimal(match[1]) / 100))
    if match := _TIME_OF_DAY.fullmatch(text):
        return TimeOfDay(_clock_us(match, raw))
    if match := _WALL.fullmatch(text):
        return _parse_wall(match, raw)
    if text.startswith("-"):
        return FromEnd(_span_us(text[1:], raw))
    return FromStart(_span_us(text, raw))


def resolve(instant: Instant, spans: Sequence[Span], timezone: tzinfo | None) -> Moment:
    """Find an instant in a recording; a ``timezone`` of None is the machine's own."""
    stop = spans[-1].stop if spans else 0
    match instant:
        case Offset(offset):
            return Moment(spans[-1].start if spans else 0, offset)
        case Share(fraction):
            if fraction > 1:
                return Moment(stop, clamped=f"{fraction:.0%} is after the end; showing the end")
            return Moment(round(fraction * stop))
        case FromStart(us):
            if us > stop:
                why = f"{format_span(us)} is after the end of the recording ({format_span(stop)}); showing its end"
                return Moment(stop, clamped=why)
            return Moment(us)
        case FromEnd(us):
            if us > stop:
                why = f"the recording is only {format_span(stop)} long; showing its start"
                return Moment(0, clamped=why)
            return Moment(stop - us)
        case TimeOfDay() | Wall():
            return _resolve_wall(instant, _runs(spans), timezone)
        case _:
            assert_never(instant)


def wall_before(instant: TimeOfDay | Wall, now_us: int, timezone: tzinfo | None) -> int:
    """The wall clock a person means who speaks of the past: of a time of day, the last one until ``now_us``."""
    if isinstance(instant, Wall):
        return _readings(instant, timezone)[0]
    today = _local(now_us, timezone).date()
    days = (today - timedelta(days=1), today)
    return max(wall for day in days for wall in _on(day, instant.us, timezone) if wall <= now_us)


def wall_of(raw: str, now_us: int) -> int:
    """The wall clock a person means who speaks of the past: one it showed, or so long ago (``2h``, ``-10m``).

    Microseconds since 1970 are understood, too. BadInstant if it is none of these.
    """
    if len(raw) > 12 and raw.isascii() and raw.isdigit():
        return min(int(raw), _WALL_MAX_US) if len(raw) < 20 else _WALL_MAX_US
    match _parse_wall_like(raw, _PAST):
        case FromStart(us) | FromEnd(us):
            return max(0, now_us - us)  # or a database would have no number for it
        case TimeOfDay() | Wall() as instant:
            return wall_before(instant, now_us, None)


def deadline_of(raw: str | float, now_us: int) -> int:
    """The wall clock a person means who speaks of what is to come: so long from now (``90``, ``15m``), or a time.

    BadInstant if it is none of these, or has passed.
    """
    match _parse_wall_like(raw if isinstance(raw, str) else f"{raw:f}", _TO_COME):
        case FromStart(us):
            deadline_us = now_us + us
        case FromEnd(us):
            deadline_us = now_us - us
        case TimeOfDay() as instant:
            deadline_us = wall_before(instant, now_us + _DAY_US, None)
        case Wall() as instant:
            deadline_us = wall_before(instant, _WALL_MAX_US, None)
    if not now_us < deadline_us <= _WALL_MAX_US:
        raise BadInstant(str(raw), _TO_COME)
    return deadline_us


def _parse_wall_like(raw: str, times: str) -> FromStart | FromEnd | TimeOfDay | Wall:
    """An instant that is not one of a recording; BadInstant that says which ``times`` there are."""
    try:
        found = parse_instant(raw)
    except BadInstant as error:
        raise BadInstant(raw, times) from error
    if isinstance(found, Share | Offset):
        raise BadInstant(raw, times)
    return found


def format_span(us: int, *, digits: int = 1) -> str:
    """A span of time or a place on the line of time: ``1:02:03.5``, ``0:07.0``."""
    seconds, part = divmod(abs(us), SECOND_US)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    shown = f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
    return "-" * (us < 0) + shown + (f".{part:06d}"[: digits + 1] if digits else "")


@dataclass(slots=True)
class _Run:
    """A stretch of a tape through which the wall clock ran steadily."""

    times: list[int]
    walls: list[int]
    stop: int

    @property
    def first(self) -> int:
        return self.walls[0]

    @property
    def last(self) -> int:
        return self.walls[-1] + self.stop - self.times[-1]

    def time_of(self, wall: int) -> int:
        """The time at which the clock showed ``wall``."""
        index = bisect_right(self.walls, wall) - 1
        until = self.times[index + 1] if index + 1 < len(self.times) else self.stop
        return min(self.times[index] + wall - self.walls[index], until)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a wall clock reading was found, or what is nearest."""

    asked: int
    time: int
    wall: int  #: what the clock shows there

    @property
    def distance(self) -> int:
        return abs(self.wall - self.asked)


def _runs(spans: Sequence[Span]) -> list[_Run]:
    runs: list[_Run] = []
    for span in spans:
        anchors = [(span.start, span.wall_us)] if span.wall_us is not None else []
        anchors += [anchor for anchor in span.anchors if span.start <= anchor[0] <= span.stop]
        if not anchors:
            continue
        time, wall = anchors[0]
        run = _Run([span.start], [wall - (time - span.start)], span.stop)
        found = [run]
        for (before, wall_before), (time, wall) in pairwise(anchors):
            jump = wall - wall_before - (time - before)
            if abs(jump) <= _STEADY_US and wall > run.walls[-1] and time > run.times[-1]:
                run.times.append(time)
                run.walls.append(wall)
            elif jump:
                run.stop = time
                run = _Run([time], [wall], span.stop)
                found.append(run)
        runs += found
    return [run for run in runs if run.first >= 0 and run.last <= _WALL_MAX_US]


def _resolve_wall(instant: TimeOfDay | Wall, runs: list[_Run], timezone: tzinfo | None) -> Moment:
    if not runs:
        return Moment(0, clamped="the recording does not say what the time was; showing its start")
    if isinstance(instant, Wall):
        places = [_find(runs, wall, last=False) for wall in _readings(instant, timezone)]
    else:
        days = {_local(wall, timezone).date() for run in runs for wall in (run.first, run.last)}
        near = {day + timedelta(days=more) for day in days for more in (-1, 0, 1)}
        walls = {wall for day in near for wall in _on(day, instant.us, timezone)}
        places = [_find(runs, wall, last=True) for wall in sorted(walls, reverse=True)]
    place = min(places, key=lambda place: place.distance)
    return Moment(place.time, clamped=_explain(place, runs, timezone))


def _find(runs: list[_Run], wall: int, *, last: bool) -> _Place:
    """Where the clock showed ``wall``, the first or last time it did; else what comes after, else the end."""
    if inside := [run for run in runs if run.first <= wall <= run.last]:
        return _Place(wall, inside[-1 if last else 0].time_of(wall), wall)
    if later := [run for run in runs if run.first > wall]:
        run = min(later, key=lambda run: run.first)
        return _Place(wall, run.times[0], run.first)
    run = max(runs, key=lambda run: run.last)
    return _Place(wall, run.stop, run.last)


def _explain(place: _Place, runs: list[_Run], timezone: tzinfo | None) -> str | None:
    if place.distance < _STEADY_US:
        return None
    asked, shown = _show_walls((place.asked, place.wall), timezone)
    if place.wall < place.asked:
        return f"{asked} is after the end of the recording ({shown}); showing its end"
    before = [run.last for run in runs if run.last < place.asked]
    if not before:
        return f"{asked} is before the recording began ({shown}); showing its start"
    asked, shown, ended = _show_walls((place.asked, place.wall, max(before)), timezone)
    return f"nothing was recorded at {asked}, from {ended} to {shown}; showing what came next"


def _show_walls(walls: Sequence[int], timezone: tzinfo | None) -> list[str]:
    """Times of the day, with their dates where these differ."""
    local = [_local(wall, timezone) for wall in walls]
    dated = len({when.date() for when in local}) > 1
    return [f"{when:%Y-%m-%d %H:%M:%S}" if dated else f"{when:%H:%M:%S}" for when in local]


def _local(wall_us: int, timezone: tzinfo | None) -> datetime:
    return datetime.fromtimestamp(wall_us // SECOND_US, timezone)


def _readings(instant: Wall, timezone: tzinfo | None) -> list[int]:
    """Wall clocks in UTC that a date and time may mean: two where the clock was put back."""
    if not instant.local:
        return [instant.us]
    day, us = divmod(instant.us, 86_400 * SECOND_US)
    return _on(date(1970, 1, 1) + timedelta(days=day), us, timezone)


def _on(day: date, us: int, timezone: tzinfo | None) -> list[int]:
    """When a clock in that zone showed so much since midnight that day, in UTC: twice where it was put back.

    Where it was put forward over that time, the clock is taken to have gone on.
    """
    seconds, part = divmod(us, SECOND_US)
    clock = time(seconds // 3_600, seconds // 60 % 60, seconds % 60)
    found = [datetime.combine(day, clock.replace(fold=fold), timezone).timestamp() for fold in (0, 1)]
    return [int(second) * SECOND_US + part for second in sorted({found[0], max(found)})]


def _span_us(text: str, raw: str) -> int:
    match = _SPAN.fullmatch(text)
    if match is None or not text:
        raise BadInstant(raw)
    if match["bare"] is not None:
        return int(Decimal(match["bare"]) * SECOND_US)
    return sum(int(Decimal(match[unit]) * size * SECOND_US) for unit, size in _UNITS_S.items() if match[unit])


def _clock_us(match: re.Match[str], raw: str) -> int:
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise BadInstant(raw)
    return (hour * 3_600 + minute * 60 + second) * SECOND_US + int((match["part"] or "").ljust(6, "0")[:6])


def _parse_wall(match: re.Match[str], raw: str) -> Wall:
    try:
        day = (date.fromisoformat(match["date"]) - date(1970, 1, 1)).days
    except ValueError as error:
        raise BadInstant(raw) from error
    us = day * 86_400 * SECOND_US + (_clock_us(match, raw) if match["hour"] else 0)
    zone = match["zone"]
    if zone is not None and zone not in "Zz":
        ahead = (int(zone[1:3]) * 3_600 + int(zone[-2:]) * 60) * SECOND_US
        us -= -ahead if zone[0] == "-" else ahead
    if not 0 <= us <= _WALL_MAX_US:
        raise BadInstant(raw)
    return Wall(us, local=zone is None)
