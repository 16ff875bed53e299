"""TorchScript reads source: what it compiles calls the patch, or raises; it never goes without the patch silently."""

from __future__ import annotations

import functools
import inspect
import io
import pickle
import sys
from typing import Any, Callable

import pytest

import patchcore as pc
from patchcore.objects.binding import wrap_raw
from patchcore.objects.extensions import Extensions, using
from patchcore_torch.torchscript import mark

LIBRARY = """
import torch
import torch.nn.functional as F
from torch import Tensor
from typing import List, Optional, Tuple

def op(x, y):
    return x + y

def typed(x: Tensor, n: int = 2, flag: bool = False, *, scale: float) -> Tensor:
    return x * n * scale

def several(x: Tensor, n: int) -> Tuple[Tensor, int]:
    return x, n

def untyped(x):
    return x, 3

def listed(xs: List[Tensor], out: Optional[Tensor] = None):
    return torch.stack(xs).sum(0) if out is None else out

def commented(x, n):
    # type: (Tensor, int) -> Tensor
    return x * n

def uses_op(x): return op(x, x)
def uses_typed(x): return typed(x, 3, scale=0.5) + typed(x, scale=2.0)
def uses_several(x):
    a, b = several(x, 3)
    return a * b
def uses_untyped(x):
    a, b = untyped(x)
    return a * b
def uses_listed(x): return listed([x, x])
def uses_commented(x): return commented(x, 4)
def uses_relu(x): return F.relu(x)

@torch.jit.ignore
def ignored(x): return x.sum().item() and x
def uses_ignored(x): return ignored(x)

class Calls(torch.nn.Module):
    def forward(self, x): return op(x, x)

class Methods(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))
    def forward(self, x): return self.helper(x) + self.weight
    def helper(self, x): return x * 2
    @torch.jit.export
    def exported(self, x): return x * 5
    @staticmethod
    def static(x): return x + 3

class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))
    def forward(self, x): return x + self.weight

class Outer(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, x): return self.inner(x)
"""

USERS = {
    "op": "uses_op",
    "typed": "uses_typed",
    "several": "uses_several",
    "untyped": "uses_untyped",
    "listed": "uses_listed",
    "commented": "uses_commented",
    "ignored": "uses_ignored",
}
HOW = ["wrapped", "declared", "chosen", "not chosen", "counted"]


@pytest.fixture
def lib(torch: Any, make_package: Any) -> Any:
    make_package({"scripted": LIBRARY})
    import scripted

    return scripted


def more(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the original gives, with 100 added to the first tensor in it."""
    found = original(*args, **kwargs)
    return (found[0] + 100, *found[1:]) if isinstance(found, tuple) else found + 100


def declared(original: Any) -> Any:
    """A wrapper that declares the parameters of ``original`` and does as ``more`` does."""
    parameters = inspect.signature(original).parameters.values()
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    passed = [f"{one.name}={one.name}" if one.kind is one.KEYWORD_ONLY else one.name for one in plain]
    header = f"(original, {str(inspect.Signature(plain))[1:]}"
    namespace: dict[str, Any] = {"more": more}
    exec(f"def wrapper{header}: return more(original, {', '.join(passed)})", namespace)
    return namespace["wrapper"]


def patched(target: str, how: str) -> pc.Patcher:
    module, _, path = target.partition(":")
    original = functools.reduce(getattr, path.split("."), __import__(module, fromlist=["x"]))
    change: pc.Change = pc.Wrap(target, declared(original) if how == "declared" else more)
    if how in ("chosen", "not chosen"):
        replacement = functools.partial(more, original)
        change = pc.Replace(target, lambda *a, **k: replacement(*a, **k), when_call=lambda *a, **k: how == "chosen")
    return pc.Patcher([pc.Patch("more", change)], strict=True, count=how == "counted")


def same(torch: Any, one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return len(one) == len(other) and all(same(torch, a, b) for a, b in zip(one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", USERS)
def test_a_scripted_function_calls_the_patch(torch: Any, lib: Any, name: str, how: str) -> None:
    x, user = torch.ones(2), getattr(lib, USERS[name])
    before = user(x)
    with patched(f"scripted:{name}", how):
        expected = user(x)
        assert same(torch, expected, before) == (how == "not chosen")
        assert same(torch, torch.jit.script(user)(x), expected)
        assert same(torch, torch.jit.trace(user, (x,), check_trace=False)(x), expected)


@pytest.mark.parametrize("how", HOW)
def test_a_patched_function_can_be_scripted_itself(torch: Any, lib: Any, how: str) -> None:
    x, original = torch.ones(2), lib.op
    with patched("scripted:op", how):
        expected = lib.op(x, x)
        assert torch.equal(torch.jit.script(lib.op)(x, x), expected)
        assert torch.equal(torch.jit.script(lib.op)(x, y=x), expected)
    assert lib.op is original
    assert torch.equal(torch.jit.script(lib.op)(x, x), x + x)


@pytest.mark.parametrize("how", HOW)
def test_a_scripted_module_calls_the_patch(torch: Any, lib: Any, how: str) -> None:
    x = torch.ones(2)
    with patched("scripted:op", how):
        expected = lib.Calls()(x)
        assert torch.equal(torch.jit.script(lib.Calls())(x), expected)
        assert torch.equal(torch.jit.script(lib.Outer(lib.Calls()))(x), expected)
        assert torch.equal(torch.jit.trace(lib.Calls(), (x,))(x), expected)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    ("target", "method"),
    [("Plain.forward", "forward"), ("Methods.helper", "forward"), ("Methods.exported", "exported")],
)
def test_a_patched_method_of_a_scripted_module_is_called(
    torch: Any, lib: Any, target: str, method: str, how: str
) -> None:
    x, klass = torch.ones(2), getattr(lib, target.partition(".")[0])
    with patched(f"scripted:{target}", how):
        module = klass()
        expected = getattr(module, method)(x)
        assert torch.equal(getattr(torch.jit.script(module), method)(x), expected)
        if method == "forward":
            assert torch.equal(torch.jit.script(lib.Outer(klass()))(x), expected)
            assert torch.equal(torch.jit.trace(klass(), (x,))(x), expected)


@pytest.mark.parametrize("how", HOW)
def test_functions_of_torch_are_patched_for_scripts_too(torch: Any, lib: Any, how: str) -> None:
    x = torch.ones(2)
    with patched("torch.nn.functional:relu", how):
        expected = lib.uses_relu(x)
        assert torch.equal(torch.jit.script(lib.uses_relu)(x), expected)

        class Uses(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.activation = torch.nn.Sequential(torch.nn.Identity())

            def forward(self, x):
                return self.activation(x)

        assert torch.equal(torch.jit.script(Uses())(x), x)


def test_patches_on_top_of_each_other_are_all_called(torch: Any, lib: Any) -> None:
    x = torch.ones(2)
    low, high = (
        pc.Patch("low", pc.Wrap("scripted:typed", more)),
        pc.Patch("high", pc.Wrap("scripted:typed", more), after=["low"]),
    )
    with pc.Patcher([low, high], strict=True):
        assert torch.equal(torch.jit.script(lib.typed)(x, scale=1.0), x * 2 + 200)


def test_gradients_flow_through_a_script_that_calls_a_patch(torch: Any, lib: Any) -> None:
    x = torch.ones(2, requires_grad=True)
    with patched("scripted:op", "wrapped"):
        torch.jit.script(lib.Calls())(x).sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 2.0))


# --- limits, each with an error ------------------------------------------------------------------------------------


@pytest.mark.limit(
    "A script that calls a patched function calls Python there, so that `torch.jit.save` cannot save it",
    told="the error of `torch.jit.save` names the function",
)
def test_a_script_that_calls_a_patch_cannot_be_saved(torch: Any, lib: Any) -> None:
    with patched("scripted:op", "wrapped"):
        scripted = torch.jit.script(lib.Calls())
        with pytest.raises(RuntimeError, match="Could not export Python function call 'op'"):
            torch.jit.save(scripted, io.BytesIO())


@pytest.mark.limit(
    "A patched function whose original TorchScript cannot compile (one written in C, or `F.max_pool2d` and "
    "`torch.norm`, which choose among several) cannot be called by a script",
    told="the error of `torch.jit.script` names the function and its patches",
)
@pytest.mark.parametrize("target", ["torch:relu", "torch.nn.functional:max_pool2d"])
def test_what_cannot_be_compiled_is_refused_by_name(torch: Any, lib: Any, target: str) -> None:
    function = functools.partial(eval, target.replace(":", "."), {"torch": torch})
    with patched(target, "wrapped"):
        with pytest.raises(RuntimeError, match=f"TorchScript cannot call {target}, which is patched by more"):
            torch.jit.script(function())
    if target == "torch.nn.functional:max_pool2d":
        assert torch.jit.script(torch.nn.MaxPool2d(2))(torch.ones(1, 1, 2, 2)).item() == 1


@pytest.mark.limit(
    "A patched method of a scripted module runs in Python, on the scripted module: it finds no other methods there, "
    "unless they are marked `torch.jit.export`",
    told="an error when it is called: the scripted module has no attribute of that name",
)
@pytest.mark.parametrize("how", ["wrapped", "not chosen"])
def test_a_patched_forward_that_calls_other_methods_fails_and_does_not_go_without_the_patch(
    torch: Any, lib: Any, how: str
) -> None:
    with patched("scripted:Methods.forward", how):
        scripted = torch.jit.script(lib.Methods())
        with pytest.raises(AttributeError, match="no attribute 'helper'"):
            scripted(torch.ones(2))
        with pytest.raises(RuntimeError, match="AttributeError"):
            torch.jit.script(lib.Outer(lib.Methods()))(torch.ones(2))


@pytest.mark.limit(
    "TorchScript keeps what it has compiled: a function or a class of modules that was scripted before a patch was "
    "applied stays as it was, also when it is scripted again, and after a revert what was scripted under the patch "
    "still calls it",
    told="here; apply patches before anything is scripted",
)
def test_what_was_scripted_before_the_patch_stays_as_it_was(torch: Any, lib: Any) -> None:
    x = torch.ones(2)
    scripted = torch.jit.script(lib.uses_op)
    with patched("scripted:op", "wrapped"):
        assert torch.equal(scripted(x), x + x)
        assert torch.equal(torch.jit.script(lib.op)(x, x), x + x + 100)
    assert torch.equal(torch.jit.script(lib.op)(x, x), x + x)


# --- what stays as it is -------------------------------------------------------------------------------------------


def test_marks_of_the_original_are_kept(torch: Any, lib: Any) -> None:
    from torch._jit_internal import FunctionModifiers, is_ignored_fn

    with patched("scripted:ignored", "wrapped"):
        assert is_ignored_fn(lib.ignored)
        assert lib.ignored._torchscript_modifier is FunctionModifiers.IGNORE
    with patched("scripted:op", "wrapped"):
        assert not is_ignored_fn(lib.op)


@pytest.mark.parametrize("how", HOW)
def test_signatures_sources_and_pickles_are_as_without_torchscript(torch: Any, lib: Any, how: str) -> None:
    original = lib.typed
    signature, source = inspect.signature(original), inspect.getsource(original)
    with patched("scripted:typed", how):
        assert inspect.signature(lib.typed) == signature
        assert inspect.getsource(lib.typed) == source
        assert pickle.loads(pickle.dumps(lib.typed)) is lib.typed
        torch.jit.script(lib.typed)
        assert pickle.loads(pickle.dumps(lib.typed)) is lib.typed
        assert inspect.unwrap(lib.typed) is pc.original("scripted:typed")


@pytest.mark.libraries("torch")
def test_methods_that_were_patched_before_torch_is_loaded_are_marked_with_the_first_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def method(self: Any) -> None: ...

    extensions = Extensions(marks=[mark])
    extensions.load(lambda function: function)
    with using(extensions):
        with monkeypatch.context() as without:
            without.delitem(sys.modules, "torch._jit_internal", raising=False)
            early = wrap_raw(method, more, in_class=True)
            assert vars(early) == {"__wrapped__": method}
        late = wrap_raw(method, more, in_class=True)
    assert vars(early).keys() == vars(late).keys() == {"__wrapped__", "_torchscript_modifier"}


@pytest.mark.libraries("torch")
def test_a_function_that_is_patched_before_torch_is_loaded_is_called_by_scripts(
    make_package: Callable[..., Any], run_python: Callable[..., str]
) -> None:
    make_package({"plain": "def op(x, y):\n    return x + y\n"})
    printed = run_python(
        """
        import sys
        import patchcore as pc
        import plain

        patch = pc.Patch("own", [pc.Wrap("plain:op", lambda original, x, y: original(x, y) * 10)])
        with pc.Patcher([patch], strict=True):
            assert "torch" not in sys.modules
            import torch

            print(torch.jit.script(plain.op)(torch.ones(1), torch.ones(1)).item())
        """
    )
    assert printed.split() == ["20.0"]
