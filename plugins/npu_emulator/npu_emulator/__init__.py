"""Stand-ins for NPU libraries on a machine without an NPU.

Importing this package changes nothing. :func:`install` makes ``import mx_driving`` resolve to the kernels in
:mod:`npu_emulator.mx_driving` until it is undone::

    import npu_emulator

    with npu_emulator.install():
        import mx_driving                       # the stand-in: mx_driving.__emulated__ is True

    npu_emulator.mx_driving.calls["deform_conv2d"]   # how often a kernel ran, and so whether a patch was taken

Neither importing the package nor installing the stand-ins imports torch; using a kernel does.
"""

from __future__ import annotations

from npu_emulator import limits, mx_driving
from npu_emulator.installation import Installation, RealLibraryError, install

__all__ = ["Installation", "RealLibraryError", "install", "limits", "mx_driving"]
