"""The device for torch's compilers; imported by :mod:`npu_emulator.device.compiling` after them."""
