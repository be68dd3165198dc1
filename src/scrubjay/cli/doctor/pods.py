"""Pods that nobody tends, and what dead keepers left."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from scrubjay.cli.doctor.finding import Finding, ok, problem, some, warning
from scrubjay.errors import HomeUnusable, NotATape
from scrubjay.pods.home import Home
from scrubjay.pods.pod import Observation, Pod, lock_is_held
from scrubjay.tape.segment import list_raw_files
from scrubjay.unix_sockets import dial

_CLOCK_SLACK_S = 60.0
_RELEASED_S = 1_767_225_600  # 2026-01-01; no clock that is right shows less


def check_pods(home: Home, *, fix: bool) -> list[Finding]:
    """Each pod's keeper and leftovers; with ``fix`` sockets that nobody listens on are removed."""
    try:
        observed = home.observe(home.pods())
    except HomeUnusable as error:
        return [problem("pods", str(error), error.hint or "")]
    return [_check_keepers(observed), _check_sockets(home, fix=fix), _check_clock(observed)]


def _check_keepers(observed: list[tuple[Pod, Observation]]) -> Finding:
    mute = [pod.name for pod, seen in observed if seen.state == "running" and seen.live is None]
    if mute:
        return warning(
            "pods", f"no answer from the keeper of {some(mute)}", "is the disk slow or full? see 'scrubjay ps'"
        )
    lost = [pod.name for pod, seen in observed if seen.state == "lost" and _is_unclosed(pod)]
    if lost:
        return warning("pods", f"lost their keeper: {some(lost)}", "'scrubjay seal' closes their tapes")
    paused = [pod.name for pod, seen in observed if seen.paused is not None]
    if paused:
        return problem("pods", f"nothing can be recorded of {some(paused)}", "free some space; they go on then")
    running = sum(seen.state in ("running", "ending") for _, seen in observed)
    return ok("pods", f"{running} running, {len(observed)} in all")


def _is_unclosed(pod: Pod) -> bool:
    try:
        return bool(list_raw_files(pod.tape().folder))
    except NotATape:
        return False


def _check_sockets(home: Home, *, fix: bool) -> Finding:
    stale = [path for path in home.path.glob("pods/*/keeper.sock") if not _has_keeper(path)]
    stale += [path for path in home.path.glob("server.sock") if not _is_answered(path)]
    if fix:
        for path in stale:
            with suppress(OSError):
                path.unlink()
        return ok("sockets", f"{len(stale)} that dead processes left were removed" if stale else "none is left over")
    if stale:
        return warning("sockets", f"dead processes left {len(stale)}; they do no harm", "scrubjay doctor --fix")
    return ok("sockets", "none is left over")


def _has_keeper(path: Path) -> bool:
    # A keeper has its lock before it has a socket, and until after.
    return lock_is_held(path.parent / "keeper.lock")


def _is_answered(path: Path) -> bool:
    try:
        dial(path).close()
    except ConnectionRefusedError:
        return False
    except OSError:  # gone meanwhile, or not ours to judge
        return True
    return True


def _check_clock(observed: list[tuple[Pod, Observation]]) -> Finding:
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(now))
    if now < _RELEASED_S:
        return problem("clock", f"it says {shown}, which cannot be", "set the clock; times of recordings follow it")
    newest = max((pod.created_us / 1e6 for pod, seen in observed if seen.state != "imported"), default=0.0)
    if newest > now + _CLOCK_SLACK_S:
        ahead = int(newest - now)
        return warning("clock", f"it says {shown}, and a pod was started {ahead} s later than that", "check the clock")
    return ok("clock", shown)
