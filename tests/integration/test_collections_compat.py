"""``collections.compat``: the names that Python removed from ``collections``, while it is applied and no longer."""

from __future__ import annotations

import collections.abc
import sys
from collections.abc import Callable

import pytest

pytest.importorskip("torch_npu_patches")

import patchcore as pc
from torch_npu_patches.collections_compat import COLLECTIONS_COMPAT, NAMES, removed_here

needed = pytest.mark.skipif(sys.version_info < (3, 10), reason="collections has the names still")


@needed
class TestCollectionsCompat:
    def test_names_are_there_while_it_is_applied(self) -> None:
        before = dict(vars(collections))
        with pc.Patcher([COLLECTIONS_COMPAT], enable=COLLECTIONS_COMPAT, strict=True) as patcher:
            patched = dict(vars(collections))
            assert patcher.report()["collections.compat"].status == "applied"
        assert {name: value for name, value in patched.items() if name not in before} == {
            name: getattr(collections.abc, name) for name in NAMES if name in collections.abc.__all__
        }
        after = dict(vars(collections))
        assert before.keys() == after.keys()
        assert all(before[key] is after[key] for key in before)

    def test_a_name_that_somebody_has_put_back_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        theirs = object()
        monkeypatch.setattr(collections, "Iterable", theirs, raising=False)
        with pc.Patcher([COLLECTIONS_COMPAT], enable=COLLECTIONS_COMPAT, strict=True):
            assert vars(collections)["Iterable"] is theirs
            assert vars(collections)["Mapping"] is collections.abc.Mapping
        assert vars(collections)["Iterable"] is theirs

    def test_names_of_the_classes_elsewhere_are_nobodys_references(self, run_python: Callable[..., str]) -> None:
        out = run_python("""
            import collections.abc, sys, types
            import patchcore as pc
            from torch_npu_patches.collections_compat import COLLECTIONS_COMPAT

            user = types.ModuleType("user")
            user.Mapping = collections.abc.Mapping
            sys.modules["user"] = user
            with pc.Patcher([COLLECTIONS_COMPAT], enable=COLLECTIONS_COMPAT, strict=True) as patcher:
                print([change.rebound for change in patcher.report()["collections.compat"].changes if change.rebound])
            print(user.Mapping is collections.abc.Mapping)
        """)
        assert out.splitlines() == ["[]", "True"]


def test_python_with_the_names_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18))
    verdict = removed_here()
    assert isinstance(verdict, pc.Skip)
    assert verdict.reason == "collections of this Python has the names still"


def test_applies_only_when_asked_for_and_before_other_libraries() -> None:
    other = pc.Patch("other.patch", [pc.Replace("json:dumps", len)])
    plan = pc.Patcher([other, COLLECTIONS_COMPAT]).plan()
    assert not COLLECTIONS_COMPAT.default
    assert next(iter(plan)).patch is COLLECTIONS_COMPAT
