"""Which of an agent's variables are secrets, and their values hidden in a stream of bytes. Pure.

docs/secrets.md says what is hidden and what is not. A value is found whole, in any portions, and with colours or line
ends within it. What is hidden takes as many columns as before.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from scrubjay.tape.redaction import veil

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

VALUE_MIN = 8  # characters; anything shorter is found where it is not meant
NAMED_MIN = 4  # of a value somebody named
_TOKEN_MIN = 20  # of a part of a value that is a secret by itself
_LINE_TOKEN_MIN = 16
_WORD_MAX = 12  # letters; a longer one is in no dictionary
_PATTERNS_MAX = 256  # each costs a flood a hundredth of its speed
_VALUE_MAX_BYTES = 2048  # a longer one is hidden piece by piece

# A name is that of a secret if one of its words is one of these, or if it has one of those in it.
_WORDS = frozenset(
    {
        "AUTH",
        "BEARER",
        "CONNSTR",
        "COOKIE",
        "CRED",
        "CREDS",
        "DSN",
        "JWT",
        "KEY",
        "KEYS",
        "PASS",
        "PAT",
        "PWD",
        "WEBHOOK",
    }
)
_PARTS = ("TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL", "CONNECTION_STR", "CONNECTIONSTR")
# With one of these as the last word it says something about a secret, such as where it is.
_ABOUT = frozenset(
    {
        "ALGORITHM",
        "BACKEND",
        "CMD",
        "COMMAND",
        "COUNT",
        "DIR",
        "DIRECTORY",
        "ENDPOINT",
        "FILE",
        "FOLDER",
        "HELPER",
        "HOST",
    }
    | {
        "LAYOUT",
        "LENGTH",
        "LIMIT",
        "METHOD",
        "MODE",
        "NAME",
        "PATH",
        "PORT",
        "PROVIDER",
        "REGION",
        "SCOPE",
        "SIZE",
        "SOCK",
    }
    | {"SOCKET", "STORE", "TIMEOUT", "TTL", "TYPE", "URI", "URL", "USER", "USERNAME", "VERSION"}
)
_PATHS = ("/", "~/", "./", "../")
_CONTROLS = dict.fromkeys((*range(32), 127), "\n")
# Compiled when they are needed, which most environments do not: all of them would cost a keeper 2 ms.
_NOT_TOKEN = r"[^A-Za-z0-9+/=_.~-]+"
_COMPOSED = r"[\s\"'{};,&]"
_ASSIGNED = r"([A-Za-z][\w.-]*) ?[=:] ?\"?([^\s\"',;&{}]+)"
_URL = r"[A-Za-z][A-Za-z0-9+.-]*://(?:([^\s/?#@:]*)(?::([^\s/?#]*))?@)?([^\s/?#]*)(/\S*)?"
_ESCAPED = r"%([0-9A-Fa-f]{2})"


class Secret:
    """A value that must not be seen, and the variable that has it."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: bytes) -> None:
        self.name, self.value = name, value

    def __repr__(self) -> str:
        return f"Secret({self.name})"


def find_secrets(environment: Mapping[str, str], named: Iterable[str] = ()) -> list[Secret]:
    """The secrets of an environment, longest first: by their names, and those ``named`` besides.

    A name with a ``-`` before it names one that is none; ``-*`` all that are not named.
    """
    wanted = set(named)
    found: dict[bytes, tuple[int, str]] = {}  # with their numbers among those of a variable
    for name, given in environment.items():
        if "-" + name in wanted:
            continue
        if name in wanted:
            values = [given, *_parts_of_url(given, name), *_parts(given)]
            least = NAMED_MIN
        elif "-*" in wanted:
            continue
        else:
            values, least = _secrets_of(name, given), VALUE_MIN
        lines = [line for text in values for line in _lines(text) if len(line) >= least]
        for number, line in enumerate(lines):
            value = line.encode("utf-8", "surrogateescape")
            for start in range(0, len(value), _VALUE_MAX_BYTES):
                found.setdefault(value[start : start + _VALUE_MAX_BYTES], (number, name))
    first = sorted(found, key=lambda value: found[value][0])[:_PATTERNS_MAX]
    return [Secret(found[value][1], value) for value in sorted(first, key=len, reverse=True)]


def looks_secret(name: str) -> bool:
    """Whether a variable of that name holds a secret."""
    upper = name.upper()
    words = [word for word in upper.replace("-", "_").replace(".", "_").split("_") if word]
    if not words or (words[-1] in _ABOUT and "WEBHOOK" not in words):
        return False
    return any(part in upper for part in _PARTS) or any(word in _WORDS or word.endswith("KEY") for word in words)


def _secrets_of(name: str, value: str) -> list[str]:
    parts = [part for part in _parts_of_url(value, name) if _is_telling(part)]
    if not looks_secret(name):
        return parts
    if _match_url(value) is not None:
        return parts
    if _is_telling(value):
        parts += [value, *(part for part in _parts(value) if _is_telling(part))]
    return parts


def _is_telling(value: str) -> bool:
    """Whether a value is more than a number, a path, a switch or a word."""
    if len(value) < VALUE_MIN:
        return False
    if value.startswith(_PATHS) and any(len(part) > 1 and part.isalpha() for part in value.split("/")):
        return False
    plain = value.replace("-", "").replace("_", "").replace(".", "")
    if plain.isdecimal() or not plain:
        return False
    return not plain.isalpha() or len(plain) >= _WORD_MAX


def _lines(value: str) -> Iterator[str]:
    """What of a value stands in one line each, also as a program would quote it."""
    lines = [line.strip() for line in value.translate(_CONTROLS).split("\n")]
    if len(lines) > 1:
        lines = [line for line in lines if _tokens(line, _LINE_TOKEN_MIN)]
    for line in lines:
        yield line
        quoted = line.replace("\\", "\\\\").replace('"', '\\"')
        if quoted != line:
            yield quoted


def _parts(value: str) -> Iterator[str]:
    """The parts of a value made of several that are secrets by themselves, such as the key in a JSON object."""
    if not re.search(_COMPOSED, value):
        return
    for name, part in re.findall(_ASSIGNED, value):
        if looks_secret(name):
            yield part
    yield from _tokens(value.replace("\\n", "\n"), _TOKEN_MIN)


def _tokens(text: str, least: int) -> list[str]:
    """What looks random: long, of letters and digits."""
    return [
        token
        for token in re.split(_NOT_TOKEN, text)
        if len(token) >= least and any(map(str.isdigit, token)) and any(map(str.isalpha, token))
    ]


def _parts_of_url(value: str, name: str) -> Iterator[str]:
    """The password of a URL, as it stands there and as it is meant; where its name says so, the user or path."""
    url = _match_url(value)
    if url is None:
        return
    user, password, _, path = url.groups()
    upper = name.upper()
    if not password and "DSN" in upper:
        password = user
    if "WEBHOOK" in upper and path:
        yield path.lstrip("/")
    if password:
        yield password
        if "%" in password:
            raw = re.sub(_ESCAPED, lambda match: chr(int(match[1], 16)), password)
            yield raw.encode("latin-1", "replace").decode("utf-8", "replace")


def _match_url(value: str) -> re.Match[str] | None:
    return re.match(_URL, value) if "://" in value else None


# What may stand between the characters of a value that a program has coloured or wrapped: control sequences, links,
# line ends, indentation, and the sides of a box; at the end of a portion also the beginning of one of these.
_BETWEEN_WHOLE = (
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\([0-9A-Z]|\x1b\]8;[^\x07\x1b]*(?:\x07|\x1b\\)"
    rb"|[\r\n \x0e\x0f]|\xe2[\x94\x95][\x80-\xbf]"
)
_BETWEEN_BEGUN = rb"(?:\x1b(?:\[[0-?]*[ -/]*|\(|\](?:8(?:;[^\x07\x1b]*\x1b?)?)?)?|\xe2[\x94\x95]?)\Z"
_BETWEEN = rb"(?:%s)+(?:%s)?|%s" % (_BETWEEN_WHOLE, _BETWEEN_BEGUN, _BETWEEN_BEGUN)
# Characters that are in those sequences themselves, and all that are not ASCII.
_IN_BETWEEN = frozenset(b"0123456789;:?[(mABCDGHJKhl") | frozenset(range(0x21)) | frozenset(range(0x7F, 0x100))
_NEEDLE_MIN = 4
_SEEN_BYTES = 256  # that are kept of what was shown: the first characters of a secret and the colours between them
_HEAD = 3  # bytes of a secret that are worth waiting for the rest; fewer are the beginning of anything


class _Pattern:
    """A secret in the forms it is looked for in."""

    __slots__ = ("name", "needle", "open", "text", "value")

    def __init__(self, secret: Secret, dropped: bytes) -> None:
        self.name, self.value = secret.name, secret.value
        self.text = re.sub(_BETWEEN, b"", secret.value)
        self.needle = self.text.translate(None, dropped)
        # What stays to be seen of a value that came so slowly that its beginning was shown.
        self.open = max(2, min(4, len(self.text) // 4))
        while self.open < len(self.text) and self.text[self.open] & 0xC0 == 0x80:
            self.open += 1


class Mask:
    """Hides secrets in one stream, whatever portions it comes in.

    A beginning of a secret that a portion ends with is kept back until the next portion or ``release``. If it has to be
    shown before the rest comes, its first two to four bytes are, and everything after them is hidden.
    """

    def __init__(self, secrets: Iterable[Secret], *, waits: bool = True) -> None:
        """Without ``waits`` nothing is kept back, and beginnings are treated as if they came slowly."""
        secrets = list(secrets)
        kept = frozenset(b"".join(secret.value for secret in secrets)) - _IN_BETWEEN
        self._dropped = bytes(code for code in range(256) if code not in kept)
        self._patterns = [_Pattern(secret, self._dropped) for secret in secrets]
        self._needles = list(dict.fromkeys(p.needle for p in self._patterns if len(p.needle) >= _NEEDLE_MIN))
        self._exact = [p.value for p in self._patterns if len(p.needle) < _NEEDLE_MIN]
        self._shortest = min([len(p.text) for p in self._patterns], default=0)
        self._heads = _Heads([value for p in self._patterns for value in {p.value, p.text}])
        self._thin_heads = _Heads(self._needles)
        self._waits = waits
        self._seen = self._held = b""
        self._begun = False  # whether what was seen last, or is kept back, is the beginning of a secret
        self._fed = 0
        self._masked: dict[str, int] = {}

    @property
    def held_from(self) -> int | None:
        """How much of the stream came before what is kept back; None if nothing is."""
        return self._fed - len(self._held) if self._held else None

    def feed(self, data: bytes) -> bytes:
        """What may be shown now."""
        self._fed += len(data)
        seen = self._seen
        if self._begun:
            return self._hide(b"".join((seen, self._held, data)), len(seen), waits=self._waits)
        whole = seen + data
        if self._is_suspicious(whole, len(data)):
            return self._hide(whole, len(seen), waits=self._waits)
        self._seen = whole[-_SEEN_BYTES:]
        return data

    def release(self) -> bytes:
        """What was kept back, as far as it may be shown without the rest."""
        if not self._held:
            return b""
        return self._hide(self._seen + self._held, len(self._seen), waits=False)

    def forget(self) -> None:
        """Let what comes next not go on from what came before. Nothing may be kept back."""
        self._seen, self._begun = b"", False

    @property
    def has_masked(self) -> bool:
        """Whether ``take_masked`` has something to tell."""
        return bool(self._masked)

    def take_masked(self) -> tuple[list[str], int]:
        """Which variables were hidden since this was last asked, and how often."""
        masked, self._masked = self._masked, {}
        return sorted(masked), sum(masked.values())

    def _is_suspicious(self, whole: bytes, fresh: int) -> bool:
        """Whether a secret may be there, or begin at the end; ``fresh`` bytes came last.

        Seldom wrong, and ten times as fast as being right: without the characters that colours and line ends are made
        of, a value stands there in one piece.
        """
        if self._heads.may_end(whole):
            return True
        if fresh + _HEAD < self._shortest and b"\x1b" not in whole and b"\n" not in whole:
            return False  # a key that is echoed: nobody has to wait for more than this
        thin = whole.translate(None, self._dropped)
        for needle in self._needles:
            if needle in thin:
                return True
        for value in self._exact:
            if value in whole:
                return True
        return self._thin_heads.may_end(thin)

    def _hide(self, whole: bytes, shown: int, *, waits: bool) -> bytes:
        """Hide what is there, from ``shown`` on: what is before that was shown already."""
        text = _Text(whole)
        matches: list[tuple[int, int, _Pattern]] = []  # from the first to after the last byte
        spans: list[tuple[int, int]] = []  # of bytes to be hidden
        for pattern in self._patterns:
            for parts in _find(whole, text, pattern):
                if parts[-1][1] > shown:
                    matches.append((parts[0][0], parts[-1][1], pattern))
                    spans += parts
        end = 0
        for start, stop, pattern in sorted(matches, key=_by_place):
            if start >= end and shown <= start + pattern.open:  # else it was counted when it began to be hidden
                self._count(pattern)
            end = max(end, stop)
        begun = self._find_begun(whole, text, end)
        stop = len(whole)
        if begun is None:
            self._seen = whole[max(end, len(whole) - _SEEN_BYTES) :]
        else:
            bytes_, pattern = begun
            if waits and bytes_[_HEAD - 1] >= shown:
                stop = max(shown, bytes_[0])
            elif len(bytes_) > pattern.open:
                spans += [(at, at + 1) for at in bytes_[pattern.open :]]
                if bytes_[pattern.open] >= shown:
                    self._count(pattern)
            self._seen = whole[bytes_[0] : stop]
        self._begun, self._held = begun is not None, whole[stop:]
        return _veiled(whole, shown, stop, spans)

    def _count(self, pattern: _Pattern) -> None:
        self._masked[pattern.name] = self._masked.get(pattern.name, 0) + 1

    def _find_begun(self, whole: bytes, text: _Text, end: int) -> tuple[list[int], _Pattern] | None:
        """Where the bytes are of the longest beginning of a secret that stands at the end, and whose it is."""
        best: tuple[list[int], _Pattern] | None = None
        if not (self._heads.may_end(whole) or self._heads.may_end(text.data)):
            return None
        for pattern in self._patterns:
            at = _begun(whole, pattern.value, end)
            if at is not None and (best is None or at < best[0][0]):
                best = list(range(at, len(whole))), pattern
            at = _begun(text.data, pattern.text, text.after(end))
            if at is not None and (best is None or text.offset(at) < best[0][0]):
                best = [text.offset(number) for number in range(at, len(text.data))], pattern
        return best


class _Heads:
    """The beginnings of some values, all looked for at once."""

    def __init__(self, values: list[bytes]) -> None:
        self._values = values
        self._all = b"\0".join(values)

    def may_end(self, data: bytes) -> bool:
        """Whether ``data`` ends with the beginning of a value."""
        # The last bytes of a beginning stand somewhere in its value. Those of hardly anything else do.
        end = data[-_HEAD:]
        if len(end) < _HEAD or end not in self._all:
            return False
        return any(_begun(data, value, 0) is not None for value in self._values)


def _by_place(match: tuple[int, int, _Pattern]) -> tuple[int, int]:
    return match[:2]


def _find(whole: bytes, text: _Text, pattern: _Pattern) -> list[list[tuple[int, int]]]:
    """Where a secret is, each in the parts it stands in."""
    exact = [[(at, at + len(pattern.value))] for at in _occurrences(whole, pattern.value)]
    if text.data.count(pattern.text) <= len(exact):
        return exact
    return exact + [text.spans(at, at + len(pattern.text)) for at in _occurrences(text.data, pattern.text)]


class _Text:
    """Bytes without what may stand between the characters of a value, and where each of them is."""

    def __init__(self, whole: bytes) -> None:
        self._starts: list[int] = []  # of the pieces, in the text
        self._offsets: list[int] = []  # and in the whole
        pieces: list[bytes] = []
        size = at = 0
        for between in re.finditer(_BETWEEN, whole):
            if between.start() > at:
                self._starts.append(size)
                self._offsets.append(at)
                pieces.append(whole[at : between.start()])
                size += between.start() - at
            at = between.end()
        if at < len(whole):
            self._starts.append(size)
            self._offsets.append(at)
            pieces.append(whole[at:])
        self.data = b"".join(pieces)

    def offset(self, at: int) -> int:
        """Where in the whole a byte of the text is."""
        number = bisect_right(self._starts, at) - 1
        return self._offsets[number] + at - self._starts[number]

    def after(self, offset: int) -> int:
        """The first byte of the text that is not before an offset of the whole."""
        number = bisect_right(self._offsets, offset) - 1
        if number < 0:
            return 0
        size = (self._starts[number + 1] if number + 1 < len(self._starts) else len(self.data)) - self._starts[number]
        return self._starts[number] + min(offset - self._offsets[number], size)

    def spans(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Where in the whole a part of the text is."""
        found: list[tuple[int, int]] = []
        number = bisect_right(self._starts, start) - 1
        while start < stop:
            following = self._starts[number + 1] if number + 1 < len(self._starts) else len(self.data)
            until = min(stop, following)
            begin = self._offsets[number] + start - self._starts[number]
            found.append((begin, begin + until - start))
            start, number = until, number + 1
        return found


def _begun(data: bytes, value: bytes, start: int) -> int | None:
    """Where, from ``start`` on, the longest beginning of a value begins that ``data`` ends with."""
    head = value[:_HEAD]
    at = data.find(head, max(start, len(data) - len(value) + 1))
    while at >= 0:
        if value.startswith(data[at:]):
            return at
        at = data.find(head, at + 1)
    return None


def _occurrences(data: bytes, value: bytes) -> Iterator[int]:
    at = data.find(value)
    while at >= 0:
        yield at
        at = data.find(value, at + len(value))


def _veiled(whole: bytes, start: int, stop: int, spans: list[tuple[int, int]]) -> bytes:
    """A part of ``whole`` with other bytes in place of the spans, those that touch being one."""
    parts: list[bytes] = []
    end = start
    for first, last in _united(spans):
        first, last = max(first, start), min(last, stop)
        if first < last:
            parts += (whole[end:first], veil(_width(whole[first:last])).encode())
            end = last
    parts.append(whole[end:stop])
    return b"".join(parts)


def _united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    united: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if united and first <= united[-1][1]:
            united[-1] = united[-1][0], max(united[-1][1], last)
        else:
            united.append((first, last))
    return united


def _width(value: bytes) -> int:
    """The columns that a piece of a value takes."""
    if value.isascii():
        return len(value)
    from unicodedata import combining, east_asian_width  # hardly ever

    text = value.decode("utf-8", "replace")
    return sum(2 if east_asian_width(char) in "WF" else not combining(char) for char in text)


def hide_in(secrets: Iterable[Secret], text: str) -> str:
    """A text that is whole, with the secrets in it hidden."""
    data = text.encode("utf-8", "surrogateescape")
    for secret in secrets:
        if secret.value in data:
            data = data.replace(secret.value, veil(_width(secret.value)).encode())
    return data.decode("utf-8", "surrogateescape")


def hide_in_facts(secrets: Iterable[Secret], value: object) -> object:
    """The same with a text, or with all in a list."""
    if isinstance(value, str):
        return hide_in(secrets, value)
    if isinstance(value, list):
        items: list[object] = value  # pyright: ignore[reportUnknownVariableType]
        return [hide_in_facts(secrets, item) for item in items]
    return value
