"""What is the C vendor's own: fused loops, its compiler and what is said without one, threads, indices out of range."""

from __future__ import annotations

import ctypes
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from npu_graph.c import toolchain
from npu_graph.errors import CompileError, LaunchError

needs_compiler = pytest.mark.skipif(toolchain.find_toolchain() is None, reason="no C compiler")


@pytest.fixture
def compiler(make_vendors: Any, compiler_for: Any) -> Any:
    return compiler_for(make_vendors().get("c"))


def source_of(compiler: Any) -> str:
    (record,) = compiler.records
    (subgraph,) = record.subgraphs
    return Path(subgraph.source).read_text()


@needs_compiler
def test_a_chain_of_element_wise_operators_is_one_loop_without_memory_between(compiler: Any) -> None:
    x, y = torch.randn(6, 8), torch.randn(8)
    got = compiler(lambda x, y: torch.sigmoid(x * y + 1).clamp(0.2, 0.7) * x)(x, y)
    torch.testing.assert_close(got, torch.sigmoid(x * y + 1).clamp(0.2, 0.7) * x)
    kernel = source_of(compiler).split("int kernel", 1)[1]
    assert kernel.count("for (") == 2, "one nest over rows and columns"
    assert "malloc" not in kernel
    assert len(re.findall(r"= v_\w+;", kernel)) == 1, "only the result is stored"


@needs_compiler
def test_what_lies_row_by_row_is_gone_through_in_one_loop(compiler: Any) -> None:
    x = torch.randn(3, 4, 5)
    compiler(lambda x: (x.exp() * x, x.neg()))(x)
    assert source_of(compiler).split("int kernel", 1)[1].count("for (") == 1


@needs_compiler
def test_an_operand_that_only_a_reduction_reads_has_no_memory(compiler: Any) -> None:
    x = torch.randn(5, 7)
    torch.testing.assert_close(compiler(lambda x: (x * x + 1).exp().sum(1))(x), (x * x + 1).exp().sum(1))
    assert "malloc" not in source_of(compiler).split("int kernel", 1)[1]


@needs_compiler
def test_an_index_out_of_range_is_an_error_as_in_eager(compiler: Any) -> None:
    gather = compiler(lambda table, index: table[index] * 2)
    table = torch.randn(4, 3)
    assert torch.equal(gather(table, torch.tensor([-4, 3])), table[[0, 3]] * 2)
    with pytest.raises(LaunchError, match="index is out of range"):
        gather(table, torch.tensor([4, 0]))


@needs_compiler
@pytest.mark.parametrize("shape", [(300, 257), (70000,), (3, 5, 20011)], ids=str)
def test_large_tensors_are_the_same_with_threads(compiler: Any, shape: tuple[int, ...]) -> None:
    def call(x: torch.Tensor) -> Any:
        return x.sin() * x, x.sum(0), x.mean(-1), x.amax(), torch.softmax(x, -1)

    x = torch.randn(shape)
    for got, wanted in zip(compiler(call)(x), call(x)):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_kernel_runs_in_a_child_of_a_process_that_has_run_it_with_threads(compiler: Any) -> None:
    x = torch.randn(1000, 1000)
    call = compiler(lambda x: x * 2 + 1)
    call(x)
    (record,) = compiler.records
    library = ctypes.CDLL(str(Path(record.subgraphs[0].source).with_suffix(".so")))
    if not hasattr(library, "omp_set_num_threads"):
        pytest.skip("the compiler has no OpenMP")
    library.omp_set_num_threads(2)
    call(x)
    child = os.fork()
    if not child:
        os._exit(0 if call(x).shape == x.shape else 1)
    deadline = time.monotonic() + 60
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.02)
    if done == (0, 0):
        os.kill(child, 9)
        os.waitpid(child, 0)
    library.omp_set_num_threads(1)
    assert done == (child, 0)


@needs_compiler
@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 33, 300), (97, 65, 513), (100, 40, 0)], ids=str)
def test_matrix_products_of_any_size_and_strides_equal_eager(compiler: Any, sizes: tuple[int, int, int]) -> None:
    rows, columns, depth = sizes
    one, other = torch.randn(depth, rows, dtype=torch.float64), torch.randn(depth, 2 * columns, dtype=torch.float64)
    got = compiler(lambda a, b: a.t() @ b[:, ::2])(one, other)
    torch.testing.assert_close(got, one.t() @ other[:, ::2])


def test_without_a_compiler_the_error_says_how_to_go_on(
    compiler: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(Exception, match=r"no C compiler.*apt-get install gcc") as caught:
        compiler(lambda x: x + 1)(torch.ones(3))
    assert isinstance(caught.value.__cause__ or caught.value, (CompileError, RuntimeError))


@needs_compiler
def test_what_the_compiler_says_reaches_the_error(tmp_path: Path) -> None:
    source = tmp_path / "kernel.c"
    source.write_text("int kernel(void) { return missing; }\n")
    found = toolchain.find_toolchain()
    assert found is not None
    with pytest.raises(RuntimeError, match="missing"):
        found.build(source, tmp_path / "kernel.so")


@needs_compiler
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


@needs_compiler
def test_a_constant_that_is_needed_in_memory_is_still_made_anew_where_it_is_read(compiler: Any) -> None:
    def call(x: torch.Tensor) -> Any:
        steps = torch.arange(4, dtype=torch.float32)
        early = x + steps
        return early, early.sum(0) @ steps.unsqueeze(1).expand(4, 3), steps

    x = torch.randn(5, 4)
    for got, wanted in zip(compiler(call)(x), call(x)):
        torch.testing.assert_close(got, wanted)
