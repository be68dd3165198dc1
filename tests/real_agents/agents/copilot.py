"""GitHub Copilot CLI."""

from __future__ import annotations

from tests.real_agents.agents.agent import KEY, Agent, Place


def _settle(place: Place) -> dict[str, str]:
    place.write(".copilot/config.json", {"trusted_folders": [str(place.project)]})
    return {
        "COPILOT_PROVIDER_BASE_URL": f"{place.model_url}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": "stub-model",
        "COPILOT_OFFLINE": "true",
        "COPILOT_AUTO_UPDATE": "false",
    }


COPILOT = Agent(
    "copilot",
    _settle,
    asks="Do you want to run this command?",
    choose=(),
    interrupt=("esc", "esc"),
    required=False,
)
