"""Write the table of docs/audit.md: who patches whom where the real torch_npu is loaded.

python -m fake_cann run tools/audit_table.py            print it
python -m fake_cann run tools/audit_table.py --write    write it to the pages, in both languages

It needs an environment with the wheel of torch_npu and fake-cann: after ``nox -s cann-plugins``,
``.nox/cann-plugins/bin/python``. Each of three programs runs under ``patchcore audit``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "docs" / "audit.md", ROOT / "docs" / "zh" / "audit.md")
BEGIN, END = "<!-- tools/audit_table.py -->\n", "<!-- end of tools/audit_table.py -->\n"

NPU = "import torch\nimport torch_npu\n"
#: The columns: a title, the options of ``patchcore run``, and the program.
COLUMNS = (
    ("`import torch_npu`", ("--disable", "*"), NPU),
    ("and `transfer_to_npu`", ("--disable", "*"), f"{NPU}from torch_npu.contrib import transfer_to_npu\n"),
    ("and `torch.transfer_to_npu` of patchcore", ("--plugin", "torch_npu"), NPU),
)


def audit(options: tuple[str, ...], program: str) -> list[dict[str, str]]:
    """Return the findings of a program's main process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        path.write_text(program, encoding="utf-8")
        command = [sys.executable, "-m", "patchcore", "audit", "--format", "json", *options, "--", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    if "{" not in done.stdout:
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stderr}")
    (process, *_) = json.loads(done.stdout[done.stdout.index("{\n") :])["processes"]
    return list(process["findings"])


def without_version(text: str) -> str:
    """Return a distribution without its version; a part of the standard library as ``Python``."""
    return "Python" if text.startswith("Python (") else text.partition(" ")[0]


def table() -> str:
    """Return the table as Markdown."""
    columns = [audit(options, program) for _, options, program in COLUMNS]
    counts = [Counter((without_version(r["by"]), without_version(r["owner"])) for r in rows) for rows in columns]
    keys = sorted(
        {key for count in counts for key in count}, key=lambda key: (-max(count[key] for count in counts), key)
    )
    lines = [
        f"| by | patches | {' | '.join(title for title, _, _ in COLUMNS)} |",
        f"|---|---|{'---|' * len(COLUMNS)}",
        *(f"| {by} | {owner} | {' | '.join(str(count[by, owner]) for count in counts)} |" for by, owner in keys),
        f"| conflicts | | {' | '.join(str(sum(bool(r['conflict']) for r in rows)) for rows in columns)} |",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, or write it."""
    found = table()
    if sys.argv[1:] != ["--write"]:
        print(found, end="")
        return
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        page.write_text(f"{before}{BEGIN}\n{found}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
