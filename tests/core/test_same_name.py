"""``Replace(same_name=True)``: names of other modules follow a target that is itself only a name of something else."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

import patchcore as pc

SOURCES = {
    "norms": "class Norm: pass\ndef slow(): return 'slow'\nNORM = Norm\nFLAG = None",
    "layers": "from norms import NORM, FLAG\nclass Layer:\n    NORM = NORM",
    "other": "from norms import NORM as OTHER\nfrom norms import Norm as NORM",
    "lazy": "def __getattr__(name):\n    raise RuntimeError(name)",
}


@pytest.fixture
def modules(make_package: Any) -> Any:
    make_package(SOURCES)
    return [importlib.import_module(name) for name in SOURCES]


def spaces(modules: Any) -> list[dict[str, Any]]:
    return [{key: value for key, value in vars(module).items() if not key.startswith("__")} for module in modules]


def test_same_names_follow_and_are_given_back(modules: Any) -> None:
    norms, layers, other, _ = modules
    before = spaces(modules)
    with pc.Patcher([pc.Patch("norm", pc.Replace("norms:NORM", int))]):
        assert norms.NORM is int
        assert layers.NORM is norms.Norm
    with pc.Patcher([pc.Patch("norm", pc.Replace("norms:NORM", int, same_name=True))]) as patcher:
        assert {norms.NORM, layers.NORM, other.NORM} == {int}
        assert (norms.Norm, other.OTHER, layers.Layer.NORM) == (before[0]["Norm"],) * 3
        assert sorted(patcher.report()["norm"].changes[0].rebound) == ["layers:NORM", "other:NORM"]
    assert spaces(modules) == before


def test_layers_on_top_reach_the_names_as_well(modules: Any) -> None:
    norms, layers, *_ = modules
    below = pc.Patch("below", pc.Replace("norms:NORM", int, same_name=True))
    above = pc.Patch("above", pc.Replace("norms:NORM", factory=lambda value: (value, 1), same_name=True), after=below)
    first, second = pc.Patcher([below]), pc.Patcher([above])
    first.apply()
    second.apply()
    assert layers.NORM == norms.NORM == (int, 1)
    first.revert()
    assert layers.NORM == norms.NORM == (norms.Norm, 1)
    second.revert()
    assert layers.NORM is norms.NORM is norms.Norm


def test_a_name_that_is_imported_while_patched_gets_the_original_back(make_package: Any) -> None:
    make_package(SOURCES)
    norms = importlib.import_module("norms")
    with pc.Patcher([pc.Patch("norm", pc.Replace("norms:NORM", "builtins:int", same_name=True))]):
        layers = importlib.import_module("layers")
        assert layers.NORM is int
    assert layers.NORM is norms.Norm


def test_a_function_at_its_home_is_found_under_any_name(modules: Any) -> None:
    norms = modules[0]
    user = type(sys)("user")
    user.fast = user.slow = norms.slow
    sys.modules["user"] = user
    try:
        with pc.Patcher([pc.Patch("slow", pc.Replace("norms:slow", lambda: "new", same_name=True))]):
            assert (user.fast(), user.slow()) == ("new", "new")
        assert (user.fast, user.slow) == (norms.slow, norms.slow)
    finally:
        del sys.modules["user"]


def test_a_constant_is_put_only_where_the_name_is(modules: Any) -> None:
    norms, layers, other, lazy = modules
    with pc.Patcher([pc.Patch("flag", pc.Replace("norms:FLAG", True, same_name=True))]):
        assert (norms.FLAG, layers.FLAG) == (True, True)
        assert "FLAG" not in vars(other)
        assert "FLAG" not in vars(lazy)
    assert (norms.FLAG, layers.FLAG) == (None, None)


def test_only_in_excludes_it() -> None:
    with pytest.raises(pc.DeclarationError, match=r"only_in= excludes create=, aliases=, same_name= and everywhere="):
        pc.Replace("layers:F.relu", len, only_in="layers", same_name=True)
