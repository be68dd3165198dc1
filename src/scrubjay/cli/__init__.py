"""Commands: arguments in, calls out.

Data goes to stdout, words to stderr. Exit 0 when it worked, 1 when it failed or found something
wrong, 2 when the request itself was wrong.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit."""
    if sys.argv[1:2] == ["hook"] and not {"-h", "--help"} & set(sys.argv):
        # An agent waits for it, and loading the rest would take four times as long.
        from scrubjay.hook import main as report

        report(sys.argv[2:])
    from scrubjay.cli.command_line import run

    run()
