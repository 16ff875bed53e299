"""The checks of the patches for ``patchcore verify``: random calls for which original and replacement must agree.

Each function draws a :class:`patchcore.Case` from a ``random.Random``; torch and the patched libraries are imported
when it is called. Every shape drawn is one that the call gets through with on the NPU. A call that a kernel does not
take is drawn only where the original runs on the NPU: mmcv's own operators are not all there.
"""
