"""The agents that are driven: how each is set up to ask the stub model, and which keys it takes."""

from __future__ import annotations

from real_agents.agents.agent import Agent
from real_agents.agents.aider import AIDER
from real_agents.agents.claude import CLAUDE
from real_agents.agents.codex import CODEX
from real_agents.agents.gemini import GEMINI
from real_agents.agents.opencode import OPENCODE

AGENTS: tuple[Agent, ...] = (CLAUDE, CODEX, GEMINI, OPENCODE, AIDER)
