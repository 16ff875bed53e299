"""Operators on a device, beside the CPU and beside another device.

``python -m fake_cann compare`` calls some thousands of cases through PyTorch on the NPU that is there, real or
emulated, and writes one file. It compares two such files, so that whoever has the hardware can send theirs.

:mod:`.cases` has the cases, of PyTorch's own database of operators and of :mod:`.more_cases`; :mod:`.running` runs them
in a child process, which a crash of the device may end; :mod:`.files` reads two files and finds where they differ.
"""
