"""Screens for tests, drawn by the real engine."""

from __future__ import annotations

from scrubjay.screen.ghostty import Terminal
from scrubjay.screen.picture import Picture
from scrubjay.screen.snapshot import read_picture

# What would be markup or script if anything a program prints were taken for it.
HOSTILE = (
    '"><img src=x onerror=alert(1)>',
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg/onload=alert(1)//",
    "<body onload=alert(1)>",
    "<iframe src=javascript:alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<img src=x onerror=alert`1`>",
    "<img/src='x'/onerror=alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "<math><mtext></p><style><img src=x onerror=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<video><source onerror=alert(1)>",
    "<audio src=x onerror=alert(1)>",
    "<object data=javascript:alert(1)>",
    "<embed src=javascript:alert(1)>",
    "<link rel=stylesheet href=javascript:alert(1)>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<base href=//evil.example/>",
    "<form action=javascript:alert(1)><button>x",
    "<template><script>alert(1)</script></template>",
    "<noscript><img src=x onerror=alert(1)></noscript>",
    "<!--><script>alert(1)</script>-->",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?xml-stylesheet href='javascript:alert(1)'?>",
    "<!DOCTYPE x [<!ENTITY y 'z'>]>&y;",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "javascript:alert(1)",
    "${alert(1)}",
    "{{constructor.constructor('alert(1)')()}}",
    "'-alert(1)-'",
    '";alert(1);//',
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e",
    "]]><script>alert(1)</script>",
    "</text><script>alert(1)</script>",
)
HOSTILE_LINKS = (
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    " javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "file:///etc/passwd",
    "blob:https://example.com/1",
    'https://example.com/" onmouseover="alert(1)',
    "https://example.com/><script>alert(1)</script>",
    "//evil.example/",
    "http:evil",
    "x:y",
)


def draw(data: bytes, cols: int = 80, rows: int = 24, *, history: int = 0) -> Picture:
    """What the engine shows after ``data``."""
    terminal = Terminal(cols, rows)
    try:
        terminal.feed(data)
        snapshot = terminal.snapshot(history=history > 0)
    finally:
        terminal.close()
    assert snapshot is not None
    return read_picture(snapshot, history=history)


def link(uri: str, text: str) -> bytes:
    """A hyperlink as a program writes it."""
    return f"\x1b]8;;{uri}\x1b\\{text}\x1b]8;;\x1b\\".encode()
