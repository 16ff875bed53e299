"""docs/launching.md shows every setting of ``[tool.patchcore]``, with a value that is valid and not the default."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from pages import blocks

from patchcore.plugins import Plugins
from patchcore.settings import KEYS, Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE = Path(__file__).resolve().parents[2] / "docs" / "launching.md"


@pytest.fixture(scope="module")
def text() -> str:
    (found,) = (block.text for block in blocks(PAGE) if block.language == "toml" and "[tool.patchcore]" in block.text)
    return found


@pytest.fixture(scope="module")
def known() -> list[Any]:
    """The settings of patchcore and of all plugins of this repository that are installed."""
    return list(Plugins().settings())


def test_every_setting_is_there(text: str, known: list[Any]) -> None:
    shown = tomllib.loads(text)["tool"]["patchcore"].keys()
    importlib.import_module("mmcv_npu")  # or its setting would be missed
    assert shown == {*KEYS, "variants", *(setting.key for setting in known)}


def test_every_value_is_valid_and_not_the_default(text: str, known: list[Any], tmp_path: Path) -> None:
    shown = tomllib.loads(text)["tool"]["patchcore"]
    assert shown.pop("variant") in shown.pop("variants")
    without = re.sub(r"^variant = .*\n", "", text, flags=re.MULTILINE)  # the variant sets some of them again
    (tmp_path / "pyproject.toml").write_text(without, encoding="utf-8")
    settings, default = Settings.load(environ={}, start=tmp_path).complete(known), Settings().complete(known)
    given = [choice.enable for choice in settings.choices if choice.origin.endswith("[tool.patchcore]")]
    assert {True, False} <= set(given)
    assert all(settings.get(key) != default.get(key) for key in shown if key not in ("enable", "disable"))
