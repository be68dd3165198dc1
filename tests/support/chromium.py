"""A headless Chromium that tests drive through tests/js/browser.mjs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.conditions import DEADLINE_S
from tests.support.paths import JS


class Chromium:
    """One browser process."""

    def __init__(self) -> None:
        self._node = subprocess.Popen(
            ["node", "browser.mjs"], cwd=JS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def do(self, command: str, **options: object) -> Any:
        """Carry out a command of the driver."""
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(json.dumps({"command": command, **options}) + "\n")
        answer = json.loads(self._node.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer["ok"]

    @contextmanager
    def page(self, url: str, **options: object) -> Generator[Page]:
        """Open a page and close it."""
        page = Page(self, self.do("open", url=url, **options))
        yield page
        self.do("close", page=page.number)

    def close(self) -> None:
        """End it."""
        self._node.communicate(timeout=DEADLINE_S)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of it."""

    browser: Chromium
    number: int

    def do(self, command: str, **options: object) -> Any:
        """Carry out a command on this page."""
        return self.browser.do(command, page=self.number, **options)

    def evaluate(self, script: str) -> Any:
        """The value of an expression."""
        return self.do("evaluate", script=script)

    def wait(self, script: str) -> None:
        """Wait until an expression is true."""
        self.do("wait", script=script)

    def press(self, *keys: str) -> None:
        """Press keys."""
        for key in keys:
            self.do("press", key=key)

    def click(self, selector: str) -> None:
        """Click on something."""
        self.do("click", selector=selector)

    @property
    def did(self) -> list[str]:
        """Everything it did that no recording may make it do."""
        return self.do("report")["did"]

    @property
    def requests(self) -> list[str]:
        """Every address it asked for."""
        return self.do("report")["requests"]
