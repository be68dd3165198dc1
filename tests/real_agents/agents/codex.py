"""Codex."""

from __future__ import annotations

from tests.real_agents.agents.agent import KEY, Agent, Place

_CONFIGURATION = """\
model = "gpt-5-codex"
model_provider = "stub"
check_for_update_on_startup = false

[model_providers.stub]
name = "stub"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1

[analytics]
enabled = false

[features]
default_mode_request_user_input = true

[projects."{project}"]
trust_level = "trusted"
"""


def _settle(place: Place) -> dict[str, str]:
    place.write(".codex/config.toml", _CONFIGURATION.format(url=place.model_url, project=place.project))
    return {"OPENAI_API_KEY": KEY, "CODEX_HOME": str(place.home / ".codex")}


CODEX = Agent("codex", _settle, asks="Would you like to run the following command?", leave=("ctrl-c",))
