"""What kernels of torch_npu, mx_driving and mmcv compute alike: one module for each formula, of plain PyTorch code."""
