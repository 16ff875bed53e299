"""``torch_npu.testing.testcase``."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_npu.testing.testcase import TestCase as NpuTestCase


@pytest.fixture
def case() -> NpuTestCase:
    return NpuTestCase()


class TestComparison:
    @pytest.mark.parametrize(
        ("found", "expected"),
        [
            (1.0, 1.00009),
            (np.array([1e6]), np.array([1e6 + 90])),
            ([torch.ones(2), np.array([3])], (torch.ones(2), np.array([3]))),
            (torch.tensor([1, 2]), torch.tensor([1, 2])),
            (torch.tensor([float("nan"), float("inf")]), torch.tensor([float("nan"), float("inf")])),
            (torch.tensor([1.0009], dtype=torch.float16), torch.tensor([1.0], dtype=torch.float16)),
            (torch.tensor([True]), torch.tensor([True])),
        ],
        ids=["numbers", "relative", "several", "integers", "not finite", "half", "booleans"],
    )
    def test_close_results_pass(self, case: NpuTestCase, found: object, expected: object) -> None:
        case.assertRtolEqual(found, expected)

    @pytest.mark.parametrize(
        ("found", "expected", "why"),
        [
            (1.0, 1.001, "1 of 1 values differ"),
            (torch.ones(2), torch.ones(3), "shapes differ"),
            (torch.ones(2), torch.ones(2, dtype=torch.float64), "dtypes differ"),
            (torch.tensor([1, 2]), torch.tensor([1, 3]), "1 of 2 values differ"),
            (torch.tensor([float("nan")]), torch.tensor([1.0]), "values differ"),
            (torch.tensor([float("inf")]), torch.tensor([float("-inf")]), "values differ"),
            (torch.tensor([1.0]), torch.tensor([float("inf")]), "values differ"),
            ([1.0], [1.0, 1.0], "numbers of results differ"),
        ],
        ids=["far", "shapes", "dtypes", "integers", "nan", "infinities", "infinite", "several"],
    )
    def test_others_fail_and_say_why(self, case: NpuTestCase, found: object, expected: object, why: str) -> None:
        with pytest.raises(AssertionError, match=why):
            case.assertRtolEqual(found, expected)

    def test_tensors_of_the_npu_are_compared_too(self, case: NpuTestCase) -> None:
        case.assertRtolEqual(torch.ones(2, device="npu"), torch.ones(2))

    def test_dtypes_may_be_ignored(self, case: NpuTestCase) -> None:
        case.assertRtolEqual(torch.ones(2), torch.ones(2, dtype=torch.float64), auto_trans_dtype=True)
