"""Keys of known shapes, found in any text and on any screen, and nothing else taken for one."""

from __future__ import annotations

import re

from scrubjay.screen.ghostty import Terminal
from scrubjay.screen.key_shapes import KeyedLines, find_keys, mask_full_rows, mask_keys, mask_rows
from scrubjay.screen.masked import mask_picture, mask_snapshot
from scrubjay.screen.picture import Line
from scrubjay.screen.snapshot import read_snapshot
from scrubjay.screen.vt import encode_vt
from scrubjay.tape.redaction import veil
from tests.support.canaries import Canary, make_canaries
from tests.support.corpus import Output, recordings
from tests.support.tables import every_row

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
LONG = "sk-ant-api03-" + "aB3dE6gH9" * 10
PEM = next(canary.printed for canary in make_canaries() if canary.kind == "pem")
_COLOUR = re.compile(rb"\x1b\[[0-9;:]*m")
_SEQUENCE = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


def _hides(canary: Canary, text: str) -> bool:
    return not any(secret in text for secret in canary.secrets)


# In a text.


@every_row("canary", make_canaries())
def test_a_key_is_known_by_its_shape(canary: Canary) -> None:
    text = f"before {canary.printed} after\n"

    masked = mask_keys(text)

    assert _hides(canary, masked)
    assert "redacted" in masked
    assert len(masked) == len(text)
    assert masked.startswith("before ")
    assert masked.endswith(" after\n")


@every_row(
    ("text", "masked"),
    [
        (TOKEN, "ghp_" + veil(36)),
        (f'"{LONG}",', f'"sk-ant-{veil(len(LONG) - 7)}",'),
        (f"sjt_{'a' * 12}_{'b2' * 26}", f"sjt_{'a' * 12}_{veil(52)}"),
        ("https://me:s3cr3t-pw@h/x", f"https://me:{veil(9)}@h/x"),
        ("export DB_PASSWORD='hunter2 x'", "export DB_PASSWORD='hunter2 x'"),
        ("export DB_PASSWORD=hunter2-x9", f"export DB_PASSWORD={veil(10)}"),
        ("authorization: Basic dXNlcjpwYXNz", f"authorization: Basic {veil(12)}"),
        ('"api_key": "aB3dE6gH9jK2mN5p"', f'"api_key": "{veil(16)}"'),
        ("SK" + "0123456789abcdef" * 2, "SK" + veil(32)),
        ("https://hooks.slack.com/services/T01234567/B01234567/" + "a1" * 12, None),
        ("123456789:AA" + "b3-" * 11, None),
        ("abc8Q~" + "x1Yz" * 8 + "ab", None),
        ("https://x.blob.core.windows.net/?sv=1&sig=" + "aB3%2F" * 8, None),
    ],
)
def test_only_the_secret_part_of_a_key_is_hidden(text: str, masked: str | None) -> None:
    if masked is None:
        assert "redacted" in mask_keys(text)
    else:
        assert mask_keys(text) == masked


@every_row(
    "text",
    [
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "request=9f86d081884c7d65 id=550e8400-e29b-41d4-a716-446655440000",
        "sk-circle-fade-dot sk-learn npm_config_registry hf_hub_download ghp_ AKIA",
        "token = self.get_token_from_header(request)",
        "API_KEY=$OPENAI_API_KEY PASSWORD=${DB_PASSWORD} TOKEN=<your token> SECRET=your-secret-here-1",
        "max_tokens: 40960 PRIVATE_KEY=/home/me/.ssh/id_ed25519",
        "http://localhost:8080/user@example.org ssh://git@github.com:22/x postgres://user:password@host/db",
        "Bearer realm=example",
        "-----BEGIN PUBLIC KEY-----\n" + "\n".join(PEM.split("\n")[1:-1]) + "\n-----END PUBLIC KEY-----",
        "X_KEY = pytest.StashKey[int]()",
        "/usr/lib/python3.11/site-packages/google/api_core/gapic_v1/client_info_v1_20260301.py",
    ],
)
def test_what_is_no_key_is_left_alone(text: str) -> None:
    assert mask_keys(text) == text


def test_a_private_key_is_hidden_between_its_first_and_last_line() -> None:
    lines = mask_keys(f"$ cat key\n{PEM}\n$ ls\n").split("\n")

    assert lines[1] == "-----BEGIN PRIVATE KEY-----"
    assert all(line.startswith(veil(10)) for line in lines[2:-3])
    assert lines[-3:] == ["-----END PRIVATE KEY-----", "$ ls", ""]


def test_a_private_key_in_one_line_is_hidden_too() -> None:
    masked = mask_keys(f'"key": "{PEM}"'.replace("\n", "\\n"))

    assert not any(line in masked for line in PEM.split("\n")[1:-1])


def test_the_middle_of_a_private_key_is_hidden_where_nothing_else_of_it_is_in_sight() -> None:
    middle = PEM.split("\n")[3:9]

    assert mask_rows(middle, [False] * 6) == [veil(64)] * 6
    assert mask_rows(middle[:2], [False] * 2) == middle[:2]


@every_row("seen", range(2, 9))
def test_the_end_of_a_private_key_is_hidden_where_its_beginning_is_out_of_sight(seen: int) -> None:
    rows = [*PEM.split("\n")[-seen:], "$ ls"]

    masked = mask_rows(rows, [False] * len(rows))

    assert masked == [*(veil(len(row)) for row in rows[:-2]), *rows[-2:]]
    assert mask_rows(rows[:-2], [False] * (seen - 1))[3:] == masked[3:-2]


def test_lines_that_come_in_portions_are_taken_together() -> None:
    keyed = KeyedLines()
    lines = [f"a {TOKEN}", *PEM.split("\n"), "b"]

    masked = [line for start in range(0, len(lines), 2) for line in keyed.mask(lines[start : start + 2])]

    assert len(masked) == len(lines)
    assert TOKEN not in masked[0]
    assert not any(line in masked for line in PEM.split("\n")[1:-1])
    assert masked[-1] == "b"


# In rows.


def _wrap(text: str, cols: int) -> list[str]:
    return [text[start : start + cols] for start in range(0, len(text), cols)]


@every_row("before", range(0, 80, 3))
def test_a_key_that_the_terminal_has_wrapped_is_hidden_in_both_rows(before: int) -> None:
    rows = _wrap("x" * before + " " + LONG + " end", 80)
    wrapped = [True] * (len(rows) - 1) + [False]

    for masked in (mask_rows(rows, wrapped), mask_full_rows(rows, 80)):
        assert LONG[20:60] not in "".join(masked)
        assert LONG[-12:] not in "".join(masked)
        assert [len(row) for row in masked] == [len(row) for row in rows]
        assert "".join(masked).endswith(" end")


@every_row("form", ["{}\n{}", "  {}\n    {}", "│ {} │\n│ {} │", "> {}\n| {}"])
def test_a_key_that_a_program_has_wrapped_is_hidden_in_both_rows(form: str) -> None:
    rows = form.format("key: " + LONG[:60], LONG[60:]).split("\n")

    masked = mask_rows(rows, [False, False])

    assert LONG[60:] not in masked[1]
    assert LONG[30:60] not in masked[0]


def test_what_follows_a_key_that_ended_is_left_alone() -> None:
    rows = [f"OPENAI_API_KEY={LONG}", "ANOTHER_NAME=value", "readable words follow here 2026"]

    assert mask_rows(rows, [False] * 3)[1:] == rows[1:]


# On a screen.


def _screen(data: bytes, cols: int = 80) -> bytes:
    terminal = Terminal(cols, 24)
    try:
        terminal.feed(data)
        snapshot = terminal.snapshot(history=True)
        assert snapshot is not None
        return snapshot
    finally:
        terminal.close()


def _text(lines: tuple[Line, ...]) -> str:
    return "".join([line.text for line in lines])


@every_row("canary", make_canaries(1))
def test_a_key_on_a_screen_is_hidden_in_its_own_cells(canary: Canary) -> None:
    data = f"日本 \x1b[1;31m{canary.printed}\x1b[0m after\r\nnext".replace("\n", "\r\n").encode()
    picture = read_snapshot(_screen(data)).picture()

    masked = mask_picture(picture)

    assert _hides(canary, _text(masked.lines))
    assert "redacted" in _text(masked.lines)
    for line, before in zip(masked.lines, picture.lines, strict=True):
        assert [(span.cells, span.style, len(span.text)) for span in line.spans] == [
            (span.cells, span.style, len(span.text)) for span in before.spans
        ]


def test_a_key_that_is_coloured_in_the_middle_is_hidden_in_all_its_colours() -> None:
    picture = read_snapshot(_screen(f"a {TOKEN[:20]}\x1b[7m{TOKEN[20:]}\x1b[0m z".encode())).picture()

    assert mask_picture(picture).lines[0].text == f"a ghp_{veil(36)} z"


def test_a_key_in_a_title_or_a_link_is_hidden() -> None:
    data = f"\x1b]0;run {TOKEN}\x07\x1b]8;;https://h/?t={TOKEN}\x1b\\here\x1b]8;;\x1b\\".encode()
    masked = mask_picture(read_snapshot(_screen(data)).picture())

    assert masked.title == f"run ghp_{veil(36)}"
    assert masked.lines[0].spans[0].link == f"https://h/?t=ghp_{veil(36)}"


def test_a_screen_without_keys_is_the_same_screen() -> None:
    picture = read_snapshot(_screen(b"nothing to hide\r\n\x1b[32mhere")).picture()

    assert mask_picture(picture) is picture


def test_a_screen_is_rebuilt_without_its_keys_and_goes_on_as_before() -> None:
    data = f"top\r\nkey {LONG} \x1b[33mafter".encode()
    state = read_snapshot(_screen(data, cols=60), history=100)

    drawn = encode_vt(mask_snapshot(state))
    again = read_snapshot(_screen(drawn + b" more", cols=60)).picture()

    assert LONG[7:30] not in _text(again.lines)
    assert _text(again.lines).endswith("after more")
    assert again.cursor.x == mask_picture(state.picture()).cursor.x + len(" more")


# In recordings of real agents, which hold no key.


def test_s17_at_most_one_thing_in_a_megabyte_is_taken_for_a_key() -> None:
    size = hits = 0
    for recording in recordings():
        data = b"".join([event.data for event in recording.events if isinstance(event, Output)])
        text = _SEQUENCE.sub(b"\n", _COLOUR.sub(b"", data)).decode("utf-8", "replace")
        size += len(data)
        hits += len(find_keys(text))

    assert size > 20e6
    assert hits <= size / 1e6
