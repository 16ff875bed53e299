"""What becomes of operators that the Acme 1 lacks, and of some that it has together."""

import torch

from acme_graph.text import spread

aten = torch.ops.aten


def declare(vendor):
    """Declare decompositions and rewrites."""

    @vendor.decomposition(aten.addmm.default)
    def addmm(self, mat1, mat2, *, beta=1, alpha=1):
        product = torch.mm(mat1, mat2)
        return self * beta + (product if alpha == 1 else product * alpha)

    @vendor.decomposition(aten.erf.default)
    def erf(x):
        """Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: off by 1.5e-7 at most."""
        t = 1 / (1 + 0.3275911 * x.abs())
        series = 0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
        return torch.where(x < 0, -1.0, 1.0) * (1 - t * series * torch.exp(-x * x))

    @vendor.rewrite(lambda x, y, z: aten.add.Tensor(aten.mul.Tensor(x, y), z))
    def fma(x, y, z):
        return aten.addcmul.default(z, x, y)

    @vendor.conversion(aten.addcmul.default)
    def addcmul(operation, self, tensor1, tensor2):
        operands = (spread(each, operation.shape) for each in (tensor1, tensor2, self))
        return f"fma({', '.join(operands)})"
