"""Classes that C code takes for mappings are taken for mappings while they are patched, and afterwards."""

from __future__ import annotations

import ctypes
import sys
import types
from typing import Any, TypeVar

import pytest

import patchcore as pc
from patchcore.objects import type_slots

T = TypeVar("T")

pytestmark = pytest.mark.skipif(sys.implementation.name != "cpython", reason="slots are CPython's")

is_sequence = ctypes.pythonapi.PySequence_Check
is_sequence.argtypes = [ctypes.py_object]


def subscript(original: Any, self: Any, key: Any) -> Any:
    return ("patched", original(self, key))


def test_the_layout_of_types_is_as_described() -> None:
    assert type_slots.is_known


class Alias(types.GenericAlias):
    """Derived from a C type that is a mapping alone, as torch.Tensor is."""


class Derived(Alias):
    pass


def aliases(*classes: type) -> list[Any]:
    return [klass(list, (T,)) for klass in (Alias, Derived, *classes)]


def test_a_class_that_is_a_mapping_alone_stays_one_while_it_is_patched_and_afterwards() -> None:
    assert not any(map(is_sequence, aliases()))
    for _ in range(2):
        with pc.Patcher([pc.Patch("alias", pc.Wrap(f"{__name__}:Alias.__getitem__", subscript))]):
            assert [alias[int][0] for alias in aliases()] == ["patched", "patched"]
            assert not any(map(is_sequence, aliases()))
        assert [alias[int] == list[int] for alias in aliases()] == [True, True]
        assert not any(map(is_sequence, aliases()))
        assert "__getitem__" not in vars(Alias)


def test_a_class_derived_while_patched_is_a_mapping_again_after_the_revert() -> None:
    with pc.Patcher([pc.Patch("alias", pc.Wrap(f"{__name__}:Alias.__getitem__", subscript))]):
        Late = type("Late", (Derived,), {})
    assert not any(map(is_sequence, aliases(Late)))
    assert aliases(Late)[-1][int] == list[int]


def test_a_class_derived_with_a_method_of_its_own_keeps_it() -> None:
    class Own(Alias):
        def __getitem__(self, key: Any) -> Any:
            return "own"

    with pc.Patcher([pc.Patch("alias", pc.Wrap(f"{__name__}:Alias.__getitem__", subscript))]):
        assert is_sequence(aliases(Own)[-1])
    assert is_sequence(aliases(Own)[-1])
    assert aliases(Own)[-1][int] == "own"


class Rows:
    def __getitem__(self, key: int) -> int:
        return key


def test_a_class_that_is_a_sequence_stays_one() -> None:
    assert is_sequence(Rows())
    with pc.Patcher([pc.Patch("rows", pc.Wrap(f"{__name__}:Rows.__getitem__", subscript))]):
        assert Rows()[3] == ("patched", 3)
        assert is_sequence(Rows())
    assert is_sequence(Rows())
    assert Rows()[3] == 3


@pytest.mark.parametrize("thing", [object(), Alias(list, (T,)), sys], ids=["object", "alias", "module"])
def test_the_memory_of_what_is_no_class_is_left_alone(thing: Any) -> None:
    with pytest.raises(TypeError, match="is no class"):
        type_slots.read_slot(thing, type_slots.HASH)
    with pytest.raises(TypeError, match="is no class"):
        type_slots.write_slot(thing, type_slots.HASH, 0)
