"""Write the table of operators that a released torch_npu has kernels for: data of ``patchcore ops``.

python tools/operator_table.py torch_npu-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl

The wheel is unpacked into a temporary folder, and its library is loaded beside the installed torch, which must be the
one it was built for. Its static initialisers register every kernel with torch's dispatcher, as on a machine with an
NPU, and the dispatcher is asked. No kernel runs, nothing is installed: the libraries of CANN, which are not there, are
stood in for by functions that do nothing. Needs Linux and a C compiler (``cc``), and a throw-away environment, since
the wheel's code runs at the load.

What is written are facts, names and what is registered under them, with the wheel they were read from.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "plugins/npu_migrate/npu_migrate/ops/tables"

#: The library with the kernels, and those of the wheel that it is linked to.
LIBRARY = "libtorch_npu.so"
COMPANIONS = ("libtensorpipe.so", "libnpu_profiler.so")

KEY = "PrivateUse1"
SPARSE_KEYS = ("SparsePrivateUse1", "SparseCsrPrivateUse1")
#: Alias keys whose kernels run on every device, by the word that the table has for each.
COMPOSITES = {
    "CompositeExplicitAutogradNonFunctional": "structured",
    "CompositeExplicitAutograd": "explicit",
    "CompositeImplicitAutograd": "implicit",
}


def main() -> None:
    """Read the wheel and write the table, in a process that can find the stand-ins."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, help="a wheel of torch_npu, for this Python and machine")
    parser.add_argument("--output", type=Path, default=FOLDER, metavar="DIR", help="where tables are")
    parser.add_argument("--unpacked", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.unpacked is not None:
        table = read(options.wheel, options.unpacked)
        path = options.output / f"torch_npu-{table['torch_npu']}.json"
        path.write_text(json.dumps(table, indent=0) + "\n")
        counts = ", ".join(f"{len(names)} {word}" for word, names in table["operators"].items())
        print(f"{path}: {counts}", flush=True)
        os._exit(0)  # the library's destructors would ask CANN
    with tempfile.TemporaryDirectory() as folder:
        unpacked = Path(folder)
        with zipfile.ZipFile(options.wheel) as archive:
            archive.extractall(unpacked)
        build_stand_ins(unpacked)
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": f"{unpacked / 'stand_ins'}:{unpacked / 'torch_npu/lib'}",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        }
        command = [sys.executable, __file__, str(options.wheel), "--output", str(options.output)]
        raise SystemExit(subprocess.call([*command, "--unpacked", folder], env=environment))


def build_stand_ins(unpacked: Path) -> None:
    """Make the libraries that the wheel's ask for and that neither torch nor the wheel has: functions that return 0."""
    import torch

    ours = [unpacked / "torch_npu/lib" / name for name in (LIBRARY, *COMPANIONS)]
    theirs = Path(torch.__file__).parent.joinpath("lib").glob("*.so*")
    defined = {symbol.split("@")[0] for path in (*ours, *theirs) for symbol, _ in symbols(path, "--defined-only")}
    wanted = {symbol for path in ours for symbol, kind in symbols(path, "--undefined-only") if kind not in "wv"}
    missing = sorted(x for x in wanted - defined if "@" not in x and not x.startswith(("Py", "_Py")))
    needed = {name for path in ours for name in needed_libraries(path)} - {path.name for path in ours}
    found = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    absent = sorted(n for n in needed if n not in found and not n.startswith(("libtorch", "libc10", "ld-linux")))
    folder = unpacked / "stand_ins"
    folder.mkdir()
    source = folder / "functions.s"
    source.write_text("".join(f'.globl "{x}"\n.type "{x}",@function\n"{x}":\n xor %eax,%eax\n ret\n' for x in missing))
    (folder / "nothing.s").write_text("")
    for number, name in enumerate(absent):
        code = source if number == 0 else folder / "nothing.s"
        subprocess.run(
            ["cc", "-shared", "-nostdlib", f"-Wl,-soname,{name}", "-o", str(folder / name), str(code)], check=True
        )


def symbols(path: Path, which: str) -> list[tuple[str, str]]:
    """Return (name, kind) of the dynamic symbols of a library."""
    output = subprocess.run(["nm", "-D", which, str(path)], capture_output=True, text=True, check=True).stdout
    return [(parts[-1], parts[-2]) for parts in (line.split() for line in output.splitlines())]


def needed_libraries(path: Path) -> list[str]:
    """Return the names of the libraries that a library is linked to."""
    output = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output)


def read(wheel: Path, unpacked: Path) -> dict[str, Any]:
    """Load the library of an unpacked wheel and return its table."""
    import ctypes

    import torch

    version, revision = versions(unpacked)
    installed = torch.__version__.split("+")[0]
    if installed.split(".")[:2] != version.split(".")[:2]:
        raise SystemExit(
            f"torch_npu {version} was built for that torch, found torch {installed}; install torch {version}"
        )
    for path in sorted((unpacked / "stand_ins").glob("*.so")):
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    theirs = set(torch._C._dispatch_get_registrations_for_dispatch_key(KEY))
    ctypes.CDLL(str(unpacked / "torch_npu/lib" / LIBRARY), mode=ctypes.RTLD_GLOBAL)
    kernels = set(torch._C._dispatch_get_registrations_for_dispatch_key(KEY))
    if not kernels - theirs:
        raise SystemExit(f"{LIBRARY} registers no kernel for {KEY} with this torch")
    return {
        "torch_npu": version,
        "torch": installed,
        "source": {
            "distribution": f"torch_npu {version}",
            "wheel": wheel.name,
            "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
            "revision": revision,
            "licence": "BSD-3-Clause",
            "how": f"kernels that {LIBRARY} registers with torch {installed} (tools/operator_table.py)",
        },
        "fallback": bool(torch._C._dispatch_has_backend_fallback(torch._C.DispatchKey.PrivateUse1)),
        "operators": sorted_out(torch, kernels),
    }


def sorted_out(torch: Any, kernels: set[str]) -> dict[str, list[str]]:
    """Return the operators of torch and torch_npu by what runs when they are called with NPU tensors.

    ``kernel``: a kernel of their own. ``structured``, ``explicit`` and ``implicit``: a kernel for every device, which
    calls other operators; a structured one calls its ``out`` variant, and counts where that is not in ``none``.
    ``sparse``: a kernel for sparse tensors, and dense ones have none on the CPU either. ``none``: nothing, so that the
    fallback runs it on the CPU.
    """
    delegates = structured_delegates()
    sparse = {n for key in SPARSE_KEYS for n in torch._C._dispatch_get_registrations_for_dispatch_key(key)}
    names = {n for n in torch._C._dispatch_get_all_op_names() if n.startswith(("aten::", "npu::"))} | kernels

    def word_of(name: str) -> str:
        if name in kernels:
            return "kernel"
        for key, word in COMPOSITES.items():  # in the dispatcher's order
            if torch._C._dispatch_has_kernel_for_dispatch_key(name, key):
                through = delegates.get(name, name) if word == "structured" else name
                return word if through == name or word_of(through) != "none" else "none"
        dense = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")
        return "sparse" if name in sparse and not dense else "none"

    sorts: dict[str, list[str]] = {word: [] for word in ("kernel", *COMPOSITES.values(), "sparse", "none")}
    for name in sorted(names):
        sorts[word_of(name)].append(name)
    return sorts


def structured_delegates() -> dict[str, str]:
    """Return which operator each structured one calls, from the ``native_functions.yaml`` that comes with torch."""
    import torchgen

    text = Path(torchgen.__file__).parent.joinpath("packaged/ATen/native/native_functions.yaml").read_text()
    delegates = {}
    for block in re.split(r"^- func: ", text, flags=re.MULTILINE)[1:]:
        found = re.search(r"^  structured_delegate: (\S+)", block, flags=re.MULTILINE)
        if found:
            delegates[f"aten::{block.split('(')[0]}"] = f"aten::{found[1]}"
    return delegates


def versions(unpacked: Path) -> tuple[str, str]:
    """Return the version of torch_npu and the revision it was built from."""
    text = unpacked.joinpath("torch_npu/version.py").read_text()
    found = dict(re.findall(r"^(\w+) = '(.*)'", text, flags=re.MULTILINE))
    return found["__version__"].split("+")[0], found["git_version"]


if __name__ == "__main__":
    main()
