"""OSC 7501: what programs say of themselves."""

from __future__ import annotations

from base64 import b64encode

from scrubjay.status.claims import EXECUTING, IDLE, PERMISSION, QUESTION, WAITING
from scrubjay.status.program_status import ProgramStatus, Report, parse_report
from tests.support.tables import every_row


def _hear(status: ProgramStatus, *reports: bytes):
    claim = None
    for at, osc in enumerate(reports):
        report = parse_report(osc)
        assert report is not None
        claim = status.hear(report, at, at)
    return claim


@every_row(
    ("osc", "report"),
    [
        (b"7501;state=idle:app=claude-code", Report("idle")),
        (b"7501;state=blocked:kind=auth:msg=" + b64encode(b"log\n in"), Report("blocked", "", "auth", "log in")),
        (b"7501;state=working:id=a/b", Report("working", "a/b")),
        (b"7501;state=working:msg=!!", Report("working")),
    ],
)
def test_reports_are_read(osc: bytes, report: Report) -> None:
    assert parse_report(osc) == report


@every_row("osc", [b"7501;?", b"7501;", b"7501;app=x", b"7502;state=idle", b"0;title", b"7501;\xff\xfe"])
def test_what_is_no_report_is_none(osc: bytes) -> None:
    assert parse_report(osc) is None


@every_row(
    ("osc", "states", "waiting_for"),
    [
        (b"7501;state=working", EXECUTING, None),
        (b"7501;state=blocked:kind=permission", WAITING, PERMISSION),
        (b"7501;state=blocked:kind=question", WAITING, QUESTION),
        (b"7501;state=blocked", WAITING, QUESTION),
        (b"7501;state=idle", IDLE, None),
        (b"7501;state=done", IDLE, None),
    ],
)
def test_each_state_leaves_one_possible(osc: bytes, states: frozenset[str], waiting_for: str | None) -> None:
    claim = _hear(ProgramStatus(), osc)

    assert claim is not None
    assert (claim.states, claim.waiting_for) == (states, waiting_for)


def test_an_agent_that_lacks_a_login_has_stopped_for_a_problem() -> None:
    claim = _hear(ProgramStatus(), b"7501;state=blocked:kind=auth:msg=" + b64encode(b"Please run /login"))

    assert claim is not None
    assert (claim.states, claim.problem) == (IDLE, "Please run /login")


def test_a_clear_and_a_state_of_a_later_revision_say_nothing() -> None:
    assert _hear(ProgramStatus(), b"7501;state=working", b"7501;state=clear") is None
    assert _hear(ProgramStatus(), b"7501;state=dreaming") is None


def test_the_program_itself_counts_more_than_its_tasks() -> None:
    status = ProgramStatus()

    claim = _hear(status, b"7501;state=idle", b"7501;state=working:id=tests")
    assert claim is not None
    assert claim.states == IDLE

    claim = _hear(ProgramStatus(), b"7501;state=working:id=a", b"7501;state=blocked:kind=question:id=b")
    assert claim is not None
    assert claim.states == WAITING


def test_no_flood_of_tasks_is_kept() -> None:
    status = ProgramStatus()
    for number in range(2_000):
        status.hear(Report("working", str(number)), number, number)

    claim = status.hear(Report("clear"), 2_000, 0)
    assert claim is None
