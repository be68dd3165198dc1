"""The terminal engine: libghostty-vt through pyghostty. The only module that knows it.

Native code that hostile bytes can crash, so it is loaded by screen workers alone. docs/screen.md lists its
defects and the rule that avoids each. A terminal is not safe for threads.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownLambdaType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import hashlib
from array import array
from importlib import metadata, resources
from typing import Any, cast

from pyghostty._ffi import ffi as _untyped_ffi
from pyghostty._ffi import lib as _untyped_lib
from pyghostty._ffi import union_fn

from scrubjay import __version__
from scrubjay.screen.engine import SCROLLBACK_BYTES, ChangedRow, Effect
from scrubjay.screen.palette import BACKGROUND, FOREGROUND, PALETTE
from scrubjay.screen.picture import split_rgb
from scrubjay.screen.queries import FOCUS_MODE, Queries
from scrubjay.screen.snapshot import ENVELOPE_BYTES, READY_TAG, RECORD_HEADER, cut_history, restores_exactly

ffi = cast(Any, _untyped_ffi)
lib = cast(Any, _untyped_lib)
_NULL = ffi.NULL

# An escape sequence that is not finished after this much cannot be kept in a snapshot; the next one can.
_CONTINUATION_BYTES = 1 << 20
_EFFECTS_MAX = 10_000  # that nobody has asked for; a flood of bells must not fill the memory
_EFFECT_BYTES = 4096
_REPLIES_MAX_BYTES = 64 << 10  # not beside the others: no flood of bells may keep a program from being answered
_TERMINFO_NAME = b"xterm-256color"
_FOCUS_IN = b"\x1b[I"
_STATUS_QUERY = b"7501;?"  # of programs that tell what they are doing to a terminal that answers it with the same
_CELL_PX = (8, 16)  # of one character, for programs that ask
_OK, _NO_VALUE = 0, -4
_PRIMARY = 0
_ORIGIN_MODE, _WRAPS_MODE, _PASTE_MODE = 6, 7, 2004
_ERASE_HISTORY, _RESET = b"\x1b[3J", b"\x1bc"

# What ``_new`` points to, what ``_call_back`` takes, and functions that take a point by value.
_POINTED_TO = [
    "bool",
    "uint8_t",
    "uint8_t*",
    "uint16_t",
    "uint64_t",
    "size_t",
    "GhosttyCell",
    "GhosttyCellsView",
    "GhosttyCellWide",
    "GhosttyColorRgb",
    "GhosttyGridRef",
    "GhosttyPointCoordinate",
    "GhosttyPointS",
    "GhosttyRenderState",
    "GhosttyRenderStateDirty",
    "GhosttyRenderStateRowId",
    "GhosttyRenderStateRowIterator",
    "GhosttySelection",
    "GhosttySnapshotDecoder",
    "GhosttyString",
    "GhosttyTerminal",
    "GhosttyTerminalModeConfig",
    "GhosttyTerminalScreen",
    "GhosttyTerminalSelectionFormatOptions",
    "GhosttyTrackedGridRef",
    "GhosttyWriter",
]
_CALLED_BACK = [
    "Bell",
    "ClipboardWrite",
    "ColorScheme",
    "DesktopNotification",
    "ProgressReport",
    "PwdChanged",
    "RenderHold",
    "Size",
    "TitleChanged",
    "UnknownSequence",
    "WritePty",
    "Xtversion",
]
_DECLARATORS = {
    **{name: f"{name} *{{}}" for name in _POINTED_TO},
    **{name: f"GhosttyTerminal{name}Fn {{}}" for name in _CALLED_BACK},
    "palette": "GhosttyColorRgb (*{})[256]",
    "writer": "GhosttyWriterFn {}",
    "find": "GhosttyResult (*{})(GhosttyTerminal, GhosttyPointS, GhosttyGridRef *)",
    "track": "GhosttyResult (*{})(GhosttyTerminal, GhosttyPointS, GhosttyTrackedGridRef *)",
    "move": "GhosttyResult (*{})(GhosttyTrackedGridRef, GhosttyTerminal, GhosttyPointS)",
}


def _parse_types() -> dict[str, Any]:
    """Parse all types at once, as members of a structure: cffi takes 10 ms for the text of each."""
    members = [declarator.format(f"m{number}") for number, declarator in enumerate(_DECLARATORS.values())]
    ffi.cdef(f"struct scrubjay_types {{ {'; '.join(members)}; }};")
    parsed = ffi.typeof("struct scrubjay_types").fields
    return {name: field.type for name, (_, field) in zip(_DECLARATORS, parsed, strict=True)}


_TYPES = _parse_types()


def _new(name: str, value: object = None) -> Any:
    return ffi.new(_TYPES[name], value)


def _new_sized(name: str) -> Any:
    """A structure that begins with its size, and so do those in it."""
    made = _new(name)
    _write_sizes(made)
    return made


def _write_sizes(pointer: Any) -> None:
    kind = ffi.typeof(pointer).item
    for name, field in kind.fields:
        if name == "size":
            pointer.size = ffi.sizeof(kind)
        elif field.type.kind == "struct":
            _write_sizes(ffi.addressof(pointer[0], name))


class EngineFailed(Exception):
    """The engine refused a call that should work."""


def identity() -> str:
    """Which engine this is, down to its bits: a snapshot of another one is not read."""
    folder = resources.files("pyghostty") / "_lib"
    library = hashlib.sha256()
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.startswith("libghostty"):
            library.update(file.read_bytes())
    return f"pyghostty {metadata.version('pyghostty')} {library.hexdigest()[:16]}"


def widths() -> list[tuple[int, int]]:
    """Columns of every character: code points at which the width changes, with the new width."""
    runs: list[tuple[int, int]] = []
    for code in range(0x110000):
        width = 1 if 0xD800 <= code < 0xE000 else int(lib.ghostty_unicode_codepoint_width(code))
        if not runs or runs[-1][1] != width:
            runs.append((code, width))
    return runs


class Terminal:
    """One terminal."""

    def __init__(self, cols: int, rows: int) -> None:
        handle = _new("GhosttyTerminal")
        _check(lib.ghostty_terminal_new(_NULL, handle, cols, rows), "new")
        self._adopt(handle)
        self._set_size("CONTINUATION_MAX_BYTES", _CONTINUATION_BYTES)
        # Lines are limited by bytes alone: a limit of lines is what one of the known crashes needs.
        self._set_size("SCROLLBACK_MAX_BYTES", SCROLLBACK_BYTES)
        self.resize(cols, rows)

    @classmethod
    def restore(cls, snapshot: bytes, *, scrollback: bool = True) -> Terminal:
        """A terminal as it was. Only for verified bytes: the decoder is not safe with any others.

        Without ``scrollback`` it keeps nothing of what scrolls off from now on, which is three times as fast.
        """
        decoder, source = _new("GhosttySnapshotDecoder"), ffi.from_buffer(snapshot)
        _check(lib.ghostty_snapshot_decoder_new_buf(_NULL, decoder, source, len(snapshot)), "decoder")
        try:
            for option, value in (
                (lib.GHOSTTY_SNAPSHOT_DECODER_OPT_RETAIN_CONTINUATION, _new("bool", True)),
                (lib.GHOSTTY_SNAPSHOT_DECODER_OPT_MAX_CONTINUATION_BYTES, _new("size_t", _CONTINUATION_BYTES)),
            ):
                _check(lib.ghostty_snapshot_decoder_set(decoder[0], option, value), "decoder option")
            handle = _new("GhosttyTerminal")
            screen_only = len(cut_history(snapshot)) == len(snapshot)
            decode = lib.ghostty_snapshot_decoder_ready if screen_only else lib.ghostty_snapshot_decoder_decode
            _check(decode(decoder[0], handle), "decode")
        finally:
            lib.ghostty_snapshot_decoder_free(decoder[0])
        terminal = cls.__new__(cls)
        terminal._adopt(handle)
        if not scrollback:
            terminal._set_size("SCROLLBACK_MAX_BYTES", 0)
            terminal._set_size("SCROLLBACK_MAX_LINES", 0)
        return terminal

    def _adopt(self, handle: Any) -> None:
        self._handle: Any = handle
        self._callbacks: list[Any] = []  # the engine holds no reference to them
        self._effects: list[Effect] = []
        self._reply_bytes = 0
        self._queries: Queries | None = None
        self._watch: _RowWatch | None = None
        self._grid_ref = _new_sized("GhosttyGridRef")
        self._selection = _new_sized("GhosttySelection")
        self._options = _new_sized("GhosttyTerminalSelectionFormatOptions")
        self._options.emit = lib.GHOSTTY_FORMATTER_FORMAT_PLAIN
        self._options.unwrap, self._options.trim, self._options.selection = False, True, self._selection
        self._mark: Any = None  # a tracked reference to the newest row of history that was taken

    def close(self) -> None:
        """Free everything."""
        if self._watch is not None:
            self._watch.close()
        if self._mark is not None:
            lib.ghostty_tracked_grid_ref_free(self._mark[0])
        lib.ghostty_terminal_free(self._handle[0])
        self._handle = None

    def feed(self, data: bytes) -> None:
        """Show output."""
        if self._queries is None:
            self._write(data)
        else:
            for part, query in self._queries.cut(data):
                had_focus = query == "focus" and self._has_mode(FOCUS_MODE)
                self._write(part)
                if query == "position":
                    self._tell_position()
                elif query == "focus" and not had_focus and self._has_mode(FOCUS_MODE):
                    self._tell("reply", _FOCUS_IN)
        if self._mark is not None and (_ERASE_HISTORY in data or _RESET in data):
            # What was taken is gone with the rest; the engine would move the mark to a row that was not.
            lib.ghostty_tracked_grid_ref_free(self._mark[0])
            self._mark = None

    def _write(self, data: bytes) -> None:
        lib.ghostty_terminal_vt_write(self._handle[0], ffi.from_buffer(data), len(data))

    def resize(self, cols: int, rows: int) -> None:
        """Change the size; the lines of the primary screen are rewrapped."""
        self._blank_wide_at(cols)
        _check(lib.ghostty_terminal_resize(self._handle[0], cols, rows, *_CELL_PX), "resize")

    def _blank_wide_at(self, cols: int) -> None:
        """Blank the wide characters that a narrowing cuts in half, because the engine could not encode the rest.

        That is drawn like output, so not in the middle of a sequence, and everything but one cell is left as it was.
        """
        rewraps = self._get("ACTIVE_SCREEN", "GhosttyTerminalScreen") == _PRIMARY and self._has_mode(_WRAPS_MODE)
        if cols >= self.cols() or rewraps or not self._get("VT_GROUND", "bool"):
            return
        x, y = int(self._get("CURSOR_X", "uint16_t")), int(self._get("CURSOR_Y", "uint16_t"))
        rows = int(self._get("ROWS", "uint16_t"))
        above = self._total_rows() - rows
        cut = [row for row in range(rows) if self._is_wide(cols - 1, above + row)]
        if not cut:
            return
        from_margins = self._has_mode(_ORIGIN_MODE)
        if from_margins:
            self._write(b"\x1b[?6l")
        self._write(b"".join(b"\x1b[%d;%dH\x1b[X" % (row + 1, cols) for row in cut))
        if from_margins:
            self._write(b"\x1b[?6h")  # which takes the cursor to the margins' corner
            x -= int(self._get("CURSOR_X", "uint16_t"))
            y -= int(self._get("CURSOR_Y", "uint16_t"))
        self._write(b"\x1b[%d;%dH" % (y + 1, x + 1))

    def _is_wide(self, x: int, y: int) -> bool:
        self._reference(x, y)
        cell, width = _new("GhosttyCell"), _new("GhosttyCellWide")
        _check(lib.ghostty_grid_ref_cell(self._grid_ref, cell), "cell")
        _check(lib.ghostty_cell_get(cell[0], lib.GHOSTTY_CELL_DATA_WIDE, width), "cell width")
        return width[0] == lib.GHOSTTY_CELL_WIDE_WIDE

    def snapshot(self, *, history: bool, exact: bool = False) -> bytes | None:
        """Everything needed to go on; None where the engine cannot say it or, if ``exact``, not restore it."""
        snapshot = self._encode_all() if history else self._encode_screen()
        if snapshot is None:
            return None
        if not restores_exactly(snapshot):
            return None if exact else snapshot
        if history or self._total_rows() == int(self._get("ROWS", "uint16_t")):
            return snapshot
        # The engine's first page begins above the screen. Restored without scrollback it does not: a fifth of the size.
        thin = Terminal.restore(snapshot, scrollback=False)
        try:
            return thin._encode_screen()
        finally:
            thin.close()

    def _encode_all(self) -> bytes | None:
        pointer, length = _new("uint8_t*"), _new("size_t")
        if lib.ghostty_snapshot_encode_alloc(self._handle[0], _NULL, pointer, length) != _OK:
            return None
        try:
            return bytes(ffi.buffer(pointer[0], length[0]))
        finally:
            lib.ghostty_free(_NULL, pointer[0], length[0])

    def _encode_screen(self) -> bytes | None:
        """The same without history, of which the engine would encode megabytes that are then cut off."""
        parts: list[bytes] = []
        records = _RecordWatch()

        def write(_userdata: object, data: Any, length: int) -> bool:
            parts.append(bytes(ffi.buffer(data, length)))
            return not records.feed(parts[-1])  # refusing more makes the engine stop

        callback = ffi.callback(_TYPES["writer"], write)
        writer = _new("GhosttyWriter", {"write": callback, "userdata": _NULL})
        if lib.ghostty_snapshot_encode(self._handle[0], writer[0]) != _OK and not records.ready:
            return None
        return cut_history(b"".join(parts))

    def text(self, history: int) -> str:
        """The screen as plain text, after up to ``history`` rows of what scrolled off."""
        total = self._total_rows()
        rows = int(self._get("ROWS", "uint16_t"))
        return self._format(max(0, total - rows - history), total - 1)

    def effects(self) -> list[Effect]:
        """What output did besides drawing since this was last asked."""
        found, self._effects = self._effects, []
        self._reply_bytes = 0
        return found

    def changed_rows(self) -> list[ChangedRow]:
        """The rows that were drawn on since this was last asked; at first all."""
        if self._watch is None:
            self._watch = _RowWatch(self._handle[0])
        return self._watch.changed()

    def scrolled_rows(self) -> list[str]:
        """The text of the rows that scrolled off since this was last asked."""
        history = self._total_rows() - int(self._get("ROWS", "uint16_t"))
        first = 0
        if self._mark is not None and lib.ghostty_tracked_grid_ref_has_value(self._mark[0]):
            point = _new("GhosttyPointCoordinate")
            if lib.ghostty_tracked_grid_ref_point(self._mark[0], lib.GHOSTTY_POINT_TAG_SCREEN, point) == _OK:
                first = int(point.y) + 1
        if first >= history:
            return []
        text = self._format(first, history - 1)
        self._set_mark(history - 1)
        rows = text.split("\n")
        return rows + [""] * (history - first - len(rows))

    def cursor_row(self) -> tuple[int, int]:
        """The row the cursor is in, and how many there are."""
        return int(self._get("CURSOR_Y", "uint16_t")), int(self._get("ROWS", "uint16_t"))

    def brackets_pastes(self) -> bool:
        """Whether the program has asked for that."""
        return self._has_mode(_PASTE_MODE)

    def cols(self) -> int:
        """How wide it is."""
        return int(self._get("COLS", "uint16_t"))

    def skip_scrolled(self) -> None:
        """Take what has scrolled off so far as known."""
        history = self._total_rows() - int(self._get("ROWS", "uint16_t"))
        if history > 0:
            self._set_mark(history - 1)

    def _set_mark(self, y: int) -> None:
        point = _new("GhosttyPointS")
        point.tag, point.value.x, point.value.y = lib.GHOSTTY_POINT_TAG_SCREEN, 0, y
        if self._mark is None:
            track = union_fn("ghostty_terminal_grid_ref_track", _TYPES["track"])
            self._mark = _new("GhosttyTrackedGridRef")
            _check(track(self._handle[0], point[0], self._mark), "track")
            return
        move = union_fn("ghostty_tracked_grid_ref_set", _TYPES["move"])
        _check(move(self._mark[0], self._handle[0], point[0]), "track")

    def _total_rows(self) -> int:
        return int(self._get("TOTAL_ROWS", "size_t"))

    def _format(self, first: int, last: int) -> str:
        """Rows of screen and history together as plain text."""
        selection, options = self._selection, self._options
        selection.start = self._reference(0, first)
        selection.end = self._reference(int(self._get("COLS", "uint16_t")) - 1, last)
        pointer, length = _new("uint8_t*"), _new("size_t")
        _check(
            lib.ghostty_terminal_selection_format_alloc(self._handle[0], _NULL, options[0], pointer, length), "format"
        )
        try:
            return bytes(ffi.buffer(pointer[0], length[0])).decode("utf-8", "replace") if length[0] else ""
        finally:
            lib.ghostty_free(_NULL, pointer[0], length[0])

    def _reference(self, x: int, y: int) -> Any:
        point = _new("GhosttyPointS")
        point.tag, point.value.x, point.value.y = lib.GHOSTTY_POINT_TAG_SCREEN, x, y
        find = union_fn("ghostty_terminal_grid_ref", _TYPES["find"])
        _check(find(self._handle[0], point[0], self._grid_ref), "reference")
        return self._grid_ref[0]

    def _get(self, name: str, type_: str) -> Any:
        value = _new(type_)
        code = lib.ghostty_terminal_get(self._handle[0], getattr(lib, "GHOSTTY_TERMINAL_DATA_" + name), value)
        if code == _NO_VALUE:
            return None
        _check(code, name)
        return value[0]

    def _get_bytes(self, name: str) -> bytes:
        value = self._get(name, "GhosttyString")
        return b"" if value is None else _copy(value)

    def _set_size(self, name: str, value: int) -> None:
        self._set(name, _new("size_t", value))

    def _set(self, name: str, value: Any) -> None:
        _check(lib.ghostty_terminal_set(self._handle[0], getattr(lib, "GHOSTTY_TERMINAL_OPT_" + name), value), name)

    def listen(self, *, answering: bool = False) -> None:
        """Hear of everything that is not drawn, which costs a call for each. Snapshots carry none of it.

        ``answering`` makes it the terminal that a program is really on: one with a name and colours, which answers
        all that programs ask.
        """
        self._call_back(
            "WRITE_PTY", "WritePty", lambda _t, _u, data, n: self._tell("reply", bytes(ffi.buffer(data, n)))
        )
        self._call_back("BELL", "Bell", lambda _t, _u: self._tell("bell"))
        self._call_back("TITLE_CHANGED", "TitleChanged", lambda _t, _u: self._tell("title", self._get_bytes("TITLE")))
        self._call_back("PWD_CHANGED", "PwdChanged", lambda _t, _u: self._tell("cwd", self._get_bytes("PWD")))
        if not answering:  # or one that nobody asks for long would hear of every frame
            self._call_back("RENDER_HOLD", "RenderHold", lambda _t, _u, held: self._tell("hold", state=int(held)))
        self._call_back(
            "DESKTOP_NOTIFICATION",
            "DesktopNotification",
            lambda _t, _u, it: self._tell("notification", _copy(it.body), title=_copy(it.title)),
        )
        self._call_back(
            "PROGRESS_REPORT",
            "ProgressReport",
            lambda _t, _u, it: self._tell("progress", state=int(it.state), percent=int(it.progress)),
        )
        self._call_back("CLIPBOARD_WRITE", "ClipboardWrite", lambda _t, _u, _write: self._tell("clipboard"))
        self._call_back("UNKNOWN_SEQUENCE", "UnknownSequence", lambda _t, _u, it: self._tell_unknown(it))
        self._set_size("UNKNOWN_MAX_BYTES", _EFFECT_BYTES)
        self._call_back("SIZE", "Size", self._say_size)
        if answering:
            self._queries = Queries()
            self._introduce_itself()

    def _introduce_itself(self) -> None:
        name, terminfo = _string(f"Scrubjay {__version__}".encode()), _string(_TERMINFO_NAME)
        self._callbacks += [name, terminfo]  # the engine does not copy them
        self._call_back("XTVERSION", "Xtversion", lambda _t, _u: name[0][0])
        self._set("TERMINFO_NAME", terminfo[0])
        self._call_back("COLOR_SCHEME", "ColorScheme", _say_dark)
        # As the page shows them.
        for option, colour in (("FOREGROUND", FOREGROUND), ("BACKGROUND", BACKGROUND), ("CURSOR", FOREGROUND)):
            self._set(f"COLOR_{option}", _new("GhosttyColorRgb", split_rgb(colour)))
        self._set("COLOR_PALETTE", _new("palette", [split_rgb(colour) for colour in PALETTE]))
        # Neither keyframes nor pages hold images, so a program is told that there are none.
        self._set("KITTY_IMAGE_STORAGE_LIMIT", _new("uint64_t", 0))

    def _has_mode(self, mode: int) -> bool:
        config = _new("GhosttyTerminalModeConfig", {"mode": mode})
        code = lib.ghostty_terminal_get(self._handle[0], lib.GHOSTTY_TERMINAL_DATA_MODE, config)
        return code == _OK and bool(config.value)

    def _tell_position(self) -> None:
        """Answer DECXCPR, which the engine does not know, as CPR, which it does; only the beginning differs."""
        before = len(self._effects)
        self._write(b"\x1b[6n")
        self._effects[before:] = [
            effect._replace(data=b"\x1b[?" + effect.data[2:]) for effect in self._effects[before:]
        ]

    def _call_back(self, option: str, name: str, function: Any) -> None:
        callback = ffi.callback(_TYPES[name], function)
        self._callbacks.append(callback)
        self._set(option, callback)

    def _tell(self, kind: Any, data: bytes = b"", *, title: bytes = b"", state: int = 0, percent: int = -1) -> None:
        if kind == "reply":
            self._reply_bytes += len(data)
            fits = self._reply_bytes <= _REPLIES_MAX_BYTES
        else:
            fits = len(self._effects) < _EFFECTS_MAX
        if fits:
            self._effects.append(Effect(kind, data[:_EFFECT_BYTES], title[:_EFFECT_BYTES], state, percent))

    def _tell_unknown(self, sequence: Any) -> None:
        if sequence.tag == lib.GHOSTTY_TERMINAL_UNKNOWN_SEQUENCE_OSC:
            content = _copy(sequence.value.osc.content)
            self._tell("unknown", content)
            if self._queries is not None and content == _STATUS_QUERY:
                ends_by_bell = sequence.value.osc.terminator == lib.GHOSTTY_OSC_TERMINATOR_BEL
                self._tell("reply", b"\x1b]" + content + (b"\x07" if ends_by_bell else b"\x1b\\"))

    def _say_size(self, _terminal: object, _userdata: object, size: Any) -> bool:
        size.columns, size.rows = self._get("COLS", "uint16_t"), self._get("ROWS", "uint16_t")
        size.cell_width, size.cell_height = _CELL_PX
        return True


class _RecordWatch:
    """Notices in the bytes of a snapshot, in any portions, that the screen is complete."""

    def __init__(self) -> None:
        self.ready = False
        self._skip = ENVELOPE_BYTES
        self._header = b""

    def feed(self, data: bytes) -> bool:
        position = 0
        while not self.ready and position < len(data):
            taken = min(self._skip or RECORD_HEADER.size - len(self._header), len(data) - position)
            if self._skip:
                self._skip -= taken
            else:
                self._header += data[position : position + taken]
                if len(self._header) == RECORD_HEADER.size:
                    tag, self._skip, _ = RECORD_HEADER.unpack(self._header)
                    self._header = b""
                    self.ready = tag == READY_TAG  # it has no payload
            position += taken
        return self.ready


class _RowWatch:
    """Which rows were drawn on."""

    def __init__(self, terminal: Any) -> None:
        self._terminal = terminal
        self._state, self._rows = _new("GhosttyRenderState"), _new("GhosttyRenderStateRowIterator")
        _check(lib.ghostty_render_state_new(_NULL, self._state), "render state")
        _check(lib.ghostty_render_state_row_iterator_new(_NULL, self._rows), "row iterator")
        self._y, self._cells = _new("uint16_t"), _new("GhosttyCellsView")
        self._dirty, self._id = _new("GhosttyRenderStateDirty"), _new("GhosttyRenderStateRowId")

    def changed(self) -> list[ChangedRow]:
        state, rows = self._state[0], self._rows
        _check(lib.ghostty_render_state_update(state, self._terminal), "update")
        _check(lib.ghostty_render_state_get(state, lib.GHOSTTY_RENDER_STATE_DATA_DIRTY, self._dirty), "dirty")
        found: list[ChangedRow] = []
        if not int(self._dirty[0]):
            return found
        _check(lib.ghostty_render_state_get(state, lib.GHOSTTY_RENDER_STATE_DATA_ROW_ITERATOR, rows), "rows")
        while lib.ghostty_render_state_row_iterator_next_dirty(rows[0], self._y):
            row = rows[0]
            lib.ghostty_render_state_row_get(row, lib.GHOSTTY_RENDER_STATE_ROW_DATA_CELLS_RAW, self._cells)
            lib.ghostty_render_state_row_get(row, lib.GHOSTTY_RENDER_STATE_ROW_DATA_ID, self._id)
            words = array("Q")
            words.frombytes(ffi.buffer(self._cells.ptr, self._cells.len * 8))
            found.append(ChangedRow(int(self._y[0]), self._id.bits[0] | self._id.bits[1] << 64, _row_text(words)))
        lib.ghostty_render_state_clean(state)
        return found

    def close(self) -> None:
        lib.ghostty_render_state_row_iterator_free(self._rows[0])
        lib.ghostty_render_state_free(self._state[0])


def _row_text(words: array[int]) -> str:
    """The characters of a row's cells; what joins them is left out, as a search would leave it out."""
    return "".join(
        [chr((word >> 2 & 0x1FFFFF) or 32) for word in words if not word & 2 and word >> 42 & 3 < 2]
    ).rstrip()


def _string(text: bytes) -> tuple[Any, Any]:
    """Text as the engine takes it, and what must be kept for as long as it may read it."""
    memory = ffi.from_buffer(text)
    return _new("GhosttyString", {"ptr": ffi.cast(_TYPES["uint8_t"], memory), "len": len(text)}), memory


def _say_dark(_terminal: object, _userdata: object, scheme: Any) -> bool:
    scheme[0] = lib.GHOSTTY_COLOR_SCHEME_DARK
    return True


def _copy(string: Any) -> bytes:
    return bytes(ffi.buffer(string.ptr, string.len)) if string.len else b""


def _check(code: int, what: str) -> None:
    if code != _OK:
        raise EngineFailed(f"the terminal engine answered {code} to {what}")
