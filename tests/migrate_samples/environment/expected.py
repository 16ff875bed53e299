import os
import subprocess
from os import environ, getenv

gpu = os.getenv("ASCEND_RT_VISIBLE_DEVICES", "0") or getenv("ASCEND_RT_VISIBLE_DEVICES")
if "ASCEND_RT_VISIBLE_DEVICES" in os.environ:
    del environ["ASCEND_RT_VISIBLE_DEVICES"]
os.environ.update(CUDA_VISIBLE_DEVICES="1")
env = {"CUDA_VISIBLE_DEVICES": "1", "NCCL_DEBUG": "INFO"}
os.environ["NCCL_DEBUG"] = "INFO"
os.environ["PYTORCH_NPU_ALLOC_CONF"] = "max_split_size_mb:64"
subprocess.run("CUDA_VISIBLE_DEVICES=0 python train.py", shell=True)
print("CUDA_VISIBLE_DEVICES is", gpu)
