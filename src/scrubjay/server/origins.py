"""The names this server answers to: Host and Origin headers, parsed and compared as tuples. Pure.

A page of another site can make a browser send a request here, and a name that was rebound to 127.0.0.1 can make it
believe the answer is its own. Neither can choose these two headers.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Scheme = Literal["http", "https"]

_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
_DEFAULT_PORTS: dict[Scheme, int] = {"http": 80, "https": 443}
_AUTHORITY = r"(?P<host>[a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::(?P<port>[1-9][0-9]{0,4}))?"
_HOST = re.compile(_AUTHORITY)
_ORIGIN = re.compile(r"(?P<scheme>https?)://" + _AUTHORITY)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a page came from, as a browser means it."""

    scheme: Scheme
    host: str  #: in small letters; IPv6 without brackets
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        shown = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{shown}"


def parse_origin(raw: str) -> Origin | None:
    """Read an Origin header; None for ``null`` and for what no browser sends, such as capitals."""
    found = _ORIGIN.fullmatch(raw)
    if found is None:
        return None
    scheme: Scheme = "https" if found["scheme"] == "https" else "http"
    parsed = _host_and_port(found)
    if parsed is None:
        return None
    host, port = parsed
    return Origin(scheme, host, _DEFAULT_PORTS[scheme] if port is None else port)


def parse_host(raw: str) -> tuple[str, int | None] | None:
    """Read a Host header into a name in small letters and a port; None for what is not one."""
    found = _HOST.fullmatch(raw.lower())
    return None if found is None else _host_and_port(found)


def _host_and_port(found: re.Match[str]) -> tuple[str, int | None] | None:
    host, port = found["host"], None if found["port"] is None else int(found["port"])
    if port is not None and port > 65535:
        return None
    if host.startswith("["):
        try:
            host = str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            return None
    return host, port


def own_origins(
    port: int, *, host: str = "127.0.0.1", tls: bool = False, names: Iterable[str] = ()
) -> tuple[Origin, ...]:
    """The origins of a server that listens on this host and port; the first is the one to print.

    A further name is also taken at the usual port of HTTPS, where a proxy stands in front of this server.
    """
    scheme: Scheme = "https" if tls else "http"
    further = [name.lower() for name in names]
    hosts = [*_LOOPBACK_NAMES, *([host.lower()] if host not in ("0.0.0.0", "::", "") else []), *further]
    own = [Origin(scheme, name, port) for name in hosts]
    proxied = [Origin("https", name, 443) for name in further]
    return tuple(dict.fromkeys([*own, *proxied]))


def nearest_origin(port: int, *, host: str = "127.0.0.1", tls: bool = False, names: Sequence[str] = ()) -> Origin:
    """The origin by which programs on the server's own machine reach it.

    With TLS that is one of its further names, if it has any: those are in its certificate.
    """
    if tls and names:
        return Origin("https", names[0].lower(), port)
    anywhere = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}
    near = "127.0.0.1" if host.lower() in _LOOPBACK_NAMES else anywhere.get(host, host.lower())
    return Origin("https" if tls else "http", near, port)


class Addresses:
    """All origins of this server."""

    def __init__(self, origins: Iterable[Origin], nearest: Origin | None = None) -> None:
        self.origins = tuple(origins)
        self.nearest = nearest if nearest is not None else self.origins[0]  #: for programs on the same machine

    def named(self, raw_host: str) -> frozenset[Origin]:
        """The origins of this server that a Host header names; empty if it names another server."""
        parsed = parse_host(raw_host)
        if parsed is None:
            return frozenset()
        host, port = parsed
        return frozenset(
            origin
            for origin in self.origins
            if origin.host == host and origin.port == (_DEFAULT_PORTS[origin.scheme] if port is None else port)
        )
