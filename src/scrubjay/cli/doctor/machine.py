"""The machine: limits, ports, and what keeps things running."""

from __future__ import annotations

import errno
import getpass
import os
import resource
import socket
from contextlib import suppress
from pathlib import Path

from scrubjay.cli.doctor.finding import Finding, ok, problem, warning
from scrubjay.cli.doctor.programs import ask
from scrubjay.settings import Settings

_PTYS_WANTED = 100
_FILES_WANTED = 1024
_INOTIFY_DEFAULTS = {"max_user_instances": 128, "max_user_watches": 8192}  # the least any kernel starts with
_LOOPBACK = ("127.", "localhost", "::1")
_ANY = ("0.0.0.0", "::", "")


def check_limits() -> list[Finding]:
    """Terminals, open files and file watches."""
    return [_check_terminals(), _check_open_files(), _check_watches()]


def _check_terminals() -> Finding:
    most, used = _kernel_number("kernel/pty/max"), _kernel_number("kernel/pty/nr")
    if most is None or used is None:
        return warning("terminals", "the kernel does not say how many there may be", "is /proc mounted?")
    says = f"{used} of {most} in use"
    if most - used < 1:
        return problem("terminals", says, "end some pods, or: sysctl kernel.pty.max=16384")
    if most - used < _PTYS_WANTED:
        return warning("terminals", says, "sysctl kernel.pty.max=16384")
    return ok("terminals", says)


def _check_open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FILES_WANTED:
        return warning("open files", f"at most {soft} (hard limit {hard})", f"ulimit -n {_FILES_WANTED}, for many pods")
    return ok("open files", f"at most {'any number' if soft == resource.RLIM_INFINITY else soft}")


def _check_watches() -> Finding:
    limits = {name: _kernel_number(f"fs/inotify/{name}") for name in _INOTIFY_DEFAULTS}
    said = ", ".join(f"{name.removeprefix('max_user_')} {limit}" for name, limit in limits.items())
    low = [name for name, limit in limits.items() if limit is not None and limit < _INOTIFY_DEFAULTS[name]]
    if low:
        remedy = " ".join(f"fs.inotify.{name}={_INOTIFY_DEFAULTS[name] * 8}" for name in low)
        return warning("file watches", f"{said}: agents that watch files may fail", f"sysctl {remedy}")
    return ok("file watches", said)


def _kernel_number(name: str) -> int | None:
    try:
        return int(Path("/proc/sys", name).read_text())
    except (OSError, ValueError):
        return None


def check_server(settings: Settings) -> list[Finding]:
    """Whether the server can listen where it is told to, and whether what it says there stays private."""
    found = [_check_port(settings.host, settings.port)]
    exposed = not settings.host.lower().startswith(_LOOPBACK)
    if exposed and settings.tls_cert is None:
        found.append(
            warning(
                "TLS",
                f"the server would listen on {settings.host} without it",
                "set tls_cert and tls_key, or keep host = 127.0.0.1 and come in through ssh -L",
            )
        )
    for name, path in (("tls_cert", settings.tls_cert), ("tls_key", settings.tls_key)):
        if path is None:
            continue
        try:
            mode = path.stat().st_mode
            with path.open("rb"):
                found.append(
                    warning(name, f"{path} can be read by others", f"chmod 600 {path}")
                    if name == "tls_key" and mode & 0o044
                    else ok(name, str(path))
                )
        except OSError as error:
            found.append(problem(name, f"{path}: {error.strerror}", f"set {name} to a file you can read"))
    return found


def _check_port(host: str, port: int) -> Finding:
    if port == 0:
        return ok("port", "any that is free")
    where = f"{host}:{port}" if ":" not in host else f"[{host}]:{port}"
    another = "give another with port or SCRUBJAY_PORT"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
        return ok("port", f"{where} is free")
    except socket.gaierror as error:
        return problem("port", f"{host} has no address: {error.strerror}", "set host to an address of this machine")
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            return problem("port", f"{host} is not of this machine", "set host to one of its addresses, or 127.0.0.1")
        if error.errno != errno.EADDRINUSE:
            return problem("port", f"{where}: {error.strerror}", another)
    holder = _listener(port)
    if holder is None:
        return problem("port", f"{where} is taken by a process that is not yours", another)
    pid, command = holder
    if _is_scrubjay(command):
        return ok("port", f"{where} is served by Scrubjay (process {pid})")
    return problem("port", f"{where} is taken by process {pid}: {' '.join(command)[:80]}", another)


def _listener(port: int) -> tuple[int, list[str]] | None:
    """The process that listens on a port, as far as this user may know, and its command."""
    sockets: set[str] = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path("/proc/self/net", table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    sockets.add(f"socket:[{fields[9]}]")
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with suppress(OSError):  # not ours, or gone
            if any(os.readlink(fd) in sockets for fd in (process / "fd").iterdir()):
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                return int(process.name), [word for word in words if word]
    return None


def _is_scrubjay(command: list[str]) -> bool:
    return any(os.path.basename(word) in ("scrubjay", "jay") for word in command)


def check_systemd() -> Finding:
    """Whether the server could be a service, and whether that would outlive a logout."""
    said = ask(["systemctl", "--user", "is-system-running"], timeout_s=2.0)
    if said is None or said.output not in ("running", "degraded", "starting", "initializing"):
        return ok("systemd", "no user manager here; 'scrubjay up' runs without one")
    if lingers():
        return ok("systemd", "there is a user manager, and it outlives your logout")
    return warning(
        "systemd",
        "the user manager ends with your last logout, and with it a service and what it started",
        "loginctl enable-linger",
    )


def lingers() -> bool:
    """Whether what a person has started goes on after their last logout."""
    try:
        return Path("/var/lib/systemd/linger", getpass.getuser()).exists()
    except (KeyError, OSError):
        return False


def check_notifications(settings: Settings) -> Finding:
    """How many places are told."""
    count = len(settings.notify_urls)
    if not count:
        return ok("notifications", "none are set up (notify_urls)")
    return ok("notifications", f"to {count} place{'s' if count > 1 else ''}; try: scrubjay notify test")
