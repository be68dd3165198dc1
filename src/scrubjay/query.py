"""What a person searches for: words, phrases, beginnings, and what must not be there. Pure.

    error timeout           both words, anywhere in the row
    "connection refused"    next to each other
    conn*                   a word that begins so
    -debug                  rows without it
    src/foo_bar.py          the same as "src foo bar py"
    pod:NAME typed: shown:  of that pod; only what was typed; only what was shown

A word is letters and digits; case and accents do not matter. Scripts without spaces between words are
searched by the character. FTS5 has the same rules, given the text as ``spread`` prepares it.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple
from unicodedata import normalize

from scrubjay.errors import BadQuery

Kind = Literal["shown", "typed"]

TOKENIZER = "unicode61 remove_diacritics 2"

# Ranges, not classes of Unicode: FTS5 knows those of 2012, and whatever came later is a letter to it.
_SPACELESS = "\U00020000-\U0003ffff\u3005\u3040-\u9fff\uac00-\ud7af\uf900-\ufaff"  # Chinese, Japanese, Korean
_SIGNS = "\U000f0000-\U0010ffff\U0001f000-\U0001fbff\u2000-\u2bff\u2e00-\u2e7f\ue000-\uf8ff"  # boxes, icons, emoji
_ACCENTS = "\u0300-\u036f"
_WORD = re.compile(rf"(?=\w)[{_SPACELESS}]|(?:[^\W_{_SPACELESS}{_SIGNS}][{_ACCENTS}]*)+")
_IS_ALONE = re.compile(f"[{_SPACELESS}]")
_IS_SIGN = re.compile(f"[{_SIGNS}]+")
_IS_ACCENT = re.compile(f"[{_ACCENTS}]+")
_TERM = re.compile(
    r"""
    (?P<minus>-?)
    (?:(?P<field>pod|typed|shown):)?
    (?: "(?P<phrase>[^"]*)"?(?P<star>\*?) | (?P<word>[^\s"]*) )
    """,
    re.VERBOSE,
)


class Term(NamedTuple):
    """Words that stand next to each other."""

    words: tuple[str, ...]  #: in lower case
    prefix: bool = False  #: whether the last one may go on


class Query(NamedTuple):
    """Everything asked for at once."""

    terms: tuple[Term, ...]  #: all of them are wanted; there is at least one
    without: tuple[Term, ...] = ()  #: none of them is
    kind: Kind | None = None
    pods: tuple[str, ...] = ()  #: any of these, as a person calls them


def parse_query(raw: str) -> Query:
    """Read a query; BadQuery if it asks for no word."""
    terms: list[Term] = []
    without: list[Term] = []
    pods: list[str] = []
    kind: Kind | None = None
    for match in _TERM.finditer(raw):
        text = match["word"] if match["phrase"] is None else match["phrase"]
        prefix = bool(match["star"]) or (match["phrase"] is None and text.endswith("*"))
        field = match["field"]
        if match["minus"]:
            without += _terms(f"{field}:{text}" if field else text, prefix=prefix)
        elif field == "pod":
            pods += [text] if text else []
        else:
            kind = kind if field is None else "typed" if field == "typed" else "shown"
            terms += _terms(text, prefix=prefix)
    if not terms:
        raise BadQuery(raw)
    return Query(tuple(dict.fromkeys(terms)), tuple(dict.fromkeys(without)), kind, tuple(pods))


def _terms(text: str, *, prefix: bool) -> list[Term]:
    words = tuple(_WORD.findall(text.lower()))
    return [Term(words, prefix)] if words else []


def expression(terms: tuple[Term, ...], without: tuple[Term, ...] = ()) -> str:
    """The same for FTS5."""
    wanted = " AND ".join(map(_quote, terms))
    return f"({wanted}) NOT ({' OR '.join(map(_quote, without))})" if without else wanted


def _quote(term: Term) -> str:
    return f'"{" ".join(term.words)}"' + " *" * term.prefix


def spread(text: str) -> str:
    """Text as FTS5 is to have it: no signs, and characters that are words by themselves set apart."""
    return text if text.isascii() else _IS_ALONE.sub(r" \g<0> ", _IS_SIGN.sub(" ", text))


def fold(text: str) -> str:
    """Text without case and accents."""
    lowered = text.lower()
    if lowered.isascii():
        return lowered
    final, usual = "\u03c2\u03c3"  # sigma, which lower() writes by where in a word it is
    return normalize("NFC", _IS_ACCENT.sub("", normalize("NFD", lowered.replace(final, usual))))


def matches(text: str, query: Query) -> bool:
    """Whether a row is what was asked for, its kind and pod aside."""
    words = _words(text)
    return all(_found(words, term) for term in query.terms) and not any(_found(words, term) for term in query.without)


def sieve(query: Query) -> list[tuple[str, re.Pattern[str]]]:
    """What every row that matches has in it once it is folded, as text and as a pattern: much quicker to look for."""
    found: list[tuple[str, re.Pattern[str]]] = []
    for term in query.terms:
        for number, word in enumerate(map(fold, term.words), 1):
            start, end = ("", "") if _IS_ALONE.match(word) else ("(?<![a-z0-9])", "(?![a-z0-9])")
            goes_on = term.prefix and number == len(term.words)
            found.append((word, re.compile(start + re.escape(word) + ("" if goes_on else end))))
    return sorted(found, key=lambda part: len(part[0]), reverse=True)


def mark(text: str, query: Query) -> list[tuple[int, int]]:
    """Where in a row that was found the wanted words are: start and end of each stretch, in order."""
    words = _words(text)
    marks: list[tuple[int, int]] = []
    for start, end in sorted(found for term in query.terms for found in _found(words, term)):
        if marks and start <= marks[-1][1]:
            marks[-1] = marks[-1][0], max(end, marks[-1][1])
        else:
            marks.append((start, end))
    return marks


_Word = tuple[str, int, int]


def _words(text: str) -> list[_Word]:
    return [(fold(match[0]), match.start(), match.end()) for match in _WORD.finditer(text)]


def _found(words: list[_Word], term: Term) -> list[tuple[int, int]]:
    """Where the words of a term follow one another."""
    *first, last = map(fold, term.words)
    found: list[tuple[int, int]] = []
    for index in range(len(words) - len(first)):
        end = words[index + len(first)]
        if not (end[0].startswith(last) if term.prefix else end[0] == last):
            continue
        if all(words[index + more][0] == word for more, word in enumerate(first)):
            found.append((words[index][1], end[2]))
    return found
