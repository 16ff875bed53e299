"""Focal loss, AdamW and small matrix products against their definitions and against torch."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, Optional

import pytest

torch = pytest.importorskip("torch")

from kernel_results import assert_agree, output_and_gradients  # noqa: E402
from torch import Tensor  # noqa: E402

dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


# --- focal loss ---------------------------------------------------------------------------------------------------


def focal_loss(
    logit: Tensor, target: Tensor, gamma: float, alpha: float, weight: Optional[Tensor], reduction: str
) -> Tensor:
    """Equation 5 of arXiv:1708.02002, element by element, mmcv's reductions; differentiable."""
    rows = []
    for sample, of_target in zip(logit, target.tolist()):
        row = []
        for number, value in enumerate(sample):
            p = 1 / (1 + torch.exp(-value))
            p_t, alpha_t = (p, alpha) if number == of_target else (1 - p, 1 - alpha)
            row.append(-alpha_t * (1 - p_t) ** gamma * torch.log(p_t) * (1 if weight is None else weight[of_target]))
        rows.append(torch.stack(row))
    loss = torch.stack(rows)
    return {"none": loss, "sum": loss.sum(), "mean": loss.sum() / len(logit)}[reduction]


def samples(dtype: torch.dtype, classes: int = 4, background: bool = True) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(1)
    logit = 3 * torch.randn(12, classes, dtype=dtype, generator=random)
    return logit, torch.randint(0, classes + background, (12,), generator=random)


@dtypes
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(("gamma", "alpha"), [(2.0, 0.25), (0.5, 0.9), (0.0, 0.5)], ids=str)
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_sigmoid_focal_loss_is_its_definition(
    mx_driving: ModuleType, dtype: torch.dtype, reduction: str, gamma: float, alpha: float, weighted: bool
) -> None:
    logit, target = samples(dtype, background=not weighted)
    weight = torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=dtype) if weighted else None
    rest = (target, gamma, alpha, weight, reduction)
    ours = output_and_gradients(mx_driving.sigmoid_focal_loss, [logit], *rest)
    theirs = output_and_gradients(lambda x: focal_loss(x.double(), *rest).to(dtype), [logit])
    assert_agree(ours, theirs)


def test_sigmoid_focal_loss_of_one_class(mx_driving: ModuleType) -> None:
    """0 is the class and 1 the background, as detectors have it."""
    logit, target = samples(torch.float64, classes=1)
    assert {0, 1} == set(target.tolist())
    rest = (target, 2.0, 0.25, None, "sum")
    assert_agree(
        output_and_gradients(mx_driving.sigmoid_focal_loss, [logit], *rest),
        output_and_gradients(focal_loss, [logit], *rest),
    )


def test_sigmoid_focal_loss_far_from_zero(mx_driving: ModuleType) -> None:
    logit = torch.tensor([[200.0, -200.0]], requires_grad=True)
    loss = mx_driving.sigmoid_focal_loss(logit, torch.tensor([1]), 2.0, 0.25, None, "none")
    assert loss.tolist() == [[0.75 * 200, 0.25 * 200]]
    loss.sum().backward()
    assert logit.grad.tolist() == [[0.75, -0.25]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.ones(3), torch.zeros(3).long()), r"logit of shape \(n, classes\).*found \(3,\)"),
        ((torch.ones(3, 2), torch.zeros(3)), r"target of shape \(n,\) and int64, found.*float32"),
        ((torch.ones(3, 2), torch.zeros(2).long()), r"found \(3, 2\), \(2,\)"),
        ((torch.ones(1, 2), torch.tensor([3])), "expected targets from 0 to 2, found 3 to 3"),
        ((torch.ones(1, 2), torch.tensor([-1])), "expected targets from 0 to 2, found -1 to -1"),
        ((torch.ones(1, 2), torch.tensor([2]), 2.0, 0.25, torch.ones(2)), "expected targets from 0 to 1, found 2 to 2"),
        ((torch.ones(1, 2), torch.tensor([0]), 2.0, 0.25, torch.ones(3)), r"weight of shape \(2,\), found \(3,\)"),
        ((torch.ones(1, 2), torch.tensor([0]), 2.0, 0.25, None, "max"), "a reduction of none, mean, sum, found 'max'"),
    ],
    ids=["logit", "dtype", "samples", "class", "negative", "weighted background", "weight", "reduction"],
)
def test_sigmoid_focal_loss_of_what_does_not_fit(
    mx_driving: ModuleType, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        mx_driving.sigmoid_focal_loss(*arguments)


# --- AdamW --------------------------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("amsgrad", [False, True], ids=["", "amsgrad"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1], ids=["", "decay"])
def test_fused_adamw_custom_steps_as_adamw(
    mx_driving: ModuleType, dtype: torch.dtype, amsgrad: bool, weight_decay: float
) -> None:
    random = torch.Generator().manual_seed(5)
    start = torch.randn(50, dtype=dtype, generator=random)
    theirs = start.clone().requires_grad_()
    settings = {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": weight_decay, "amsgrad": amsgrad}
    optimizer = torch.optim.AdamW([theirs], **settings, foreach=False)

    ours = start.clone()
    mean, square, largest = (torch.zeros_like(start) for _ in range(3))
    for step in range(1, 8):
        gradient = torch.randn(50, dtype=dtype, generator=random) / step
        theirs.grad = gradient
        optimizer.step()
        maximum = largest if amsgrad else None
        mx_driving.fused_adamw_custom(
            ours, gradient, mean, square, maximum, 0.02, 0.8, 0.95, weight_decay, 1e-6, step, amsgrad
        )
        state = optimizer.state[theirs]
        assert_agree([ours, mean, square], [theirs.detach(), state["exp_avg"], state["exp_avg_sq"]])
        if amsgrad:
            assert_agree([largest], [state["max_exp_avg_sq"]])
    assert mx_driving.calls == {"fused_adamw_custom": 7}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_fused_adamw_custom_rounds_half_precision_once(mx_driving: ModuleType, dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(6)
    half = [torch.rand(50, generator=random).to(dtype) for _ in range(4)]
    precise = [tensor.float() for tensor in half]
    rest = (None, 0.01, 0.9, 0.999, 0.01, 1e-8, 3, False)
    for tensors in (half, precise):
        assert mx_driving.fused_adamw_custom(*tensors, *rest) is None
    for ours, theirs in zip(half, precise):
        assert torch.equal(ours, theirs.to(dtype))


def test_fused_adamw_custom_of_nothing(mx_driving: ModuleType) -> None:
    empty = torch.ones(0)
    mx_driving.fused_adamw_custom(empty, empty, empty, empty, None, 0.1, 0.9, 0.999, 0.0, 1e-8, 1, False)
    assert not mx_driving.calls


def test_fused_adamw_custom_of_what_does_not_fit(mx_driving: ModuleType) -> None:
    tensors = [torch.ones(3) for _ in range(4)]
    rest = (0.1, 0.9, 0.999, 0.0, 1e-8)
    with pytest.raises(TypeError, match=r"expected step to be a number, found a tensor; pass step\.item\(\)"):
        mx_driving.fused_adamw_custom(*tensors, None, *rest, torch.tensor(1), False)
    with pytest.raises(ValueError, match=r"the parameters' shape \(3,\), found \[\(3,\), \(3,\), \(3,\), None\]"):
        mx_driving.fused_adamw_custom(*tensors, None, *rest, 1, True)
    with pytest.raises(ValueError, match=r"found \[\(2,\), \(3,\), \(3,\)\]"):
        mx_driving.fused_adamw_custom(tensors[0], torch.ones(2), *tensors[2:], None, *rest, 1, False)
    assert all(torch.equal(tensor, torch.ones(3)) for tensor in tensors)


# --- small matrix products ----------------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize(
    ("matrix", "column"),
    [
        ((2, 6, 4, 4), (2, 6, 4, 1)),
        ((2, 6, 1, 1, 4, 4), (2, 1, 10, 3, 4, 1)),
        ((1, 1, 3, 3), (5, 2, 3, 1)),
        ((2, 1, 1, 3, 1, 4, 4), (1, 2, 2, 1, 5, 4, 1)),
    ],
    ids=["alike", "points in cameras", "one matrix", "seven dimensions"],
)
def test_npu_batch_matmul_is_matmul(
    mx_driving: ModuleType, matrix: tuple[int, ...], column: tuple[int, ...], dtype: torch.dtype
) -> None:
    random = torch.Generator().manual_seed(7)
    tensors = [torch.randn(shape, dtype=dtype, generator=random) for shape in (matrix, column)]
    assert_agree(
        output_and_gradients(mx_driving.npu_batch_matmul, tensors), output_and_gradients(torch.matmul, tensors)
    )
    assert mx_driving.calls == {"npu_batch_matmul": 1}


def test_npu_batch_matmul_sums_float16_in_float32(mx_driving: ModuleType) -> None:
    matrix = torch.full((1, 1, 3, 3), 60000.0).half()
    column = torch.tensor([1.0, 1.0, -1.0]).half().view(1, 1, 3, 1)  # the sum of the first two is not a float16
    product = mx_driving.npu_batch_matmul(matrix, column)
    assert product.dtype == torch.float16
    assert product.flatten().tolist() == [matrix[0, 0, 0, 0].item()] * 3
    assert math.isfinite(product.sum(dtype=torch.float32))


@pytest.mark.parametrize(
    ("matrix", "column"),
    [((2, 4, 4), (2, 4, 4)), ((2, 4, 3), (2, 3, 1)), ((2, 4, 4), (4, 1)), ((2, 4, 4), (2, 3, 1)), ((4,), (4,))],
    ids=str,
)
def test_npu_batch_matmul_of_what_does_not_fit(
    mx_driving: ModuleType, matrix: tuple[int, ...], column: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=r"expected shapes \(\.\.\., n, n\) and \(\.\.\., n, 1\)"):
        mx_driving.npu_batch_matmul(torch.ones(matrix), torch.ones(column))
