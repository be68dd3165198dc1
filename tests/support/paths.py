"""Where the project's own files are."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent.parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
PROGRAMS = TESTS / "programs"  #: scripted programs that tests run
FIXTURES = TESTS / "fixtures"
JS = TESTS / "js"
