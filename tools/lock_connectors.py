"""Writes the sizes and SHA-256 of a connector lock (`make lock-connectors`).

Change coordinates in the lock by hand, run this, and read the diff: what it fetched becomes what is trusted.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from pathlib import Path

from headwater.spark.connectors import LOCK_FILE, outcomes


def main(path: Path) -> None:
    lock = json.loads(path.read_text(encoding="utf-8"))
    entries = [jar for connector in lock["connectors"].values() for jar in connector["jars"]]
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for outcome in outcomes([entry["coordinates"] for entry in entries], Path(folder), None):
            if "file" not in outcome:
                sys.exit(f"{outcome['coordinates']}: {outcome['cause']}")
            content = Path(outcome["file"]).read_bytes()
            found[outcome["coordinates"]] = (hashlib.sha256(content).hexdigest(), len(content))
    for entry in entries:
        entry["sha256"], entry["size"] = found[entry["coordinates"]]
    path.write_text(json.dumps(lock, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else LOCK_FILE)
