"""The device as torch's compilers see it; imported by :mod:`npu_emulator.device.compiling` once they are."""
