from torch.cuda.amp import *
from torch import *

with autocast():
    x = cuda.is_available()
