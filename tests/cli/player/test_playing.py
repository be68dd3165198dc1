"""Playing keeps to the clock, skips what does not change, and follows a pod that runs."""

from __future__ import annotations

import threading
from pathlib import Path

from scrubjay.cli.player.film import Found, Tools
from scrubjay.cli.player.help import Help
from scrubjay.errors import ScrubjayError
from scrubjay.replay.frame import Frame
from scrubjay.replay.instants import SECOND_US
from tests.cli.player.films import FakeFilm
from tests.cli.player.stage import on_stage, scenario


def _gap(seconds: int) -> FakeFilm:
    """Something, a pause, something, and a little more."""
    return FakeFilm(
        [(SECOND_US, b"before"), ((1 + seconds) * SECOND_US, b" after"), ((3 + seconds) * SECOND_US, b" end")],
        tail_us=SECOND_US,
    )


@scenario
async def test_it_plays_at_once_unless_told_otherwise(counting: FakeFilm) -> None:
    async with on_stage(counting, playing=True) as stage:
        stage.now_s += 3

        await stage.sees("second 3")


@scenario
async def test_playing_keeps_to_the_clock_and_drops_what_it_is_late_for(counting: FakeFilm) -> None:
    async with on_stage(counting, playing=True, speed=4) as stage:
        stage.film.seeks.clear()
        stage.now_s += 20

        await stage.sees("second 80")
        assert len([time for time in stage.film.seeks if time > 0]) < 20


@scenario
async def test_a_slow_seek_does_not_stop_the_keys(counting: FakeFilm) -> None:
    blocked = threading.Event()
    seek = counting.seek

    def slow_seek(time: int, *, history: int = 0) -> Frame:
        if time >= 50 * SECOND_US:
            blocked.wait(10)
        return seek(time, history=history)

    counting.seek = slow_seek
    async with on_stage(counting) as stage:
        await stage.press("7", "greater_than_sign")
        await stage.reads(" 2x ", "70%")
        stage.now_s += 1
        await stage.reads("one moment…")

        await stage.press("6")
        blocked.set()
        await stage.sees("second 60")


@scenario
async def test_of_many_wishes_only_the_last_is_granted(counting: FakeFilm) -> None:
    blocked = threading.Event()
    seek = counting.seek

    def slow_seek(time: int, *, history: int = 0) -> Frame:
        if time:
            blocked.wait(10)
        return seek(time, history=history)

    counting.seek = slow_seek
    async with on_stage(counting) as stage:
        await stage.press("1", "2", "3", "4", "5", "6", "7")
        blocked.set()
        await stage.sees("second 70")

    assert len([time for time in counting.seeks if time]) <= 2


@scenario
async def test_a_long_stretch_without_a_change_is_skipped() -> None:
    async with on_stage(_gap(600), playing=True) as stage:
        stage.now_s += 1
        await stage.sees("before")
        await stage.until(lambda: "10:01" not in stage.status)
        stage.now_s += 2.5

        await stage.sees("before after")
        await stage.reads("skipped 9:5")


@scenario
async def test_output_without_a_change_to_be_seen_is_skipped_too() -> None:
    titles = [(second * SECOND_US // 2, b"\x1b]2;title %d\x07" % second) for second in range(3, 120)]
    film = FakeFilm([(SECOND_US, b"before"), *titles, (61 * SECOND_US, b" after")])
    async with on_stage(film, playing=True) as stage:
        stage.now_s += 1
        await stage.sees("before")
        stage.now_s += 2.5

        await stage.sees("before after")


@scenario
async def test_a_change_within_the_idle_limit_is_waited_for() -> None:
    film = _gap(2)
    async with on_stage(film, playing=True, idle_limit_s=5) as stage:
        stage.now_s += 1.5
        await stage.sees("before")
        stage.now_s += 0.5
        await stage.reads("0:02.0")
        assert "after" not in stage.screen
        stage.now_s += 1

        await stage.sees("before after")


@scenario
async def test_an_idle_limit_of_nothing_skips_nothing() -> None:
    async with on_stage(_gap(600), playing=True, idle_limit_s=0) as stage:
        stage.now_s += 1
        await stage.sees("before")
        stage.now_s += 500
        await stage.reads("8:21.0")

        assert "after" not in stage.screen


@scenario
async def test_playing_stops_at_the_end_and_space_begins_anew(counting: FakeFilm) -> None:
    async with on_stage(counting, playing=True, at_s=99) as stage:
        stage.now_s += 5
        await stage.reads("❚❚", "1:40.0 / 1:40", "100%")

        await stage.press("space")
        stage.now_s += 2
        await stage.sees("second 2")


@scenario
async def test_the_wall_clock_goes_with_the_position(counting: FakeFilm) -> None:
    async with on_stage(counting, at_s=7) as stage:
        await stage.until(lambda: stage.status.rpartition("%")[2].count(":") == 2)
        at_seven = stage.status
        await stage.press("1")

        await stage.until(lambda: "10%" in stage.status)
        seconds = [int(status.split("%")[1].split()[1].split(":")[2]) for status in (at_seven, stage.status)]
        assert (seconds[1] - seconds[0]) % 60 == 3


@scenario
async def test_end_follows_a_pod_that_runs(counting: FakeFilm) -> None:
    counting.live = True
    async with on_stage(counting) as stage:
        await stage.reads("○ running")
        await stage.press("end")
        await stage.reads("● live", "▶")
        counting.record(130 * SECOND_US, b"\x1b[2J\x1b[Hjust now")

        await stage.until(lambda: "just now" in stage.screen, passing_s=1)
        await stage.reads("2:10.0 / 2:10")


@scenario
async def test_a_jump_back_leaves_the_live_edge(counting: FakeFilm) -> None:
    counting.live = True
    async with on_stage(counting) as stage:
        await stage.press("end", "left")

        await stage.sees("second 95")
        await stage.reads("○ running", "❚❚")


@scenario
async def test_space_at_the_live_edge_stays_and_goes_on(counting: FakeFilm) -> None:
    counting.live = True
    async with on_stage(counting) as stage:
        await stage.press("end", "space")
        await stage.reads("❚❚", "○ running")
        await stage.press("space")

        await stage.reads("● live")


@scenario
async def test_playing_into_the_live_edge_follows_it(counting: FakeFilm) -> None:
    counting.live = True
    async with on_stage(counting, playing=True, at_s=99) as stage:
        stage.now_s += 3

        await stage.reads("● live")


@scenario
async def test_the_length_of_a_pod_that_runs_grows_while_its_past_is_watched(counting: FakeFilm) -> None:
    counting.live = True
    async with on_stage(counting, at_s=10) as stage:
        counting.record(200 * SECOND_US, b"later")

        await stage.reads("0:10.0 / 3:20", passing_s=1)


@scenario
async def test_a_pod_that_ends_is_shown_to_its_last_byte(counting: FakeFilm) -> None:
    counting.live = True
    async with on_stage(counting) as stage:
        await stage.press("end")
        await stage.reads("● live")
        counting.record(140 * SECOND_US, b"\x1b[2J\x1b[Hlast words")
        counting.live = False

        await stage.until(lambda: "last words" in stage.screen, passing_s=1)
        await stage.until(lambda: "live" not in stage.status and "running" not in stage.status)


@scenario
async def test_what_is_not_indexed_is_indexed_while_it_plays(counting: FakeFilm) -> None:
    shown: list[float] = []
    counting.indexed = False
    seek = counting.seek

    def watching_seek(time: int, *, history: int = 0) -> Frame:
        counting.indexed = time >= counting.duration
        return seek(time, history=history)

    counting.seek = watching_seek
    async with on_stage(counting) as stage:
        await stage.until(lambda: counting.indexed)
        await stage.until(lambda: "indexing" not in stage.status)
        shown += [time / counting.duration for time in counting.seeks]

    assert shown == sorted(shown)
    assert shown[-1] == 1.0


@scenario
async def test_a_pod_that_runs_is_indexed_again_when_it_has_grown(counting: FakeFilm) -> None:
    counting.live = True
    async with on_stage(counting) as stage:
        await stage.until(lambda: counting.indexed_times == 1)
        counting.record(105 * SECOND_US, b"a little")
        await stage.reads("/ 1:45", passing_s=1)
        assert counting.indexed_times == 1

        counting.record(160 * SECOND_US, b"much")
        await stage.until(lambda: counting.indexed_times == 2, passing_s=1)


@scenario
async def test_a_screen_that_is_unavailable_says_why() -> None:
    film = FakeFilm([(SECOND_US, b"x")], unavailable="the terminal engine failed on what was shown")
    async with on_stage(film, size=(120, 40)) as stage:
        await stage.reads("screen unavailable: the terminal engine failed on what was shown")


@scenario
async def test_what_the_person_should_know_at_once_is_said(counting: FakeFilm) -> None:
    async with on_stage(counting, say="5h is after the end; showing the end") as stage:
        await stage.reads("5h is after the end; showing the end")


@scenario
async def test_an_instant_that_cannot_be_shown_is_said_and_the_player_goes_on(counting: FakeFilm) -> None:
    seek = counting.seek

    def failing_seek(time: int, *, history: int = 0) -> Frame:
        if time == 50 * SECOND_US:
            raise ScrubjayError("the tape is gone")
        return seek(time, history=history)

    counting.seek = failing_seek
    async with on_stage(counting) as stage:
        await stage.press("5")
        await stage.reads("the tape is gone")
        await stage.press("6")

        await stage.sees("second 60")


@scenario
async def test_an_export_that_fails_is_said_and_the_player_goes_on(counting: FakeFilm, tmp_path: Path) -> None:
    def export(start: int, stop: int, path: Path) -> str:
        raise PermissionError(13, "Permission denied")

    async with on_stage(counting, at_s=50, tools=Tools(export=export)) as stage:
        await stage.press("e", "enter", "enter", "enter")

        await stage.reads("Permission denied")


@scenario
async def test_a_hit_outside_the_view_is_brought_into_it() -> None:
    rows = b"\r\n".join(b"row %02d" % row for row in range(60))
    film = FakeFilm([(SECOND_US, rows)], rows=60)
    async with on_stage(film, tools=Tools(find=lambda text: [Found(SECOND_US, text)])) as stage:
        await stage.press("slash", *"03", "enter")

        await stage.sees("row 03")


@scenario
async def test_the_window_may_change_while_it_plays(counting: FakeFilm) -> None:
    async with on_stage(counting, playing=True) as stage:
        assert stage.pilot is not None
        for second, size in enumerate([(120, 40), (20, 5), (1, 1), (200, 60), (10, 2), (80, 24)], 1):
            await stage.pilot.resize_terminal(*size)
            stage.now_s += 1
            await stage.until(lambda second=second: stage.view.picture.text == f"second {second}")
        await stage.sees("second 6")
        await stage.reads("0:06.0 / 1:40")


@scenario
async def test_a_small_window_shows_as_much_of_the_screen_as_it_can(counting: FakeFilm) -> None:
    async with on_stage(counting, size=(40, 8), at_s=5) as stage:
        await stage.sees("second 5")
        await stage.reads("❚❚ 1x  0:05.0 / 1:40")
        await stage.press("question_mark")
        await stage.until(lambda: isinstance(stage.player.screen, Help))
        await stage.press("escape")
        await stage.until(lambda: not isinstance(stage.player.screen, Help))
        await stage.press("g")
        await stage.type("30s")

        await stage.sees("second 30")
