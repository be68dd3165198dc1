"""PROMISES S14 for the terminal: a recording is data and cannot act on whoever watches it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from unicodedata import category

import pytest

from tests.cli.player.hostile import ALL, ATTACKS
from tests.support.cli import Cli
from tests.support.paths import ROOT
from tests.support.terminal import Terminal

# Everything Textual itself sends to take the terminal, draw and give it back. Nothing else may be sent.
_ALLOWED = tuple(
    re.compile(pattern)
    for pattern in (
        r"\x1b\[[0-9;]*m",  # colours and attributes
        r"\x1b\[[0-9]+;[0-9]+H",  # the cursor's place
        r"\x1b\[\?1049[hl]",  # the alternate screen
        r"\x1b\[\?25[hl]",  # the cursor itself
        r"\x1b\[\?7[hl]",  # line wrap
        r"\x1b\[\?100[036][hl]|\x1b\[\?1015[hl]|\x1b\[\?1016[hl]",  # the mouse
        r"\x1b\[\?1004[hl]",  # whether the window has the focus
        r"\x1b\[\?2004[hl]",  # bracketed paste
        r"\x1b\[\?2026(?:[hl]|\$p)",  # drawing all at once
        r"\x1b\[\?2048(?:[hl]|\$p)",  # being told of a new size
        r"\x1b\[>25u|\x1b\[<u",  # the kitty keyboard
        r"\r\n",
    )
)
_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x07|\x1b\\|\Z)|.?)|\r\n|[\x00-\x1f\x7f-\x9f]", re.DOTALL
)
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_STATUS = b"\x1b[24;1H\x1b[1;36m"  # the line of words, which questions take the place of
# What a terminal of today answers to the two questions at the start.
_ANSWERS = b"\x1b[?2026;2$y\x1b[?2048;2$y"


def _violations(sent: bytes) -> list[str]:
    text = sent.decode("utf-8", "surrogateescape")
    sequences = {match[0] for match in _SEQUENCE.finditer(text)}
    foreign = {sequence for sequence in sequences if not any(allowed.fullmatch(sequence) for allowed in _ALLOWED)}
    plain = _SEQUENCE.sub("", text)
    hidden = {character for character in plain if category(character) in _HIDDEN or "\ufe00" <= character <= "\ufe0f"}
    return sorted(map(repr, foreign | hidden))


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_judge_sees_every_attack(attack: str) -> None:
    harmless_as_bytes = attack.startswith(("[@click", "\ud800"))

    assert harmless_as_bytes or _violations(attack.encode("utf-8", "replace"))


def _play_through(terminal: Terminal) -> None:
    """Use every key of the player, and every line it can write into."""
    terminal.read_until(b"\x1b[?2026$p")
    terminal.type(_ANSWERS)
    terminal.read_until(b"0:0")
    for keys, shown in (
        (b" ", b"\xe2\x9d\x9a"),  # paused
        (b"0", b"0:00.0"),
        *[(b".", b"0:%02d.0" % second) for second in range(1, len(ATTACKS))],
        (b",", b"0:%02d.0" % (len(ATTACKS) - 2)),
        (b"[", b"mark: "),
        (b"]", b"0:%02d.0" % (len(ATTACKS) - 2)),
        (b"/", b"search"),
        (b"some text\r", b" of %d: " % len(ATTACKS)),
        (b"n", b"%d of %d: " % (len(ATTACKS), len(ATTACKS))),
        (b"g", b"go to"),
        (b"bad\r", b"52;c;"),
        (b"\x1b", _STATUS),
        (b"g", b"go to"),
        (b"1s\r", _STATUS),
        (b"m", b"mark"),
        (b"label\r", b"marked "),
        (b"e", b"clip from"),
        (b"\r", b"clip to"),
        (b"\x1b", _STATUS),
        (b"\x1b[5~?", b"scrubjay replay"),
        (b"?", _STATUS),
        (b"ff", _STATUS),
    ):
        terminal.type(keys)
        terminal.read_until(shown)
    terminal.type(b"5 >>>>")
    terminal.read_until(b"32x")
    terminal.resize(100, 30)
    terminal.type(b"\x1b[48;30;100;480;800t")  # as a terminal tells it that said it would
    terminal.read_until(b"\x1b[30;1H")
    terminal.type(b"q")


def test_frames_labels_and_messages_full_of_attacks_are_only_drawn(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "TERM": "xterm-256color", "LANG": "C.UTF-8", "HOME": str(tmp_path)}
    argv = [sys.executable, "-m", "tests.cli.player.hostile"]
    with Terminal(argv, env | {"PYTHONPATH": str(ROOT)}, cols=80, rows=24) as terminal:
        _play_through(terminal)

        assert terminal.wait() == 0
    assert _violations(terminal.seen) == []


def test_a_recording_full_of_attacks_is_only_drawn(cli: Cli) -> None:
    recording = cli.work / "hostile.cast"
    head = {"version": 2, "width": 80, "height": 24, "title": ALL}
    events = [[second / 10, "o", attack + "\r\n"] for second, attack in enumerate(ATTACKS, 1)]
    events += [
        [2.5, "m", ALL],
        [3, "o", "\x1b]2;" + "T" * (1 << 20) + "\x07"],
        [3.1, "o", "\r\nTHE END"],
    ]
    recording.write_text("\n".join(json.dumps(line) for line in [head, *events]), encoding="utf-8")
    cli("import", str(recording))

    with cli.terminal("replay", "hostile", "--speed", "4", cols=80, rows=24) as terminal:
        terminal.read_until(b"\x1b[?2026$p")
        terminal.type(_ANSWERS)
        terminal.read_until(b"THE END")
        terminal.type(b"0")
        terminal.read_until(b"0:00.0")
        terminal.type(b"]")
        terminal.read_until(b"mark: ")
        terminal.type(b"q")

        assert terminal.wait() == 0
    assert _violations(terminal.seen) == []
