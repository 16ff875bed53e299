# A comment at the top.

"""Only objects of others."""

import helpers
import torch_npu  # noqa: F401
# about the loop
for batch in helpers.batches():
    batch.npu()
