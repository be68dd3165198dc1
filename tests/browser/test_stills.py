"""Single screens and drawings in a real browser."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from scrubjay.cli.reels import open_reel
from scrubjay.pods.home import Home
from tests.browser.casts import make_cast
from tests.support.chromium import Chromium
from tests.support.cli import Cli
from tests.support.pictures import HOSTILE, HOSTILE_LINKS

pytestmark = pytest.mark.needs("chromium", "node", "npm packages")

_ROWS = "[...document.querySelectorAll('.row')].map(row => row.textContent.trimEnd())"
# The text that is in its window at this moment, row by row.
_DRAWN_ROWS = """(() => {
    const inner = document.querySelector('svg svg'), rows = {};
    const top = document.documentElement.getBoundingClientRect().top + 12;
    for (const text of document.querySelectorAll('text')) {
        const box = text.getBoundingClientRect(), strip = text.closest('svg');
        const row = Math.floor(((box.top + box.bottom) / 2 - top) / 17);
        const isSeen = strip === inner || strip.y.baseVal.value === row * 17;
        if (isSeen) (rows[row] ??= []).push([box.left, text.textContent]);
    }
    return Object.entries(rows).map(([y, texts]) =>
        [Number(y), texts.sort((a, b) => a[0] - b[0]).map(text => text[1]).join('')]);
})()"""


def _hostile(cli: Cli) -> str:
    rows = [f"{text}\x1b]0;{text}\x07" for text in HOSTILE]
    links = [f"\x1b]8;;{uri}\x1b\\link {number}\x1b]8;;\x1b\\" for number, uri in enumerate(HOSTILE_LINKS)]
    cast = make_cast(cli.work / "rows.cast", (1.0, "o", "\r\n".join([*rows, *links])), cols=120, rows=60)
    cli("import", cast, "--name", "rows")
    return "rows"


def test_a_screen_as_a_page_shows_its_text_and_does_nothing(chromium: Chromium, cli: Cli) -> None:
    name = _hostile(cli)
    path = Path(cli.work / "screen.html")
    path.write_bytes(cli("screen", name, "--format", "html").stdout)

    with open_reel(Home(cli.data), name) as reel, chromium.page(f"file://{path}") as page:
        assert page.evaluate(_ROWS) == [line.text for line in reel.seek(reel.duration).picture.lines]
        assert page.evaluate("document.querySelectorAll('script, img, iframe, a').length") == 0
        assert page.did == []
        assert page.requests == [f"file://{path}"]


def test_drawings_do_nothing_either(chromium: Chromium, cli: Cli) -> None:
    name = _hostile(cli)
    for part in ((), ("--from", "1s", "--to", "1s")):
        cli("export", name, "-o", "rows.svg", *part)
        with chromium.page(f"file://{cli.work}/rows.svg") as page:
            assert page.evaluate("document.querySelectorAll('script, image, foreignObject, a').length") == 0
            assert page.did == []
            assert page.requests == [f"file://{cli.work}/rows.svg"]


def test_a_moving_drawing_shows_every_screen_in_its_time(chromium: Chromium, cli: Cli) -> None:
    cli("export", "codex-turn", "-o", "codex.svg", "--from", "20%", "--to", "40%")

    with open_reel(Home(cli.data), "codex-turn") as reel, chromium.page(f"file://{cli.work}/codex.svg") as page:
        start, stop = round(0.2 * reel.duration), round(0.4 * reel.duration)
        shown = 0  # what a pause of more than three seconds is shortened to makes the film shorter than the clip
        frames = list(reel.frames(start, stop, every_us=100_000))
        for frame, following in pairwise(frames):
            stands = min(following.time - frame.time, 3_000_000)
            if stands > 50_000:
                ms = (shown + stands / 2) / 1000
                page.evaluate(f"document.getAnimations().forEach(film => {{ film.pause(); film.currentTime = {ms}; }})")
                rows = dict(page.evaluate(_DRAWN_ROWS))
                expected = {y: line.text.replace(" ", "") for y, line in enumerate(frame.picture.lines) if line.text}
                assert {y: text.replace(" ", "") for y, text in rows.items() if text.strip()} == expected
            shown += stands
        assert page.did == []
