"""What is the C vendor's own: fused loops, its compiler and what is said without one, threads, indices out of range."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from npu_graph.c import toolchain
from npu_graph.errors import LaunchError
from npu_graph.recording import HOST

pytestmark = pytest.mark.skipif(toolchain.find_toolchain() is None, reason=toolchain.MISSING)


@pytest.fixture
def compiler(make_vendors: Any, compiler_for: Any) -> Any:
    return compiler_for(make_vendors().get("c"))


def source_of(compiler: Any) -> str:
    (record,) = compiler.records
    (subgraph,) = record.subgraphs
    return Path(subgraph.source).read_text()


def test_a_chain_of_element_wise_operators_is_one_loop_without_memory_between(compiler: Any) -> None:
    x, y = torch.randn(6, 8), torch.randn(8)
    got = compiler(lambda x, y: torch.sigmoid(x * y + 1).clamp(0.2, 0.7) * x)(x, y)
    torch.testing.assert_close(got, torch.sigmoid(x * y + 1).clamp(0.2, 0.7) * x)
    kernel = source_of(compiler).split("int kernel", 1)[1]
    assert kernel.count("for (") == 2, "one nest over rows and columns"
    assert "malloc" not in kernel
    assert len(re.findall(r"= v_\w+;", kernel)) == 1, "only the result is stored"


def test_an_index_out_of_range_is_an_error_as_in_eager(compiler: Any) -> None:
    gather = compiler(lambda table, index: table[index] * 2)
    table = torch.randn(4, 3)
    assert torch.equal(gather(table, torch.tensor([-4, 3])), table[[0, 3]] * 2)
    with pytest.raises(LaunchError, match="index is out of range"):
        gather(table, torch.tensor([4, 0]))
    one = compiler(lambda table, index: (table[index], table[index].sum()))
    assert one(table[:, :1], torch.tensor([2]))[1] == table[2, 0]
    with pytest.raises(LaunchError, match="index is out of range"):
        one(table[:, :1], torch.tensor([4]))


@contextlib.contextmanager
def two_threads(compiler: Any) -> Iterator[None]:
    """Let kernels that have been compiled run on two threads, whatever the environment says."""
    subgraph = compiler.records[-1].subgraphs[-1]
    library = ctypes.CDLL(str(Path(subgraph.source).with_suffix(".so")))
    if not hasattr(library, "omp_set_num_threads"):
        pytest.skip("the compiler has no OpenMP")
    library.omp_set_num_threads(2)
    try:
        yield
    finally:
        library.omp_set_num_threads(1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_kernel_runs_in_a_child_of_a_process_that_has_run_it_with_threads(compiler: Any) -> None:
    x = torch.randn(1000, 1000)
    call = compiler(lambda x: x * 2 + 1)
    call(x)
    with two_threads(compiler):
        call(x)
        child = os.fork()
        if not child:
            os._exit(0 if call(x).shape == x.shape else 1)
        deadline = time.monotonic() + 300
        while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.02)
        if done == (0, 0):
            os.kill(child, 9)
            os.waitpid(child, 0)
    assert done == (child, 0)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 33, 300), (97, 65, 513), (100, 40, 0)], ids=str)
def test_matrix_products_of_any_size_and_strides_equal_eager(compiler: Any, sizes: tuple[int, int, int]) -> None:
    rows, columns, depth = sizes
    one, other = torch.randn(depth, rows, dtype=torch.float64), torch.randn(depth, 2 * columns, dtype=torch.float64)
    got = compiler(lambda a, b: a.t() @ b[:, ::2])(one, other)
    torch.testing.assert_close(got, one.t() @ other[:, ::2])


def normalised(x: torch.Tensor) -> Any:
    weight = torch.arange(x.shape[-1], dtype=x.dtype) / 7
    images = x.reshape(x.shape[0], 1, x.shape[1]).expand(-1, 6, -1) * weight
    return (
        torch.softmax(x, -1),
        torch.log_softmax(x, 0),
        torch.nn.functional.layer_norm(x, x.shape[-1:], weight, weight),
        torch.nn.functional.group_norm(images, 3),
        torch.nn.functional.batch_norm(images, None, None, training=True),
    )


def check(got: Any, wanted: Any, **tolerances: float) -> None:
    for one, other in zip(got, wanted):
        torch.testing.assert_close(one, other, equal_nan=True, **tolerances)


def test_what_is_folded_over_rows_is_folded_where_it_is_made(compiler: Any) -> None:
    def call(x: torch.Tensor) -> Any:
        y = x.exp() * x
        return y * 2, y.sum(0), y.amax(0)

    x = torch.randn(40, 1101)  # no number of whole vectors, nor of whole tiles for each of two threads
    compiled = compiler(call)
    found = compiled(x)
    check(found, call(x))
    kernel = source_of(compiler).split("int kernel", 1)[1]
    assert "malloc" not in kernel
    assert kernel.count("omp parallel") == 1
    with two_threads(compiler):
        assert all(map(torch.equal, found, compiled(x)))


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_folded_elsewhere_than_it_is_made_is_made_first(compiler: Any, dynamic: bool) -> None:
    def call(x: torch.Tensor) -> Any:
        y = x.exp()
        return y, y.t().sum(0), y.roll(1, 0).sum(0), y.flip(1).sum(0), (y + y.t()).sum(0)

    for size in (1100, 1030):
        x = torch.randn(size, size)
        check(compiler(call, dynamic=dynamic)(x), call(x), rtol=1e-5, atol=1e-3)


def test_what_is_kept_for_the_backward_under_another_name_or_turned_is_not_copied(compiler: Any) -> None:
    x, weight = torch.randn(20, 6, requires_grad=True), torch.randn(9, 6, requires_grad=True)
    call = compiler(lambda x, weight: torch.softmax(torch.nn.functional.linear(x, weight), -1))
    (got,) = torch.autograd.grad(call(x, weight).square().sum(), [x])
    (wanted,) = torch.autograd.grad(torch.softmax(torch.nn.functional.linear(x, weight), -1).square().sum(), [x])
    torch.testing.assert_close(got, wanted)
    forward, _ = compiler.records
    source = Path(forward.subgraphs[0].source).read_text()
    assert len(re.findall(r"restrict out\d+ =", source)) == 1, "the result alone"
    reasons = {node.operator: node.reason for node in forward.nodes if node.where == HOST}
    assert reasons["aten.alias.default"] == "a view of what a kernel gives or takes"
    assert not forward.eager


def test_what_the_backward_needs_is_guarded_against_writes_as_in_eager(compiler: Any) -> None:
    x = torch.randn(20, 6, requires_grad=True)
    for call in (compiler(lambda x: torch.softmax(x, -1)), lambda x: torch.softmax(x, -1)):
        result = call(x)
        result.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


def test_normalisations_equal_eager_at_the_ends_of_vectors(compiler: Any) -> None:
    call = compiler(normalised, dynamic=True)
    for size in ((20, 37), (33, 16), (17, 15), (40, 130)):
        x = torch.randn(size, dtype=torch.float64)
        check(call(x), normalised(x))


def test_tensors_without_elements_and_with_one_column_equal_eager(compiler: Any) -> None:
    def call(x: torch.Tensor) -> Any:
        return torch.softmax(x, -1), x.sum(0), x.sum(1), x @ x.t(), x.t() @ x, x.mean(1, keepdim=True) - x

    for size in ((0, 5), (5, 0), (70, 1), (1, 70), (1, 1)):
        x = torch.randn(size)
        check(compiler(call)(x), call(x))


def test_a_row_does_not_read_what_another_row_computes(compiler: Any) -> None:
    def call(x: torch.Tensor) -> Any:
        total = x.sum(1, keepdim=True)
        weights = torch.softmax(x, -1)
        halves = (x * 3).reshape(128, 32)
        return (
            x - total.flip(0),
            x * total.t(),
            weights.t() + weights,
            weights.diagonal() + total.squeeze(1),
            halves - halves.amax(1, keepdim=True) + (x * 3).sum(),
            x.roll(1, 0) * total,
        )

    x = torch.randn(64, 64, dtype=torch.float64)  # as many rows as columns: sizes do not tell them apart
    check(compiler(call)(x), call(x))


def test_minus_infinity_and_nan_spread_as_in_eager(compiler: Any) -> None:
    def call(x: torch.Tensor) -> Any:
        zeros = torch.zeros_like(x)
        softmaxes = torch.softmax(x, 1), torch.softmax(x, 0), torch.log_softmax(x, 1)
        return (*softmaxes, x.amax(1), x.amin(0), x.amax(), x.max(1)[0], torch.maximum(x, zeros), x.clamp(-1, 1))

    x = torch.randn(40, 37)
    x[3] = -torch.inf
    x[5, 20:] = -torch.inf
    x[7, 36] = torch.nan
    x[9, 0], x[9, 1] = torch.inf, -torch.inf
    check(compiler(call)(x), call(x))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.uint8, torch.int64], ids=str)
def test_whole_numbers_of_few_bits_equal_eager(compiler: Any, dtype: torch.dtype) -> None:
    def call(x: torch.Tensor) -> Any:
        return x.sum(0), x.sum(1), x.amax(1), x.amin(0), x * 3 + x, x @ x.t(), x[:2] @ x.t(), x.max(1)[1]

    info = torch.iinfo(dtype)
    x = torch.randint(max(info.min, -(2**40)), min(info.max, 2**40), (19, 67), dtype=dtype)
    check(compiler(call)(x), call(x))


@pytest.mark.parametrize(
    "arrange",
    [
        lambda x: x.flatten()[1:1281].view(20, 64),
        lambda x: x[::2, 3:],
        lambda x: x.t(),
        lambda x: x[:1].expand(30, -1),
        lambda x: x[:, :1].expand(-1, 30),
    ],
    ids=["misaligned", "strided", "transposed", "one row", "one column"],
)
def test_inputs_of_any_strides_equal_eager(compiler: Any, arrange: Any) -> None:
    def call(x: torch.Tensor) -> Any:
        flipped = x.flip(1)
        return torch.softmax(x, -1), x.sum(0), x @ flipped.t(), x[:2] @ flipped.t(), flipped - flipped.mean(1, True)

    x = arrange(torch.randn(33, 41, dtype=torch.float64))
    check(compiler(call)(x), call(x))


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((3, 8, 13, 17, 6, 3), {"padding": 1}),
        ((2, 8, 9, 10, 6, 3), {"padding": 2, "stride": 2, "dilation": 2}),
        ((2, 8, 9, 10, 6, 2), {"padding": (3, 0), "stride": (3, 1)}),
        ((2, 8, 12, 7, 8, 3), {"padding": 1, "groups": 8}),
        ((2, 8, 12, 7, 16, 3), {"stride": 2, "groups": 2}),
        ((5, 8, 7, 7, 20, 1), {"stride": 2}),
        ((0, 8, 7, 7, 4, 3), {}),
        ((1, 1, 40, 41, 1, 7), {"padding": 3}),
    ],
    ids=str,
)
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_and_their_gradients_equal_eager(
    compiler: Any, sizes: tuple[int, ...], options: dict[str, Any], transposed: bool
) -> None:
    n, channels, height, width, out, kernel = sizes
    groups = options.get("groups", 1)
    x = torch.randn(n, channels, height, width, dtype=torch.float64, requires_grad=True)
    shape = (channels, out // groups) if transposed else (out, channels // groups)
    weight = torch.randn(*shape, kernel, kernel, dtype=torch.float64, requires_grad=True)
    convolution = torch.nn.functional.conv_transpose2d if transposed else torch.nn.functional.conv2d

    def call(x: torch.Tensor, weight: torch.Tensor) -> Any:
        return convolution(x, weight, **options)

    wanted = call(x, weight)
    got = compiler(call)(x, weight)
    grad = torch.randn_like(wanted)
    gradients = [torch.autograd.grad(result, [x, weight], grad) for result in (got, wanted)]
    check([got, *gradients[0]], [wanted, *gradients[1]])
    assert "aten.convolution_backward.default" in compiler.converted


def test_results_do_not_depend_on_the_number_of_threads(compiler: Any) -> None:
    def call(x: torch.Tensor, weight: torch.Tensor, long: torch.Tensor) -> Any:
        y = torch.nn.functional.conv2d(x, weight, padding=1)
        pooled = torch.nn.functional.max_pool2d(torch.nn.functional.batch_norm(y, None, None, training=True), 2)
        rows = pooled.flatten(2)
        return (torch.softmax(rows @ rows.transpose(1, 2), -1) @ rows).square().mean(), rows.cumsum(-1), long.exp()

    x, weight = torch.randn(3, 8, 40, 40), torch.randn(16, 8, 3, 3, requires_grad=True)
    long = torch.randn(50021)  # no number of whole vectors for each of two threads
    compiled = compiler(call)

    def step() -> Any:
        loss, sums, powers = compiled(x, weight, long)
        return loss, sums, powers, *torch.autograd.grad(loss + sums.sum(), [weight])

    first = step()
    with two_threads(compiler):
        second = step()
    assert all(map(torch.equal, first, second))


def test_what_the_compiler_says_reaches_the_error(tmp_path: Path) -> None:
    source = tmp_path / "kernel.c"
    source.write_text("int kernel(void) { return missing; }\n")
    found = toolchain.find_toolchain()
    assert found is not None
    with pytest.raises(RuntimeError, match="missing"):
        found.build(source, tmp_path / "kernel.so")


def test_a_flag_that_the_compiler_refuses_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = toolchain.find_toolchain()
    assert real is not None
    wrapper = tmp_path / "plain-cc"
    wrapper.write_text(
        f'#!/bin/sh\nfor flag; do test "$flag" = -fopenmp && exit 1; done\nexec {" ".join(real.command)} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", str(wrapper))
    found = toolchain.find_toolchain()
    assert found is not None
    assert "-fopenmp" not in found.flags
    assert found.target != real.target, "kernels of one are not those of the other"


def test_a_constant_that_is_needed_in_memory_is_still_made_anew_where_it_is_read(compiler: Any) -> None:
    def call(x: torch.Tensor) -> Any:
        steps = torch.arange(4, dtype=torch.float32)
        early = x + steps
        return early, early.sum(0) @ steps.unsqueeze(1).expand(4, 3), steps

    x = torch.randn(5, 4)
    for got, wanted in zip(compiler(call)(x), call(x)):
        torch.testing.assert_close(got, wanted)
