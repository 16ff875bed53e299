"""A function that looks at the frame of its caller finds the wrapper's."""

from __future__ import annotations

from typing import Any

import pytest

import patchcore as pc


def through(original: Any, *args: Any, **kwargs: Any) -> Any:
    return original(*args, **kwargs)


@pytest.mark.limit(
    "A wrapped or dispatched function that looks at the frame of its caller (`sys._getframe`, `inspect.currentframe`, "
    "`inspect.stack`) finds the wrapper's: a `Registry` of mmengine gets the scope of the module that wraps it. "
    "Dispatched by `when_call`, it gets the scope `mmengine`, with a warning",
    told="this line: give the function what it looks for as an argument (`Registry(..., scope=...)`), or use `Replace`",
)
def test_the_frame_of_the_caller_is_the_wrappers(make_package: Any) -> None:
    make_package({"frames": "import sys\ndef caller(): return sys._getframe(1).f_globals['__name__']"})
    with pc.Patcher([pc.Patch("p", pc.Wrap("frames:caller", through))], strict=True):
        import frames

        assert frames.caller() == __name__


@pytest.mark.libraries("mmengine")
def test_a_registry_of_mmengine_takes_the_scope_of_the_wrapper_unless_it_gets_one() -> None:
    from mmengine.registry import Registry

    patch = pc.Patch("p", pc.Wrap("mmengine.registry:Registry.__init__", through))
    with pc.Patcher([patch], strict=True):
        assert Registry("models").scope == __name__.partition(".")[0]
        assert Registry("models", scope="mmdet").scope == "mmdet"


@pytest.mark.libraries("mmengine")
def test_a_registry_of_mmengine_that_is_dispatched_infers_no_scope() -> None:
    from mmengine.registry import Registry

    original = Registry.__init__
    change = pc.Replace("mmengine.registry:Registry.__init__", original, when_call=lambda *_, **__: False)
    with pc.Patcher([pc.Patch("p", change)], strict=True):
        assert Registry("models").scope == "mmengine"
