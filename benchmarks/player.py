"""asciinema-player in headless Chromium, which seeks in recordings that a local server hands it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

_DRIVER = Path(__file__).with_name("player.mjs")
_PACKAGE = _DRIVER.parent.parent / "tests" / "js" / "node_modules" / "asciinema-player"
_PAGE = """<!doctype html>
<meta charset="utf-8">
<link rel="stylesheet" href="asciinema-player.css">
<script src="asciinema-player.min.js"></script>
<div id="player"></div>
"""
_GIVE_UP_S = 120.0


class NoPlayer(Exception):
    """Something that the player needs is missing, or it failed."""


@dataclass(frozen=True, slots=True)
class Played:
    """What a player did with a recording."""

    open_ms: float  #: until its first screen was drawn
    kept_ms: list[float]  #: until the promise of each seek was kept
    drawn_ms: list[float]  #: until its screen was drawn
    texts: list[str]  #: of the screens, without what the player draws as pictures


@dataclass(frozen=True, slots=True)
class Player:
    """The player on a page of a local server."""

    name: str
    node: str
    browser: str
    address: str

    def seek(self, path: str, instants_us: Sequence[int], *, segmented: bool) -> Played:
        """Open a recording of the folder that is served and go to each instant."""
        task = {
            "executablePath": self.browser,
            "address": self.address,
            "source": {"url": path, "format": "segmented"} if segmented else path,
            "seconds": [at / 1e6 for at in instants_us],
        }
        try:
            argv = [self.node, str(_DRIVER)]
            done = subprocess.run(argv, input=json.dumps(task).encode(), capture_output=True, timeout=_GIVE_UP_S)
        except subprocess.TimeoutExpired as error:
            raise NoPlayer(f"it was not done in {_GIVE_UP_S:g} s") from error
        if done.returncode != 0:
            raise NoPlayer(f"it failed: {_first_error(done.stderr.decode(errors='replace'))}")
        return Played(**json.loads(done.stdout, parse_int=float))


@contextmanager
def open_player(folder: Path) -> Generator[Player]:
    """A player for the recordings in a folder; NoPlayer says what is missing."""
    browser, node = shutil.which("chromium"), shutil.which("node")
    if browser is None or node is None or not (_PACKAGE / "dist").exists():
        raise NoPlayer("no Chromium, node or npm packages; scripts/install-peers gets them")
    (folder / "index.html").write_text(_PAGE)
    for name in ("asciinema-player.min.js", "asciinema-player.css"):
        shutil.copy(_PACKAGE / "dist" / "bundle" / name, folder)
    version = json.loads((_PACKAGE / "package.json").read_bytes())["version"]
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Player(f"asciinema-player {version}", node, browser, f"http://127.0.0.1:{server.server_port}/")
        finally:
            server.shutdown()
            thread.join()


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # so that the browser keeps its connection

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def _first_error(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if "Error" in line]
    return lines[0][:120] if lines else stderr.strip()[-120:]
