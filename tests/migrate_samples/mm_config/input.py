_base_ = ["../_base_/default_runtime.py"]
dist_params = dict(backend='nccl', port=29500)
env_cfg = dict(
    cudnn_benchmark=False,
    dist_cfg=dict(backend='nccl'))
other = {'dist_cfg': {'backend': 'nccl'}}
device = 'cuda'
logger = dict(backend='nccl')
