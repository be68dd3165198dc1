"""Every key does what the help says, in a small and in a large window."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from textual.containers import VerticalScroll
from textual.widgets import Input, Static

from scrubjay.cli.player.bars import TimelineBar
from scrubjay.cli.player.film import Doing, Found, Tools
from scrubjay.cli.player.help import Help
from scrubjay.errors import BadInput
from scrubjay.replay.frame import Mark
from scrubjay.replay.instants import SECOND_US
from tests.cli.player.films import FakeFilm
from tests.cli.player.stage import Stage, on_stage, scenario

_SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 40)])


def _answer(stage: Stage) -> Input:
    return stage.player.query_one(Input)


def _complaint(stage: Stage) -> str:
    return str(stage.player.query_one("#note", Static).visual)


def _finder(film: FakeFilm) -> Tools:
    return Tools(find=lambda text: [Found(time, f"line with {text}") for time in film.find(text)])


@_SIZES
@scenario
async def test_the_first_picture_shows_screen_timeline_and_status(counting: FakeFilm, size: tuple[int, int]) -> None:
    async with on_stage(counting, size=size, at_s=30.5) as stage:
        await stage.sees("second 30")
        await stage.reads("❚❚ 1x", "0:30.5 / 1:40", "30%", "80x24")
        assert "◆" in stage.timeline


@_SIZES
@scenario
async def test_space_plays_and_pauses(counting: FakeFilm, size: tuple[int, int]) -> None:
    async with on_stage(counting, size=size) as stage:
        await stage.press("space")
        stage.now_s += 12.5
        await stage.sees("second 12")
        await stage.reads("▶")

        await stage.press("space")
        stage.now_s += 30
        await stage.reads("❚❚", "0:12.5")
        await stage.sees("second 12")


@pytest.mark.parametrize(
    ("key", "second"), [("left", 45), ("right", 55), ("shift+left", 0), ("shift+right", 100), ("home", 0), ("end", 100)]
)
@_SIZES
@scenario
async def test_arrows_and_ends_jump(counting: FakeFilm, size: tuple[int, int], key: str, second: int) -> None:
    async with on_stage(counting, size=size, at_s=50) as stage:
        await stage.press(key)

        await stage.reads(f"{second // 60}:{second % 60:02d}.0 /")
        if second:
            await stage.sees(f"second {second}")


@scenario
async def test_digits_go_to_tenths(counting: FakeFilm) -> None:
    async with on_stage(counting) as stage:
        for digit in range(10):
            await stage.press(str(digit))

            await stage.reads(f"{digit * 10}%")
            if digit:
                await stage.sees(f"second {digit * 10}")


@scenario
async def test_going_somewhere_while_it_plays_plays_on_from_there(counting: FakeFilm) -> None:
    async with on_stage(counting, playing=True) as stage:
        await stage.press("5")
        stage.now_s += 7

        await stage.sees("second 57")
        await stage.reads("▶")


@_SIZES
@scenario
async def test_dot_and_comma_step_by_change(counting: FakeFilm, size: tuple[int, int]) -> None:
    async with on_stage(counting, size=size, at_s=50.4) as stage:
        await stage.press("full_stop")
        await stage.sees("second 51")
        await stage.press("full_stop", "full_stop", "full_stop")
        await stage.sees("second 54")
        await stage.press("comma")
        await stage.sees("second 53")
        await stage.reads("0:53.0")


@scenario
async def test_a_step_pauses(counting: FakeFilm) -> None:
    async with on_stage(counting, playing=True, at_s=10) as stage:
        await stage.press("full_stop")

        await stage.reads("❚❚")


@scenario
async def test_steps_end_at_the_ends(counting: FakeFilm) -> None:
    async with on_stage(counting, at_s=100) as stage:
        await stage.press("full_stop")
        await stage.reads("nothing changes after this")
        await stage.press("home", "comma")
        await stage.reads("nothing changed before this")


@_SIZES
@scenario
async def test_brackets_go_to_marks_and_say_their_labels(counting: FakeFilm, size: tuple[int, int]) -> None:
    async with on_stage(counting, size=size) as stage:
        await stage.press("right_square_bracket")
        await stage.reads("0:20.0", "mark: label 20")
        await stage.press("right_square_bracket")
        await stage.sees("second 50")
        await stage.press("left_square_bracket")
        await stage.reads("0:20.0", "mark: label 20")
        await stage.press("left_square_bracket")
        await stage.reads("no mark before this")
        await stage.press("9", "right_square_bracket")
        await stage.reads("no mark after this")


@scenario
async def test_while_it_plays_the_mark_just_passed_is_not_the_previous_one(counting: FakeFilm) -> None:
    async with on_stage(counting, playing=True) as stage:
        await stage.press("5", "right_square_bracket")
        await stage.reads("label 80")
        stage.now_s += 0.5
        await stage.press("left_square_bracket")

        await stage.reads("label 50")


def _watched() -> Tools:
    doings = [Doing(second * SECOND_US, "executing") for second in (5, 30, 65)]
    doings += [Doing(second * SECOND_US, "waiting: permission", asks=True) for second in (25, 60)]
    return Tools(doings=lambda: sorted(doings))


@_SIZES
@scenario
async def test_w_goes_to_where_the_agent_asked_and_the_line_says_what_it_does(
    counting: FakeFilm, size: tuple[int, int]
) -> None:
    async with on_stage(counting, size=size, at_s=10, tools=_watched()) as stage:
        await stage.reads("executing")
        assert stage.timeline.count("?") == 2

        await stage.press("w")
        await stage.sees("second 25")
        await stage.reads("0:25.0", "waiting: permission")
        await stage.press("w", "w")
        await stage.sees("second 60")
        await stage.reads("it asks nothing after this")
        await stage.press("W")
        await stage.sees("second 25")


@scenario
async def test_w_says_where_nobody_has_watched(counting: FakeFilm) -> None:
    async with on_stage(counting, size=(120, 24), tools=Tools(doings=list)) as stage:
        await stage.press("w")
        await stage.reads("nobody has watched what this agent did")


@_SIZES
@scenario
async def test_angle_brackets_change_the_speed(counting: FakeFilm, size: tuple[int, int]) -> None:
    async with on_stage(counting, size=size) as stage:
        for speed in ("2x", "4x", "8x", "16x", "32x", "32x"):
            await stage.press("greater_than_sign")
            await stage.reads(f" {speed} ")
        for speed in ("16x", "8x", "4x", "2x", "1x", "0.5x", "0.25x", "0.25x"):
            await stage.press("less_than_sign")
            await stage.reads(f" {speed} ")


@_SIZES
@scenario
async def test_slash_searches_and_n_goes_through_the_hits(counting: FakeFilm, size: tuple[int, int]) -> None:
    async with on_stage(counting, size=size, at_s=15, tools=_finder(counting)) as stage:
        await stage.press("slash")
        await stage.type("second 2")
        await stage.sees("second 20")
        await stage.reads("2 of 11: line with second 2", "0:20.0")
        await stage.press("n")
        await stage.sees("second 21")
        await stage.press("N", "N")
        await stage.reads("1 of 11")
        await stage.press("N")
        await stage.reads("'second 2' is nowhere before this")


@scenario
async def test_what_was_found_stands_out_until_escape(counting: FakeFilm) -> None:
    def standing_out() -> list[str]:
        return [text for text, look, _ in stage.view.render_line(0) if look is not None and look.bold and look.reverse]

    async with on_stage(counting, tools=_finder(counting)) as stage:
        await stage.press("slash")
        await stage.type("second 7")
        await stage.sees("second 7")
        assert standing_out() == ["second", "7"]
        assert "•" in stage.timeline

        await stage.press("escape")
        assert standing_out() == []
        assert "•" not in stage.timeline


@scenario
async def test_a_search_without_hits_says_so_and_keeps_the_text(counting: FakeFilm) -> None:
    async with on_stage(counting, tools=_finder(counting)) as stage:
        await stage.press("slash")
        await stage.type("absent")
        await stage.until(lambda: "nothing in this recording matches 'absent'" in _complaint(stage))
        assert _answer(stage).value == "absent"

        await stage.press("escape")
        assert not stage.prompt.open


@scenario
async def test_without_a_search_n_and_slash_say_why(counting: FakeFilm) -> None:
    async with on_stage(counting) as stage:
        await stage.press("n")
        await stage.reads("search for something first")
        await stage.press("slash")
        await stage.reads("cannot be searched")


@_SIZES
@pytest.mark.parametrize(("typed", "second"), [("70s", 70), ("1m5s", 65), ("25%", 25), ("-10s", 90)])
@scenario
async def test_g_goes_to_a_time(counting: FakeFilm, size: tuple[int, int], typed: str, second: int) -> None:
    async with on_stage(counting, size=size) as stage:
        await stage.press("g")
        await stage.type(typed)

        await stage.sees(f"second {second}")
        assert not stage.prompt.open


@scenario
async def test_a_bad_time_is_explained_and_nothing_is_lost(counting: FakeFilm) -> None:
    async with on_stage(counting, at_s=40) as stage:
        await stage.press("g")
        await stage.type("1h2x")
        await stage.until(lambda: "'1h2x' is not a time; times are like" in _complaint(stage))
        assert _answer(stage).value == "1h2x"

        await stage.press("backspace", "backspace", "backspace")
        await stage.type("m")
        await stage.sees("second 60")


@scenario
async def test_a_time_after_the_end_shows_the_end_and_says_so(counting: FakeFilm) -> None:
    async with on_stage(counting) as stage:
        await stage.press("g")
        await stage.type("9h")

        await stage.reads("after the end")
        await stage.sees("second 100")


@scenario
async def test_what_is_typed_right_after_a_key_that_asks_is_the_answer(counting: FakeFilm) -> None:
    async with on_stage(counting) as stage:
        await stage.press("g", "5", "0", "s", "enter")

        await stage.sees("second 50")


@scenario
async def test_letters_and_the_keys_that_correct_them_are_taken_in_order(counting: FakeFilm) -> None:
    async with on_stage(counting) as stage:
        await stage.press("g", "9", "9", "backspace", "0", "x", "backspace", "s", "ctrl+a", "delete", "3", "enter")

        await stage.sees("second 30")


@scenario
async def test_m_puts_a_mark(counting: FakeFilm) -> None:
    async with on_stage(counting, at_s=33, tools=Tools(mark=counting.add_mark)) as stage:
        before = stage.timeline.count("◆")
        await stage.press("m")
        await stage.type("here")

        await stage.reads("marked 33s: here")
        await stage.press("home")
        await stage.until(lambda: stage.timeline.count("◆") == before + 1)


@scenario
async def test_m_on_a_pod_that_has_ended_says_why_not(counting: FakeFilm) -> None:
    async with on_stage(counting) as stage:
        await stage.press("m")

        await stage.reads("marks can only be put on running pods")


@scenario
async def test_a_mark_that_is_refused_can_be_tried_again(counting: FakeFilm) -> None:
    def refuse(time: int, label: str) -> Mark:
        raise BadInput("the pod has ended meanwhile", hint="nothing to do")

    async with on_stage(counting, tools=Tools(mark=refuse)) as stage:
        await stage.press("m")
        await stage.type("x")

        await stage.until(lambda: "the pod has ended meanwhile; nothing to do" in _complaint(stage))
        assert _answer(stage).value == "x"


@_SIZES
@scenario
async def test_e_exports_the_last_half_minute(
    counting: FakeFilm, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[int, int, Path]] = []

    def export(start: int, stop: int, path: Path) -> str:
        written.append((start, stop, path))
        return f"wrote {path}"

    monkeypatch.chdir(tmp_path)
    async with on_stage(counting, size=size, at_s=50, tools=Tools(export=export)) as stage:
        await stage.press("e", "enter", "enter")
        await stage.until(lambda: _answer(stage).value == "pod-20s.cast")
        await stage.press("enter")
        await stage.reads("wrote pod-20s.cast")

    assert written == [(20 * SECOND_US, 50 * SECOND_US, Path("pod-20s.cast"))]


@scenario
async def test_i_and_o_set_the_clip(counting: FakeFilm) -> None:
    written: list[tuple[int, int]] = []

    def export(start: int, stop: int, path: Path) -> str:
        written.append((start, stop))
        return "wrote it"

    async with on_stage(counting, at_s=12.5, tools=Tools(export=export)) as stage:
        await stage.press("i")
        await stage.press("7", "o", "0")
        await stage.until(lambda: "[" in stage.timeline and "]" in stage.timeline)
        await stage.press("e", "enter", "enter", "enter")
        await stage.reads("wrote it")

    assert written == [(12_500_000, 70 * SECOND_US)]


@scenario
async def test_a_clip_that_ends_before_it_begins_is_refused(counting: FakeFilm) -> None:
    async with on_stage(counting, at_s=50, tools=Tools(export=lambda start, stop, path: "")) as stage:
        await stage.press("e", "enter")
        await stage.until(lambda: _answer(stage).value == "50s")
        await stage.press("backspace", "backspace", "backspace")
        await stage.type("3s")

        await stage.until(lambda: "the clip would end before it begins" in _complaint(stage))


@scenario
async def test_an_existing_file_is_replaced_only_when_confirmed(counting: FakeFilm, tmp_path: Path) -> None:
    there = tmp_path / "clip.cast"
    there.write_text("precious")
    written: list[Path] = []

    def export(start: int, stop: int, path: Path) -> str:
        written.append(path)
        return "wrote it"

    async with on_stage(counting, at_s=50, tools=Tools(export=export)) as stage:
        await stage.press("e", "enter", "enter")
        await stage.until(lambda: _answer(stage).value.endswith(".cast"))
        _answer(stage).value = str(there)
        await stage.press("enter", "n", "enter")
        await stage.until(lambda: _answer(stage).value == str(there))
        assert written == []

        await stage.press("enter", "y", "enter")
        await stage.reads("wrote it")
        assert written == [there]


@_SIZES
@scenario
async def test_page_keys_look_into_what_scrolled_off(size: tuple[int, int]) -> None:
    lines = b"".join(b"line %d\r\n" % number for number in range(1, 301))
    film = FakeFilm([(SECOND_US, lines)])
    async with on_stage(film, size=size, at_s=1) as stage:
        await stage.sees("line 300")
        await stage.press("pageup")
        await stage.reads("rows back, esc returns")
        assert "line 300" not in stage.screen
        for _ in range(20):
            await stage.press("pageup")
        await stage.sees("line 1\nline 2\n")

        await stage.press("pagedown")
        assert "line 1\n" not in stage.screen
        await stage.press("escape")
        await stage.sees("line 300")


@scenario
async def test_nothing_scrolled_off_is_said_by_staying(counting: FakeFilm) -> None:
    async with on_stage(counting, at_s=5) as stage:
        await stage.press("pageup", "pagedown")

        await stage.sees("second 5")


@scenario
async def test_a_screen_that_is_too_large_is_cropped_noted_and_panned() -> None:
    rows = b"\r\n".join(b"row %02d " % row + b"." * 100 + b" end %02d" % row for row in range(40))
    film = FakeFilm([(SECOND_US, rows + b"\x1b[H")], cols=120, rows=40)
    async with on_stage(film, at_s=1) as stage:
        await stage.sees("row 00", "row 21")
        await stage.reads("80x22+0+0 of 120x40")
        assert "row 22" not in stage.screen

        await stage.press("j", "shift+down", "l")
        await stage.reads("80x22+8+6 of 120x40")
        assert "row 05" not in stage.screen
        for _ in range(9):
            await stage.press("l", "j")
        await stage.sees("end 39")
        await stage.press("h", "k", "shift+up")
        await stage.reads("80x22+32+12 of 120x40")

        await stage.press("escape")
        await stage.sees("row 00")


@scenario
async def test_f_gives_the_whole_window_to_the_screen() -> None:
    rows = b"\r\n".join(b"row %02d" % row for row in range(24))
    async with on_stage(FakeFilm([(SECOND_US, rows)]), at_s=1) as stage:
        await stage.reads("80x22+0+2 of 80x24")

        await stage.press("f")
        await stage.sees("row 00", "row 23")
        await stage.press("f")
        await stage.until(lambda: "row 00" not in stage.screen)


@_SIZES
@scenario
async def test_question_mark_shows_the_keys(counting: FakeFilm, size: tuple[int, int]) -> None:
    async with on_stage(counting, size=size) as stage:
        await stage.press("question_mark")
        page = stage.player.screen
        assert isinstance(page, Help)
        assert page.query_one(Static).size.width <= size[0]
        assert page.query_one(Static).size.height <= size[1] - 2

        await stage.press("question_mark")
        assert not isinstance(stage.player.screen, Help)


@scenario
async def test_in_a_small_window_the_page_of_keys_is_longer_and_can_be_scrolled(counting: FakeFilm) -> None:
    async with on_stage(counting, size=(40, 10)) as stage:
        await stage.press("question_mark")
        await stage.until(lambda: isinstance(stage.player.screen, Help))
        page = stage.player.screen.query_one(VerticalScroll)
        await stage.until(lambda: page.max_scroll_y > 0)
        assert page.max_scroll_x == 0

        await stage.press("end")
        await stage.until(lambda: page.scroll_y > 0)


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
@scenario
async def test_keys_that_leave(counting: FakeFilm, key: str) -> None:
    async with on_stage(counting) as stage:
        await stage.press(key)

        await stage.until(lambda: not stage.player.is_running)
    assert stage.player.failure is None
    assert not stage.player.return_code


@scenario
async def test_what_had_not_begun_when_the_player_ends_is_not_complained_of(counting: FakeFilm) -> None:
    begun: list[str] = []

    async def begin() -> None:
        begun.append("it")

    async with on_stage(counting) as stage:
        stage.player.spawn(begin)
        stage.player.workers.cancel_all()
        await stage.press("q")
        await stage.until(lambda: not stage.player.is_running)

    assert begun == []
    gc.collect()  # a coroutine that was never awaited is an error now


@scenario
async def test_ctrl_c_leaves_in_the_middle_of_an_answer(counting: FakeFilm) -> None:
    async with on_stage(counting) as stage:
        await stage.press("g", "1", "ctrl+c")

        await stage.until(lambda: not stage.player.is_running)


@scenario
async def test_keys_of_an_answer_do_not_move_the_recording(counting: FakeFilm) -> None:
    async with on_stage(counting, at_s=50) as stage:
        await stage.press("g", "left", "home", "end", "space", "pageup", "up", "q", "5", "escape")

        await stage.reads("0:50.0")


@scenario
async def test_clicking_and_dragging_on_the_timeline_goes_there(counting: FakeFilm) -> None:
    async with on_stage(counting) as stage:
        assert stage.pilot is not None
        await stage.until(lambda: "◆" in stage.timeline and "\n" not in stage.timeline)
        await stage.pilot.mouse_down(TimelineBar, offset=(40, 0))
        await stage.sees("second 50")
        await stage.pilot.hover(TimelineBar, offset=(60, 0))
        await stage.sees("second 75")
        await stage.pilot.mouse_up(TimelineBar, offset=(60, 0))
        await stage.pilot.hover(TimelineBar, offset=(10, 0))
        await stage.reads("1:15")


@scenario
async def test_a_mark_that_looks_like_markup_is_only_text(counting: FakeFilm) -> None:
    counting.add_mark(5 * SECOND_US, "[@click=app.quit]press[/] [red]me")
    async with on_stage(counting) as stage:
        await stage.press("right_square_bracket")

        await stage.reads("[@click=app.quit]press[/] [red]me")
