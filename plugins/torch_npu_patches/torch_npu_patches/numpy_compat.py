"""The aliases of builtin types that numpy removed, for libraries that still say ``np.float``.

Deprecated in NumPy 1.20, removed in 1.24 (release notes, "Expired deprecations"); ``np.bool`` came back in 2.0 with another
meaning, and stays what it is there.
"""

from __future__ import annotations

import patchcore as pc

NUMPY_COMPAT = pc.Patch(
    "numpy.compat",
    [pc.Replace(f"numpy:{alias.__name__}", alias, create=True) for alias in (bool, int, float, complex, object, str)],
    summary="np.bool, np.int, np.float, ... where numpy has removed them",
    legacy_names=["numpy_type", "numpy_compat"],
    priority=-100,  # before anything that imports libraries which read the aliases
)
