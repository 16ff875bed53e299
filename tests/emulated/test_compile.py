"""torch.compile, fake tensors, custom operators, modes and subclasses on the emulated NPU."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from comparing import NPU, assert_same
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    """Forget what earlier tests compiled."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
class TestCompiled:
    def test_inference(self, backend: str) -> None:
        def function(x: Tensor, y: Tensor) -> Tensor:
            return (x @ y).relu() + torch.arange(3, device=x.device)

        x, y = torch.randn(3, 3), torch.randn(3, 3)
        compiled = torch.compile(function, backend=backend, fullgraph=True)
        assert_same(compiled(x.npu(), y.npu()), function(x, y), rtol=1e-5, atol=1e-6)

    def test_training(self, backend: str) -> None:
        ours = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        theirs = copy.deepcopy(ours).npu()
        compiled = torch.compile(theirs, backend=backend)
        x = torch.randn(6, 4)
        for model, inputs in ((ours, x), (compiled, x.npu())):
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(2):
                optimizer.zero_grad()
                model(inputs).square().mean().backward()
                optimizer.step()
        assert_same(dict(theirs.state_dict()), dict(ours.state_dict()), rtol=1e-4, atol=1e-5)

    def test_graph_breaks_devices_and_autocast(self, backend: str) -> None:
        seen = []

        def function(x: Tensor) -> Tensor:
            y = x.to("npu:1") + 1
            seen.append(float(y.sum()))
            with torch.autocast("npu", torch.bfloat16):
                return y @ y

        result = torch.compile(function, backend=backend)(torch.ones(2, 2, device="npu"))
        assert seen == [8]
        assert (result.device, result.dtype) == (torch.device("npu", 1), torch.bfloat16)

    def test_other_shapes(self, backend: str) -> None:
        compiled = torch.compile(lambda x: x.sum() * x.shape[0], backend=backend, dynamic=True)
        for length in (2, 5, 9):
            assert float(compiled(torch.ones(length, device="npu"))) == length**2


class TestFakeTensor:
    def test_shapes_and_devices_without_memory(self) -> None:
        before = torch.npu.memory_allocated()
        with FakeTensorMode():
            x = torch.empty(2**20, 2**10, device="npu")
            y = (x @ torch.empty(2**10, 8, device="npu")).softmax(1)
        assert (y.shape, y.device) == ((2**20, 8), NPU)
        assert torch.npu.memory_allocated() == before

    def test_from_a_real_tensor(self) -> None:
        with FakeTensorMode() as mode:
            fake = mode.from_tensor(torch.zeros(2, 3, device="npu:1"))
            assert (fake.T @ fake).device == torch.device("npu", 1)

    def test_layers_and_gradients(self) -> None:
        with FakeTensorMode():
            layer = nn.Conv2d(3, 4, 3, device="npu")
            layer(torch.empty(1, 3, 8, 8, device="npu")).sum().backward()
            assert layer.weight.grad.device == NPU
            assert layer.weight.grad.shape == (4, 3, 3, 3)

    def test_mixed_devices_are_refused(self) -> None:
        with FakeTensorMode(), pytest.raises(RuntimeError, match=r"(?i)device"):
            torch.empty(2, device="npu") + torch.empty(2)


class TestCustomOperators:
    def test_an_operator_for_the_npu_alone(self) -> None:
        @torch.library.custom_op("emulated_tests::double", mutates_args=(), device_types="npu")
        def double(x: Tensor) -> Tensor:
            assert x.is_npu
            return x * 2

        @double.register_fake
        def _(x: Tensor) -> Tensor:
            return torch.empty_like(x)

        double.register_autograd(lambda ctx, gradient: gradient * 2)
        leaf = torch.ones(3, device="npu", requires_grad=True)
        result = torch.ops.emulated_tests.double(leaf)
        result.sum().backward()
        assert_same((result.detach(), leaf.grad), (torch.full((3,), 2.0),) * 2)
        with pytest.raises(NotImplementedError, match="double"):
            torch.ops.emulated_tests.double(torch.ones(3))
        # Not test_autograd_registration: torch has it for CPU, CUDA and XPU only.
        checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
        torch.library.opcheck(double, (torch.ones(3, device="npu", requires_grad=True),), test_utils=checks)

    def test_a_kernel_by_dispatch_key(self) -> None:
        library = torch.library.Library("emulated_tests_keys", "DEF")
        library.define("where_am_i(Tensor x) -> Tensor")
        library.impl("where_am_i", lambda x: x + 1, "PrivateUse1")
        library.impl("where_am_i", lambda x: x - 1, "CPU")
        assert_same(torch.ops.emulated_tests_keys.where_am_i(torch.zeros(2, device="npu")), torch.ones(2))
        assert torch.ops.emulated_tests_keys.where_am_i(torch.zeros(2)).tolist() == [-1, -1]

    def test_an_operator_with_a_kernel_for_the_cpu_alone_runs_by_fallback(self) -> None:
        library = torch.library.Library("emulated_tests_cpu", "DEF")
        library.define("negate(Tensor x) -> Tensor")
        library.impl("negate", lambda x: -x, "CPU")
        assert_same(torch.ops.emulated_tests_cpu.negate(torch.ones(2, device="npu")), -torch.ones(2))


class Recording(TorchDispatchMode):
    """Notes the operators that are called, and the devices of their results."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.calls.append((function.overloadpacket.__name__, result.device.type))
        return result


class Doubled(Tensor):
    """A tensor that wraps another and doubles every result, by dispatch."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> Doubled:
        return Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        unwrapped = [arg.inner if isinstance(arg, Doubled) else arg for arg in args]
        return cls(function(*unwrapped, **(kwargs or {})) * 2)


class Tagged(Tensor):
    """A tensor that stays of its class, by function."""


class TestModesAndSubclasses:
    def test_a_dispatch_mode_sees_the_operators(self) -> None:
        with Recording() as recording:
            x = torch.ones(2, 2, device="npu")
            (x @ x).relu().add_(1)
        assert recording.calls == [("ones", "npu"), ("mm", "npu"), ("relu", "npu"), ("add_", "npu")]

    def test_a_function_mode_sees_the_functions(self) -> None:
        class Functions(TorchFunctionMode):
            def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                names.append(function.__name__)
                return function(*args, **(kwargs or {}))

        names: list[str] = []
        with Functions():
            torch.ones(2, device="npu").exp()
        assert names == ["ones", "exp"]

    def test_operations_are_counted(self) -> None:
        with FlopCounterMode(display=False) as counter:
            torch.ones(2, 3, device="npu") @ torch.ones(3, 4, device="npu")
        assert counter.get_total_flops() == 2 * 2 * 3 * 4

    def test_a_wrapper_subclass(self) -> None:
        result = Doubled(torch.ones(2, device="npu")) + torch.ones(2, device="npu")
        assert isinstance(result, Doubled)
        assert result.device == NPU
        assert_same(result.inner, torch.full((2,), 4.0))

    def test_a_subclass_that_shares_memory(self) -> None:
        tensor = torch.ones(2, device="npu")
        tagged = tensor.as_subclass(Tagged)
        assert type(tagged + 1) is Tagged
        tagged.zero_()
        assert tensor.tolist() == [0, 0]
        assert type(nn.Parameter(tensor)) is nn.Parameter
