"""A screen, or a stretch of them, as a drawing."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from scrubjay.screen.picture import PLAIN, Cursor, Line, Picture, Span
from scrubjay.screen.svg import Shot, encode_svg, encode_svg_clip
from tests.support.pictures import HOSTILE, draw, link
from tests.support.tables import every_row

_NS = "{http://www.w3.org/2000/svg}"
_TAGS = {_NS + tag for tag in ("svg", "style", "rect", "g", "text", "defs", "use")}
_CELL_PX, _ROW_PX = 9, 17


def _texts(svg: str) -> list[str]:
    """The pieces of text of a drawing, in order."""
    return [element.text or "" for element in ET.fromstring(svg).iter(_NS + "text")]


def test_the_text_of_the_drawing_is_the_text_of_the_screen() -> None:
    picture = draw('plain <b> & "quoted"\r\n日本語 👍 e\u0301x ─│┌\r\n\x1b[31mred\x1b[0m'.encode(), 40, 5)

    drawn = ET.fromstring(encode_svg(picture))

    rows: list[str] = []
    for group in drawn.iter(_NS + "g"):
        if "transform" in group.attrib:
            rows.append("".join(text.text or "" for text in group))
    assert rows == [line.text for line in picture.lines if line.text]


def test_every_piece_of_text_is_stretched_to_its_columns() -> None:
    drawn = ET.fromstring(encode_svg(draw("ab日本c".encode())))

    places = [(text.text, int(text.attrib["x"]), int(text.attrib["textLength"])) for text in drawn.iter(_NS + "text")]
    assert places == [
        (text, x * _CELL_PX, cells * _CELL_PX)
        for text, x, cells in (("ab", 0, 2), ("日", 2, 2), ("本", 4, 2), ("c", 6, 1))
    ]


def test_backgrounds_are_boxes_behind_the_text() -> None:
    svg = encode_svg(draw(b"ab\x1b[41mcd\x1b[0m\x1b[44m\x1b[K", 10, 1))

    assert f'<rect x="{2 * _CELL_PX}" y="-14" width="{2 * _CELL_PX}" height="17" fill="#ed7473"/>' in svg
    assert f'<rect x="{4 * _CELL_PX}" y="-14" width="{6 * _CELL_PX}" height="17" fill="#51a2f8"/>' in svg
    assert svg.index("#51a2f8") < svg.index(">ab<")


def test_invisible_text_is_not_drawn_and_inverse_text_is_on_its_colour() -> None:
    svg = encode_svg(draw(b"\x1b[8msecret\x1b[0m\x1b[7mhello\x1b[0m"))

    assert _texts(svg) == ["hello"]
    assert 'fill="#cfd5dc"' in svg
    assert "fill:#0e1217" in svg


@every_row("text", HOSTILE)
def test_nothing_a_program_prints_becomes_markup(text: str) -> None:
    picture = draw(f"\x1b]0;{text}\x07{text}".encode() + link(f"https://example.com/{text}", text), 200, 4)

    for svg in (encode_svg(picture), "".join(encode_svg_clip([Shot(picture, 1), Shot(draw(b"x"), 1)]))):
        root = ET.fromstring(svg)

        assert {element.tag for element in root.iter()} <= _TAGS
        assert not [name for element in root.iter() for name in element.attrib if name.startswith("on")]


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1))
def test_whatever_a_span_says_the_drawing_is_well_formed(text: str) -> None:
    cursor = Cursor(0, 0, visible=True, shape="block")
    line = Line((Span(text, len(text), PLAIN, text),))
    picture = Picture(80, 1, (line,), (), cursor, text, text, alternate=False, modes=frozenset(), palette={})

    root = ET.fromstring(encode_svg(picture))

    assert {element.tag for element in root.iter()} <= _TAGS


def test_a_clip_shows_every_screen_for_as_long_as_it_stood() -> None:
    pictures = [draw(f"screen {n}".encode(), 20, 3) for n in range(3)]

    svg = "".join(
        encode_svg_clip(
            [Shot(picture, us) for picture, us in zip(pictures, (1_000_000, 500_000, 2_500_000), strict=True)]
        )
    )

    assert ".film{animation:4s step-end infinite}" in svg
    strip = svg[svg.index("@keyframes r0{") : svg.index(".r0{")]
    stops = re.findall(r"([\d.]+)%{transform:translateY\((-?\d+)px\)}", strip)
    assert [(float(share), int(place)) for share, place in stops] == [(0, -34), (25, -68), (37.5, -102)]
    assert _texts(svg) == ["screen 0", "screen 1", "screen 2"]


def test_a_row_that_stays_is_in_a_clip_once() -> None:
    pictures = [draw(b"stays\r\n" + b"x" * n, 20, 3) for n in range(4)]

    svg = "".join(encode_svg_clip([Shot(picture, 1000) for picture in pictures]))

    assert _texts(svg) == ["stays", "x", "xx", "xxx"]
    assert "@keyframes r0" not in svg
    assert "@keyframes r1" in svg


def test_a_clip_is_as_large_as_its_largest_screen() -> None:
    shots = [Shot(draw(b"a", 20, 3), 1), Shot(draw(b"b", 10, 30), 1)]

    inner = list(ET.fromstring("".join(encode_svg_clip(shots))).iter(_NS + "svg"))[1]

    assert (int(inner.attrib["width"]), int(inner.attrib["height"])) == (20 * _CELL_PX, 30 * _ROW_PX)
