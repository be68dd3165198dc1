"""What every suite shares: tiers, what a test needs of the machine, promises about time, and what did not run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.support.busy import load_average, why_busy
from tests.support.conditions import DEADLINE_S
from tests.support.not_run import count_elsewhere, describe, do_not_run
from tests.support.tiers import ALONE, TIER
from tests.support.tools import TOOLS, is_missing

_ELSEWHERE = pytest.StashKey[dict[str, int]]()

# A slow machine is no failure. Without the explaining of failures, which traces every line: it takes most of the time.
_PHASES = tuple(phase for phase in Phase if phase is not Phase.explain)
settings.register_profile("scrubjay", deadline=None, phases=_PHASES, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("scrubjay")

# A shell that starts us in the background has us ignore it, and so would every program the tests press Ctrl-C in.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def promised() -> Callable[[float], float]:
    """The seconds that are promised, where the test runs alone; elsewhere the deadline of all waits.

    A test with this fixture runs twice: beside others, where order, counts and bytes are what matters, and alone, where
    the promise about time is asserted too.
    """
    return lambda limit_s: limit_s if ALONE else max(limit_s, DEADLINE_S)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that run in ``make chaos`` too, and those that run alone too."""
    for item in items:
        if isinstance(item, pytest.Function):
            if "promised" in item.fixturenames:
                item.add_marker("timed")
            if hasattr(item.module, "sized") or item.path.parent.name == "chaos":
                item.add_marker("sized")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Do not run a test that can show nothing here."""
    if ALONE and (busy := why_busy()) is not None:
        do_not_run(f"{busy}, so a promise about time shows nothing", remedy="scripts/run-tests alone")
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            if is_missing(name):
                do_not_run(f"needs {name}", remedy=TOOLS[name].remedy)
    night = item.get_closest_marker("night")
    if night is not None and TIER != "night":
        do_not_run(night.args[0], remedy="make chaos TIER=night")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say how busy the machine was beside a failure of a test that asserts time."""
    report = yield
    if report.failed and ALONE:
        report.sections.append(("load average over 1, 5 and 15 minutes", load_average()))
    return report


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the tests of other tiers."""
    if items:
        items[0].config.stash[_ELSEWHERE] = count_elsewhere(items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the process that writes the summary what this worker has counted."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["elsewhere"] = session.config.stash.get(_ELSEWHERE, dict[str, int]())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker has counted."""
    node.config.stash[_ELSEWHERE] = getattr(node, "workeroutput", {}).get("elsewhere", {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """List every test that did not run, with the one command that would make it run."""
    lines = describe(terminalreporter.stats.get("skipped", []), config.stash.get(_ELSEWHERE, dict[str, int]()))
    if lines:
        terminalreporter.section("did not run")
        for line in lines:
            terminalreporter.line(line)
