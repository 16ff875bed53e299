"""Formulas that kernels of torch_npu, mx_driving and mmcv share: one module for each formula, of plain PyTorch code."""
