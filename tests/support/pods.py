"""End the pods of a data directory, whatever state they are in."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from scrubjay.errors import KeeperGone, KeeperRefused, PodNotRunning
from scrubjay.pods.home import Home
from scrubjay.pods.pod import Pod
from tests.support.conditions import eventually


def ask_to_end(pods: Iterable[Pod], *, grace_ms: int = 0) -> None:
    """Ask the keepers of pods to end them; a pod that has ended already is fine."""
    for pod in pods:
        with suppress(KeeperGone, KeeperRefused, PodNotRunning), pod.connect() as keeper:
            # Not ``ask``: nobody needs to know that the request is synced.
            keeper.send({"do": "stop", "author": "test", "grace_ms": grace_ms})


def end_pods(data: Path) -> None:
    """End every pod that runs, and return when their keepers are gone."""
    living = [pod for pod in Home(data).pods() if pod.alive]
    ask_to_end(living)
    for pod in living:
        eventually(lambda: not pod.alive, f"{pod.name} ended")  # noqa: B023
