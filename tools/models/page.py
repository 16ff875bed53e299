"""Writes docs/models.md from the results of trainings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tools.models.zoo import ROWS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"

#: A difference of a loss, as a share of it (of 1 where it is smaller), above which the table says that losses differ.
TOLERANCE = 1e-3

_TITLES = {
    (2, "mmdet"): "mmdet 3.3, mmcv 2.1",
    (2, "mmdet3d"): "mmdet3d 1.4, mmcv 2.1",
    (1, "mmdet"): "mmdet 2.28, mmcv-full 1.7.2",
    (1, "mmdet3d"): "mmdet3d 1.0.0rc6, mmcv-full 1.7.2",
}
_NO_CPU_KERNEL = re.compile(
    r"(?P<one>\w+?)(?:_impl)?: implementation for device cpu not found|(?P<other>\w+) is not implemented on CPU"
)
#: What is refused next once a patch replaces the operator, by the operator.
_THEN = {"dynamic_voxelize_forward": ", then `dynamic_point_to_voxel_forward`, which no patch replaces"}
_REFUSED = re.compile(r"NotEmulated: mmcv\._ext\.(\w+)")

_HEAD = """# Models that train

The configurations below are those that mmdet and mmdet3d ship. Each is trained by the library's own `tools/train.py`:
on the CPU without patches, and on the emulated NPU with the default set of patches, from the same seed. The models keep
their layers. Images, point clouds and the number of iterations are small, and weights are random. All random numbers
are the same in both runs (`NPU_EMULATOR_RANDOM=cpu`), so the losses differ by rounding only. The difference is the
largest of all losses and iterations, as a share of the loss (of 1, where the loss is smaller). Rounding shows more
where a gradient has a kink: untrained, a deformable attention samples its own level exactly at pixels, and there the
last bit decides between the slopes on either side (`mask2former`). mmdet 2.28 trains in float16 on an NPU and in
float32 on the CPU (`mmdet/apis/train.py`); here it computes in float32 on both.

```sh
python3 -m nox -s models                  # all that have no result yet; interrupted, it goes on where it was
python3 -m nox -s models -- --again fcos  # models with fcos in their name, once more
```

Patches called are those of which a function was called; classes that a patch replaces are not counted.

This page is written by that command. Nothing here says anything about a real NPU.
"""


def write(results: Path) -> None:
    """Write the page from the results that there are."""
    PAGE.write_text(rendered(results), encoding="utf-8")


def rendered(results: Path) -> str:
    """Return the page."""
    found: dict[tuple[int, str], list[str]] = {}
    for row in ROWS:
        path = results / f"{row.name}.json"
        if path.is_file():
            result = {**json.loads(path.read_text(encoding="utf-8")), **row._asdict()}
            found.setdefault((row.major, row.library), []).append(_row(result))
    parts = [_HEAD]
    missing = [row for row in ROWS if not (results / f"{row.name}.json").is_file()]
    if missing:
        names = ", ".join(f"`{row.config}`" for row in missing)
        parts.append(f"\nNot trained yet: {names}.\n")
    for key, title in _TITLES.items():
        if key in found:
            parts.append(
                f"\n## {title}\n\n| family | configuration | trains | difference | patches called |\n"
                "|---|---|---|---|---|\n" + "".join(found[key])
            )
    return "".join(parts)


def _row(result: dict[str, Any]) -> str:
    largest = difference(result)
    patches = ", ".join(f"`{name}`" for name in result["patches"]) or "none"
    cells = (
        result["family"],
        f"`{result['config']}`",
        outcome(result),
        "" if largest is None else f"{largest:.0e}" if largest else "0",
        patches,
    )
    return f"| {' | '.join(cell.replace('|', ' ') for cell in cells)} |\n"


def outcome(result: dict[str, Any]) -> str:
    """Return what came of a model, in a few words."""
    cpu, npu = result["cpu"], result["npu"]
    refused = _REFUSED.search(npu["error"])
    if refused:
        return f"refused: `{refused[1]}`{_advice(npu['error'])}{_THEN.get(refused[1], '')}"
    if npu["error"] and result.get("fault"):
        return f"fails in {result['library']}, on CUDA too: {result['fault']}"
    if npu["error"]:
        return f"fails: {npu['error'][:200]}"
    if any(line["device"] != "npu" for line in npu["losses"]) or not npu["losses"]:
        return "fails: not on the NPU"
    lacking = _NO_CPU_KERNEL.search(cpu["error"])
    if lacking:
        return f"yes; not compared, mmcv has no `{lacking['one'] or lacking['other']}` for the CPU"
    if cpu["error"]:
        return f"yes; on the CPU it fails: {cpu['error'][:200]}"
    largest = difference(result)
    if largest is None or largest > TOLERANCE:
        return "losses differ"
    return "yes"


def failed(result: dict[str, Any]) -> bool:
    """Tell whether a model neither trains, nor is refused by name, nor fails for a known fault of its library."""
    return outcome(result).startswith(("fails:", "losses differ"))


def difference(result: dict[str, Any]) -> float | None:
    """Return the largest difference of a loss as a share of it, ``None`` if there is nothing to compare."""
    cpu, npu = result["cpu"]["losses"], result["npu"]["losses"]
    if not cpu or len(cpu) != len(npu):
        return None
    found = []
    for expected, actual in zip(cpu, npu):
        if expected["losses"].keys() != actual["losses"].keys():
            return None
        for name, loss in expected["losses"].items():
            other = actual["losses"][name]
            if loss != other:  # so are two that are not a number
                found.append(abs(loss - other) / max(abs(loss), 1.0))
    if any(share != share for share in found):
        return None
    return max(found, default=0.0)


def _advice(error: str) -> str:
    patch = re.search(r"--enable ([\w.]+\w)", error)
    return f"; `--enable {patch[1]}`" if patch else "; mmcv built for NPUs has no kernel for it, either"
