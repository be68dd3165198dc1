"""An agent, a stub model for it, and a machine where it is started."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from real_agents.agents import AGENTS
from real_agents.agents.agent import Agent
from real_agents.station import Station
from real_agents.stub.server import Stub


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.name)
def agent(request: pytest.FixtureRequest) -> Agent:
    agent: Agent = request.param
    if not agent.installed:
        reason = f"{agent.name} is not installed; scripts/install-agents {agent.name} says why"
        # Where the agents are what is tested, one that is missing is a failure.
        (pytest.fail if os.environ.get("SCRUBJAY_AGENTS") == "required" else pytest.skip)(reason)
    return agent


@pytest.fixture
def stub(agent: Agent) -> Generator[Stub]:
    with Stub(every_request_is_a_turn=not agent.has_tools) as stub:
        yield stub


@pytest.fixture
def station(agent: Agent, stub: Stub, tmp_path: Path) -> Generator[Station]:
    with Station(agent, stub, tmp_path) as station:
        yield station
