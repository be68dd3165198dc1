"""What OpenAI's two dialects share: how they refuse."""

from __future__ import annotations

from tests.real_agents.stub.dialect import Body

_ERRORS = {
    400: ("invalid_request_error", "invalid_request"),
    401: ("authentication_error", "invalid_api_key"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def refusal(status: int, text: str) -> Body:
    """An error."""
    kind, code = _ERRORS.get(status, ("api_error", "server_error"))
    return {"error": {"message": text, "type": kind, "code": code, "param": None}}
