"""follow_imports: a plugin is called around the body of every module, and before patches of that module."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import pytest

import patchcore as pc
from patchcore.plugin import follow_imports


class Follower:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def begins(self, name: str) -> None:
        self.calls.append(("begins", name))

    def ended(self, name: str, module: ModuleType, *, finished: bool) -> None:
        self.calls.append(("ended", name, getattr(module, "price", lambda: None)(), finished))


def test_a_follower_sees_every_body_before_patches_are_applied_and_none_after_the_end(make_package: Any) -> None:
    make_package({"shop": "def price(): return 1", "store": "import shop", "broken": "1 / 0", "later": ""})
    patcher = pc.Patcher([pc.Patch("shop.price", pc.Replace("shop:price", lambda: 2))])
    follower, finders = Follower(), list(sys.meta_path)
    end = follow_imports(follower)
    with patcher:
        assert importlib.import_module("store").shop.price() == 2
        with pytest.raises(ZeroDivisionError):
            importlib.import_module("broken")
    calls = [call for call in follower.calls if not call[1].startswith("patchcore")]
    assert calls == [
        ("begins", "store"),
        ("begins", "shop"),
        ("ended", "shop", 1, True),
        ("ended", "store", None, True),
        ("begins", "broken"),
        ("ended", "broken", None, False),
    ]
    end()
    assert sys.meta_path == finders
    importlib.import_module("later")
    assert ("begins", "later") not in follower.calls


def test_the_module_keeps_its_own_loader(make_package: Any) -> None:
    make_package({"shop": "LOADER = type(__loader__), type(__spec__.loader)"})
    end = follow_imports(Follower())
    try:
        module = importlib.import_module("shop")
    finally:
        end()
    assert [kind.__name__ for kind in module.LOADER] == ["SourceFileLoader", "SourceFileLoader"]
