"""A sweep over torch's own database of operators: each gives on the emulated NPU what it gives on the CPU.

torch tests its operators with the inputs of ``torch.testing._internal.common_methods_invocations.op_db``. Here every
operator runs with the first of them in float32, forward and backward.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from comparing import NPU, assert_same, gradients, leaves_to_differentiate, to_npu
from running import ON_CANN
from torch.utils._pytree import tree_flatten, tree_map

from npu_emulator import device

pytest.importorskip("expecttest", reason="torch's database of operators imports it")

from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

ROUND_OFF = {"rtol": 1e-5, "atol": 1e-5}

#: What differs between the device and the CPU, by core, and why. An operator that no longer does fails, too.
KNOWN_DIFFERENCES: dict[str, dict[str, str]] = {
    "python": {
        "sparse.mm.reduce": "computes with sparse CSR tensors",
        "sparse.sampled_addmm": "computes with sparse CSR tensors",
    },
    "native": {
        "sparse.mm.reduce": "computes with sparse CSR tensors",
        "sparse.sampled_addmm": "computes with sparse CSR tensors",
    },
}

#: Their results are memory as it was found: only shape, dtype and place are compared.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

#: Their further arguments stay on the CPU, which torch demands of them for every device.
ARGUMENTS_ON_THE_CPU = {"tensor_split"}

# The jiterator compiles CUDA source: its operators run on no CPU.
OPERATORS = [
    operator for operator in op_db if torch.float32 in operator.dtypes and not operator.name.startswith("jiterator")
]


def full_name(operator: OpInfo) -> str:
    """Return the name of an operator with that of its variant."""
    return f"{operator.name}.{operator.variant_test_name}" if operator.variant_test_name else operator.name


def first_sample(operator: OpInfo) -> SampleInput:
    """Return the first of the operator's inputs, on the CPU."""
    differentiable = operator.supports_autograd and torch.float32 in operator.supported_backward_dtypes("cpu")
    return next(iter(operator.sample_inputs("cpu", torch.float32, requires_grad=differentiable)))


def on_the_npu(sample: SampleInput, arguments: bool) -> SampleInput:
    """Return an input with its tensors copied to the NPU, and the NPU wherever it names the CPU.

    Args:
        sample: the input.
        arguments: copy those after the first as well.
    """

    def move(leaf: Any) -> Any:
        return NPU if isinstance(leaf, str) and leaf == "cpu" else to_npu(leaf)

    args, kwargs = (sample.args, sample.kwargs) if not arguments else tree_map(move, (sample.args, sample.kwargs))
    copied = SampleInput(tree_map(move, sample.input), args=args, kwargs=kwargs)
    copied.output_process_fn_grad = sample.output_process_fn_grad
    return copied


def run(operator: OpInfo, sample: SampleInput) -> tuple[Any, list[torch.Tensor]]:
    """Return the results of an operator and the gradients of its inputs."""
    torch.manual_seed(0)
    arguments = (sample.input, *sample.args)
    results = operator(*arguments, **sample.kwargs)
    inputs = leaves_to_differentiate((arguments, sample.kwargs))
    # Of an eigenvector only the direction is defined: there is a function of the results to differentiate.
    defined = sample.output_process_fn_grad(results)
    differentiable = [one for one in tree_flatten(defined)[0] if isinstance(one, torch.Tensor) and one.requires_grad]
    return results, gradients(differentiable, inputs) if inputs and differentiable else []


def layouts(tree: Any) -> list[tuple[torch.Size, torch.dtype]]:
    """Return shapes and dtypes of nested tensors."""
    return [(one.shape, one.dtype) for one in tree_flatten(tree)[0] if isinstance(one, torch.Tensor)]


@pytest.mark.parametrize("operator", OPERATORS, ids=full_name)
def test_results_and_gradients_equal_those_on_the_cpu(operator: OpInfo, request: pytest.FixtureRequest) -> None:
    differences = {} if ON_CANN else KNOWN_DIFFERENCES[device.active().name]  # docs/fake-cann.md has the others
    difference = differences.get(full_name(operator))
    if difference is not None:
        request.applymarker(pytest.mark.xfail(reason=difference, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = first_sample(operator)
        theirs = on_the_npu(sample, arguments=operator.name not in ARGUMENTS_ON_THE_CPU)
        expected, emulated = run(operator, sample), run(operator, theirs)
        if operator.name in UNINITIALISED:
            assert layouts(emulated) == layouts(expected)
            return
        assert_same(emulated, expected, **ROUND_OFF, check_stride=True)


def test_every_known_difference_is_of_an_operator_that_there_is() -> None:
    names = {full_name(operator) for operator in OPERATORS}
    for differences in KNOWN_DIFFERENCES.values():
        assert set(differences) <= names


def test_the_database_is_whole() -> None:
    assert len(OPERATORS) > 600


@pytest.mark.parametrize("arguments", [(5,), (5, False), (5, True, 8.0)])
def test_kaiser_window(arguments: tuple[Any, ...]) -> None:
    assert_same(torch.kaiser_window(*arguments, device="npu"), torch.kaiser_window(*arguments))


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.float16])
def test_histc_of_types_that_the_cpu_does_not_count(dtype: torch.dtype) -> None:
    values = torch.tensor([1, 2, 2, 3], dtype=dtype, device="npu")
    out = torch.empty(0, dtype=dtype, device="npu")
    torch.histc(values, 4, 0, 3, out=out)
    for counts in (torch.histc(values, 4, 0, 3), out):
        assert_same(counts, torch.tensor([0, 1, 2, 1], dtype=dtype))
