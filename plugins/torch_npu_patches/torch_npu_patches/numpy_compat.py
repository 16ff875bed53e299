"""The aliases of builtin types that numpy removed, for libraries that still say ``np.float``.

Deprecated in NumPy 1.20 (release notes, "Using the aliases of builtin types like np.int is deprecated"), removed in
1.24. NumPy 2.0 brought ``np.bool`` and ``np.long`` back with other meanings; an alias that exists stays what it is.
"""

from __future__ import annotations

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

NUMPY_COMPAT = pc.Patch(
    "numpy.compat",
    [pc.Replace(f"numpy:{name}", builtin, create=True) for name, builtin in ALIASES.items()],
    summary="np.bool, np.int, np.float, ... where numpy has removed them",
    legacy_names=["numpy_type", "numpy_compat"],
    priority=-100,  # before anything that imports libraries which read the aliases
)
