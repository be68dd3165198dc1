"""The page that plays a recording, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from scrubjay.cli.reels import open_reel
from scrubjay.pods.home import Home
from tests.browser.casts import every_agent, make_cast
from tests.support.chromium import Chromium, Page
from tests.support.cli import Cli
from tests.support.pictures import HOSTILE, HOSTILE_LINKS

pytestmark = pytest.mark.needs("chromium", "node", "npm packages")

_ROWS = "[...document.querySelectorAll('.row')].map(row => row.textContent.trimEnd())"
_POSITION = "document.querySelector('.position b').textContent"
_LOOKS = 20

# What acts on a terminal that does what it is told (PROMISES S14).
_ACTING = (
    "\x1b]52;c;aGVsbG8=\x07\x1b]52;c;?\x07\x1b]0;title\x07\x1b]2;title\x07\x1b[21t\x1b]1337;File=inline=1:aGk=\x07"
    "\x1b]9;note\x07\x1b]777;notify;title;body\x07\x1bPq#0;2;0;0;0~\x1b\\\x1b_Gf=24,a=T;AAAA\x1b\\\x1b[c\x1b[6n\x05\x07"
    + "\x1b[?1049h\x1b[?1049l" * 50
    + f"\x1b]2;{'t' * (1 << 20)}\x07"
)


@contextmanager
def _shown(chromium: Chromium, path: Path, at: str = "", **options: object) -> Generator[Page]:
    with chromium.page(f"file://{path}{at}", **options) as page:
        page.wait("'ready' in document.documentElement.dataset")
        yield page


@pytest.fixture(scope="module")
def counting(cli: Cli) -> Path:
    """A page that shows a number every second for ten seconds, with a mark at the fourth and at the seventh."""
    events = [(float(n), "o", f"\x1b[2J\x1b[Hnumber {n}") for n in range(1, 11)]
    marks = [(4.0, "m", "four"), (7.0, "m", "<b>seven</b>")]
    cast = make_cast(cli.work / "counting.cast", *sorted([*events, *marks], key=lambda event: event[0]))
    cli("import", cast, "--name", "counting")
    cli("export", "counting", "-o", "counting.html")
    return cli.work / "counting.html"


def _export(cli: Cli, name: str) -> Path:
    """The page of a recording, which is made once."""
    path = cli.work / f"{name}.html"
    if not path.exists():
        cli("export", name, "-o", path.name)
    return path


def _number(page: Page) -> str:
    return page.evaluate(_ROWS)[0]


@every_agent("gemini-resize")
def test_at_any_instant_it_shows_what_the_recording_showed(chromium: Chromium, cli: Cli, name: str) -> None:
    _export(cli, name)

    with open_reel(Home(cli.data), name) as reel, _shown(chromium, cli.work / f"{name}.html") as page:
        frames = list(reel.frames(0, reel.duration))
        for frame in Random(name).sample(frames, _LOOKS):
            # A tenth of a millisecond later: what the address says is rounded.
            page.evaluate(f"location.hash = '#t={frame.time // 1000 / 1000 + 0.0001:.4f}'")
            page.wait(f"{json.dumps([line.text for line in frame.picture.lines])}.join() === {_ROWS}.join()")
        assert page.did == []
        assert page.requests == [f"file://{cli.work}/{name}.html"]


def test_it_plays_to_the_end_and_again(chromium: Chromium, counting: Path) -> None:
    with _shown(chromium, counting) as page:
        assert _number(page) == ""
        page.press("Space", *[">"] * 5)
        page.wait(f"{_POSITION} === '0:10.0'")
        page.wait("document.querySelector('[data-do=toggle]').ariaLabel === 'play'")
        assert _number(page) == "number 10"

        page.press(*["<"] * 4, "Space")  # slowly: what is waited for must not be over between two looks
        page.wait(f"{_ROWS}[0] === 'number 3'")
        page.click("[data-do=toggle]")

        stopped = page.evaluate(_POSITION)
        page.evaluate("new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
        assert page.evaluate(_POSITION) == stopped
        assert page.did == []


def test_keys_are_those_of_the_player_in_the_terminal(chromium: Chromium, counting: Path) -> None:
    with _shown(chromium, counting) as page:
        for keys, number in (
            ("5", "number 5"),
            ("ArrowRight", "number 10"),
            ("ArrowLeft", "number 5"),
            ("Shift+ArrowLeft", ""),
            ("Shift+ArrowRight", "number 10"),
            ("3", "number 3"),
            (".", "number 4"),
            (",", "number 3"),
            ("]", "number 4"),
            ("]", "number 7"),
            ("[", "number 4"),
            ("Home", ""),
            ("End", "number 10"),
        ):
            page.press(keys)
            assert _number(page) == number, keys
        for key, speed in ((">", "2x"), (">", "4x"), ("<", "2x"), ("<", "1x"), ("<", "0.5x")):
            page.press(key)
            assert page.evaluate("document.querySelector('[data-do=faster]').textContent") == speed
        page.press("?")
        assert page.evaluate("document.querySelector('dialog').open")
        page.press("?")
        assert not page.evaluate("document.querySelector('dialog').open")
        assert page.did == []


def test_it_says_position_wall_clock_and_marks(chromium: Chromium, counting: Path) -> None:
    with _shown(chromium, counting, "#t=7") as page:
        assert page.evaluate(_POSITION) == "0:07.0"
        assert page.evaluate("document.querySelector('.position span').textContent") == "/ 0:10.0"
        shown = page.evaluate("document.querySelector('.wall').textContent")
        assert shown == page.evaluate(
            "(d => `${d.toLocaleDateString()} ${d.toLocaleTimeString()}`)(new Date(1763172007000))"
        )
        page.do("hover", selector=".bar", x=0.7)
        assert page.evaluate("document.querySelector('.tip').textContent") == "0:07.0 · <b>seven</b>"


def test_the_line_of_time_is_a_slider_for_hands_and_keys(chromium: Chromium, counting: Path) -> None:
    with _shown(chromium, counting) as page:
        page.do("click", selector=".bar", x=0.5)
        assert _number(page) in ("number 4", "number 5")
        assert page.evaluate("document.querySelector('.bar input').ariaValueText") == page.evaluate(_POSITION)
        page.press("9")
        assert page.evaluate("Number(document.querySelector('.bar input').value)") == 9000


def test_a_long_pause_is_skipped_unless_somebody_wants_it(chromium: Chromium, cli: Cli) -> None:
    cast = make_cast(cli.work / "pause.cast", (1.0, "o", "before"), (3600.0, "o", " after"))
    cli("import", cast, "--name", "pause")
    cli("export", "pause", "-o", "pause.html")

    with _shown(chromium, cli.work / "pause.html") as page:
        page.press("Space", *[">"] * 3)
        page.wait(f"{_ROWS}[0] === 'before after'")
        page.press("Home", "s", "Space")
        page.wait(f"{_POSITION} >= '0:04.0'")
        assert _number(page) == "before"


def test_light_and_dark_follow_the_system_and_the_person(chromium: Chromium, counting: Path) -> None:
    brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((sum, part) => sum + +part, 0)"
    for scheme in ("dark", "light"):
        with _shown(chromium, counting, scheme=scheme) as page:
            before = page.evaluate(brightness)
            page.press("t")
            after = page.evaluate(brightness)
            assert (before < 300 < after) if scheme == "dark" else (after < 300 < before)


def test_it_fits_a_phone_and_obeys_fingers(chromium: Chromium, counting: Path, cli: Cli) -> None:
    for path in (counting, _export(cli, "gemini-resize")):
        with _shown(chromium, path, width=390, height=844, touch=True) as page:
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            assert page.evaluate("document.querySelector('.screen').getBoundingClientRect().right") <= 390
            assert page.evaluate("document.querySelector('footer').getBoundingClientRect().bottom") <= 844
            page.do("tap", selector="[data-do=toggle]")
            page.wait(f"{_POSITION} !== '0:00.0'")


def test_what_it_shows_can_be_selected_and_copied(chromium: Chromium, counting: Path) -> None:
    with _shown(chromium, counting, "#t=5") as page:
        page.evaluate("getSelection().selectAllChildren(document.querySelector('.screen'))")

        assert page.evaluate("getSelection().toString()").strip() == "number 5"


def test_wide_characters_keep_the_grid(chromium: Chromium, cli: Cli) -> None:
    lines = (
        "12345678901234|",
        "日本語日本語日|",
        "👍👍👍👍👍👍👍|",
        "──────────────|",
        "e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u030111111 1|",
        "مرحبا שלום  \u4e2d|",
    )
    cast = make_cast(cli.work / "wide.cast", (1.0, "o", "\r\n".join(lines)))
    cli("import", cast, "--name", "wide")
    cli("export", "wide", "-o", "wide.html")

    with _shown(chromium, cli.work / "wide.html", "#t=1") as page:
        edges = page.evaluate(
            """[...document.querySelectorAll('.row')].slice(0, 6).map(row => {
                const walker = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
                let last; while (walker.nextNode()) last = walker.currentNode;
                const range = document.createRange();
                range.setStart(last, last.length - 1); range.setEnd(last, last.length);
                return range.getBoundingClientRect().left; })"""
        )

    assert max(edges) - min(edges) < 0.5


def test_hostile_recordings_do_nothing(chromium: Chromium, cli: Cli) -> None:
    texts = [f"\x1b[2J\x1b[H\x1b]0;{text}\x07{text}" for text in HOSTILE]
    links = [f"\x1b[2J\x1b[H\x1b]8;;{uri}\x1b\\{uri}\x1b]8;;\x1b\\" for uri in HOSTILE_LINKS]
    good = "\x1b[2J\x1b[H\x1b]8;;https://example.com/a\x1b\\good\x1b]8;;\x1b\\"
    outputs = [*texts, _ACTING, *links, good]
    events = [(n / 10, "o", text) for n, text in enumerate(outputs, 1)]
    marks = [(n / 10, "m", text) for n, text in enumerate(HOSTILE, 1)]
    cast = make_cast(cli.work / "hostile.cast", *sorted([*events, *marks], key=lambda event: event[0]), cols=120)
    cli("import", cast, "--name", "hostile")
    cli("export", "hostile", "-o", "hostile.html")

    with _shown(chromium, cli.work / "hostile.html") as page:
        for n, text in enumerate(HOSTILE, 1):
            page.evaluate(f"location.hash = '#t={n / 10 + 0.001:.4f}'")
            page.wait(f"{_ROWS}[0] === {json.dumps(text)}")
        for n in range(len(texts) + 1, len(outputs)):
            page.evaluate(f"location.hash = '#t={n / 10 + 0.001:.4f}'")
            page.do("click", selector=".row", x=0.01)
            assert page.evaluate("document.querySelectorAll('.row a').length") == 0
        page.press("End")
        assert page.evaluate("[...document.querySelectorAll('.row a')].map(a => [a.href, a.target, a.rel])") == [
            ["https://example.com/a", "_blank", "noopener noreferrer"]
        ]
        page.press("Home", "Space", *[">"] * 5)
        page.wait("document.querySelector('[data-do=toggle]').ariaLabel === 'play'")
        assert page.evaluate("document.querySelectorAll('script').length") == 4
        assert page.did == []
        assert page.requests == [f"file://{cli.work}/hostile.html"]


def test_its_policy_lets_no_other_script_style_or_address_in(chromium: Chromium, counting: Path) -> None:
    with _shown(chromium, counting) as page:
        page.evaluate(
            """(() => {
                const add = (tag, change) => document.body.append(Object.assign(document.createElement(tag), change));
                add('script', { textContent: 'window.ran = 1' });
                add('style', { textContent: 'body { display: none }' });
                add('img', { src: 'https://example.com/x.png' });
                add('iframe', { src: 'https://example.com/' });
                fetch('https://example.com/').catch(() => 0);
            })()"""
        )
        page.wait("window.__did.length >= 5")

        assert page.evaluate("window.ran === undefined")
        assert {what.split()[1] for what in page.did if what.startswith("policy")} == {
            "script-src-elem",
            "style-src-elem",
            "img-src",
            "frame-src",
            "connect-src",
        }
