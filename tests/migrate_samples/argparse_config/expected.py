import argparse

import torch
import torch_npu  # noqa: F401

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="npu", choices=["cpu", "npu", "npu:1"], help="cuda or cpu")
parser.add_argument("--dist-backend", "-b", default="hccl", type=str)
parser.add_argument("--name", default="cuda")
args = parser.parse_args()
if args.device == "npu" and torch.npu.is_available():
    model = torch.nn.Linear(1, 1).to(args.device)
if args.device.startswith("npu:") or "npu" in str(args.device):
    torch.npu.set_device(args.device)
torch.distributed.init_process_group(args.dist_backend)
config = {"device": "cuda", "cuda": True}
torch.zeros(1, device=config["device"])
