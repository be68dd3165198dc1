"""A screen as a page for any browser: text, styles as classes, no script. Pure.

Nothing a program printed becomes markup: text is escaped, links lead to the web or to mail and nowhere else, and
the page's own policy forbids it to run or load anything.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from typing import NamedTuple

from scrubjay.screen.palette import Ink, Look, css_colour, ink_of
from scrubjay.screen.picture import DEFAULT, Attribute, Cursor, Line, Picture
from scrubjay.screen.pieces import clean, cut

_LINK = re.compile(r"(?:https?://|mailto:)[!#-;=?-\[\]_a-~]{1,2000}", re.IGNORECASE)
_PLAIN = Look()
_UNDERLINES = ("", "solid", "double", "wavy", "dotted", "dashed")
FONT = 'ui-monospace,"SF Mono","Cascadia Mono","DejaVu Sans Mono",Menlo,Consolas,"Liberation Mono",monospace'

# Rows are as high as the font itself, so that boxes close. Light is dark turned over with its hues kept: the
# colours of a program that took its terminal for a dark one stay legible.
SCREEN_CSS = f"""
.screen{{position:relative;display:inline-block;margin:0;font:15px/17px {FONT};white-space:pre;cursor:text;
font-variant-ligatures:none;font-kerning:none;direction:ltr;unicode-bidi:bidi-override;text-size-adjust:none}}
.row{{display:block;height:1lh}}
.row span,.row a{{display:inline-block;height:1lh;vertical-align:top;unicode-bidi:inherit}}
.row a{{color:inherit;text-decoration:underline dotted;text-underline-offset:.2em}}
.row a:hover{{text-decoration-style:solid}}
.cursor{{position:absolute;width:1ch;height:1lh;background:#cfd5dc;mix-blend-mode:difference;pointer-events:none}}
.cursor.bar{{width:2px}}
.cursor.underline{{height:2px;margin-top:calc(1lh - 2px)}}
""".strip()
_PAGE_CSS = """
html{color-scheme:dark}
body{margin:0;padding:16px}
@media(prefers-color-scheme:light){html{filter:invert(1) hue-rotate(180deg)}}
""".strip()


class Bit(NamedTuple):
    """A piece of a row as a page has it."""

    text: str
    style: int = 0  #: the number of its look on the sheet, 0 for the plain one
    cells: int = 0  #: columns it must be made to take; 0 if it takes them by itself
    link: str | None = None


class Sheet:
    """The looks a page needs, each with a number, and the CSS that gives them."""

    def __init__(self) -> None:
        self._numbers: dict[Look, int] = {_PLAIN: 0}
        self._widths: set[int] = set()

    def number(self, look: Look) -> int:
        """The number of a look, which is on the sheet from now on."""
        return self._numbers.setdefault(look, len(self._numbers))

    def bits(self, line: Line, ink: Ink) -> tuple[Bit, ...]:
        """A row in these colours; its looks are on the sheet from now on."""
        bits: list[Bit] = []
        for span in line.spans:
            style = self.number(ink.look(span.style))
            link = safe_link(span.link)
            for piece in cut(span.text, span.cells):
                cells = 0 if piece.text.isascii() and len(piece.text) == piece.cells else piece.cells
                self._widths.add(cells)
                bits.append(Bit(piece.text, style, cells, link))
        return tuple(bits)

    def css(self) -> str:
        """The rules of everything that was asked for so far."""
        rules = [f".s{number}{{{_declare(look)}}}" for look, number in self._numbers.items() if number]
        rules += [f".w{cells}{{width:{cells}ch}}" for cells in sorted(self._widths - {0})]
        return "\n".join(rules)


def safe_link(uri: str | None) -> str | None:
    """A link that only leads somewhere, else None."""
    return uri if uri is not None and _LINK.fullmatch(uri) else None


def policy_hash(content: str) -> str:
    """What a content security policy calls this script or style."""
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def encode_head(title: str, css: str, *, policy: str = "", more: str = "") -> str:
    """The beginning of a page up to its body; it may do nothing but what ``policy`` adds, and has ``more`` tags."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src {policy_hash(css)}{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(clean(title))}</title>{more}
<style>{css}</style>
</head>
"""


def encode_html(picture: Picture, *, title: str = "") -> str:
    """A whole page that shows one screen, after the history it comes with."""
    sheet, ink = Sheet(), ink_of(picture)
    lines = picture.history + picture.lines
    rows = "".join([f'<div class="row">{_encode_row(sheet.bits(line, ink))}</div>' for line in lines])
    css = "\n".join((SCREEN_CSS, _PAGE_CSS, _screen_css(picture, ink), sheet.css()))
    body = f'<div class="screen">{rows}{_encode_cursor(picture.cursor)}</div>'
    return f"{encode_head(title, css)}<body>{body}</body>\n</html>\n"


def _screen_css(picture: Picture, ink: Ink) -> str:
    cursor, above = picture.cursor, len(picture.history)
    return (
        f"html{{background:{css_colour(ink.bg)};color:{css_colour(ink.fg)}}}\n"
        f".screen{{min-width:{picture.cols}ch}}\n"
        f".cursor{{left:{cursor.x}ch;top:calc({above + cursor.y}*1lh)}}"
    )


def _encode_cursor(cursor: Cursor) -> str:
    return f'<div class="cursor {escape(cursor.shape)}"></div>' if cursor.visible else ""


def _encode_row(bits: tuple[Bit, ...]) -> str:
    return "".join([_encode_bit(bit) for bit in bits])


def _encode_bit(bit: Bit) -> str:
    text = escape(bit.text)
    classes = " ".join([f"s{bit.style}"] * bool(bit.style) + [f"w{bit.cells}"] * bool(bit.cells))
    marked = f' class="{classes}"' if classes else ""
    if bit.link is not None:
        return f'<a{marked} href="{escape(bit.link)}" target="_blank" rel="noopener noreferrer">{text}</a>'
    return f"<span{marked}>{text}</span>" if classes else text


def _declare(look: Look) -> str:
    """A look in CSS."""
    parts: list[str] = []
    if look.hidden:
        parts.append("color:transparent")
    elif look.fg != DEFAULT:
        parts.append(f"color:{css_colour(look.fg)}")
    if look.bg != DEFAULT:
        parts.append(f"background:{css_colour(look.bg)}")
    return ";".join(parts + declare_font(look))


def declare_font(look: Look) -> list[str]:
    """What of a look is the same for text on a page and in a drawing."""
    parts: list[str] = []
    if look.attributes & Attribute.BOLD:
        parts.append("font-weight:bold")
    if look.attributes & Attribute.ITALIC:
        parts.append("font-style:italic")
    lines = [
        name
        for wanted, name in (
            (look.underline, "underline"),
            (look.attributes & Attribute.OVERLINE, "overline"),
            (look.attributes & Attribute.STRIKETHROUGH, "line-through"),
        )
        if wanted
    ]
    if lines:
        kind = _UNDERLINES[look.underline] if look.underline < len(_UNDERLINES) else "solid"
        colour = [] if look.underline_colour == DEFAULT else [css_colour(look.underline_colour)]
        parts.append("text-decoration:" + " ".join([*lines, kind or "solid", *colour]))
    return parts
