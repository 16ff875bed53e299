"""A function that looks at the frame of its caller finds the wrapper's: said before and after the patch is applied."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest

import patchcore as pc

LIBRARY = """
import inspect
import sys

def direct(): return sys._getframe(1).f_globals["__name__"]
def inspected(): return inspect.currentframe().f_back.f_globals["__name__"]
def stacked(): return inspect.stack()[1].frame.f_globals["__name__"]
def nested(): return (lambda: sys._getframe(2).f_globals["__name__"])()
def helper(): return sys._getframe(2).f_globals["__name__"]
def indirect(): return helper()
def plain(): return "plain"
def stack(inspect): return inspect

class Registry:
    def __init__(self, name): self.scope = self.infer_scope()
    @staticmethod
    def infer_scope(): return sys._getframe(2).f_globals["__name__"]
    def get(self): return self.scope
"""
LOOKS = {
    "direct": "sys._getframe",
    "inspected": "inspect.currentframe",
    "stacked": "inspect.stack",
    "nested": "sys._getframe",
    "indirect": "helper calls sys._getframe",
    "Registry.__init__": "Registry.infer_scope calls sys._getframe",
    "Registry.infer_scope": "sys._getframe",
}
BLIND = ["plain", "Registry.get"]


def through(original: Any, *args: Any, **kwargs: Any) -> Any:
    return original(*args, **kwargs)


def changes_of(target: str) -> list[pc.Change]:
    return [pc.Wrap(target, through), pc.Replace(target, factory=lambda found: found, when_call=lambda *args: False)]


@pytest.fixture
def frames(make_package: Any) -> None:
    make_package({"frames": LIBRARY})


def remark(name: str) -> str:
    return f"frames:{name} looks at the frame of its caller ({LOOKS[name]}) and finds patchcore's"


@pytest.mark.limit(
    "A wrapped or dispatched function that looks at the frame of its caller (`sys._getframe`, `inspect.currentframe`, "
    "`inspect.stack`) finds patchcore's: a `Registry` of mmengine gets the scope `patchcore`",
    told="`patchcore plan`, `print(patcher.plan())` and the report name the function and by what it looks",
)
@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("name", LOOKS)
def test_plan_and_report_say_that_the_frame_is_another(frames: None, name: str, imported: bool) -> None:
    if imported:
        import frames as _  # noqa: F401
    for change in changes_of(f"frames:{name}"):
        patcher = pc.Patcher([pc.Patch("p", change)], strict=True)
        plan = patcher.plan()
        assert ("frames" in sys.modules) == imported or not imported
        assert remark(name) in str(plan)
        assert [said.text.partition(":")[0] for said in plan.remarks(plan["p"])] == ["frames"]
        with patcher:
            import frames as library

            assert remark(name) in patcher.report().patches[0].remarks[0]
            assert remark(name) in str(patcher.report())
            if name == "direct" and isinstance(change, pc.Wrap):
                assert library.direct() == __name__  # of the wrapper, which called it
            if name == "Registry.__init__":
                assert library.Registry("models").scope in ("patchcore.objects.generated", __name__)
        if not imported:
            del sys.modules["frames"]


def test_plan_imports_nothing_to_see_it(frames: None) -> None:
    str(pc.Patcher([pc.Patch("p", changes_of("frames:direct")[0])]).plan())
    assert "frames" not in sys.modules


@pytest.mark.parametrize("name", BLIND)
def test_nothing_is_said_of_others(frames: None, name: str) -> None:
    for change in [*changes_of(f"frames:{name}"), pc.Replace("frames:direct", lambda: 1)]:
        patcher = pc.Patcher([pc.Patch("p", change)], strict=True)
        assert "frame" not in str(patcher.plan()).replace("frames", "")
        with patcher:
            import frames as _  # noqa: F401

            assert patcher.report().patches[0].remarks == ()
        del sys.modules["frames"]


def test_it_is_said_of_a_wrapper_on_top_of_another(frames: None) -> None:
    low = pc.Patch("low", changes_of("frames:direct")[0])
    high = pc.Patch("high", changes_of("frames:direct")[0], after=["low"])
    with pc.Patcher([low, high], strict=True) as patcher:
        import frames as _  # noqa: F401

        assert [remark("direct") in record.remarks[0] for record in patcher.report().patches] == [True, True]


@pytest.mark.libraries("mmengine")
def test_mmengine_says_so() -> None:
    from mmengine.registry import Registry

    assert "infer_scope" in inspect.getsource(Registry.__init__)
    patch = pc.Patch("p", pc.Wrap("mmengine.registry:Registry.__init__", through))
    with pc.Patcher([patch], strict=True) as patcher:
        assert "(Registry.infer_scope calls sys._getframe)" in patcher.report().patches[0].remarks[0]
        assert Registry("models").scope == __name__.partition(".")[0]


@pytest.mark.parametrize("output", ["table", "json"])
def test_the_command_says_so(
    frames: None, make_package: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    from patchcore.cli import main

    plugin = """
        import patchcore as pc

        @pc.wrap("frames:direct", name="frames.direct")
        def through(original): return original()

        @pc.hookimpl
        def register_patches(): return [through]
        """
    make_package({"framing": plugin})
    monkeypatch.setenv("PATCHCORE_MODULES", "framing")
    monkeypatch.setenv("PATCHCORE_PLUGINS", "")
    assert main(["plan", "--format", output]) == 0
    assert remark("direct") in " ".join(capsys.readouterr().out.split())
    assert "frames" not in sys.modules
