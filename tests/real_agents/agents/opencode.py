"""opencode."""

from __future__ import annotations

from tests.real_agents.agents.agent import KEY, Agent, Place


def _settle(place: Place) -> dict[str, str]:
    place.write(
        ".config/opencode/opencode.json",
        {
            "autoupdate": False,
            "share": "disabled",
            "model": "stub/stub-model",
            "small_model": "stub/stub-model",
            "permission": {"bash": "ask", "edit": "ask"},
            "provider": {
                "stub": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "Stub",
                    "options": {"baseURL": f"{place.model_url}/v1", "apiKey": KEY},
                    "models": {"stub-model": {"name": "Stub", "limit": {"context": 200_000, "output": 8_000}}},
                }
            },
        },
    )
    # It would install a package for plugins here, from the network, beside everything else it does.
    place.write(
        ".config/opencode/package-lock.json", {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
    )
    place.write(".config/opencode/node_modules/.keep", "")
    return {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }


OPENCODE = Agent("opencode", _settle, asks="Permission required", interrupt=("esc", "esc"), leave=("ctrl-c",))
