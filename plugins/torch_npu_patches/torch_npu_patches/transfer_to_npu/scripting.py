"""Declares wrapped functions, and the device in the place of CUDA, to torch's compilers.

torch.jit.script and device contexts know the factories by tables, which are kept in step with wrapped ones.

Both tables are filled at first use with the functions that ``torch`` has at that time. They are filled here before
anything is wrapped. (Those of torch.compile, which would be dear to import for that, are filled with what is
inside the wrappers: :mod:`torch_npu_patches.wrapping`.)
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from typing import Any, Callable, Optional

from torch_npu_patches.transfer_to_npu.devices import CUDA, NPU, npu_name
from torch_npu_patches.wrapping import innermost

__all__ = [
    "get_gpu_type",
    "has_no_driver",
    "has_triton",
    "is_triton_capable",
    "make_find_builtin",
    "make_folded",
    "make_is_cuda_of_traced",
    "make_parse_def",
    "written_anew",
]


def make_find_builtin(original: Callable[[Any], Optional[str]]) -> Callable[[Any], Optional[str]]:
    """Return a ``torch.jit._builtins._find_builtin`` that knows a wrapped factory for the operator that it calls."""
    from torch_npu_patches.private_torch import builtins as _builtins
    from torch_npu_patches.private_torch import device as _device

    _builtins._get_builtin_table()
    _device._device_constructors()

    def _find_builtin(fn: Any) -> Optional[str]:
        return original(innermost(fn))

    return _find_builtin


def make_parse_def(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function by which torch.jit.script reads the source of a function, which says NPU for CUDA."""

    def parse_def(fn: Any) -> Any:
        parsed = original(fn)
        exchange = _InScripts()
        exchange.visit(parsed.ast)
        return written_anew(parsed, fn) if exchange.reads_is_cuda else parsed

    return parse_def


def written_anew(parsed: Any, fn: Any) -> Any:
    """Return a parsed function with its source made from its tree: torch looks for the dots of attributes there."""
    from torch_npu_patches.private_torch import make_source_context

    source = ast.unparse(ast.fix_missing_locations(parsed.ast))
    context = make_source_context(source, parsed.filename, parsed.file_lineno, 0, True, fn.__name__)
    return parsed._replace(ast=ast.parse(source), ctx=context)


class _InScripts(ast.NodeTransformer):
    """Exchanges devices in the source of a script: compiled code calls no function that could be wrapped."""

    reads_is_cuda = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Exchange ``device="cuda"``, ``torch.device("cuda")``, ``x.to("cuda")`` and ``x.cuda()``."""
        self.generic_visit(node)
        for keyword in node.keywords:
            if keyword.arg == "device":
                _exchange(keyword.value)
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in ("device", "to") and node.args:
                _exchange(node.args[0])
            elif node.func.attr == "cuda" and not node.args and not node.keywords:
                node.func.attr = "to"
                node.args = [ast.copy_location(ast.Constant(NPU), node.func)]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Make ``x.device.type in ["cuda", "npu"]`` of ``x.is_cuda``."""
        self.generic_visit(node)
        if node.attr != "is_cuda" or not isinstance(node.ctx, ast.Load):
            return node
        self.reads_is_cuda = True
        device = ast.Attribute(ast.Attribute(node.value, "device", ast.Load()), "type", ast.Load())
        return ast.Compare(device, [ast.In()], [ast.List([ast.Constant(CUDA), ast.Constant(NPU)], ast.Load())])


def _exchange(node: ast.expr) -> None:
    if isinstance(node, ast.IfExp):
        _exchange(node.body)
        _exchange(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        node.value = npu_name(node.value) or node.value


def make_folded(original: Iterable[Any]) -> dict[Any, None]:
    """Return a table of functions that torch.compile calls while it compiles, with those inside its wrappers.

    The table has ``torch.cuda.is_available`` and others as they are when torch._dynamo is imported: wrappers, perhaps.
    torch.compile follows the call of a wrapper and then looks for the function inside.
    """
    functions = list(original)
    return dict.fromkeys([*functions, *map(innermost, functions)])


def make_is_cuda_of_traced(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a ``TensorVariable.method_attr_is_cuda`` that answers as ``is_cuda`` of the tensor itself does."""
    from torch_npu_patches.private_torch import VariableTracker

    def method_attr_is_cuda(self: Any, tx: Any) -> Any:
        if self.device is None:
            return original(self, tx)
        return VariableTracker.build(tx, self.device.type in (CUDA, NPU))

    return method_attr_is_cuda


@functools.cache  # as torch's own: callers use cache_clear
def has_triton() -> bool:
    """Return ``False``: Triton generates no code for a device that stands in for CUDA.

    Takes the place of ``torch.utils._triton.has_triton``. Where ``triton`` can be imported, torch's own asks for every
    ``torch.compile`` if the compute capability of CUDA is 7 or more. An NPU has no such number.
    torch_npu's own layer answers the same.
    """
    return False


def is_triton_capable(device: Any = None) -> bool:
    """Return ``False``, as :func:`has_triton` does.

    Takes the place of ``CudaInterface.is_triton_capable``, which the code generators of ``torch._inductor`` call.
    """
    return False


def has_no_driver() -> bool:
    """Return ``False``: there is no driver of CUDA.

    Takes the place of ``CudaDriver.is_active`` of Triton (3.0 to 3.8), which returns ``torch.cuda.is_available()``.
    torch reads the active driver of Triton if ``has_triton`` of torch_npu returns true for the NPU.
    """
    return False


@functools.cache  # as torch's own: torch_npu 2.14 calls cache_clear
def get_gpu_type() -> str:
    """Return ``"npu"``, the kind of device that stands in for GPUs.

    Takes the place of ``torch._inductor.utils.get_gpu_type``, which returns ``"cuda"`` where
    ``torch.cuda.is_available()`` is true. torch_npu's own layer answers the same.
    """
    return NPU
