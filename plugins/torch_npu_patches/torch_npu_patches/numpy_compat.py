"""Names that numpy has removed, for libraries that still use them.

- The aliases of builtin types (``np.float``): deprecated in NumPy 1.20 (release notes, "Using the aliases of builtin
  types like np.int is deprecated"), removed in 1.24. NumPy 2.0 brought ``np.bool`` and ``np.long`` back with other
  meanings.
- Second names of objects that numpy still has (``np.float_``, ``np.Inf``, ``np.product``): removed in NumPy 2.0
  (migration guide, "Main namespace"), ``np.in1d`` and ``np.trapz`` in 2.4. mmdet3d calls ``np.in1d``.

A name that exists is unchanged.
"""

from __future__ import annotations

from typing import Any

import patchcore as pc

ALIASES = {
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "object": object,
    "str": str,
    "long": int,
    "unicode": str,
}

RENAMED = {
    "float_": "float64",
    "complex_": "complex128",
    "string_": "bytes_",
    "unicode_": "str_",
    "Inf": "inf",
    "NaN": "nan",
    "product": "prod",
    "cumproduct": "cumprod",
    "alltrue": "all",
    "sometrue": "any",
    "round_": "round",
    "row_stack": "vstack",
    "trapz": "trapezoid",
}


def in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Any:
    """Return for each element of ``ar1`` whether it is in ``ar2``, in one dimension, as numpy 2.3 does."""
    import numpy

    return numpy.isin(numpy.ravel(ar1), ar2, assume_unique=assume_unique, invert=invert, kind=kind)


NUMPY_COMPAT = pc.Patch(
    "numpy.compat",
    [
        *(pc.Replace(f"numpy:{name}", builtin, create=True) for name, builtin in ALIASES.items()),
        *(pc.Replace(f"numpy:{name}", f"numpy:{now}", create=True) for name, now in RENAMED.items()),
        pc.Replace("numpy:in1d", in1d, create=True),
    ],
    summary="np.bool, np.int, np.float_, np.in1d, ... where numpy has removed them",
    legacy_names=["numpy_type", "numpy_compat", "NumpyCompat"],
    priority=-100,  # before anything that imports libraries which read the aliases
)
