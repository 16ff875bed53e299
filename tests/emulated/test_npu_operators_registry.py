"""The table of emulated operators: what the dispatcher is told, and what is refused."""

from __future__ import annotations

import inspect
import os
import subprocess
from pathlib import Path

import pytest
import torch
from npu_operators import doubles, on_device
from torch._subclasses.fake_tensor import FakeTensorMode

from npu_emulator.errors import NotEmulated
from npu_emulator.torch_npu import ops
from npu_emulator.torch_npu.ops import registry

LIST = Path(__file__).with_name("torch_npu_schemas.txt")


def parsed(schema: str) -> torch.FunctionSchema:
    """Return what torch reads from a line of the list or of the table."""
    return torch._C.parse_schema(f"{registry.NAMESPACE}::{schema}")


OVERLOADS = [pytest.param(declared, id=declared.qualified_name) for declared in registry.operators()]


class TestSchemas:
    @pytest.mark.parametrize("declared", OVERLOADS)
    def test_agree_with_their_references(self, declared: registry.Operator) -> None:
        arguments = torch._C.parse_schema(f"{registry.NAMESPACE}::{declared.schema}").arguments
        parameters = list(inspect.signature(declared.reference).parameters.values())
        assert [parameter.name for parameter in parameters] == [argument.name for argument in arguments]
        for parameter, argument in zip(parameters, arguments):
            assert (parameter.kind is parameter.KEYWORD_ONLY) == argument.kwarg_only, argument.name
            assert (parameter.default is not parameter.empty) == argument.has_default_value(), argument.name
            if argument.has_default_value():
                default = parameter.default
                assert (list(default) if isinstance(default, tuple) else default) == argument.default_value

    @pytest.mark.parametrize("declared", OVERLOADS)
    def test_are_what_torch_has(self, declared: registry.Operator) -> None:
        overload = declared.qualified_name.partition(".")[2] or "default"
        found = getattr(getattr(torch.ops.npu, declared.name), overload)._schema
        assert found == torch._C.parse_schema(f"{registry.NAMESPACE}::{declared.schema}")

    def test_are_those_of_torch_npu(self) -> None:
        """The list is what torch_npu 2.13.0 registers under these names."""
        ours = {str(parsed(declared.schema)) for declared in registry.operators()}
        assert ours == {str(parsed(line)) for line in LIST.read_text().splitlines()}

    @pytest.mark.skipif(os.environ.get("TORCH_NPU_PYTHON") is None, reason="TORCH_NPU_PYTHON names no Python")
    def test_the_list_is_that_of_an_installed_wheel(self) -> None:
        """``TORCH_NPU_PYTHON`` is a Python with the real torch_npu, of whatever release it has."""
        program = "import torch, torch_npu; print(*torch._C._jit_get_all_schemas(), sep=chr(10))"
        command = [os.environ["TORCH_NPU_PYTHON"], "-W", "ignore", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
        assert {str(parsed(line)) for line in LIST.read_text().splitlines()} <= set(done.stdout.splitlines())

    def test_are_declared_once(self) -> None:
        with pytest.raises(ValueError, match="npu::npu_swiglu is declared twice"):
            registry.operator("npu_swiglu(Tensor input, int dim=-1) -> Tensor")(lambda input, dim=-1: input)


class TestLookup:
    def test_finds_operators(self) -> None:
        assert ops.lookup("npu_swiglu") is torch.ops.npu.npu_swiglu

    def test_names_what_is_not_emulated(self) -> None:
        with pytest.raises(NotEmulated, match=r"torch_npu\.npu_gru is not emulated; .*names\(\) lists") as caught:
            ops.lookup("npu_gru")
        assert isinstance(caught.value, AttributeError)

    def test_registering_again_changes_nothing(self) -> None:
        before = torch.ops.npu.npu_swiglu
        ops.register()
        assert torch.ops.npu.npu_swiglu is before

    def test_names_of_old_say_where_operators_are(self, device: str) -> None:
        with pytest.raises(RuntimeError, match=r"torch\.npu_swiglu is deprecated .* use torch_npu\.npu_swiglu instead"):
            torch.npu_swiglu(torch.randn(2, 4, device=device))


class TestDevices:
    def test_tensors_of_the_cpu_are_refused_as_on_hardware(self) -> None:
        with pytest.raises(NotImplementedError, match=r"Could not run 'npu::npu_swiglu' .* 'CPU' backend.*\.npu\(\)"):
            torch.ops.npu.npu_swiglu(torch.randn(2, 4))

    def test_one_tensor_of_the_cpu_among_others_is_refused(self, device: str) -> None:
        with pytest.raises(NotImplementedError, match="'CPU' backend"):
            torch.ops.npu.npu_rms_norm(torch.randn(2, 4, device=device), torch.randn(4))

    def test_results_stay_on_the_device_of_their_arguments(self, device: str) -> None:
        last = torch.npu.device_count() - 1
        argument = torch.randn(2, 4, device=f"{device}:{last}")
        assert torch.ops.npu.npu_swiglu(argument).device == argument.device


class TestGradients:
    def test_only_differentiable_outputs_require_them(self, device: str) -> None:
        argument = doubles(2, 4, requires_grad=True)
        normalized, reciprocal = on_device(device, "npu_rms_norm", argument, torch.ones(4, dtype=torch.float64))
        assert normalized.requires_grad
        assert not reciprocal.requires_grad

    def test_operators_without_a_derivative_return_none(self, device: str) -> None:
        argument = doubles(2, 4, requires_grad=True)
        outputs = on_device(device, "npu_add_rms_norm", argument, argument, torch.ones(4, dtype=torch.float64))
        assert [output.requires_grad for output in outputs] == [False, False, False]


class TestAutocast:
    def test_does_not_see_inside_an_operator(self, device: str) -> None:
        query = doubles(1, 2, 3, 4).float()
        expected = on_device(device, "npu_fusion_attention", query, query, query, 2, "BNSD")[0]
        with torch.autocast(device, dtype=torch.bfloat16):
            found = on_device(device, "npu_fusion_attention", query, query, query, 2, "BNSD")[0]
            outside = query.to(device) @ query.to(device).mT
        assert outside.dtype == torch.bfloat16
        assert torch.equal(found, expected)


class TestCompilation:
    def test_operators_trace_into_one_graph(self, device: str) -> None:
        def layer(x: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
            return torch.ops.npu.npu_swiglu(torch.ops.npu.npu_rms_norm(x, gamma)[0])

        arguments = torch.randn(3, 8, device=device), torch.randn(8, device=device)
        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(*arguments), layer(*arguments))

    def test_fake_tensors_have_shapes_and_devices(self, device: str) -> None:
        with FakeTensorMode():
            query = torch.empty(2, 4, 6, 8, device=device)
            output, maximum, *_ = torch.ops.npu.npu_fusion_attention(query, query, query, 4, "BNSD")
        assert (output.shape, maximum.shape) == ((2, 4, 6, 8), (2, 4, 6, 8))
        assert output.device.type == maximum.device.type == torch.device(device).type
