try:
    import torch
    import torch_npu  # noqa: F401
except ImportError:
    torch = None

if torch is not None and torch.npu.is_available():
    print(torch.npu.device_count())
try:
    import cupy
    import apex
    from flash_attn import flash_attn_func
except ImportError:
    cupy = None
