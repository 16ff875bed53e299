"""Code generation, compilation and tensors of the reference vendor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Union

from npu_graph.vendor import Vendor

if TYPE_CHECKING:
    import torch

    from npu_graph.pipeline.subgraph import Subgraph, TensorSpec

__all__ = ["ReferenceVendor"]


class ReferenceVendor(Vendor):
    """Generates one Python function per subgraph, one line per operator.

    A conversion returns a Python expression as text; operands stand for NumPy arrays. In scope are ``np`` and
    ``numerics``, which has what NumPy lacks.
    """

    name = "reference"
    summary = "readable NumPy source"
    version = "1"
    device_type = "cpu"
    # NumPy has no bfloat16, and adds up float16 in float16
    dtypes = frozenset({"float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"})
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
            text = f"{item['self']}[{item['index']}]" if operation.is_item else operation.convert()
            lines.append(f"    {operation.name} = {text}  # {operation}\n")
        results = "".join(f"{output.operand}, " for output in subgraph.outputs)
        return f"def subgraph({parameters}):\n{''.join(lines)}    return ({results})\n"

    def load(self, source: Path) -> Callable[..., Any]:
        import numpy as np

        from npu_graph.reference import numerics

        scope: dict[str, Any] = {"np": np, "numerics": numerics}
        exec(compile(source.read_text(encoding="utf-8"), str(source), "exec"), scope)
        return scope["subgraph"]  # type: ignore[no-any-return]

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
        return tensor.detach().resolve_conj().resolve_neg().numpy()

    def to_tensor(self, array: Any, spec: TensorSpec) -> torch.Tensor:
        import numpy as np
        import torch

        array = np.asarray(array)
        if any(stride < 0 for stride in array.strides) or not array.flags.writeable:
            array = array.copy()
        return torch.from_numpy(array)
