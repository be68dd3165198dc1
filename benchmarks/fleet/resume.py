"""From kill -9 of an agent to its prompt in a new pod that goes on with its conversation.

A scripted agent, which takes no time of its own, shows what resuming takes; beside it the same program is killed and
started again on a bare terminal. Real agents, where they are installed, ask a stub for the model, and are known to be
at their prompt by their status.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

from benchmarks.family import CommandFailed
from benchmarks.fleet.server import Server, running_server
from benchmarks.plan import Plan
from benchmarks.report import Cell, Report, Table, Target, middle, percentile
from scrubjay.cli.client import ServerRefused
from scrubjay.pods.pod import Pod, read_pod
from scrubjay.tape.format import Kind

ROUNDS = 30
REAL_ROUNDS = 3
REAL_AGENTS = ("claude", "codex")
LIMIT_S = 1.0  # of the scripted one
_WITHIN_S = 60.0
_ROOT = Path(__file__).parents[2]
_TALKER = _ROOT / "tests" / "programs" / "conversing_agent.py"
_SAID, _BACK = "PLUM-4711", b"goes on after 1"
_MANIFEST = """\
title = "Talker"
[start]
command = ["talker"]
conversation = ["--talk", "{conversation}"]
[conversation]
known = "chosen"
given_by = ["--talk", "--go-on"]
files = ["${TALK_HOME}/{conversation}.jsonl"]
live = "${TALK_HOME}/live/*.json"
[resume]
arguments = ["--go-on", "{conversation}"]
"""


def measure(plan: Plan) -> Report:
    """The scripted agent, and each real one."""
    folder = plan.folder / "talker"
    environ = _install(folder, plan.environ)
    with running_server(replace(plan, environ=environ)) as server:
        agent = _Talker(server, folder)
        waited = [agent.come_back(takeover=False) for _ in range(ROUNDS)]
        taken = [agent.come_back(takeover=True) for _ in range(ROUNDS)]
    bare = [_time_bare(folder, environ) for _ in range(ROUNDS)]
    prompts = [prompt for _, prompt in waited]
    columns = ("by", "times", "agent started p50 ms", "prompt p50 ms", "prompt p99 ms")
    rows: list[tuple[Cell, ...]] = [
        ("scrubjay: resume, as soon as nobody holds it", *_spread(waited)),
        ("scrubjay: resume --takeover, at once", *_spread(taken)),
        ("the program alone, on a bare terminal", ROUNDS, None, percentile(bare, 50), percentile(bare, 99)),
    ]
    report = Report("resume", [Table("from kill -9 of a scripted agent, each from the same instant", columns, rows)])
    report.targets.append(Target("kill -9 to the resumed prompt, p99", percentile(prompts, 99) / 1e3, LIMIT_S, "s"))
    report.tables.append(
        Table("as many times as long as the program alone, prompt p50", ("by", "ratio"), _ratios(rows, bare))
    )
    real = [row for name in REAL_AGENTS if (row := _real(name, plan)) is not None]
    if real:
        report.tables.append(
            Table(
                "from kill -9 of a real agent to its prompt (by its status)",
                ("agent", "times", "first start s", "resumed s", "ratio", "of it until it runs s"),
                real,
                ("first start: from 'run' to its prompt, in the same home; both with a stub for the model",),
            )
        )
    return report


def _spread(rounds: list[tuple[float, float]]) -> tuple[Cell, ...]:
    started, prompt = zip(*rounds, strict=True)
    return len(rounds), middle(started), middle(prompt), percentile(prompt, 99)


def _ratios(rows: list[tuple[Cell, ...]], bare: list[float]) -> list[tuple[Cell, ...]]:
    return [(row[0], cast(float, row[3]) / percentile(bare, 50)) for row in rows[:2]]


# Scripted.


def _install(folder: Path, environ: object) -> dict[str, str]:
    for made in ("bin", "agents", "talks"):
        (folder / made).mkdir(parents=True)
    program = folder / "bin" / "talker"
    program.write_text(f"#!{sys.executable} -IS\n{_TALKER.read_text()}")
    program.chmod(0o755)
    (folder / "agents" / "talker.toml").write_text(_MANIFEST)
    given = dict(cast("dict[str, str]", environ))
    return given | {
        "PATH": f"{folder / 'bin'}{os.pathsep}{given['PATH']}",
        "SCRUBJAY_AGENTS": str(folder / "agents"),
        "TALK_HOME": str(folder / "talks"),
    }


class _Talker:
    """One session, whichever pod it is in."""

    def __init__(self, server: Server, cwd: Path) -> None:
        self._server = server
        wanted = {"agent": "talker", "name": "ada", "cwd": str(cwd)}
        made = cast("dict[str, str]", server.client.post("/api/v1/pods", wanted))
        self._pod = self._find(made["id"])
        with self._pod.connect() as keeper:
            keeper.ask({"do": "write", "author": "benchmark"}, _SAID.encode() + b"\r")
        self._await(b"heard 1")

    def _find(self, pod: str) -> Pod:
        found = read_pod(self._server.folder / "pods" / pod)
        assert found is not None
        return found

    def _await(self, text: bytes) -> None:
        def is_shown() -> bool:
            parts = [record.payload for record in self._pod.tape().records() if record.kind == Kind.OUTPUT]
            return text in b"".join(parts)

        deadline = time.monotonic() + _WITHIN_S
        while not is_shown():
            if time.monotonic() > deadline:
                raise CommandFailed(f"the agent does not show {text.decode()!r}")
            time.sleep(0.002)

    def come_back(self, *, takeover: bool) -> tuple[float, float]:
        """Kill it and resume it; milliseconds until its agent ran, and until its prompt."""
        live = self._pod.observe().live
        assert live is not None
        began = time.perf_counter()
        os.kill(cast(int, live["agent_pid"]), signal.SIGKILL)
        path, body = f"/api/v1/sessions/{self._pod.session}/resume", {"takeover": takeover}
        while True:
            try:
                made = cast("dict[str, str]", self._server.client.post(path, body, timeout_s=_WITHIN_S))
                break
            except ServerRefused as error:  # that it is gone is not known yet
                if error.code != "lease_held" or time.perf_counter() - began > _WITHIN_S:
                    raise
        started = time.perf_counter()
        self._pod = self._find(made["id"])
        self._await(_BACK)
        shown = time.perf_counter()
        return (started - began) * 1e3, (shown - began) * 1e3


def _time_bare(folder: Path, environ: dict[str, str]) -> float:
    """Milliseconds from killing the program to what it shows when it was started again."""
    (conversation,) = (path.stem for path in (folder / "talks").glob("*.jsonl"))
    argv = [str(folder / "bin" / "talker"), "--go-on", conversation]
    first, first_terminal = _start(argv, environ)
    _read_until(first_terminal, _BACK)
    began = time.perf_counter()
    first.kill()
    first.wait()
    second, terminal = _start(argv, environ)
    _read_until(terminal, _BACK)
    took_ms = (time.perf_counter() - began) * 1e3
    second.kill()
    second.wait()
    os.close(first_terminal)
    os.close(terminal)
    return took_ms


def _start(argv: list[str], environ: dict[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(argv, env=environ, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    return process, ours


def _read_until(terminal: int, text: bytes) -> None:
    shown = b""
    while text not in shown:
        shown += os.read(terminal, 4096)


# Real.


def _real(name: str, plan: Plan) -> tuple[Cell, ...] | None:
    """Driven as the tests drive it; None if it is not installed."""
    if not (_ROOT / ".agents" / name / "installed").exists():
        return None
    folder = plan.folder / f"real-{name}"
    folder.mkdir()
    argv = [sys.executable, "-m", "benchmarks.fleet.real_resume", name, str(folder), str(REAL_ROUNDS)]
    environ = dict(os.environ) | {"PYTHONPATH": str(_ROOT)}
    done = subprocess.run(argv, cwd=_ROOT, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{name} could not be driven: {done.stderr.strip()[-1000:]}\n")
        return name, 0, None, None, None, None
    told = cast("dict[str, list[float]]", json.loads(done.stdout.splitlines()[-1]))
    first, ready, runs = (middle(told[what]) for what in ("first_s", "ready_s", "runs_s"))
    return name, len(told["ready_s"]), first, ready, ready / first, runs
