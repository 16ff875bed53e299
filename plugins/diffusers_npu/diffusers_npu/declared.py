"""The values that declarations of several patches share."""

from __future__ import annotations

__all__ = ["LEGACY_NAMES", "TOLERANCES", "UP_TO"]

#: The first release of diffusers for which the patches are not applied.
UP_TO = "0.43"
#: The names of all patches together in mx_driving.patcher: the class, and the name.
LEGACY_NAMES = ["DiffusersNPU", "diffusers_npu"]
#: The largest difference from the original, as a share of the largest value, by dtype.
TOLERANCES = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 3e-2}
