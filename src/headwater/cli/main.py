"""The `headwater` command: answered by a runner that is up, where it can be, else run here (`app.py`)."""

from __future__ import annotations

import gc
import sys

COMPLETE = "__complete"
"""What a shell's completion calls, with the words of the command line so far."""

_OBJECTS = 50_000
"""So many new objects before Python looks for garbage: what loading makes stays, and is looked through in vain."""


def main() -> None:
    """Run the command of the command line, and exit with its code."""
    gc.set_threshold(_OBJECTS)
    arguments = sys.argv[1:]
    if arguments[:1] == ["--version"]:
        from headwater.cli.version import version_line

        print(version_line(arguments))
        sys.exit(0)
    if arguments[:1] == [COMPLETE]:
        from headwater.cli.completion.command_line import print_candidates

        print_candidates(arguments[1:])
        sys.exit(0)
    from headwater.cli.remote import INTERRUPTED, ask  # a version is told without it

    try:
        code = ask(arguments)
        if code is None:
            from headwater.cli.app import execute  # loading all commands takes longer than many of them

            code = execute(arguments)
    except KeyboardInterrupt:  # while the command was being loaded
        sys.exit(INTERRUPTED)
    if "headwater.cli.interrupts" in sys.modules:
        from headwater.cli.interrupts import leave

        leave(code)
    sys.exit(code)
