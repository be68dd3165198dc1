"""Where a pod's agent finds Scrubjay's tools. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

# Not SCRUBJAY_…, of which agents get only what the keeper sets.
MCP_URL_VARIABLE = "JAY_MCP_URL"
MCP_TOKEN_VARIABLE = "JAY_MCP_TOKEN"


@dataclass(frozen=True, slots=True)
class McpEndpoint:
    """An address of the tools, and what to show there."""

    url: str
    token: str = field(repr=False)

    @property
    def environment(self) -> dict[str, str]:
        """How any program in the pod finds them, known agent or not."""
        return {MCP_URL_VARIABLE: self.url, MCP_TOKEN_VARIABLE: self.token}
