"""For machines without an NPU: plain PyTorch stand-ins for the kernels, which say at the end how often they ran."""

import atexit

import npu_emulator


def say_calls():
    """Print how often each stand-in ran in this process, unless none did."""
    calls = npu_emulator.mx_driving.calls
    if calls:
        print("stand-ins ran:", ", ".join(f"{name} {count}" for name, count in sorted(calls.items())))


npu_emulator.install(device=False)
atexit.register(say_calls)
