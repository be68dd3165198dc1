"""The agents that are driven: how each is set up to ask the stub model, and which keys it takes."""

from __future__ import annotations

from tests.real_agents.agents.agent import Agent
from tests.real_agents.agents.aider import AIDER
from tests.real_agents.agents.claude import CLAUDE
from tests.real_agents.agents.codex import CODEX
from tests.real_agents.agents.copilot import COPILOT
from tests.real_agents.agents.gemini import GEMINI
from tests.real_agents.agents.opencode import OPENCODE
from tests.real_agents.agents.qwen import QWEN

AGENTS: tuple[Agent, ...] = (CLAUDE, CODEX, GEMINI, OPENCODE, AIDER, QWEN, COPILOT)
