import os
import subprocess
from os import environ, getenv

gpu = os.getenv("CUDA_VISIBLE_DEVICES", "0") or getenv("CUDA_VISIBLE_DEVICES")
if "CUDA_VISIBLE_DEVICES" in os.environ:
    del environ["CUDA_VISIBLE_DEVICES"]
os.environ.update(CUDA_VISIBLE_DEVICES="1")
env = {"CUDA_VISIBLE_DEVICES": "1", "NCCL_DEBUG": "INFO"}
os.environ["NCCL_DEBUG"] = "INFO"
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "max_split_size_mb:64"
subprocess.run("CUDA_VISIBLE_DEVICES=0 python train.py", shell=True)
print("CUDA_VISIBLE_DEVICES is", gpu)
