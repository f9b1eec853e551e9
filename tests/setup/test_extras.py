"""A missing extra and an unsupported Python are said with their cure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.core.errors import Code, UsageError
from headwater.core.extras import NEWEST, OLDEST, require_extra, require_python

ROOT = Path(__file__).parents[2]


def test_an_extra_that_is_there_is_imported() -> None:
    import json.decoder

    assert require_extra("any", "json.decoder") is json.decoder


@pytest.mark.parametrize("module", ["no_such_client", "no_such_client.inner", "json.no_such_part"])
def test_a_missing_extra_names_its_cure(module: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_extra("kafka", module)
    assert caught.value.code is Code.MISSING_EXTRA
    assert "pip install 'headwater[kafka]'" in str(caught.value)


def test_a_package_that_is_broken_inside_keeps_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_a_client.py").write_text("import a_part_that_is_gone")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_part_that_is_gone"):
        require_extra("kafka", "half_a_client")


@pytest.mark.parametrize("version", [(3, 9), (3, 13), (2, 7)])
def test_another_python_is_refused(version: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match=r"runs on Python 3\.10 to 3\.12; this is") as caught:
        require_python(version)
    assert caught.value.code is Code.UNSUPPORTED_PYTHON


@pytest.mark.parametrize("version", [(3, 10), (3, 11), (3, 12)])
def test_supported_pythons_pass(version: tuple[int, int]) -> None:
    require_python(version)


def test_the_supported_pythons_are_the_same_everywhere() -> None:
    packaged = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    made = re.search(r"^SUPPORTED := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert packaged and made
    assert (int(packaged[1]), int(packaged[2]) - 1) == (OLDEST[1], NEWEST[1])
    assert made[1].split() == [f"3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
