_base_ = ["../_base_/default_runtime.py"]
dist_params = dict(backend='hccl', port=29500)
env_cfg = dict(
    cudnn_benchmark=False,
    dist_cfg=dict(backend='hccl'))
other = {'dist_cfg': {'backend': 'hccl'}}
device = 'cuda'
logger = dict(backend='nccl')
