"""The `headwater` command: answered by a runner that is up, where it can be, else run here (`app.py`)."""

from __future__ import annotations

import sys

from headwater.cli.remote import ask


def main() -> None:
    """Run the command of the command line, and exit with its code."""
    arguments = sys.argv[1:]
    code = ask(arguments)
    if code is None:
        from headwater.cli.app import execute  # loading all commands takes longer than many of them

        code = execute(arguments)
        if "headwater.cli.interrupts" in sys.modules:
            from headwater.cli.interrupts import leave

            leave(code)
    sys.exit(code)
