"""Put a keeper together and run it."""

from __future__ import annotations

import json
import os
import sys

from scrubjay.clock import SystemClock
from scrubjay.keeper import processes, undertaker
from scrubjay.keeper.agent import SpawnFailed, spawn
from scrubjay.keeper.clients import listen
from scrubjay.keeper.environment import ARGV_VARIABLE, agent_environment
from scrubjay.keeper.keeper import Keeper
from scrubjay.keeper.recorder import Recorder
from scrubjay.keeper.secrets import find_secrets, hide_in_facts
from scrubjay.tape.disk import Folder, Reserve
from scrubjay.tape.format import FORMAT_VERSION
from scrubjay.tape.payload import encode_json
from scrubjay.tape.watermark import WatermarkFile
from scrubjay.tape.writer import TapeWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def start(folder: str, *, ready: int, lock: int) -> None:
    """Run the pod described in ``folder`` until its tape is closed."""
    os.chdir("/")  # not to hold on to wherever it was started
    os.set_inheritable(ready, False)
    os.set_inheritable(lock, False)
    with open(os.path.join(folder, "pod.json"), "rb") as file:
        pod: dict[str, object] = json.load(file)
    try:
        keeper, finish = _assemble(folder, pod)
    except (SpawnFailed, OSError) as error:
        os.write(ready, json.dumps({"error": str(error)}).encode())
        return
    os.write(ready, b'{"ok":true}')
    os.close(ready)
    keeper.run()
    finish()


def _assemble(folder: str, pod: dict[str, object]) -> tuple[Keeper, Callable[[], None]]:
    clock = SystemClock()
    tape = str(pod["id"])
    tape_folder = os.path.join(folder, "tape")
    watermark = WatermarkFile(Folder(folder).create("watermark"), tape)
    above = (folder, os.path.dirname(folder))
    argv = [str(word) for word in _list(json.loads(os.environ.pop(ARGV_VARIABLE, "null")) or pod["argv"])]
    environment = agent_environment(
        dict(os.environ),
        pod=tape,
        name=str(pod["name"]),
        session=str(pod["session"]),
        term=str(pod["term"]),
        folder=folder,
        set_for_it=[str(name) for name in _list(pod.get("set"))],
    )
    secrets = find_secrets(environment, [str(name) for name in _list(pod.get("mask"))])
    writer = TapeWriter(Folder(tape_folder, above=above), tape, watermark=watermark)
    recorder = Recorder(
        writer,
        clock,
        Reserve(os.path.join(folder, "reserve")),
        sync_us=int(str(pod["sync_ms"])) * 1000,
        best_effort=pod["when_full"] == "best_effort",
        hide=(lambda value: hide_in_facts(secrets, value)) if secrets else None,
    )
    head = {key: value for key, value in pod.items() if key != "seal"}
    recorder.begin(format=FORMAT_VERSION, tape=tape, **head)
    listener = listen(folder, "keeper.sock")
    processes.adopt_orphans()
    undertaker_pid, dismiss = undertaker.station(tape)
    cols, rows = int(str(pod["cols"])), int(str(pod["rows"]))
    try:
        agent = spawn(argv, str(pod["cwd"]), environment, cols=cols, rows=rows)
    except SpawnFailed:
        os.write(dismiss, b"failed\n")
        raise
    seal = [str(word) for word in _list(pod["seal"])]
    keeper = Keeper(
        agent=agent,
        recorder=recorder,
        listener=listener,
        size=(cols, rows),
        facts={"id": tape, "name": pod["name"], "session": pod["session"]},
        aides={undertaker_pid},
        start_sealer=lambda: _run_in_background(seal),
        secrets=secrets,
    )

    def finish() -> None:
        writer.close()
        _remove(os.path.join(folder, "reserve"))  # first: it makes the room for what follows
        _leave(os.path.join(folder, "end.json"), encode_json(**keeper.exit, offset=writer.offset, wall=clock.wall_us()))
        _remove(os.path.join(folder, "keeper.sock"))
        os.write(dismiss, b"done\n")
        _run_in_background(seal)

    return keeper, finish


def _run_in_background(argv: list[str]) -> int | None:
    """Start a command that takes only the time nothing else wants."""
    if not argv:
        return None
    try:
        pid = os.posix_spawn(argv[0], argv, os.environ, setsid=True)
        # Not posix_spawn's own way: glibc refuses SCHED_IDLE there.
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        return pid
    except OSError as error:
        print(f"cannot start {argv}: {error}", file=sys.stderr)
        return None


def _leave(path: str, data: bytes) -> None:
    with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    os.replace(path + ".new", path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]
