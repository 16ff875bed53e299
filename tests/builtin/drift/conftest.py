"""A library and a plugin for it, both installed in a folder on ``sys.path``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution


@pytest.fixture
def make_shop(make_package: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], Path]:
    """Return what writes the modules of ``shop`` 1.0 and of its plugin, ``shop_npu.plugin``, and returns their folder.

    The folder is the current one, and no other plugin is loaded.
    """

    def make(modules: dict[str, str]) -> Path:
        folder: Path = make_package(modules)
        write_distribution(folder, "shop", "1.0")
        write_distribution(folder, "shop-npu", "0.1", plugins={"shop": "shop_npu.plugin"})
        for name in [name for name in os.environ if name.startswith("PATCHCORE_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("PATCHCORE_PLUGINS", "shop")
        monkeypatch.chdir(folder)
        return folder

    return make
