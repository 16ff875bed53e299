"""Ranges (markers) that name modules, functions and arguments of torch in a profiler's view.

After NVIDIA's PyProf, whose ranges these tell the same as: ``traceMarker`` (the lines of the program), ``mod``, ``op``,
``args`` and ``strRepr``. The functions of torch stay unchanged, so that code that is compiled, scripted, pickled or
inspected is not changed. ``docs/markers.md`` is the guide.
"""

from torch_markers.ranges import (
    NAME,
    OPTIONS,
    Marker,
    mark_call,
    parse,
    range,
    start,
    wrap,
)

__all__ = ["NAME", "OPTIONS", "Marker", "mark_call", "parse", "range", "start", "wrap"]
