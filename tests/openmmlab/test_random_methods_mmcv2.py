"""Methods decorated with ``@cache_randomness`` of mmcv, a descriptor of its own, are wrapped like any others."""

from __future__ import annotations

import inspect
import random
import sys
from typing import Any, Callable

import mmcv.transforms
import mmdet.datasets.transforms  # noqa: F401
import mmdet3d.datasets.transforms  # noqa: F401
import numpy
import pytest
from mmcv.transforms.utils import cache_random_params, cache_randomness

import patchcore as pc


def decorated() -> list[str]:
    """The targets of all such methods of the three libraries."""
    found = set()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("mmcv", "mmdet", "mmdet3d"):
            for klass in [value for value in vars(module).values() if inspect.isclass(value)]:
                for key, raw in vars(klass).items():
                    if isinstance(raw, cache_randomness) and klass.__module__ == name:
                        found.add(f"{name}:{klass.__qualname__}.{key}")
    return sorted(found)


TARGETS = decorated()


def outcome(call: Callable[[], Any]) -> tuple[str, str]:
    numpy.random.seed(0)
    random.seed(0)
    try:
        return "gives", repr(call())
    except Exception as error:  # of an instance that was not initialised
        return "raises", repr(error)


def changes_of(target: str, wrapper: Callable[..., Any]) -> list[pc.Change]:
    return [
        pc.Wrap(target, wrapper),
        pc.Replace(target, lambda *args, **kwargs: "new", when_call=lambda *args, **kwargs: False),
        pc.Replace(target, lambda *args, **kwargs: "new", when_call=lambda *args, **kwargs: True),
    ]


def test_all_of_them_are_looked_at() -> None:
    assert len(TARGETS) >= 31  # of mmcv 2.1, mmdet 3.3 and mmdet3d 1.4


@pytest.mark.parametrize("target", TARGETS)
def test_the_method_is_called_through_its_descriptor(target: str) -> None:
    module, _, path = target.partition(":")
    klass = getattr(sys.modules[module], path.partition(".")[0])
    name = path.partition(".")[2]
    raw = vars(klass)[name]
    args = [(4, 4)] * (len(inspect.signature(raw.func).parameters) - 1)
    seen: list[Any] = []

    def around(original: Any, *given: Any, **kwargs: Any) -> Any:
        seen.append(given)
        return original(*given, **kwargs)

    instance = klass.__new__(klass)
    before = outcome(lambda: getattr(instance, name)(*args))
    by_class = outcome(lambda: getattr(klass, name))
    wrapped, not_chosen, chosen = changes_of(target, around)
    for change in (wrapped, not_chosen):
        with pc.Patcher([pc.Patch("p", change)], strict=True):
            assert outcome(lambda: getattr(instance, name)(*args)) == before
            assert outcome(lambda: getattr(klass, name)) == by_class
            assert vars(klass)[name].func is raw.func
    assert seen == [(instance, *args)]
    with pc.Patcher([pc.Patch("p", chosen)], strict=True):
        assert getattr(instance, name)(*args) == "new"
    assert vars(klass)[name] is raw


@pytest.mark.parametrize("number", [0, 1])
def test_random_numbers_are_cached_as_before(number: int) -> None:
    flip = mmcv.transforms.RandomFlip(prob=[0.2, 0.3, 0.3], direction=["horizontal", "vertical", "diagonal"])
    change = changes_of("mmcv.transforms:RandomFlip._choose_direction", lambda original, self: original(self))[number]
    with pc.Patcher([pc.Patch("p", change)], strict=True):
        numpy.random.seed(3)
        assert len({str(flip._choose_direction()) for _ in range(30)}) > 1
        with cache_random_params(flip):
            assert len({str(flip._choose_direction()) for _ in range(30)}) == 1
        results = flip({"img": numpy.zeros((2, 2, 3), numpy.uint8)})
        assert "flip_direction" in results
