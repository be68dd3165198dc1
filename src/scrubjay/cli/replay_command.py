"""``scrubjay replay``: look at any instant of a pod, full screen."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from scrubjay.cli.context import Context, pass_context, pod_argument
from scrubjay.cli.exporting import format_of, write_clip
from scrubjay.cli.indexing import bring_up_to_date
from scrubjay.cli.player.film import Doing, Found, Tools
from scrubjay.cli.ps_command import describe_row
from scrubjay.cli.reels import open_reel, pods_of
from scrubjay.errors import BadInput, ScrubjayError
from scrubjay.pods.pod import Pod
from scrubjay.pods.status_file import StatusFile
from scrubjay.replay.exports.clip import Clip
from scrubjay.replay.frame import Mark
from scrubjay.replay.reel import Reel
from scrubjay.replay.search import INDEX_NAME, SearchIndex, find_in

_HITS_MAX = 10_000


@click.command("replay")
@pod_argument
@click.option("--at", metavar="T", help="Begin here: 12.5s, 1h2m, 50%, -10m (before the end), 02:14:07 or a date.")
@click.option("--speed", type=click.FloatRange(0.05, 1000), default=1.0, metavar="N", help="Play N times as fast.")
@click.option(
    "--idle-limit",
    type=click.FloatRange(0),
    default=2.0,
    metavar="S",
    help="Skip what is left of a screen that has not changed for S seconds (2); 0 skips nothing.",
)
@click.option("--paused", is_flag=True, help="Do not play at once.")
@pass_context
def command(context: Context, pod: str, at: str | None, speed: float, idle_limit: float, *, paused: bool) -> int:
    """Play a pod's recordings in the terminal: scrub, step, search, mark, export. Press ? there for the keys."""
    _require_terminal()
    context, (pod,) = context.with_recordings_of(pod)
    found = context.home.find(pod)
    with open_reel(context.home, pod) as reel:
        time, said = _find_start(reel, at)

        from scrubjay.cli.player.app import Player, Start, play  # half a second that --help need not wait for

        start = Start(found.name, time, speed, idle_limit, playing=not paused, say=said or "")
        hands = _Hands(context, pods_of(context.home, pod), reel)
        tools = Tools(
            find=hands.find, doings=hands.doings, mark=hands.mark if found.alive else None, export=hands.export
        )
        try:
            return play(Player(reel, start, tools))
        except (ScrubjayError, OSError):
            raise
        except Exception as failure:
            # Whatever it is, the screen is the person's again, and a traceback on it would help nobody.
            raise _PlayerFailed(failure) from failure


def _require_terminal() -> None:
    hint = "'scrubjay screen POD --at T' prints one instant anywhere"
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise BadInput("replay needs a terminal", hint=hint)
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        raise BadInput("replay needs a terminal whose cursor can be moved", hint=hint)


def _find_start(reel: Reel, raw: str | None) -> tuple[int, str | None]:
    """Where to begin, by default with the newest tape, and what to tell the person if they meant another place."""
    if raw is None:
        return reel.newest, None
    moment = reel.locate(raw)
    return moment.time if moment.offset is None else reel.seek_offset(moment.offset).time, moment.clamped


class _Hands:
    """What can be done with a recording while it is watched."""

    def __init__(self, context: Context, pods: list[Pod], reel: Reel) -> None:
        self._context, self._pods, self._reel = context, pods, reel

    def find(self, text: str) -> list[Found]:
        """Where it was shown or typed; what is not indexed yet is indexed first."""
        with SearchIndex(self._context.home.path / INDEX_NAME) as index:
            bring_up_to_date(index, self._pods)
            hits = find_in(index, self._reel.tapes, text, _HITS_MAX)
        self._reel.refresh()
        return sorted(Found(self._reel.time_of(hit.tape, hit.at), hit.text) for hit in hits)

    def doings(self) -> list[Doing]:
        """What the agents did, as far as a runner has watched."""
        found: list[Doing] = []
        for pod in self._pods:
            if pod.id not in self._reel.tapes:
                continue
            for row in StatusFile(pod.folder).rows():
                at, waiting_for = row.get("at"), row.get("waiting_for")
                if isinstance(at, int):
                    asks = isinstance(waiting_for, str) and waiting_for.startswith("person:")
                    found.append(Doing(self._reel.time_of(pod.id, at), describe_row(row), asks))
        return sorted(found, key=lambda doing: doing.time)

    def mark(self, _time: int, label: str) -> Mark:
        """Label what the pod does at this moment, wherever in the past the person is."""
        author = self._context.author
        with self._pods[-1].connect() as keeper:
            keeper.ask({"do": "mark", "label": label, "author": author})
        self._reel.refresh()
        return self._reel.previous_mark(self._reel.duration + 1) or Mark(self._reel.duration, label, author)

    def export(self, start: int, stop: int, path: Path) -> str:
        """Write a part in the format its name asks for."""
        tapes = [pod.tape() for pod in self._pods if pod.id in self._reel.tapes]
        clip = Clip(self._reel, tapes, self._pods[-1].name, start, stop)
        return "; ".join(write_clip(clip, format_of(path), path))


class _PlayerFailed(ScrubjayError):
    """The player met something nobody has thought of."""

    hint = "the recording is untouched; please report this"

    def __init__(self, failure: Exception) -> None:
        self.failure = failure
        why = "".join(character if character.isprintable() else " " for character in str(failure))
        super().__init__(f"the player failed: {type(failure).__name__}: {why}")
