"""Keys by name. Pure."""

from __future__ import annotations

from scrubjay.errors import BadKey

_NAMED = {
    "enter": b"\r",
    "return": b"\r",
    "tab": b"\t",
    "shift-tab": b"\x1b[Z",
    "esc": b"\x1b",
    "escape": b"\x1b",
    "space": b" ",
    "backspace": b"\x7f",
    "delete": b"\x1b[3~",
    "insert": b"\x1b[2~",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "home": b"\x1b[H",
    "end": b"\x1b[F",
    "pageup": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    "f1": b"\x1bOP",
    "f2": b"\x1bOQ",
    "f3": b"\x1bOR",
    "f4": b"\x1bOS",
    "f5": b"\x1b[15~",
    "f6": b"\x1b[17~",
    "f7": b"\x1b[18~",
    "f8": b"\x1b[19~",
    "f9": b"\x1b[20~",
    "f10": b"\x1b[21~",
    "f11": b"\x1b[23~",
    "f12": b"\x1b[24~",
}
_CONTROL = {"space": 0, "@": 0, "[": 27, "\\": 28, "]": 29, "^": 30, "_": 31, "?": 127}


def encode_key(raw: str) -> bytes:
    """What a terminal sends for a key such as ``ctrl-c``; BadKey if there is no such key."""
    name = (
        raw.strip().lower().replace("+", "-").replace("control-", "ctrl-").replace("c-", "ctrl-", raw.startswith("C-"))
    )
    if name in _NAMED:
        return _NAMED[name]
    if name.startswith("alt-") and len(name) > 4:
        return b"\x1b" + encode_key(raw.strip()[4:])
    if name.startswith("ctrl-"):
        letter = name[5:]
        if letter in _CONTROL:
            return bytes([_CONTROL[letter]])
        if len(letter) == 1 and "a" <= letter <= "z":
            return bytes([ord(letter) & 0x1F])
        raise BadKey(raw)
    if len(raw) == 1 and raw.isprintable():
        return raw.encode()
    raise BadKey(raw)
