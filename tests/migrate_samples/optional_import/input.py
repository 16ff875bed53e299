try:
    import torch
except ImportError:
    torch = None

if torch is not None and torch.cuda.is_available():
    print(torch.cuda.device_count())
try:
    import cupy
    import apex
    from flash_attn import flash_attn_func
except ImportError:
    cupy = None
