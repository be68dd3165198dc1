"""How tests talk HTTP to a server that may be slow, or gone for a moment."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.support.conditions import DEADLINE_S

# Clients do not verify: to load the certificates of the machine takes 20 ms, and there is no TLS on loopback.
#: A server may close a kept connection at the very moment it is used again, so none is kept.
FRESH = httpx.Limits(max_keepalive_connections=0)


def unix_client(data: Path) -> httpx.AsyncClient:
    """A client of the server that has this data directory, over its unix socket."""
    transport = httpx.AsyncHTTPTransport(uds=str(data / "server.sock"), limits=FRESH, verify=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=DEADLINE_S)
