"""Native readers need no JVM: none of them brings Spark into the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import headwater

PACKAGE = Path(headwater.__file__).parent


def test_no_native_reader_loads_pyspark() -> None:
    natives = sorted(path.parent.name for path in (PACKAGE / "formats").glob("*/native.py"))
    assert natives
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(f'headwater.formats.{name}.native')\n"
        "    assert 'pyspark' not in sys.modules, name\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *natives], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
