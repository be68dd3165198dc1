"""Where the server can be reached: loopback, a unix socket of this user alone, or anywhere with TLS."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from scrubjay.errors import BadSetting, CannotListen
from scrubjay.unix_sockets import dial

CALLER = "scrubjay.caller"
"""Where a connection's Caller is found in ``scope["state"]``."""

_BACKLOG = 1024
_UNSENT_BYTES = 128 << 10  # that the kernel keeps for a client who does not read; it would take 4 MB of each
_PEER_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_PORT_TRIES = 20


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is on the other side of a connection, as far as the kernel says."""

    kind: Literal["tcp", "unix"]
    address: str
    abort: Callable[[], None] = field(repr=False)
    """Hang up at once, whatever was still to be sent."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address. A name is not asked for: what it means may change."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_bind(host: str, *, tls: bool) -> None:
    """BadSetting for an address that others can reach, without TLS: everything said there could be overheard."""
    if not tls and not is_loopback(host):
        raise BadSetting(
            f"will not listen on {host or 'all addresses'} without TLS: tokens and screens could be overheard",
            hint="give a certificate with tls_cert and tls_key, or listen on 127.0.0.1 behind a proxy or ssh -L",
        )


class Listeners:
    """The open sockets of one server; close() takes them away."""

    def __init__(self) -> None:
        self.tcp: list[socket.socket] = []
        self.unix: socket.socket | None = None
        self._path: Path | None = None
        self._made: tuple[int, int] | None = None

    @property
    def port(self) -> int:
        """The port of the TCP sockets."""
        return self.tcp[0].getsockname()[1]

    def open_tcp(self, host: str, port: int, *, tls: bool) -> None:
        """Listen on an address; CannotListen if that is not possible, BadSetting if it must not be.

        On loopback both families are taken: who had the other one would get what a browser sends to ``localhost``.
        """
        check_bind(host, tls=tls)
        hosts = ["127.0.0.1", "::1"] if host.lower() in ("localhost", "127.0.0.1", "::1") else [host]
        for left in reversed(range(_PORT_TRIES if port == 0 else 1)):
            try:
                self.tcp = _listen_all(hosts, port)
                return
            except CannotListen as error:
                if left == 0 or not error.taken:
                    raise

    def open_unix(self, path: Path) -> None:
        """Listen on a socket that only this user can connect to; CannotListen if a server has it."""
        _remove_stale(path)
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Before it has a name, so that there is no moment in which others could connect.
        os.fchmod(opened.fileno(), 0o600)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Through the descriptor, because a socket's path may be no longer than 107 bytes.
            opened.bind(f"/proc/self/fd/{folder}/{path.name}")
        except OSError as error:
            opened.close()
            raise CannotListen(str(path), error.strerror or "unknown", taken=error.errno == errno.EADDRINUSE) from error
        finally:
            os.close(folder)
        opened.listen(_BACKLOG)
        opened.setblocking(False)
        self.unix, self._path, self._made = opened, path, _identity(path)

    def close(self) -> None:
        """Stop listening; the unix socket's file goes too, unless another server has put its own there."""
        for opened in (*self.tcp, *([self.unix] if self.unix else [])):
            opened.close()
        self.tcp, self.unix = [], None
        if self._path is not None:
            with suppress(FileNotFoundError):
                if _identity(self._path) == self._made:
                    self._path.unlink()
            self._path = None


def _listen_all(hosts: list[str], port: int) -> list[socket.socket]:
    opened: list[socket.socket] = []
    try:
        for host in hosts:
            if listener := _listen(host, port, optional=bool(opened)):
                opened.append(listener)
                port = listener.getsockname()[1]
    except CannotListen:
        for listener in opened:
            listener.close()
        raise
    return opened


def _listen(host: str, port: int, *, optional: bool) -> socket.socket | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        if optional:  # no IPv6 in this kernel
            return None
        raise CannotListen(f"{host}:{port}", error.strerror or "unknown") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)  # connections inherit it
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if optional and error.errno == errno.EADDRNOTAVAIL:  # no IPv6 on this machine
            return None
        raise CannotListen(
            f"{host}:{port}", error.strerror or "unknown", taken=error.errno == errno.EADDRINUSE
        ) from error
    return listener


def _remove_stale(path: Path) -> None:
    """Remove the socket of a server that is gone; CannotListen if one answers."""
    try:
        dial(path, timeout_s=1.0).close()
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise CannotListen(str(path), "there is no such folder") from None
        return
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
        return
    except OSError as error:  # too busy to answer is there, too
        raise CannotListen(str(path), error.strerror or "it does not answer", taken=True) from error
    raise CannotListen(str(path), "another server listens there", taken=True)


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns  # the number alone is soon another file's


def peer_uid(connection: socket.socket) -> int:
    """The user on the other side of a unix socket, as the kernel knows it."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    return _PEER_CREDENTIALS.unpack(raw)[1]
