"""docs/torch-npu-tests.md: torch_npu's own tests on the fake CANN."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tools.library_tests import page
from tools.library_tests.libraries import TORCH_NPU

__all__ = ["PAGE", "rendered"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "torch-npu-tests.md"

_RESULTS = ("passed", "skipped", "disabled", "refused", "failed", "late")
#: The rows of the table of what is refused.
_REFUSALS = 40

_HEAD = """# torch_npu's own tests on the fake CANN

The tests of torch_npu are written for an NPU. On the [fake CANN](fake-cann.md) they show where it does not do what the
adapter expects. A test is `refused` if it ends with the name of something that the fake CANN does not have. It is
`disabled` if it does not pass, and torch_npu's developers do not run it on NPUs either
(`test/{disabled}`). A test that takes more than three minutes is late.

```sh
python3 -m nox -s torch-npu-tests                                # modules that have no result yet; hours
python3 -m nox -s torch-npu-tests -- --again test_linear         # one module, once more
python3 -m nox -s torch-npu-tests -- --sources ../pytorch        # tests from a checkout of Ascend/pytorch
```

This command writes this page from the [results](../tools/library_tests/results), which have a line for each test.
The folders are {folders}.
A module that is not in the table was not run. Nothing here was run on a real NPU: whether a test passes there is not
known.
"""


def rendered() -> str:
    """Return the page."""
    version, rows = page.read(TORCH_NPU)
    head = _HEAD.format(
        disabled=TORCH_NPU.disabled, folders=", ".join(f"`test/{folder}`" for folder in TORCH_NPU.folders)
    )
    if not rows:
        return head
    mode = TORCH_NPU.judged
    parts = [head, f"\n## torch_npu {version}\n\n"]
    counts = Counter(row.results.get(mode) for row in rows)
    modules = sorted({row.module for row in rows})
    total = (f"{len(modules)} modules", *(str(counts[result]) for result in _RESULTS))
    parts.append(page.table([("", *_RESULTS), total]))
    lenient = sum(row.results.get(mode) == "passed" and bool(row.why) for row in rows)
    parts.append(f"\nOf those that pass, torch_npu's developers have disabled {lenient} on NPUs.\n")
    refusals = (row.why for row in rows if row.results.get(mode) == "refused")
    refused = Counter(why.partition(", which is called at ")[0] for why in refusals)
    if refused:
        parts.append(f"\nMost often refused, {min(_REFUSALS, len(refused))} of {len(refused)}:\n\n")
        parts.append(page.table([("why", "tests"), *((why, str(n)) for why, n in refused.most_common(_REFUSALS))]))
    failed = [
        (f"`{row.module}::{row.test}`", page.reason(TORCH_NPU, row) or f"fails: {row.why}")
        for row in page.failing(TORCH_NPU, rows)
    ]
    if failed:
        parts.append("\nTests that fail:\n\n")
        parts.append(page.table([("test", "why"), *failed]))
    lines: list[tuple[str, ...]] = [("module", *_RESULTS)]
    for module in modules:
        counts = Counter(row.results.get(mode) for row in rows if row.module == module)
        lines.append((f"`{module}`", *(str(counts[result]) for result in _RESULTS)))
    return "".join([*parts, "\n### The modules\n\n", page.table(lines)])
