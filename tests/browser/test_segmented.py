"""Our segmented recordings in the real asciinema-player."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from random import Random

import pytest

from scrubjay.cli.reels import open_reel
from scrubjay.pods.home import Home
from tests.browser.casts import every_agent, make_cast
from tests.support.chromium import Chromium, Page
from tests.support.cli import Cli
from tests.support.paths import JS

pytestmark = pytest.mark.needs("chromium", "node", "npm packages")

_PLAYER = JS / "node_modules" / "asciinema-player" / "dist" / "bundle"
_HTML = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<link rel="stylesheet" href="asciinema-player.css"><script src="asciinema-player.js"></script><div id="player"></div>"""
# What the player draws instead of writing it.
_DRAWN = re.compile("[\u2500-\u25ff\ue0a0-\ue0d7]")
_JS_DRAWN = r"/[\u2500-\u25ff\ue0a0-\ue0d7]/g"
_LOOKS = 15


@contextmanager
def _player(chromium: Chromium, cli: Cli, name: str, *options: str) -> Generator[Page]:
    folder = cli.work / f"{name}-segments"
    shutil.rmtree(folder, ignore_errors=True)
    cli("export", name, "--format", "segmented", "-o", str(folder), *options)
    for file in ("asciinema-player.css", "asciinema-player.js"):
        shutil.copy(_PLAYER / file, folder)
    (folder / "player.html").write_text(_HTML)
    with chromium.page("http://folder.test/player.html", folder=str(folder)) as page:
        page.evaluate(
            """void (window.player = AsciinemaPlayer.create({ url: 'index.json', format: 'segmented' },
                document.getElementById('player'), { preload: true, fit: false }))"""
        )
        page.wait("document.querySelector('.ap-line') !== null && player.getDuration() !== null")
        yield page


def _undrawn(text: str) -> str:
    return _DRAWN.sub(" ", text).rstrip()


def _seek(page: Page, us: int, expected: list[str]) -> None:
    """Go to an instant and see what is expected."""
    rows = "[...document.querySelectorAll('.ap-line')].map(row => row.textContent)"
    page.evaluate(f"player.seek({us / 1e6})")
    wanted = json.dumps([_undrawn(text) for text in expected])
    page.wait(f"{rows}.map(row => row.replace({_JS_DRAWN}, ' ').trimEnd()).join() === {wanted}.join()")


@every_agent("claude-session")
def test_it_shows_at_any_instant_what_the_recording_showed(chromium: Chromium, cli: Cli, name: str) -> None:
    with open_reel(Home(cli.data), name) as reel, _player(chromium, cli, name) as page:
        rng = Random(name)
        for _ in range(_LOOKS):
            time = rng.randrange(reel.duration)
            _seek(page, time, [line.text for line in reel.seek(time).picture.lines])
        assert page.did == []


def test_a_seek_fetches_the_segment_it_needs_and_its_neighbour(chromium: Chromium, cli: Cli) -> None:
    events = [(float(n), "o", f"\x1b[2J\x1b[Hnumber {n}") for n in range(1, 600)]
    events.insert(400, (400.5, "m", "here"))
    cli("import", make_cast(cli.work / "long.cast", *events), "--name", "long")

    with _player(chromium, cli, "long") as page:
        _seek(page, 300_500_000, ["number 300", *[""] * 9])
        fetched = [address.rsplit("/", 1)[1] for address in page.requests if re.search(r"/\d+\.json$", address)]

        assert len(list((cli.work / "long-segments").glob("0*.json"))) == 60
        assert len(set(fetched)) <= 4
        assert page.evaluate("player.getDuration()") == 599
        page.wait("document.querySelectorAll('.ap-marker').length === 1")
        assert page.did == []


def test_it_plays_a_part_to_its_end(chromium: Chromium, cli: Cli) -> None:
    events = [(n / 10, "o", f"\x1b[2J\x1b[Hnumber {n}") for n in range(1, 400)]
    cli("import", make_cast(cli.work / "quick.cast", *events), "--name", "quick")

    with _player(chromium, cli, "quick", "--from", "25.05s", "--to", "26.95s") as page:
        _seek(page, 0, ["number 250", *[""] * 9])
        page.evaluate(
            "void (window.ended = false, player.addEventListener('ended', () => { ended = true; }), player.play())"
        )
        page.wait("window.ended")
        page.wait("document.querySelector('.ap-line').textContent.trimEnd() === 'number 269'")
        assert page.did == []
