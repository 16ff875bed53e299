import torch.distributed as dist
from torch.distributed import init_process_group, new_group

backend = "nccl" if dist.is_nccl_available() else "gloo"
dist.init_process_group(backend)
init_process_group(backend="cpu:gloo,cuda:nccl", init_method="file:///nccl/cuda")
new_group([0, 1], None, "NCCL")
if dist.get_backend() == "nccl" or dist.get_backend() in ("nccl", "mpi"):
    dist.init_device_mesh("cuda", (2,))
backends = {"nccl": 1}
