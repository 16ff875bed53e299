"""Every operator that a vendor converts equals eager: values, dtypes, strides; static and dynamic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from operator_cases import CASES, Case, Inputs
from torch.fx.experimental.proxy_tensor import make_fx

from npu_graph.pipeline import compile_graph
from npu_graph.recording import records

DTYPES = sorted({dtype for case in CASES for dtype in case.dtypes})
SIZES = ((7, 9), (8, 11))  # unlike every other size: dynamo takes equal ones for the same
HALVES = ("float16", "bfloat16")
TOLERANCES = {
    torch.float16: {"rtol": 2e-3, "atol": 2e-3},
    torch.bfloat16: {"rtol": 1.6e-2, "atol": 1.6e-2},
    torch.float32: {"rtol": 2e-5, "atol": 2e-5},
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
}
EXACT = {"rtol": 0.0, "atol": 0.0}


def flat(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [each for item in value for each in flat(item)]


def run(cases: list[Case], tensors: dict[str, torch.Tensor]) -> list[list[torch.Tensor]]:
    return [flat(case.call(SimpleNamespace(**tensors))) for case in cases]


def trace(cases: list[Case], tensors: dict[str, torch.Tensor], dynamic: bool) -> tuple[Any, list[Any]]:
    """One graph that calls all cases, and its inputs as fakes: as dynamo has them, much sooner."""

    def calls(*inputs: torch.Tensor) -> list[torch.Tensor]:
        return flat(run(cases, dict(zip(tensors, inputs))))

    graph = make_fx(calls, tracing_mode="symbolic" if dynamic else "fake")(*tensors.values())
    return graph, [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]


def widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if str(tensor.dtype).partition(".")[2] in HALVES else tensor


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.double() - other.double()).square().mean())


@pytest.mark.parametrize(
    ("dtype", "dynamic"),
    [*((dtype, False) for dtype in (*DTYPES, *HALVES)), ("float32", True), ("int64", True)],
    ids=lambda value: {False: "static", True: "dynamic"}.get(value, value),
)
def test_every_operator_equals_eager(vendor: Any, dtype: str, dynamic: bool) -> None:
    if dtype in HALVES and dtype not in vendor.dtypes:
        pytest.skip(f"{vendor.name} takes no {dtype}")
    cases = [case for case in CASES if ("float32" if dtype in HALVES else dtype) in case.dtypes]
    graph, inputs = trace(cases, Inputs(getattr(torch, dtype), *SIZES[0]).tensors, dynamic)
    compiled = compile_graph(vendor, graph, inputs)
    record = records()[-1]
    where = {node.operator for node in record.converted}
    eager = {node.operator: node.reason for node in record.eager}
    failures = [
        f"{case.name}: not converted: {eager.get(case.operator, 'not in the graph')}"
        for case in cases
        if case.operator not in where
    ]
    for size in SIZES if dynamic else SIZES[:1]:
        tensors = Inputs(getattr(torch, dtype), *size, seed=1).tensors
        got = iter(compiled(*tensors.values()))
        exact = run(cases, {name: widened(tensor) for name, tensor in tensors.items()})
        for case, wanted, wide in zip(cases, run(cases, tensors), exact):
            for one, other, result in ((next(got), *each) for each in zip(wanted, wide)):
                tolerances = TOLERANCES.get(other.dtype, EXACT)
                try:
                    torch.testing.assert_close(one, other, equal_nan=True, check_stride=True, **tolerances)
                except AssertionError as error:
                    if dtype in HALVES and distance(one, result) <= distance(other, result):
                        continue  # eager adds up in 16 bits here
                    failures.append(f"{case.name} {size}: {error}")
    assert not failures, "\n".join(failures)


def test_every_conversion_of_a_vendor_has_a_case(vendor: Any) -> None:
    tried = {case.operator for case in CASES}
    assert {name for name in vendor.declarations.conversions if name not in tried} == set()
