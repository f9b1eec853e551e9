"""Disks that are full, read-only or gone while a runner runs: it waits, says why, and goes on by itself."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import pytest
from py4j.protocol import Py4JError

from headwater.core.disk_errors import chain_of
from headwater.core.errors import Code, HeadwaterError, TerminalError, TransientError
from headwater.core.state import State
from headwater.core.storage import Files
from headwater.runner.holders import Holder
from headwater.runner.leases import Lease
from headwater.sources.files.unreadable import blames_a_task
from headwater.spark.errors import as_headwater_error
from tests.faults.disks import disk
from tests.runtime.running import COMMAND, Running, land
from tests.scale import in_formats
from tests.support import COLD

PROJECT = """\
name: full
warehouse: ./lake
spark: {{master: 'local[2]', conf: {cold}}}
runtime: {{lease: 5s}}
sources: {{landing: {{type: files, path: ./landing}}}}
topics: {{orders: {{from: landing, format: {format}}}}}
"""


def started(root: Path, format: str, runners: list[Running]) -> Running:
    """A runner that has taken its first step."""
    (root / "headwater.yml").write_text(PROJECT.format(format=format, cold=COLD), encoding="utf-8")
    land(root, "1.json", ["a", "b"])
    runner = Running(root)
    runners.append(runner)
    runner.until(lambda: runner.of("step"))
    return runner


def many(root: Path, name: str) -> None:
    """More than fits into what is left of a disk."""
    land(root, name, [os.urandom(40).hex() for _ in range(20_000)])


def ids(root: Path) -> list[str]:
    command = [*COMMAND, "query", "SELECT event_id FROM orders", "--output", "json", "--project", str(root)]
    answered = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answered.returncode == 0, answered.stderr
    return [row["event_id"] for row in json.loads(answered.stdout)]


@pytest.mark.spark
@pytest.mark.parametrize("format", in_formats("iceberg", full=["delta"]))
def test_a_flow_waits_for_room_in_the_warehouse(format: str, tmp_path: Path, runners: list[Running]) -> None:
    with disk(tmp_path / "lake") as lake:
        runner = started(tmp_path, format, runners)
        lake.fill(leave=200_000)
        many(tmp_path, "2.json")
        runner.until(lambda: runner.of("retry"))
        said = runner.of("retry")[0]["error"]
        assert "No space left on device" in said and f"are free at {tmp_path / 'lake'}" in said
        lake.empty()
        runner.until(lambda: len(runner.of("step")) == 2)

        # Not even the ledger can be written.
        lake.fill()
        before = len(runner.of("retry"))
        land(tmp_path, "3.json", ["c"])
        runner.until(lambda: len(runner.of("retry")) > before)
        said = runner.of("retry")[-1]["error"]
        assert "_headwater" in said and f"0B of 20 MB are free at {tmp_path / 'lake'}" in said
        lake.empty()
        runner.until(lambda: len(runner.of("step")) == 3)

        # Mounted read-only for a while, then gone for a while.
        lake.make_read_only()
        before = len(runner.of("retry"))
        land(tmp_path, "4.json", ["d"])
        runner.until(lambda: len(runner.of("retry")) > before)
        assert "Read-only file system" in runner.of("retry")[-1]["error"]
        lake.make_writable()
        runner.until(lambda: len(runner.of("step")) == 4)

        lake.move(tmp_path / "away")
        before = len(runner.of("retry"))
        land(tmp_path, "5.json", ["e"])
        runner.until(lambda: len(runner.of("retry")) > before)
        assert "is gone" in runner.of("retry")[-1]["error"]
        assert not list((tmp_path / "lake").iterdir()), "nothing is begun where the disk was"
        type(lake)(tmp_path / "away").move(tmp_path / "lake")
        runner.until(lambda: len(runner.of("step")) == 5)
        assert not runner.of("failed")
        found = ids(tmp_path)
        assert len(found) == len(set(found)) == 20_005


@pytest.mark.spark
def test_the_folder_beside_the_project_is_full(tmp_path: Path, runners: list[Running]) -> None:
    with disk(tmp_path / ".headwater") as home:
        runner = started(tmp_path, "delta", runners)
        home.fill()
        time.sleep(6)  # longer than the lease: nobody knows any more that the runner is there
        land(tmp_path, "2.json", ["c"])
        runner.until(lambda: runner.of("retry"))
        said = runner.of("retry")[0]["error"]
        assert "database or disk is full" in said and f"0B of 20 MB are free at {tmp_path / '.headwater'}" in said
        assert len(runner.of("step")) == 1, "it does not commit while it can't renew its lease"
        status = [*COMMAND, "status", "--json", "--project", str(tmp_path)]
        answered = subprocess.run(status, capture_output=True, text=True, check=False)
        assert answered.returncode == 0 and json.loads(answered.stdout)[0]["flow"] == "topics.orders", answered.stderr

        lines = (tmp_path / "run.err").read_text().splitlines()
        assert not [line for line in lines if "Traceback" in line or "Logging error" in line]
        assert len([line for line in lines if "can't be written" in line]) == 1
        home.empty()
        runner.until(lambda: len(runner.of("step")) == 2)
        assert sorted(ids(tmp_path)) == ["a", "b", "c"] and not runner.of("failed")
        log = tmp_path / ".headwater/logs/headwater.log"
        runner.until(lambda: "lines were left out" in log.read_text())


def test_a_command_says_what_is_full(tmp_path: Path) -> None:
    with disk(tmp_path / "home") as home:
        (tmp_path / "headwater.yml").write_text(PROJECT.format(format="delta", cold=COLD), encoding="utf-8")
        (tmp_path / ".headwater").symlink_to(home.folder)
        home.fill()
        answered = subprocess.run(
            [*COMMAND, "status", "--project", str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert answered.returncode == 1 and "[Errno" not in answered.stderr and "Traceback" not in answered.stderr
        assert "are free at" in answered.stderr and ".headwater" in answered.stderr


def test_a_lease_that_is_late_is_renewed_before_a_commit_or_nothing_is_committed(tmp_path: Path) -> None:
    with disk(tmp_path) as home:
        state = State.next_to(tmp_path)
        lease = Lease.take(state, "topics.a", Holder.here(), timedelta(seconds=2))
        lease.check()
        home.fill()
        time.sleep(1.2)  # more than half of it
        with pytest.raises(TransientError, match="disk is full") as refused:
            lease.check()
        assert refused.value.code is Code.STORAGE_FAILED and not lease.lost
        home.empty()
        lease.check()


def test_errors_of_a_disk_are_tried_again_and_say_how_much_is_free(tmp_path: Path) -> None:
    with disk(tmp_path / "disk") as small:
        files = Files(str(small.folder / "lake"))
        files.write_atomic("a", "1")
        small.fill()
        for act in (lambda: files.write_atomic("b", "2" * 5000), lambda: files.write_new("c", "2" * 5000)):
            with pytest.raises(TransientError, match=f"0B of 20 MB are free at {small.folder}"):
                act()
        assert [entry.name for entry in files.list()] == ["a"]
        small.empty()
        small.make_read_only()
        for act in (lambda: files.write_atomic("b", "2"), lambda: files.delete("a"), lambda: files.make_folder("d")):
            with pytest.raises(TransientError, match="Read-only file system"):
                act()
        small.make_writable()
        files.write_atomic("b", "2")

    passing = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.ESTALE, errno.ENOTCONN, errno.EDQUOT, errno.ETIMEDOUT)
    for number in passing:
        told = as_headwater_error(OSError(number, os.strerror(number), str(tmp_path / "x")), [str(tmp_path)])
        assert isinstance(told, TransientError) and str(tmp_path / "x") in str(told) and "are free at /" in str(told)
    assert isinstance(as_headwater_error(OSError(errno.EACCES, "Permission denied", "/x")), TerminalError)
    java = as_headwater_error(Py4JError(f"java.io.IOException: {tmp_path}/f (No space left on device)"), ["/nowhere"])
    assert isinstance(java, TransientError) and "are free at /" in str(java)
    wrapped = as_headwater_error(TerminalError(Code.COMMIT_FAILED, "it failed: Input/output error"), [str(tmp_path)])
    assert isinstance(wrapped, TransientError) and "are free at /" in str(wrapped)


def test_an_error_that_is_its_own_cause_ends_no_loop() -> None:
    one, other = Py4JError("aborted due to stage failure"), HeadwaterError(Code.INTERNAL, "other")
    one.__cause__, other.__cause__ = other, one
    assert list(chain_of(one)) == [one, other] and blames_a_task(one)
    full = Py4JError("aborted due to stage failure: No space left on device")
    full.__cause__ = full
    assert not blames_a_task(full)
