"""The ledger must be able to fail, or it proves nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.support.ledger import Ledger, LedgerReader, read_ledger
from tests.support.paths import PROGRAMS

_METRONOME = PROGRAMS / "metronome.py"


def _lines(*numbers: int) -> bytes:
    return b"".join(b"n=%08d\r\n" % number for number in numbers)


def test_numbers_in_order_are_whole() -> None:
    ledger = read_ledger([_lines(0, 1, 2, 3)])

    assert ledger == Ledger(missing=0, duplicate=0, out_of_order=0, count=4, last=3)
    assert ledger.whole


def test_nothing_at_all_has_no_last_number() -> None:
    assert read_ledger([]) == Ledger(missing=0, duplicate=0, out_of_order=0, count=0, last=None)


def test_a_missing_number_is_counted() -> None:
    ledger = read_ledger([_lines(0, 1, 4)])

    assert ledger.faults == (2, 0, 0)
    assert not ledger.whole


def test_a_missing_beginning_is_counted() -> None:
    assert read_ledger([_lines(5, 6)]).faults == (5, 0, 0)


def test_a_duplicate_number_is_counted() -> None:
    ledger = read_ledger([_lines(0, 1, 1, 2, 0)])

    assert ledger.faults == (0, 2, 0)
    assert not ledger.whole


def test_numbers_out_of_order_are_counted() -> None:
    ledger = read_ledger([_lines(0, 2, 1, 3)])

    assert ledger.faults == (0, 0, 1)
    assert not ledger.whole


def test_a_line_that_lost_bytes_is_not_taken_for_a_number() -> None:
    ledger = read_ledger([b"n=00000000\r\nn=0000\r\nn=00000001\r\nn=000n=00000002\r\n"])

    assert ledger.strange == 2
    assert not ledger.whole


def test_a_huge_number_costs_no_memory() -> None:
    assert read_ledger([_lines(0), b"n=%018d\n" % (10**17)]).missing == 10**17 - 1


def test_a_torn_last_line_is_neither_missing_nor_counted() -> None:
    data = _lines(0, 1, 2)

    for cut in range(len(data) + 1):
        ledger = read_ledger([data[:cut]])

        assert ledger.whole
        assert ledger.count == cut // 12
        assert ledger.torn_bytes == cut % 12


@given(st.lists(st.integers(min_value=0, max_value=60), max_size=12))
def test_portions_make_no_difference(cuts: list[int]) -> None:
    data = _lines(0, 1, 3, 2, 2)
    ends = [*sorted(cuts), len(data)]

    parts = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    assert read_ledger(parts) == read_ledger([data])


def test_two_halves_beside_a_gap_do_not_make_a_line() -> None:
    data = _lines(*range(10))
    reader = LedgerReader()

    reader.feed(data[:29])
    reader.skip()
    reader.feed(data[53:])
    ledger = reader.finish()

    assert ledger == Ledger(missing=3, duplicate=0, out_of_order=0, count=7, last=9, torn_bytes=5 + 7)
    assert ledger.missing * 12 == (53 - 29) + ledger.torn_bytes


def test_a_metronome_prints_what_a_ledger_reads(tmp_path: Path) -> None:
    log = tmp_path / "log"

    for options in (["--rate", "0"], ["--rate", "20000"], ["--rate", "0", "--long"]):
        argv = [sys.executable, "-I", "-S", str(_METRONOME), *options, "--count", "500", "--log", str(log)]
        printed = subprocess.run(argv, capture_output=True, check=True).stdout

        assert read_ledger([printed]) == Ledger(missing=0, duplicate=0, out_of_order=0, count=500, last=499)
        assert int(log.read_text()) == 499
        assert len(printed) == 500 * (100 if "--long" in options else 11)
