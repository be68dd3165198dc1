"""How right the status of agents is, by recordings of real ones whose truth is known; and what telling it costs.

The peer is what terminal multiplexers offer: a pane is busy while something is printed and quiet when nothing was for
a while, as tmux's ``monitor-silence``. It cannot know that somebody is waited for.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from benchmarks.plan import MB, Plan
from benchmarks.report import Cell, Report, Table, Target
from benchmarks.status_score import SCORED, Interval, Score, score
from scrubjay.agents.library import Library
from scrubjay.agents.status_rules import generic_rules, rules_for
from scrubjay.replay.shown import ShownTerminal
from scrubjay.replay.workers import Workers
from scrubjay.status.detector import Detector
from scrubjay.status.rules import Rules
from scrubjay.status.watching import Change, watch_recording
from scrubjay.tape.asciicast import read_cast
from scrubjay.tape.cast_import import cast_records
from scrubjay.tape.format import Kind
from scrubjay.tape.record import Record
from tests.support.corpus import Recording, recordings, unseen_recordings

RIGHT_MIN, GENERIC_RIGHT_MIN, FALSE_WAIT_MAX_S = 0.98, 0.9, 1.0
_QUIET_S = 1.5  # after which the peer calls a program idle
_COLUMNS = ("agent", "recordings", "seconds", "right", *SCORED, "waits", "missed", "false wait s", "any agent", "quiet")

RulesFor = Callable[[str], Rules]


def by_manifest(agent: str) -> Rules:
    """The rules that an agent is told by."""
    return rules_for(agent, Library(None))


def by_generic_rules(agent: str) -> Rules:  # noqa: ARG001
    """The rules for an agent that has no manifest."""
    return generic_rules()


def tell(recording: Recording, rules: Rules, workers: Workers) -> list[Interval]:
    """What the detector says of a recording."""
    changes: list[Change] = []
    terminal = ShownTerminal(workers)
    end = watch_recording(_records(recording), terminal, Detector(rules), changes.append)
    terminal.close()
    ends = [change.at for change in changes[1:]] + [end]
    return [
        Interval(change.at / 1e6, until / 1e6, change.verdict.activity)
        for change, until in zip(changes, ends, strict=True)
    ]


def score_all(rules: RulesFor, workers: Workers, among: Iterable[Recording] | None = None) -> dict[str, Score]:
    """The score of each agent, by the recordings that rules were made with unless others are given."""
    scores: dict[str, Score] = {}
    for recording in recordings() if among is None else among:
        agent = recording.name.split("-")[0]
        told = tell(recording, rules(agent), workers)
        scores.setdefault(agent, Score()).add(score(recording.name, recording.truth["states"], told))
    return scores


def _records(recording: Recording) -> Iterable[Record]:
    return cast_records(read_cast(recording.cast.splitlines(keepends=True), recording.name))


def measure(plan: Plan) -> Report:  # noqa: ARG001
    """Tell the status of every recording by its agent's rules, by those for any agent, and by silence."""
    report = Report("status")
    with Workers() as workers:
        _compare(report, "with which rules were made", list(recordings()), workers)
        _compare(report, "that no rule has seen", list(unseen_recordings()), workers)
        report.tables.append(_measure_cost(workers))
    return report


def _compare(report: Report, which: str, among: list[Recording], workers: Workers) -> None:
    own, generic = score_all(by_manifest, workers, among), score_all(by_generic_rules, workers, among)
    quiet = _score_silence(among)
    counts = Counter(each.name.split("-")[0] for each in among)
    rows = [_row(agent, counts[agent], own[agent], generic[agent], quiet[agent]) for agent in own]
    total, total_generic, total_quiet = (_sum(scores) for scores in (own, generic, quiet))
    rows.append(_row("all", counts.total(), total, total_generic, total_quiet))
    notes = (
        f"{RIGHT_MIN:.0%} of the time right is asked for; half a second around a change is not scored",
        "any agent: the share that is right by the generic rules alone; quiet: by silence, the peer",
    )
    report.tables.append(Table(f"status against the truth, by recordings {which}", _COLUMNS, rows, notes))
    worst = min(score.right() for score in generic.values())
    report.targets += [
        Target(f"time right, by recordings {which}", total.right(), RIGHT_MIN, "", at_least=True),
        Target("permission prompts and questions not found within 1 s", len(total.missed), 0, "waits"),
        Target("longest wait that was none", total.longest_false_wait_s, FALSE_WAIT_MAX_S, "s"),
        Target("time right without a manifest, at worst", worst, GENERIC_RIGHT_MIN, "", at_least=True),
        Target("ratio of wrong time to the peer's", _wrong(total) / _wrong(total_quiet), 0.2, "x"),
    ]


def _row(agent: str, recorded: int, own: Score, generic: Score, quiet: Score) -> tuple[Cell, ...]:
    return (
        agent,
        recorded,
        own.seconds(),
        own.right(),
        *(own.right(state) for state in SCORED),
        own.waits,
        len(own.missed),
        own.longest_false_wait_s,
        generic.right(),
        quiet.right(),
    )


def _sum(scores: dict[str, Score]) -> Score:
    total = Score()
    for each in scores.values():
        total.add(each)
    return total


def _wrong(score: Score) -> float:
    return 1 - score.right()


def _score_silence(among: Iterable[Recording]) -> dict[str, Score]:
    scores: dict[str, Score] = {}
    for recording in among:
        told: list[Interval] = []
        for event in recording.events:
            at = event.at_us / 1e6
            if told and at - told[-1].t1 < _QUIET_S:
                told[-1] = told[-1]._replace(t1=at)
            else:
                told.append(Interval(at, at, "executing"))
        busy = [interval._replace(t1=interval.t1 + _QUIET_S) for interval in told]
        idle = [Interval(a.t1, b.t0, "idle") for a, b in zip(busy, [*busy[1:], Interval(1e9, 1e9, "")], strict=True)]
        both = sorted([*busy, *idle])
        found = score(recording.name, recording.truth["states"], both)
        scores.setdefault(recording.name.split("-")[0], Score()).add(found)
    return scores


def _measure_cost(workers: Workers) -> Table:
    """CPU for a megabyte of output: shown alone, and shown and watched."""
    rows: list[tuple[Cell, ...]] = []
    walks: dict[str, list[Record]] = {}
    lasted_s: dict[str, float] = {}
    for recording in recordings():
        agent, records = recording.name.split("-")[0], list(_records(recording))
        walks.setdefault(agent, []).extend(records)
        lasted_s[agent] = lasted_s.get(agent, 0.0) + records[-1].at / 1e6
    for agent, records in walks.items():
        output = sum(len(record.payload) for record in records if record.kind == Kind.OUTPUT) / MB
        shown_s = _cpu_s(workers, lambda records=records: _show(records, workers))
        watched_s = _cpu_s(workers, lambda agent=agent, records=records: _watch(agent, records, workers))
        telling_s = watched_s - shown_s
        per_mb = 1e3 * shown_s / output, 1e3 * telling_s / output
        rows.append((agent, output, lasted_s[agent], *per_mb, 100 * telling_s / lasted_s[agent]))
    columns = ("agent", "output MB", "within s", "showing, ms/MB", "telling status, ms/MB", "telling, % of a core")
    notes = (
        "CPU of this process and its screen workers; recordings of the same agent one after another",
        "a screen is looked at ten times a second at most, so it is the time that costs, not the bytes",
    )
    return Table("what it costs", columns, rows, notes)


def _show(records: list[Record], workers: Workers) -> None:
    terminal = ShownTerminal(workers)
    for record in records:
        terminal.show(record)
    terminal.glance()
    terminal.close()


def _watch(agent: str, records: list[Record], workers: Workers) -> None:
    terminal = ShownTerminal(workers)
    later = 0
    joined: list[Record] = []
    for record in records:
        if record.kind == Kind.HEAD and joined:
            later = joined[-1].at + 1_000_000
        joined.append(replace(record, at=record.at + later))
    watch_recording(joined, terminal, Detector(by_manifest(agent)), lambda _change: None)
    terminal.close()


def _cpu_s(workers: Workers, do: Callable[[], None]) -> float:
    def spent() -> float:
        return time.process_time() + sum(time.clock_gettime(~pid << 3 | 2) for pid in workers.pids)

    _ = workers.identity  # one has been started by now
    before = spent()
    do()
    return spent() - before
