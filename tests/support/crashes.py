"""Output that crashes the terminal engine, kept so that it never crashes anything else."""

from __future__ import annotations


def crashing_stream() -> tuple[tuple[int, int], bytes]:
    """A size and output that end the engine with a panic: it runs out of room for links and styles on one page.

    20,000 different links in as many colours on a very large screen, then lines inserted and deleted among them.
    """
    links = b"".join(
        b"\x1b]8;;http://l/%d\x07%d\x1b]8;;\x07\x1b[38;2;%d;%d;7m" % (n, n, n & 255, n >> 8) for n in range(20_000)
    )
    shifts = b"".join(b"\x1b[%d;1H\x1b[%dM\x1b[%dL" % (y, y % 50 + 1, y % 7) for y in range(1, 300))
    return (300, 300), links + shifts


def crashing_after_resize() -> tuple[tuple[int, int], bytes, tuple[int, int], bytes]:
    """A size, output, a smaller size, and output that ends the engine with a segmentation fault.

    Clusters (mode 2027) in a line that was deleted on a terminal that became very small; found by a random stream.
    """
    before = b"l\x1b[?2027h;41tatus \x94"
    after = b"[2E\x1b[?1049h\x1b[;2r\x1b[?1049l\x1b[M\xe6\x97\xa4\xa8\xa4\xb8\xe0\xa5\x8d\xe0\xa4\xa4"
    return (80, 24), before, (5, 3), after
