"""Keys by their shape: what looks like a credential in a text, whoever it belongs to. Pure.

docs/secrets.md lists the shapes. Only the secret part of a key is hidden, so that one can still see what it was, and
what hides it has as many characters. It is quick where there is no key: each rule begins with characters that are found
at once, and looks back from there.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from scrubjay.tape.redaction import veil

Span = tuple[int, int]
"""Where a secret begins, and where it has ended."""

# Shapes: what they may begin with, up to the character they are found by, and the secret.
_Shapes = tuple[tuple[tuple[str, ...], str], ...]
_AFTER_UNDERSCORE: _Shapes = (
    (("gh[pousr]_",), r"[A-Za-z0-9]{30,255}"),  # GitHub
    (("github_pat_",), r"[A-Za-z0-9_]{22,255}"),
    (("[rs]k_live_", "[rs]k_test_"), r"[A-Za-z0-9]{16,247}"),  # Stripe
    (("whsec_",), r"[A-Za-z0-9+/=]{24,80}"),
    (("npm_", "hf_", "r8_"), r"[A-Za-z0-9]{30,80}"),  # npm, Hugging Face, Replicate
    (("gsk_", "ntn_", "sbp_", "nfp_", "lin_api_"), r"[A-Za-z0-9]{32,80}"),  # Groq, Notion, Supabase, Netlify, Linear
    (("sjt_[a-z2-7]{12}_",), r"[a-z2-7]{40,60}"),  # Scrubjay
    (("shpat_", "shpss_", "shpca_", "shppa_"), r"[0-9a-fA-F]{32}"),  # Shopify
    (("do[opr]_v1_",), r"[0-9a-f]{64}"),  # DigitalOcean
    (("dckr_pat_",), r"[\w-]{20,64}"),  # Docker
    (("sntrys_",), r"[\w+/=-]{32,255}"),  # Sentry
)
_AFTER_HYPHEN: _Shapes = (
    (
        ("sk-ant-", "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-v1-"),
        r"[\w-]{20,255}",
    ),  # Anthropic, OpenAI, OpenRouter
    (("sk-",), r"[A-Za-z0-9]{20,255}"),
    (("xox[abeoprs]-",), r"[A-Za-z0-9-]{16,255}"),  # Slack
    (("xapp-",), r"[A-Za-z0-9-]{20,255}"),
    (("glpat-", "gldt-", "glrt-", "glft-", "glcbt-", "glptt-", "glsoat-"), r"[\w.-]{20,255}"),  # GitLab
    (("pypi-",), r"AgE[\w-]{30,255}"),
    (("GOCSPX-",), r"[\w-]{20,64}"),  # Google
    (("xai-", "pplx-"), r"[A-Za-z0-9]{40,128}"),
    (("key-",), r"[0-9a-f]{32}"),  # Mailgun
    (("AGE-SECRET-KEY-",), r"1[A-Z0-9]{50,64}"),
)
_AFTER_DOT: _Shapes = (
    ((r"SG\.",), r"[\w-]{16,64}\.[\w-]{16,64}"),  # SendGrid
    ((r"ya29\.",), r"[\w.-]{20,255}"),  # Google
    ((r"hvs\.",), r"[\w-]{20,255}"),  # Vault
    ((r"dp\.pt\.",), r"[A-Za-z0-9]{40,64}"),  # Doppler
)
# What a value is called that must not be seen. In capitals and without blanks, as in a shell, any value counts;
# otherwise one that looks random.
_LOUD = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS", "KEY_BASE", "PASS", "PWD", "_PAT")
_QUIET = (
    *("api_key", "apikey", "api-key", "apiKey", "access_key", "secret_key", "secretKey", "private_key", "privateKey"),
    *("token", "Token", "secret", "Secret", "password", "Password", "passwd"),
)
_PLACEHOLDERS = ("your", "xxx", "example", "changeme", "redacted", "dummy", "placeholder", "insert", "process")
_COMMON = frozenset({"password", "passwd", "secret", "webhook", "token"})  # passwords that nobody has
_PATHS = ("/", "~/", "./", "../")
_BETWEEN = ("", " ", '"', "'", '" ', "' ")  # a name and the sign after it
_TOKEN = r"[A-Za-z0-9._~+/=-]"


def _rule(sign: str, shapes: _Shapes) -> re.Pattern[str]:
    """All shapes whose beginnings end with a sign."""
    parts: list[str] = []
    for begins, secret in shapes:
        begin = "|".join([f"(?<=(?<![A-Za-z0-9]){begin})" for begin in begins])
        parts.append(f"(?:{begin})({secret})")
    # Looking ahead first is what makes it quick: hardly anything is that long.
    return re.compile(rf"{re.escape(sign)}(?=[\w.+/=-]{{16}})(?:{'|'.join(parts)})", re.ASCII)


def _assigned(sign: str, least: int, names: tuple[str, ...], *, spaced: bool = True) -> re.Pattern[str]:
    """Values after a name and a sign, which may be apart."""
    by_width: dict[int, list[str]] = {}
    for name in names:
        for between in _BETWEEN if spaced else ("",):
            by_width.setdefault(len(name + between), []).append(re.escape(name + between + sign))
    begin = "|".join([f"(?<={'|'.join(forms)})" for forms in by_width.values()])
    ends = "".join(sorted({name[-2] for name in names})), "".join(sorted({name[-1] for name in names}))
    value = rf"""{"[ ]?" * spaced}["']?([^\s"'`,;<>()\[\]{{}}|\\]{{{least},512}})"""
    return re.compile(rf"""{sign}(?:(?<=[{ends[0]}][{ends[1]}]{sign})|(?<=[ "']{sign}))(?:{begin}){value}""", re.ASCII)


def _looks_random(value: str) -> bool:
    """Whether nobody would write this by hand."""
    if len(value) < 16 or not _has_digit_and_letter(value) or not _is_telling(value):
        return False
    # A call, a path or words with a number among them.
    return "." not in value and value.count("/") < 3 and value.count("-") < 5 and value.count("_") < 4


def _is_telling(value: str) -> bool:
    """Whether a value is more than a number, a path, a reference, a placeholder, or a word."""
    if value.startswith(("$", "%", "&", "@")) or "***" in value or "…" in value:
        return False
    if value.startswith(_PATHS) and any(len(part) > 1 and part.isalpha() for part in value.split("/")):
        return False
    plain = re.sub(r"[-_.:]", "", value)
    if not plain or plain.isdecimal() or plain.lower().startswith(_PLACEHOLDERS):
        return False
    return not plain.isalpha() or len(plain) >= 12


def _has_digit_and_letter(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _always(_: str) -> bool:
    return True


def _is_password(value: str) -> bool:
    """Whether what stands between a colon and an @ is one."""
    return not value.startswith(("$", "{", "*", "%s", "[")) and value.lower() not in _COMMON


class _Rule(NamedTuple):
    sign: str  # what a text has that holds such a key; nothing is found faster
    pattern: re.Pattern[str]  # its last group is the secret
    check: Callable[[str], bool] = _always


# Those of which every key has a long run of letters and digits in it, and most texts none.
_LONG_RULES = (
    _Rule("_", _rule("_", _AFTER_UNDERSCORE)),
    _Rule("-", _rule("-", _AFTER_HYPHEN), _has_digit_and_letter),
    _Rule(".", _rule(".", _AFTER_DOT)),
    _Rule("eyJ", re.compile(r"eyJ([\w-]{8,4096}\.eyJ[\w-]{8,8192}\.[\w-]{8,4096})", re.ASCII)),  # JWT
    _Rule("AIza", re.compile(r"AIza([\w-]{35})(?![\w-])", re.ASCII)),  # Google
    _Rule("AKIA", re.compile(r"AKIA(?<![A-Za-z0-9]....)([A-Z0-9]{16})(?![A-Za-z0-9])")),  # AWS
    _Rule("ASIA", re.compile(r"ASIA(?<![A-Za-z0-9]....)([A-Z0-9]{16})(?![A-Za-z0-9])")),
    _Rule("SK", re.compile(r"SK([0-9a-f]{32})(?![0-9a-z])")),  # Twilio
    _Rule("/services/", re.compile(r"/services/(T[A-Z0-9]{6,16}/B[A-Z0-9]{6,16}/[A-Za-z0-9]{20,32})")),  # Slack
    _Rule("/webhooks/", re.compile(r"/webhooks/([0-9]{15,21}/[\w-]{50,80})", re.ASCII)),  # Discord
    _Rule(":AA", re.compile(r":(?<=[0-9]{8}:)(AA[\w-]{33})(?![\w-])", re.ASCII)),  # Telegram
    _Rule("Key=", re.compile(r"(?:Account|SharedAccess)Key=([A-Za-z0-9+/]{40,}={0,2})")),
)
_RULES = (
    _Rule("Q~", re.compile(r"Q~(?<=[\w~.-]{3}[0-9]Q~)([\w~.-]{31,34})", re.ASCII)),  # Azure
    _Rule("sig=", re.compile(r"sig=(?<=[?&]sig=)([A-Za-z0-9%/+=-]{40,120})")),
    _Rule("://", re.compile(r"""://[^\s/:@"'<>]{0,256}:([^\s/@"'<>]{6,256})@"""), _is_password),
    _Rule("earer ", re.compile(rf"earer ({_TOKEN}{{16,4096}})"), _has_digit_and_letter),
    _Rule(
        "uthorization",
        re.compile(rf"""uthorization["']?[ ]?[:=][ ]?["']?(?:[Bb]asic|[Tt]oken|[Aa]pi[Kk]ey) ({_TOKEN}{{8,4096}})"""),
    ),
    _Rule("=", _assigned("=", 8, _LOUD, spaced=False), _is_telling),
    _Rule("=", _assigned("=", 16, _LOUD + _QUIET), _looks_random),
    _Rule(":", _assigned(":", 16, _LOUD + _QUIET), _looks_random),
)
_RUN = 20  # characters
_RUNS = bytes(120 if chr(code) in "_~+-" or (code < 128 and chr(code).isalnum()) else 32 for code in range(256))

_BEGIN_PRIVATE = re.compile(r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{16,}={0,2}(?![A-Za-z0-9+/=])")
_BASE64_LINE = re.compile(r"[ \t\u2500-\u257f|]{0,16}([A-Za-z0-9+/]{2,}={0,2})[ \t\u2500-\u257f|]{0,16}")
_END_PRIVATE = re.compile(r"-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_HEADER_LINE = re.compile(r"[^A-Za-z0-9+/]*(?:(?:Proc-Type|DEK-Info|Version|Comment)\b.*)?")
# The middle of a private key whose beginning is out of sight. Three lines, for one may be anything.
_BODY_LINE = re.compile(r"\n[ \t]{0,16}([A-Za-z0-9+/]{64}(?:[A-Za-z0-9+/]{6})?)(?=\n|\Z)")
_LAST_LINE = re.compile(r"\n[ \t]{0,16}((?:[A-Za-z0-9+/]{4}){5,17}|[A-Za-z0-9+/]{2,70}={1,2})(?=\n|\Z)")
_BODY_LINES_MIN = 3
_BODY_LINES_MAX = 128  # a key of 8192 bits
# A long key that goes on in the next row, which a program has wrapped by itself.
_CONTINUED = re.compile(
    r"[ ]{0,8}[\u2500-\u257f|]?\n[ \u2500-\u257f|>]{0,12}([A-Za-z0-9_+/.-]{8,}={0,2})(?=[\s\u2500-\u257f|\"'`]|$)"
)
_FULL_ROW = 40  # columns a row has at least that was wrapped because it was full


def find_keys(text: str) -> list[Span]:
    """Where the secret parts of all keys are in a text of any lines, in order."""
    found: list[Span] = []
    has_run = b"x" * _RUN in text.encode("utf-8", "replace").translate(_RUNS)
    for rule in _LONG_RULES + _RULES if has_run else _RULES:
        if rule.sign not in text:
            continue
        for match in rule.pattern.finditer(text):
            group = match.lastindex or 0
            if rule.check(match[group]):
                found.append(match.span(group))
    if found:
        found += [span for _, stop in found for span in _continuations(text, stop)]
    if "PRIVATE KEY" in text:
        found += _private_keys(text)
    if has_run:
        found += _bodies(text)
    return unite(found) if found else found


def mask_keys(text: str) -> str:
    """The text with its keys hidden, as long as before."""
    return veil_spans(text, find_keys(text))


def veil_spans(text: str, spans: Iterable[Span]) -> str:
    """The text with other characters in place of the spans, which are in order."""
    parts: list[str] = []
    end = 0
    for start, stop in spans:
        parts += (text[end:start], veil(stop - start))
        end = stop
    return "".join(parts) + text[end:] if parts else text


def unite(spans: list[Span]) -> list[Span]:
    """Spans in order, those that touch as one."""
    united: list[Span] = []
    for start, stop in sorted(spans):
        if united and start <= united[-1][1]:
            united[-1] = united[-1][0], max(united[-1][1], stop)
        else:
            united.append((start, stop))
    return united


def _continuations(text: str, stop: int) -> Iterator[Span]:
    """Where a key goes on that the end of a row has cut."""
    while True:
        match = _CONTINUED.match(text, stop)
        if match is None or stop - text.rfind("\n", 0, stop) < _FULL_ROW or not _is_rest(match[1]):
            return
        yield match.span(1)
        stop = match.end(1)


def _is_rest(value: str) -> bool:
    changes = sum(one.isupper() != other.isupper() for one, other in pairwise(value))
    return _has_digit_and_letter(value) and (changes > 2 or len(value) >= 20)


def _private_keys(text: str) -> Iterator[Span]:
    """What stands between the first and the last line of private keys."""
    for begin in _BEGIN_PRIVATE.finditer(text):
        end = text.find("-----END", begin.end())
        position, lines = begin.end(), 0
        while 0 <= position < len(text) and lines < _BODY_LINES_MAX:
            stop = text.find("\n", position)
            stop = len(text) if stop < 0 else stop
            if 0 <= end < stop:
                stop = end
            spans = [match.span() for match in _BASE64.finditer(text, position, stop)]
            last = _BASE64_LINE.fullmatch(text, position, stop) if not spans and lines else None
            if last is not None:
                spans.append(last.span(1))
            yield from spans
            if stop == end or (lines and not spans and not _HEADER_LINE.fullmatch(text, position, stop)):
                break
            position, lines = stop + 1, lines + 1
    for end in _END_PRIVATE.finditer(text):
        yield from _before_end(text, text.rfind("\n", 0, end.start()))


def _before_end(text: str, stop: int) -> Iterator[Span]:
    """The lines above the last one of a private key whose first line may be out of sight."""
    while stop > 0:
        start = text.rfind("\n", 0, stop) + 1
        line = _BASE64_LINE.fullmatch(text, start, stop)
        if line is None:
            return
        yield line.span(1)
        stop = start - 1


def _bodies(text: str) -> Iterator[Span]:
    """Lines after lines of what can be the middle of a private key."""
    body: list[re.Match[str]] = []
    for line in [*_BODY_LINE.finditer("\n" + text), None]:
        if body and (line is None or line.start() != body[-1].end()):
            if len(body) >= _BODY_LINES_MIN and _may_be_private(text[: body[0].start()]):
                yield from ((line.start(1) - 1, line.end(1) - 1) for line in body)
                last = _LAST_LINE.match(text, body[-1].end() - 1)
                if last is not None:
                    yield last.span(1)
            body.clear()
        if line is not None:
            body.append(line)


def _may_be_private(before: str) -> bool:
    header = before[-200:].rstrip().rpartition("\n")[2]
    return "-----BEGIN" not in header or "PRIVATE" in header


class KeyedLines:
    """Lines that come in portions, with their keys hidden."""

    _CONTEXT_LINES = _BODY_LINES_MAX

    def __init__(self) -> None:
        self._before: list[str] = []  # as they were

    def mask(self, lines: Sequence[str]) -> list[str]:
        """The next lines."""
        before = self._before
        masked = mask_rows([*before, *lines], [False] * (len(before) + len(lines)))[len(before) :]
        self._before = [*before, *lines][-self._CONTEXT_LINES :]
        return masked


def mask_rows(rows: Sequence[str], wrapped: Sequence[bool]) -> list[str]:
    """Rows of a screen with their keys hidden, those that go on in the next one taken together."""
    text = "".join([row if goes_on else row + "\n" for row, goes_on in zip(rows, wrapped, strict=True)])
    spans = find_keys(text)
    if not spans:
        return list(rows)
    masked, result, at = veil_spans(text, spans), list[str](), 0
    for row, goes_on in zip(rows, wrapped, strict=True):
        result.append(masked[at : at + len(row)])
        at += len(row) + (not goes_on)
    return result


def mask_full_rows(rows: Sequence[str], cols: int) -> list[str]:
    """The same where nobody says which rows go on: those that are full up to the edge may."""
    return mask_rows(rows, [len(row) >= cols and (row[-1].isalnum() or row[-1] in "_+/=.~-") for row in rows])


def spans_within(spans: Sequence[Span], start: int, stop: int) -> list[Span]:
    """The parts of spans, which are in order, that lie between two places."""
    first = bisect_left(spans, start, key=lambda span: span[1])
    found: list[Span] = []
    for begin, end in spans[first:]:
        if begin >= stop:
            break
        if end > start:
            found.append((max(begin, start), min(end, stop)))
    return found
