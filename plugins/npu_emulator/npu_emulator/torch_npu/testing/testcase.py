"""``torch_npu.testing.testcase``: the base class of tests of NPU libraries."""

# ruff: noqa: PT009  this is unittest's way

from __future__ import annotations

import unittest
from typing import Any, Union

import numpy as np
import torch

__all__ = ["TestCase", "run_tests"]

#: How far float16 may be off, which torch_npu raises other tolerances to.
HALF_PRECISION = 1e-3


class TestCase(unittest.TestCase):
    """``unittest.TestCase`` with torch_npu's comparison of results."""

    def assertRtolEqual(
        self, x: Any, y: Any, prec: float = 1e-4, prec16: float = HALF_PRECISION, auto_trans_dtype: bool = False
    ) -> None:
        """Fail unless two results have the same shape, and values that are close.

        Values are close when they differ by no more than the tolerance, or no more than it times the second value.

        Args:
            x: tensor, array, number, or a list or tuple of them.
            y: likewise, the expected value.
            prec: the tolerance.
            prec16: likewise where a result is float16 or bfloat16.
            auto_trans_dtype: whether different dtypes are compared as ``x`` has it, instead of failing.
        """
        if isinstance(x, (list, tuple)):
            self.assertEqual(len(x), len(y), "numbers of results differ")
            for one, other in zip(x, y):
                self.assertRtolEqual(one, other, prec, prec16, auto_trans_dtype)
            return
        found, found_is_half = _as_array(x)
        expected, expected_is_half = _as_array(y)
        self.assertEqual(found.shape, expected.shape, "shapes differ")
        if not auto_trans_dtype and found_is_half == expected_is_half:
            self.assertEqual(found.dtype, expected.dtype, "dtypes differ")
        tolerance = max(prec, prec16) if found_is_half or expected_is_half else prec
        if found.dtype.kind in "bui":
            found, expected = found.astype(np.float64), expected.astype(np.float64)
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        with np.errstate(invalid="ignore"):  # the difference of infinities, which are the same or not
            difference = np.abs(found - expected)
            close = difference <= np.maximum(tolerance, tolerance * np.abs(expected))
        far = ~same & ~(close & np.isfinite(expected))
        if far.any():
            self.fail(
                f"{int(far.sum())} of {found.size} values differ by more than {tolerance}, absolutely and relatively; "
                f"the greatest difference is {difference[far].max()}"
            )


def _as_array(result: Union[torch.Tensor, np.ndarray, float]) -> tuple[np.ndarray, bool]:
    """Return a result as an array, in float32 where it has half precision, and whether it has."""
    if isinstance(result, torch.Tensor):
        half = result.dtype in (torch.float16, torch.bfloat16)
        tensor = result.detach().cpu()
        return (tensor.float() if half else tensor).numpy(), half
    array = np.asarray(result)
    half = array.dtype == np.float16
    return array.astype(np.float32) if half else array, half


def run_tests() -> None:
    """Run the tests of the calling program."""
    unittest.main()
