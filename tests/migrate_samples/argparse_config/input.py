import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda", choices=["cpu", "cuda", "cuda:1"], help="cuda or cpu")
parser.add_argument("--dist-backend", "-b", default="nccl", type=str)
parser.add_argument("--name", default="cuda")
args = parser.parse_args()
if args.device == "cuda" and torch.cuda.is_available():
    model = torch.nn.Linear(1, 1).to(args.device)
if args.device.startswith("cuda:") or "cuda" in str(args.device):
    torch.cuda.set_device(args.device)
torch.distributed.init_process_group(args.dist_backend)
config = {"device": "cuda", "cuda": True}
torch.zeros(1, device=config["device"])
