"""Patched functions of torch run once, and are the original again after revert, however torch calls them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Callable

import pytest

import patchcore as pc

#: Functions by target, and a call of each.
FUNCTIONS = {
    "torch.nn.functional:relu": "F.relu(x)",
    "torch.nn.functional:softmax": "F.softmax(x, dim=0)",
    "torch.nn.functional:layer_norm": "F.layer_norm(x, (2,))",
    "torch.functional:einsum": "torch.einsum('i,i->i', x, x)",
    "torch.functional:norm": "torch.norm(x, dim=0)",
    "torch:Tensor.norm": "x.norm(dim=0)",
    "torch:Tensor.clamp": "x.clamp(0)",
    "torch:sigmoid": "torch.sigmoid(x)",
    "torch.nn.functional:gelu": "F.gelu(x)",
    "torch.nn.functional:max_pool2d": "F.max_pool2d(x[None, None], 1)",
    "torch.functional:meshgrid": "torch.meshgrid(x, indexing='ij')[0]",
}

pytestmark = pytest.mark.libraries("torch")


def call_of(target: str) -> Callable[[Any], Any]:
    import torch

    code: Callable[[Any], Any] = eval(f"lambda x: {FUNCTIONS[target]}", {"torch": torch, "F": torch.nn.functional})
    return code


def patched(*targets: str) -> pc.Patcher:
    def more(original: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        return tuple(value + 100 for value in found) if isinstance(found, (tuple, list)) else found + 100

    return pc.Patcher([pc.Patch("p", [pc.Wrap(target, more) for target in targets])], strict=True)


def under_a_device(call: Callable[[Any], Any]) -> Any:
    import torch

    with torch.device("cpu"):
        return call(torch.ones(2))


def of_a_subclass(call: Callable[[Any], Any]) -> Any:
    import torch

    class Sub(torch.Tensor):
        pass

    return call(torch.ones(2).as_subclass(Sub)).as_subclass(torch.Tensor)


def of_a_parameter(call: Callable[[Any], Any]) -> Any:
    import torch

    return call(torch.nn.Parameter(torch.ones(2))).detach()


def under_functorch(call: Callable[[Any], Any]) -> Any:
    import torch

    return torch.func.vmap(call)(torch.ones(1, 2))[0]


def compiled(backend: str) -> Callable[[Callable[[Any], Any]], Any]:
    def run(call: Callable[[Any], Any]) -> Any:
        import torch

        torch._dynamo.reset()
        return torch.compile(call, backend=backend, fullgraph=True)(torch.ones(2))

    return run


def traced(call: Callable[[Any], Any]) -> Any:
    import torch

    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return call(x)

    return torch.fx.symbolic_trace(Net())(torch.ones(2))


def exported(strict: bool) -> Callable[[Callable[[Any], Any]], Any]:
    def run(call: Callable[[Any], Any]) -> Any:
        import torch

        class Net(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                return call(x)

        return torch.export.export(Net(), (torch.ones(2),), strict=strict).module()(torch.ones(2))

    return run


def of_a_distributed_tensor(call: Callable[[Any], Any]) -> Any:
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor import Replicate, distribute_tensor

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = dist.init_device_mesh("cpu", (1,))
        return call(distribute_tensor(torch.ones(2), mesh, [Replicate()])).full_tensor()
    finally:
        dist.destroy_process_group()


def of_a_fake_tensor(call: Callable[[Any], Any]) -> Any:
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(call, tracing_mode="fake")(torch.ones(2))(torch.ones(2))


WAYS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "a device": under_a_device,
    "a subclass": of_a_subclass,
    "a parameter": of_a_parameter,
    "a distributed tensor": of_a_distributed_tensor,
    "a fake tensor": of_a_fake_tensor,
    "functorch": under_functorch,
    "compile, eager": compiled("eager"),
    "compile, aot_eager": compiled("aot_eager"),
    "fx": traced,
    "export": exported(strict=False),
    "export, strict": exported(strict=True),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", FUNCTIONS)
def test_a_patch_of_a_function_of_torch_runs_once(torch: Any, target: str, way: str) -> None:
    if (target, way) == ("torch:sigmoid", "compile, eager"):
        pytest.skip("the limit below")
    call = call_of(target)
    plain = call(torch.ones(2))
    with patched(target):
        assert torch.allclose(WAYS[way](call), plain + 100)
    assert torch.equal(WAYS[way](call), plain)


@pytest.mark.limit(
    "`torch.compile` with the back end `eager` calls functions of torch that are written in C by their names: a patch "
    "of `torch.sigmoid` runs while the graph is made, and again in the graph",
    told="here; the other back ends call operators",
)
def test_a_graph_of_the_back_end_eager_calls_the_name(torch: Any) -> None:
    call = call_of("torch:sigmoid")
    plain = call(torch.ones(2))
    with patched("torch:sigmoid"):
        assert torch.allclose(compiled("eager")(call), plain + 200)


def test_a_mode_sees_the_function_that_is_called_and_once(torch: Any) -> None:
    from torch.overrides import TorchFunctionMode

    seen = []

    class Counting(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function)
            return function(*args, **(kwargs or {}))

    relu = torch.nn.functional.relu
    with patched("torch.nn.functional:relu"), Counting():
        relu(torch.ones(2))
    assert seen.count(relu) == 1


def test_a_graph_that_was_traced_while_patched_is_the_original_again(torch: Any, make_package: Any) -> None:
    make_package(
        {
            "net": """
                import torch
                class Net(torch.nn.Module):
                    def forward(self, x): return torch.nn.functional.relu(x)
            """
        }
    )
    import net

    x = torch.ones(2)
    with patched("torch.nn.functional:relu"):
        graph, script = torch.fx.symbolic_trace(net.Net()), torch.jit.script(net.Net())
        assert torch.equal(graph(x), x + 100)
        assert torch.equal(script(x), x + 100)
    assert torch.equal(graph(x), x)
    assert torch.equal(script(x), x)


@pytest.mark.parametrize("target", FUNCTIONS)
def test_what_is_compiled_follows_a_patch_and_its_revert(torch: Any, target: str) -> None:
    torch._dynamo.reset()
    x = torch.ones(2)
    compiled_call = torch.compile(call_of(target), backend="aot_eager")
    plain = compiled_call(x)
    for _ in range(2):
        with patched(target):
            assert torch.allclose(compiled_call(x), plain + 100)
        assert torch.equal(compiled_call(x), plain)


def test_a_function_of_c_that_is_patched_before_dynamo_looks_for_functions_is_itself_after_revert(torch: Any) -> None:
    call, x = call_of("torch:sigmoid"), torch.ones(2)
    torch._dynamo.trace_rules.get_torch_obj_rule_map.cache_clear()
    with patched("torch:sigmoid"):
        assert torch.allclose(compiled("aot_eager")(call), torch.sigmoid(x))
    for _ in range(2):
        assert torch.equal(compiled("aot_eager")(call), torch.sigmoid(x))
        with patched("torch:sigmoid"):
            assert torch.allclose(compiled("aot_eager")(call), torch.sigmoid(x))


COMPILING = """
import sys, torch, patchcore as pc
import torch.nn.functional as F
targets = ["torch.nn.functional:relu", "torch:Tensor.clamp"]
def more(original, *args, **kwargs): return original(*args, **kwargs) + 100
patcher = pc.Patcher([pc.Patch("p", [pc.Wrap(target, more) for target in targets])], strict=True)
if "early" in sys.argv: patcher.apply()
x = torch.ones(2)
call = torch.compile(lambda x: F.relu(x) + x.clamp(0))
print(call(x).tolist()[0])
if "late" in sys.argv:
    patcher.apply()
    print(call(x).tolist()[0])
    patcher.revert()
    print(call(x).tolist()[0], torch._functorch.config.enable_autograd_cache)
"""


@pytest.mark.slow  # a compiler of C++ runs
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor compiles C++")
def test_what_inductor_keeps_on_disk_is_of_the_patch_or_of_the_original(tmp_path: Path) -> None:
    """A cache that is shared with later processes knows functions of torch by name."""
    variables = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}

    def run(*args: str) -> list[str]:
        command = [sys.executable, "-W", "ignore", "-c", COMPILING, *args]
        return subprocess.run(command, env=variables, check=True, capture_output=True, text=True).stdout.split()

    assert run() == ["2.0"]
    assert run("early") == ["202.0"]
    assert run("late") == ["2.0", "202.0", "2.0", "True"]


def test_the_cache_is_off_when_functions_are_patched_while_torch_is_imported() -> None:
    source = """
        import patchcore as pc
        def more(original, *args, **kwargs): return original(*args, **kwargs) + 100
        patch = pc.Patch("p", [pc.Wrap("torch.nn.functional:relu", more)])
        patcher = pc.Patcher([patch], strict=True)
        patcher.apply()
        import torch, torch._functorch.config as config
        torch.nn.functional.relu(torch.ones(2))  # as dynamo does while it traces
        print(config.enable_autograd_cache)
        patcher.revert()
        print(config.enable_autograd_cache)
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(source)]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() == ["False", "True"]


OVERLOADED = {
    "torch.nn.functional:interpolate": "F.interpolate(x[None, None], 4)",
    "torch.nn.functional:upsample": "F.upsample(x[None, None], 4)",
    "torch.functional:norm": "torch.norm(x)",
    "torch.functional:tensordot": "torch.tensordot(x, x, 1)",
}


@pytest.mark.parametrize("target", OVERLOADED)
@pytest.mark.filterwarnings("ignore")
def test_a_script_calls_the_patch_of_a_function_with_overloads_or_names_it(
    torch: Any, make_package: Any, target: str
) -> None:
    source = f"import torch\nimport torch.nn.functional as F\ndef call(x):\n    return {OVERLOADED[target]}"
    make_package(dict.fromkeys(("one", "two"), source))
    import one
    import two

    x = torch.ones(2)
    with patched(target):
        if target == "torch.nn.functional:interpolate":
            assert torch.equal(torch.jit.script(one.call)(x), one.call(x))
        else:
            with pytest.raises(RuntimeError, match=f"cannot call {target}, which is patched by p"):
                torch.jit.script(one.call)
    assert torch.equal(torch.jit.script(two.call)(x), two.call(x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_patch_after_the_first_compiled_call_is_seen_in_submodules_too(
    torch: Any, make_package: Any, backend: str
) -> None:
    make_package(
        {
            "net": """
                import torch
                def act(x): return x + 1
                class Act(torch.nn.Module):
                    def forward(self, x): return x * 2
                class Net(torch.nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.act = Act()
                    def forward(self, x): return act(self.act(x))
            """
        }
    )
    import net

    torch._dynamo.reset()
    x = torch.ones(2)
    model = torch.compile(net.Net(), backend=backend)
    assert torch.equal(model(x), x + 2)
    for target, result in (("net:Act.forward", 103), ("net:act", 103), ("net:Net.forward", 103)):
        with patched(target):
            assert torch.equal(model(x), torch.full((2,), float(result))), target
        assert torch.equal(model(x), x + 2), target
    for _ in range(5):
        with patched("net:Act.forward"):
            assert torch.equal(model(x), x + 102)
        assert torch.equal(model(x), x + 2)
