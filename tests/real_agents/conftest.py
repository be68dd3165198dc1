"""An agent, a stub model for it, and a machine where it is started."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.real_agents.agents import AGENTS
from tests.real_agents.agents.agent import Agent
from tests.real_agents.station import Station
from tests.real_agents.stub.server import Stub
from tests.support.not_run import do_not_run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave everything here to ``make test-agents``."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("agents")


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.name)
def agent(request: pytest.FixtureRequest) -> Agent:
    agent: Agent = request.param
    if not agent.installed:
        remedy = f"scripts/install-agents {agent.name}"
        if agent.required:
            pytest.fail(f"{agent.name} is not installed; {remedy} installs it or says why not")
        do_not_run(f"{agent.name} is not installed", remedy=remedy)
    return agent


@pytest.fixture
def stub(agent: Agent) -> Generator[Stub]:
    with Stub(every_request_is_a_turn=not agent.has_tools) as stub:
        yield stub


@pytest.fixture
def station(agent: Agent, stub: Stub, tmp_path: Path) -> Generator[Station]:
    with Station(agent, stub, tmp_path) as station:
        yield station
