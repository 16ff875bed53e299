"""The interface in a process of `patchcore run --compat mx_driving`."""
