"""The vendor: what a subgraph is to the Acme 1."""

import importlib.util
import subprocess
import sys

import npu_graph
import patchcore as pc
from acme_graph.text import is_arithmetic

MODULES = ("elementwise", "layout", "reductions", "products", "rewrites")


class Acme(npu_graph.Vendor):
    """Generates assembly, one line per operator; a conversion returns its right side."""

    name = "acme"
    summary = "Acme 1"
    dtypes = frozenset({"float32", "bool"})
    source_name = "kernel.acme"

    def setup(self):
        for name in MODULES:
            importlib.import_module(f"acme_graph.{name}").declare(self)

    def available(self):
        return importlib.util.find_spec("acme1") is not None or pc.Skip("the assembler is missing: pip install ./acme1")

    def supports(self, operation):
        if any(tensor.dim() > 4 for tensor in operation.tensors):
            return pc.Skip("the Acme 1 moves up to 4 dimensions")
        if not all(is_arithmetic(tensor.shape) for tensor in operation.tensors):
            return pc.Skip("a size that the scalar unit cannot compute")
        return super().supports(operation)

    def generate(self, subgraph):
        lines = [f"{'buffer' if each.is_tensor else 'number'} {each}" for each in subgraph.inputs]
        lines += [f"number {name}" for name in subgraph.symbol_names]
        lines += [f"{operation.name} = {operation.convert()}" for operation in subgraph.operations]
        lines += [f"return {', '.join(str(output.operand) for output in subgraph.outputs)}"]
        return "\n".join([*lines, ""])

    def compile(self, source):
        command = [sys.executable, "-m", "acme1.assembler", source, source.with_suffix(".bin")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())

    def load(self, source):
        from acme1.device import Program

        return Program(source.with_suffix(".bin").read_bytes())

    def to_array(self, tensor):
        from acme1.device import upload

        return upload(tensor.detach().numpy())

    def to_tensor(self, array, spec):
        import torch

        return torch.from_numpy(array.download()).reshape(spec.shape).to(spec.dtype)
