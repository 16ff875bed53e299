"""Code generation, compilation and tensors of the reference vendor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Union

from npu_graph.vendor import Vendor

if TYPE_CHECKING:
    import torch

    from npu_graph.operations.subgraph import Operation, Subgraph, TensorSpec

__all__ = ["ReferenceVendor"]


class ReferenceVendor(Vendor):
    """Generates one Python function per subgraph, one line per operator.

    A conversion returns a Python expression as text; operands stand for NumPy arrays. In scope are ``np`` and
    ``numerics``, which has the functions that NumPy lacks. Floats of 16 bits are arrays of float32: NumPy has no
    bfloat16, and adds up float16 in float16. Results are rounded after each operation, as torch's kernels do it.
    """

    name = "reference"
    summary = "readable NumPy source"
    version = "1"
    device_type = "cpu"
    dtypes = frozenset(
        {"float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"}
    )
    source_name = "subgraph.py"

    def setup(self) -> None:
        from npu_graph.reference import convolution, elementwise, indexing, layout, linear, pooling, reduction

        for module in (elementwise, layout, reduction, indexing, linear, convolution, pooling):
            module.declare(self)

    def generate(self, subgraph: Subgraph) -> str:
        parameters = ", ".join([*map(str, subgraph.inputs), *subgraph.symbol_names])
        lines = []
        for operation in subgraph.operations:
            item = operation.arguments
            text = f"{item['self']}[{item['index']}]" if operation.is_item else self._convert(operation)
            lines.append(f"    {operation.name} = {text}  # {operation}\n")
        results = "".join(f"{output.operand}, " for output in subgraph.outputs)
        return f"def subgraph({parameters}):\n{''.join(lines)}    return ({results})\n"

    def _convert(self, operation: Operation) -> str:
        """The expression for an operation; operations in 16 bits are computed in float32 and rounded."""
        from npu_graph.reference import layout
        from npu_graph.reference.text import HALVES

        text = str(operation.convert())
        assert operation.conversion is not None
        only_moves = operation.conversion.provider == layout.__name__
        half = None if only_moves else HALVES.get(operation.dtype)
        return text if half is None else f"numerics.{half}({text})"

    def load(self, source: Path) -> Callable[..., Any]:
        import numpy as np

        from npu_graph.reference import numerics

        scope: dict[str, Any] = {"np": np, "numerics": numerics}
        exec(compile(source.read_text(encoding="utf-8"), str(source), "exec"), scope)
        return scope["subgraph"]

    def launch(
        self,
        kernel: Callable[..., Any],
        inputs: Sequence[Union[torch.Tensor, int, float, bool]],
        outputs: Sequence[TensorSpec],
    ) -> list[torch.Tensor]:
        import numpy as np

        with np.errstate(all="ignore"):  # infinities and overflow are results, as in torch
            return super().launch(kernel, inputs, outputs)

    def to_array(self, tensor: torch.Tensor) -> Any:
        import torch

        tensor = tensor.detach().resolve_conj().resolve_neg()
        return (tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor).numpy()

    def to_tensor(self, array: Any, spec: TensorSpec) -> torch.Tensor:
        import numpy as np
        import torch

        array = np.asarray(array)
        if any(stride < 0 for stride in array.strides) or not array.flags.writeable:
            array = array.copy()
        tensor = torch.from_numpy(array)
        return tensor.to(spec.dtype) if spec.dtype in (torch.float16, torch.bfloat16) else tensor
