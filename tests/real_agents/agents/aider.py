"""aider."""

from __future__ import annotations

from tests.real_agents.agents.agent import KEY, Agent, Place


def _settle(place: Place) -> dict[str, str]:
    return {
        "OPENAI_API_KEY": KEY,
        "OPENAI_API_BASE": f"{place.model_url}/v1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "AIDER_MODEL": "openai/stub-model",
        "AIDER_EDIT_FORMAT": "diff",
        "AIDER_CHECK_UPDATE": "false",
        "AIDER_SHOW_MODEL_WARNINGS": "false",
        "AIDER_SHOW_RELEASE_NOTES": "false",
        "AIDER_ANALYTICS_DISABLE": "true",
        "AIDER_GITIGNORE": "false",
    }


AIDER = Agent(
    "aider",
    _settle,
    asks="Run shell command?",
    bin="venv/bin",
    choose=(),
    interrupt=("ctrl-c",),
    leave=("ctrl-d",),
    has_tools=False,
)
