"""The manifests that are here: those that come with Scrubjay, and a person's own, which take their place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay.errors import BadInput, BadManifest

if TYPE_CHECKING:
    from scrubjay.agents.manifest import Manifest

_SHIPPED = Path(__file__).parent / "manifests"
_SUFFIX = ".toml"


class Library:
    """All agents that can be started by name."""

    def __init__(self, own: Path | None) -> None:
        """``own`` is where a person keeps manifests."""
        self._own = own

    def names(self) -> list[str]:
        """The names of all agents, in order."""
        return sorted({path.stem for path in self._paths()})

    def path_of(self, name: str) -> Path | None:
        """Where the manifest of an agent is; None if there is no such agent."""
        found = [path for path in self._paths() if path.stem == name]
        return found[-1] if found else None

    def is_own(self, name: str) -> bool:
        """Whether an agent's manifest is the person's."""
        path = self.path_of(name)
        return path is not None and path.parent == self._own

    def find(self, name: str) -> Manifest:
        """What is known of an agent; BadInput if there is none of that name, BadManifest if it cannot be read."""
        path = self.path_of(name)
        if path is None:
            raise BadInput(
                f"there is no agent {name!r}", hint=f"known are {', '.join(self.names())}; or give a command instead"
            )
        return read_manifest(path)

    def recognise(self, program: str) -> str | None:
        """The agent a program is, by its name; None if it is none that is known."""
        name = os.path.basename(program)
        return name if self.path_of(name) is not None else None

    def _paths(self) -> list[Path]:
        """All manifests, a person's own last."""
        found: list[Path] = []
        for folder in (_SHIPPED, self._own):
            if folder is not None:
                found += [folder / entry for entry in _list(folder) if entry.endswith(_SUFFIX)]
        return found


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file; BadManifest says what is wrong with it."""
    import tomllib  # 5 ms that only those wait for who start an agent

    from scrubjay.agents.manifest import is_agent_name, parse_manifest

    if not is_agent_name(path.stem):
        hint = "name the file with a-z, 0-9, '-' and '_'"
        raise BadManifest(str(path), None, f"{path.stem!r} cannot be an agent's name", hint=hint)
    try:
        values = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise BadManifest(
            str(path), None, f"cannot be read: {error.strerror}", hint="make it a file you can read"
        ) from error
    except ValueError as error:
        raise BadManifest(str(path), None, f"is not TOML: {error}", hint="correct it, or remove the file") from error
    return parse_manifest(path.stem, values, str(path))


def _list(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # there need not be one
        return []
