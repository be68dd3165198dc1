"""``scrubjay reindex``, and what is without its index."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.cli import Cli


def _import(cli: Cli, tmp_path: Path, name: str) -> Path:
    cast = tmp_path / f"{name}.cast"
    lines = [json.dumps({"version": 2, "width": 60, "height": 8, "timestamp": 1_760_000_000})]
    lines += [json.dumps([n * 0.5, "o", f"{name} says number {n}\r\n"]) for n in range(60)]
    cast.write_text("\n".join(lines) + "\n")
    cli("import", str(cast), "--name", name)
    (folder,) = [
        path.parent for path in cli.data.glob("pods/*/pod.json") if json.loads(path.read_text())["name"] == name
    ]
    return folder


def test_it_makes_keyframes_and_search_index_anew(cli: Cli, tmp_path: Path) -> None:
    folder = _import(cli, tmp_path, "owl")
    cli("search", "owl", "number")
    (folder / "keyframes.sqlite").write_bytes(b"rotten")

    told = cli.json("reindex", "owl")

    assert [(row["name"], row["left_out"], row["fault"]) for row in told] == [("owl", 0, None)]
    assert told[0]["keyframes"] >= 1
    assert b"number 7" in cli("search", '"number 7"').stdout


def test_it_takes_all_pods_or_some_but_must_be_told_which(cli: Cli, tmp_path: Path) -> None:
    for name in ("owl", "jay"):
        _import(cli, tmp_path, name)

    everything = cli("reindex", "--all")
    neither, both = cli("reindex", code=2), cli("reindex", "owl", "--all", code=2)

    assert b"indexed owl" in everything.stderr
    assert b"indexed jay" in everything.stderr
    assert b"--all" in neither.stderr
    assert b"--all" in both.stderr


def test_deleting_every_index_loses_nothing(cli: Cli, tmp_path: Path) -> None:
    folder = _import(cli, tmp_path, "owl")
    screen, hits = cli("screen", "owl", "--at", "10s").stdout, cli("search", "number", "--json").stdout
    for file in (*folder.glob("keyframes*"), *cli.data.glob("search.sqlite*")):
        file.unlink()

    assert cli("screen", "owl", "--at", "10s").stdout == screen
    assert cli("search", "number", "--json").stdout == hits


def test_a_pod_that_was_deleted_is_not_found_any_more(cli: Cli, tmp_path: Path) -> None:
    _import(cli, tmp_path, "owl")
    cli("search", "number")
    cli("rm", "owl")

    assert b"nothing was found" in cli("search", "number", code=1).stderr
