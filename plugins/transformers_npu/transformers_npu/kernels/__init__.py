"""Replacements that call the fused kernels of torch_npu, with the calls that each kernel takes."""
