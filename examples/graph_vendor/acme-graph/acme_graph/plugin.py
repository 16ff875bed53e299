"""What this distribution contributes. Importing it imports no torch."""

import npu_graph
import patchcore as pc
from acme_graph.vendor import Acme

VENDOR = Acme()

#: For ``torch.compile(backend="patchcore_acme")``.
backend = npu_graph.Backend(VENDOR.name)


@pc.hookimpl(optionalhook=True)
def register_vendors():
    """Contribute the vendor."""
    return [VENDOR]
