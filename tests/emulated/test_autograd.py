"""Automatic differentiation, function transforms and activation checkpoints."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from comparing import NPU, agree, assert_same
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop


class Cube(torch.autograd.Function):
    """The cube of a tensor, with a derivative written by hand."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        assert gradient.device == x.device
        return 3 * x**2 * gradient


class TestAutograd:
    def test_custom_functions(self) -> None:
        agree(Cube.apply, torch.linspace(-1, 1, 5).requires_grad_())

    def test_gradcheck(self) -> None:
        x = torch.randn(3, dtype=torch.float64, device="npu", requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: (x.sin() * x).cumsum(0), x)

    def test_hooks_on_tensors_modules_and_accumulation(self) -> None:
        seen = []
        layer = nn.Linear(2, 2).npu()
        layer.weight.register_hook(lambda gradient: gradient * 2)
        layer.weight.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad.device))
        layer.register_full_backward_hook(lambda module, inputs, outputs: seen.append(outputs[0].device))
        layer(torch.ones(1, 2, device="npu", requires_grad=True)).sum().backward()
        assert_same(layer.weight.grad, torch.full((2, 2), 2.0))
        assert seen == [NPU, NPU]

    def test_errors_in_backward_reach_the_caller(self) -> None:
        leaf = torch.ones(2, device="npu", requires_grad=True)
        middle = leaf * 2

        def refuse(gradient: Tensor) -> None:
            raise LookupError("from the hook")

        middle.register_hook(refuse)
        with pytest.raises(LookupError, match="from the hook"):
            middle.sum().backward()

    def test_backward_inside_backward(self) -> None:
        class Nested(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                ctx.save_for_backward(x)
                return x.detach() ** 2

            @staticmethod
            def backward(ctx: Any, gradient: Tensor) -> Tensor:
                x = ctx.saved_tensors[0].detach().requires_grad_()
                with torch.enable_grad():
                    return gradient * torch.autograd.grad((x**2).sum(), x)[0]

        leaf = torch.tensor([3.0], device="npu", requires_grad=True)
        Nested.apply(leaf).sum().backward()
        assert leaf.grad.tolist() == [6]

    def test_anomaly_mode_finds_where_a_nan_is_from(self) -> None:
        leaf = torch.zeros(1, device="npu", requires_grad=True)
        with torch.autograd.detect_anomaly(check_nan=True), pytest.raises(RuntimeError, match="SqrtBackward0"):
            (leaf.sqrt() * 0).sum().backward()

    def test_saved_tensors_can_wait_on_the_cpu(self) -> None:
        leaf = torch.linspace(0, 1, 4).npu().requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.cpu(), lambda t: t.npu()):
            loss = leaf.exp().square().sum()
        loss.backward()
        expected = torch.linspace(0, 1, 4).requires_grad_()
        expected.exp().square().sum().backward()
        assert_same(leaf.grad, expected.grad, rtol=1e-6)

    def test_a_graph_is_freed(self) -> None:
        gc.collect()
        before = torch.npu.memory_allocated()
        leaf = torch.ones(100, device="npu", requires_grad=True)
        loss = leaf.exp().sin().sum()
        del leaf, loss
        gc.collect()
        assert torch.npu.memory_allocated() == before

    def test_forward_mode(self) -> None:
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(torch.tensor([2.0]).npu(), torch.tensor([1.0]).npu())
            tangent = torch.autograd.forward_ad.unpack_dual(dual**3).tangent
        assert tangent.tolist() == [12]

    def test_checkpoints_recompute(self) -> None:
        runs = []

        def block(x: Tensor) -> Tensor:
            runs.append(x.device.type)
            return x.sin() * 2

        leaf = torch.linspace(0, 1, 4).npu().requires_grad_()
        checkpoint(block, leaf, use_reentrant=False).sum().backward()
        assert runs == ["npu", "npu"]
        assert_same(leaf.grad, 2 * torch.linspace(0, 1, 4).cos(), rtol=1e-6)

    @pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "hooks"])
    def test_checkpoints_repeat_random_numbers(self, reentrant: bool) -> None:
        leaf = torch.ones(100, device="npu", requires_grad=True)
        result = checkpoint(torch.nn.functional.dropout, leaf, use_reentrant=reentrant)
        result.sum().backward()
        assert_same(leaf.grad, result.detach().cpu())


class TestCheckpointWithAutocast:
    @pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "hooks"])
    def test_recomputing_casts_as_the_first_time(self, reentrant: bool) -> None:
        layer = nn.Linear(4, 4).npu()
        x = torch.ones(2, 4, device="npu", requires_grad=True)
        seen = []

        def block(x: Tensor) -> Tensor:
            result = layer(x)
            seen.append(result.dtype)
            return result

        with torch.autocast("npu", torch.bfloat16), set_checkpoint_early_stop(False):
            loss = checkpoint(block, x, use_reentrant=reentrant).float().sum()
        loss.backward()
        assert seen == [torch.bfloat16] * 2
        assert layer.weight.grad.dtype is torch.float32


class TestFunctorch:
    def test_grad_vjp_and_jvp(self) -> None:
        def function(x: Tensor) -> Tensor:
            return (x**3).sum()

        x = torch.tensor([1.0, 2.0])
        assert_same(torch.func.grad(function)(x.npu()), torch.func.grad(function)(x))
        assert_same(torch.func.vjp(torch.sin, x.npu())[1](torch.ones(2).npu())[0], x.cos(), rtol=1e-6)
        assert_same(torch.func.jvp(torch.sin, (x.npu(),), (torch.ones(2).npu(),))[1], x.cos(), rtol=1e-6)

    def test_vmap(self) -> None:
        a, b = torch.arange(6.0).reshape(3, 2), torch.arange(6.0).reshape(3, 2) + 1
        assert_same(torch.vmap(torch.dot)(a.npu(), b.npu()), torch.vmap(torch.dot)(a, b))
        layer = nn.Linear(2, 2)
        expected = torch.vmap(layer)(a)
        assert_same(torch.vmap(layer.npu())(a.npu()), expected, rtol=1e-6)

    def test_vmap_with_random_numbers(self) -> None:
        drawn = torch.vmap(lambda x: x + torch.rand(3, device="npu"), randomness="different")(torch.zeros(2, 1).npu())
        assert not torch.equal(drawn[0], drawn[1])

    def test_jacobians_and_hessians(self) -> None:
        def function(x: Tensor) -> Tensor:
            return x.sin() * x.sum()

        x = torch.tensor([1.0, 2.0, 3.0])
        for transform in (torch.func.jacrev, torch.func.jacfwd):
            assert_same(transform(function)(x.npu()), transform(function)(x), rtol=1e-5, atol=1e-6)
        hessian = torch.func.hessian(lambda x: function(x).sum())
        assert_same(hessian(x.npu()), hessian(x), rtol=1e-5, atol=1e-6)

    def test_gradients_per_sample(self) -> None:
        layer = nn.Linear(2, 1)
        x = torch.arange(8.0).reshape(4, 2)

        def losses(parameters: dict[str, Tensor], sample: Tensor) -> Tensor:
            return torch.func.functional_call(layer, parameters, (sample[None],)).square().sum()

        parameters = {name: parameter.detach() for name, parameter in layer.named_parameters()}
        per_sample = torch.vmap(torch.func.grad(losses), (None, 0))
        theirs = {name: parameter.npu() for name, parameter in parameters.items()}
        assert_same(per_sample(theirs, x.npu()), per_sample(parameters, x), rtol=1e-5)
