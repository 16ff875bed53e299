import torch.distributed as dist
import torch_npu  # noqa: F401
from torch.distributed import init_process_group, new_group

backend = "hccl" if dist.is_nccl_available() else "gloo"
dist.init_process_group(backend)
init_process_group(backend="cpu:gloo,npu:hccl", init_method="file:///nccl/cuda")
new_group([0, 1], None, "hccl")
if dist.get_backend() == "hccl" or dist.get_backend() in ("hccl", "mpi"):
    dist.init_device_mesh("npu", (2,))
backends = {"nccl": 1}
