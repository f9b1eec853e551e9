"""`.headwater` is its owner's alone: what is made there, and what was there before."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import COLD

PROJECT = f"""\
name: shop
format: iceberg
sources: {{landing: {{type: files, path: ./landing}}}}
topics: {{orders: {{from: landing}}}}
spark: {{master: "local[1]", conf: {COLD}}}
"""


def open_to_others(folder: Path) -> list[str]:
    found = [folder, *folder.rglob("*")]
    return [f"{oct(stat.S_IMODE(f.lstat().st_mode))} {f}" for f in found if f.lstat().st_mode & 0o077]


@pytest.mark.spark
def test_everything_in_it_is_its_owners(tmp_path: Path) -> None:
    (tmp_path / "headwater.yml").write_text(PROJECT)
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.json").write_text(json.dumps({"id": 1}) + "\n")
    home = tmp_path / ".headwater"
    (home / "logs").mkdir(parents=True)
    for old in ("state.db-old", "logs/headwater.log.1", "logs/spark.out"):
        (home / old).write_text("")
        (home / old).chmod(0o664)
    home.chmod(0o775)
    script = "import os, sys; os.umask(0); from headwater.cli.main import main; sys.argv[0] = 'headwater'; main()"
    command = [sys.executable, "-c", script, "run", "--once", "--project", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    made = {file.name for file in home.rglob("*")}
    assert {"state.db", "iceberg.db", "headwater.log", "spark.out", "spark.log"} <= made
    assert open_to_others(home) == []
    lake = next((tmp_path / "lake").rglob("*.parquet"))
    assert lake.stat().st_mode & 0o044, "what others may read of the lake is the umask's to say"


def test_a_link_is_not_followed_out_of_it(tmp_path: Path) -> None:
    (tmp_path / "headwater.yml").write_text(PROJECT)
    outside = tmp_path / "outside"
    outside.write_text("")
    outside.chmod(0o644)
    (tmp_path / ".headwater").mkdir()
    (tmp_path / ".headwater" / "link").symlink_to(outside)
    script = f"from headwater.api.lake import Lake; Lake.open({str(tmp_path)!r}).topics()"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, env=dict(os.environ))
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644
