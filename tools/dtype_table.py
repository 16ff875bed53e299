"""Write the table of dtypes that torch_npu's documentation names for operators: data of ``patchcore ops``.

python tools/dtype_table.py FOLDER 2.13 COMMIT

``FOLDER`` has the pages of ``docs/zh/api/native_api/pytorch_2-13-0`` of the repository Ascend/pytorch at ``COMMIT``.
Read are the sentences that give the dtypes of the first tensor, of functions of torch, methods of tensors and functions
of ``torch.nn.functional``, ``torch.linalg``, ``torch.fft`` and ``torch.special``. An operator gets the dtypes of all
functions of its name. What is written are facts: names of operators and of dtypes.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "plugins/npu_migrate/npu_migrate/ops/tables"

#: Pages, and what the names of operators begin with.
PAGES = {
    "torch": ("torch.", ""),
    "torch-Tensor": ("torch.Tensor.", ""),
    "torch-nn-functional": ("torch.nn.functional.", ""),
    "torch-linalg": ("torch.linalg.", "linalg_"),
    "torch-fft": ("torch.fft.", "fft_"),
    "torch-special": ("torch.special.", "special_"),
}
NAMES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    **{name: name for name in ("uint8", "int8", "int16", "int32", "int64", "bool", "complex64", "complex128")},
}
#: "`input` supports only ...": nothing else of the page is read.
SENTENCE = re.compile(
    "^(?:- |\\*\\*限制与说明\\*\\*\uff1a )`(?:input|self)`仅支持(?:输出)?([a-z0-9\uff0c、,和 ]+)$", re.MULTILINE
)


def read(text: str, beginning: str) -> Iterator[tuple[str, set[str]]]:
    """Yield the functions of a page for which it names dtypes, and these.

    Args:
        text: of the page.
        beginning: of the functions' names, which is left out.
    """
    for section in re.split("^#{2,4} ", text, flags=re.MULTILINE):
        title = section.partition("\n")[0].strip().replace("\\_", "_")
        found = SENTENCE.search(section)
        name = title[len(beginning) :]
        if found is None or not title.startswith(beginning) or not name.isidentifier():
            continue
        words = re.split("[\uff0c、,和 ]+", found[1].strip("\uff0c、, "))
        if all(word in NAMES for word in words):
            yield name, {NAMES[word] for word in words}


def main() -> None:
    """Read the pages and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("torch", help="the series of torch, 2.13")
    parser.add_argument("commit", help="that the pages are of")
    options = parser.parse_args()
    operators: dict[str, set[str]] = {}
    for page, (beginning, prefix) in PAGES.items():
        path = options.folder / f"{page}.md"
        for name, dtypes in read(path.read_text(encoding="utf-8"), beginning):
            plain = name.strip("_") if prefix == "" else name
            operators.setdefault(prefix + plain, set()).update(dtypes)
    source = {
        "repository": "Ascend/pytorch",
        "commit": options.commit,
        "folder": f"docs/zh/api/native_api/pytorch_{options.torch.replace('.', '-')}-0",
    }
    # by dtypes, since many operators have the same
    rows: dict[str, list[str]] = {}
    for name, dtypes in sorted(operators.items()):
        rows.setdefault(" ".join(sorted(dtypes)), []).append(name)
    path = FOLDER / f"dtypes-{options.torch}.json"
    path.write_text(json.dumps({"torch": options.torch, "source": source, "operators": rows}, indent=0) + "\n")
    print(f"{path}: {len(operators)} operators")


if __name__ == "__main__":
    main()
