from torch_npu.npu.amp import *
import torch_npu  # noqa: F401
from torch import *

with autocast():
    x = cuda.is_available()
