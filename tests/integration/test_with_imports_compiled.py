"""Functions under with_imports in torch.compile, which looks globals up in modules."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")

SOURCE = """
    from mx_driving_compat.imports.with_imports import with_imports

    relu = None

    def double(x): return x * 2

    @with_imports("math", ("torch.nn.functional", "leaky_relu"))
    def in_module(x): return double(leaky_relu(x)) + math.sqrt(4.0)

    @with_imports("math", ("torch.nn.functional", "relu"))
    def in_copy(x): return double(relu(x)) + math.sqrt(4.0)

    @with_imports(("torch", "sum"))
    def like_builtin(x): return double(x) + sum(x) + 1

    @with_imports("torch", "@torch.no_grad()")
    def decorated(x): return torch.relu(x) + 3
"""


@pytest.mark.parametrize("name", ["in_module", "in_copy", "like_builtin", "decorated"])
@pytest.mark.parametrize("called_before", [True, False])
def test_a_function_compiles_whether_it_was_called_before_or_not(
    make_package: Any, name: str, called_before: bool
) -> None:
    module = f"migration_{name}_{called_before}"  # torch.compile remembers modules by their names
    make_package({module: SOURCE})
    function = getattr(importlib.import_module(module), name)
    torch._dynamo.reset()
    if called_before:
        function(torch.ones(2))
    compiled = torch.compile(function, backend="eager", fullgraph=called_before)
    for _ in range(2):
        assert compiled(torch.ones(2)).tolist() == ([5.0, 5.0] if name == "like_builtin" else [4.0, 4.0])
