"""A screen as a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from scrubjay.screen.html import Sheet, encode_html, policy_hash, safe_link
from scrubjay.screen.palette import css_colour, ink_of
from scrubjay.screen.picture import PLAIN, Cursor, Line, Picture, Span, Style, rgb
from scrubjay.screen.pieces import cut
from tests.support.pictures import HOSTILE, HOSTILE_LINKS, draw, link
from tests.support.tables import every_row

_TAGS = {"html", "head", "meta", "title", "style", "body", "div", "span", "a"}


class _Page(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[str] = []
        self.title = self.css = ""
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "div" and dict(attrs).get("class") == "row":
            self.rows.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self.title += data
        elif self._inside == "style":
            self.css += data
        elif self.rows and data != "\n":
            self.rows[-1] += data

    @property
    def links(self) -> list[str | None]:
        return [attrs["href"] for tag, attrs in self.tags if tag == "a"]


def _style_of(page: _Page, text: str, data: str) -> str:
    """The CSS that ``text`` is shown with."""
    match = re.search(rf'class="s(\d+)[^"]*"[^>]*>{text}<', data)
    assert match is not None
    rule = re.search(rf"\.s{match[1]}{{(.*)}}", page.css)
    assert rule is not None
    return rule[1]


def test_the_rows_of_the_page_are_the_rows_of_the_screen() -> None:
    picture = draw('plain <b> & "quoted"\r\n日本語 👍 e\u0301x ─│┌ العربية\r\n  \x1b[31mred\x1b[0m'.encode(), 40, 5)

    page = _Page(encode_html(picture))

    assert [row.rstrip() for row in page.rows] == [line.text for line in picture.lines]


def test_history_comes_before_the_screen_and_moves_the_cursor_down() -> None:
    picture = draw(b"".join(b"line %d\r\n" % n for n in range(20)), 40, 5, history=3)

    page = _Page(encode_html(picture))

    assert [row.rstrip() for row in page.rows] == [*(f"line {n}" for n in range(13, 20)), ""]
    assert "top:calc(7*1lh)" in page.css


@every_row(
    ("sequence", "style"),
    [
        ("1", "font-weight:bold"),
        ("3", "font-style:italic"),
        ("4", "text-decoration:underline solid"),
        ("4:2", "text-decoration:underline double"),
        ("4:3", "text-decoration:underline wavy"),
        ("4:4", "text-decoration:underline dotted"),
        ("4:5", "text-decoration:underline dashed"),
        ("4;58;2;1;2;3", "text-decoration:underline solid #010203"),
        ("9", "text-decoration:line-through solid"),
        ("53;9;4", "text-decoration:underline overline line-through solid"),
        ("38;2;1;2;3", "color:#010203"),
        ("48;5;196", "background:#ff0000"),
        ("38;5;232", "color:#080808"),
        ("8", "color:transparent"),
        ("7", "color:#0e1217;background:#cfd5dc"),
        ("7;38;2;1;2;3", "color:#0e1217;background:#010203"),
        ("2", "color:#6e7379"),
        ("2;38;2;255;255;255;48;2;1;1;1", "color:#808080;background:#010101"),
    ],
)
def test_a_style_is_shown_as_what_it_is(sequence: str, style: str) -> None:
    data = encode_html(draw(f"\x1b[{sequence}mtext\x1b[0m".encode()))

    assert _style_of(_Page(data), "text", data) == style


def test_colours_a_program_changed_come_out_as_it_made_them() -> None:
    changes = b"\x1b]4;1;rgb:12/34/56\x1b\\\x1b]10;rgb:a0/b0/c0\x1b\\\x1b]11;rgb:01/02/03\x1b\\"
    data = encode_html(draw(changes + b"\x1b[31mred\x1b[0m \x1b[7minv"))
    page = _Page(data)

    assert _style_of(page, "red", data) == "color:#123456"
    assert _style_of(page, "inv", data) == "color:#010203;background:#a0b0c0"
    assert "html{background:#010203;color:#a0b0c0}" in page.css


def test_a_screen_in_reverse_has_its_colours_exchanged() -> None:
    ink = ink_of(draw(b"\x1b[?5h"))

    assert (css_colour(ink.fg), css_colour(ink.bg)) == ("#0e1217", "#cfd5dc")


def test_a_cursor_is_shown_where_and_how_it_is() -> None:
    page = encode_html(draw(b"ab\r\nabc\x1b[6 q"))

    assert '<div class="cursor bar">' in page
    assert ".cursor{left:3ch;top:calc(1*1lh)}" in page
    assert '<div class="cursor' not in encode_html(draw(b"ab\x1b[?25l"))


def test_links_lead_to_the_web_and_to_mail_only() -> None:
    good = ["https://example.com/a?b=1&c=%22", "http://example.com/'onclick='", "mailto:someone@example.com"]

    page = _Page(encode_html(draw(b"\r\n".join(link(uri, "text") for uri in (*good, *HOSTILE_LINKS)))))

    assert page.links == good
    assert all(attrs["rel"] == "noopener noreferrer" for tag, attrs in page.tags if tag == "a")
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]


@every_row("uri", HOSTILE_LINKS)
def test_a_link_that_does_more_than_lead_somewhere_is_none(uri: str) -> None:
    assert safe_link(uri) is None


@every_row("text", HOSTILE)
def test_nothing_a_program_prints_becomes_markup(text: str) -> None:
    picture = draw(
        f"\x1b]0;{text}\x07\x1b[31m{text}\x1b[0m".encode() + link(f"https://example.com/{text}", text), 200, 4
    )

    page = _Page(encode_html(picture, title=text))

    assert {tag for tag, _ in page.tags} <= _TAGS
    assert page.title == text
    assert page.rows[0].startswith(text)


def test_the_policy_forbids_everything_but_the_pages_own_style() -> None:
    page = _Page(encode_html(draw(b"\x1b[31mred")))
    policies = [attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]

    assert policies == [f"default-src 'none'; style-src {policy_hash(page.css)}"]


def test_every_piece_keeps_its_columns_whatever_the_font() -> None:
    sheet = Sheet()
    bits = sheet.bits(draw("ab日本c ─── é👍".encode()).lines[0], ink_of(draw(b"")))

    assert [(bit.text, bit.cells) for bit in bits] == [
        ("ab", 0),
        ("日", 2),
        ("本", 2),
        ("c ─── é", 7),
        ("👍", 2),
    ]
    assert ".w2{width:2ch}\n.w7{width:7ch}" in sheet.css()


@settings(max_examples=300, deadline=None)
@given(st.text(), st.integers(0, 40))
def test_pieces_add_up_and_hold_no_control(text: str, cells: int) -> None:
    pieces = cut(text, cells)

    assert not pieces or sum(piece.cells for piece in pieces) == cells
    assert not re.search(
        r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", "".join(p.text for p in pieces)
    )


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1), st.sampled_from([PLAIN, PLAIN._replace(fg=rgb(1, 2, 3), attributes=255)]))
def test_whatever_a_span_says_the_page_has_no_other_tags(text: str, style: Style) -> None:
    line = Line((Span(text, len(text), style, text),))
    cursor = Cursor(0, 0, visible=True, shape="block")
    picture = Picture(80, 1, (line,), (), cursor, text, text, alternate=False, modes=frozenset(), palette={})

    page = _Page(encode_html(picture, title=text))

    assert {tag for tag, _ in page.tags} <= _TAGS
