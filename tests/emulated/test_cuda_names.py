"""Programs that know CUDA by the text ``"cuda"`` take its branch on the NPU: the situations of public reports.

Each program prints what it does; without the two patches it takes the other branch, in silence.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from running import OPTION, without_note

#: A module beside the program, with the idioms of real projects.
LIBRARY = """
import contextlib
import torch

# as lerobot, kornia and transformers' trainers do it
def autocast(device):
    if device.type in ("cuda", "cpu", "xpu"):
        return torch.autocast(device_type=device.type, dtype=torch.bfloat16)
    return contextlib.nullcontext()

# as nanoGPT
def context(name):
    kind = "cuda" if "cuda" in name else "cpu"
    return contextlib.nullcontext() if kind == "cpu" else torch.amp.autocast(device_type=kind, dtype=torch.bfloat16)

def pinned(name):
    return name == "cuda" or name.startswith("cuda:")

# as OLMo
def fused(params):
    return all(p.device.type == "cuda" for p in params)

def settings(device):
    return {"cpu": "gloo", "cuda": "nccl"}[device.type]

class Runner:
    def __init__(self, device):
        self.device = torch.device(device)
        self.on_gpu = self.device.type != "cpu" and self.device.type == "cuda"
        self.tensor = torch.ones(4, 4, device=self.device)
    def non_blocking(self):
        return self.tensor.device.type == "cuda"
"""

PROGRAM = """
import json, sys
import torch
from library import *

x = torch.ones(4, 4, device="cuda")
found = {}
with autocast(x.device):
    found["autocast"] = str((x @ x).dtype)
with context(str(x.device)):
    found["context"] = str((x @ x).dtype)
found["pinned"] = pinned(str(x.device))
model = torch.nn.Linear(4, 4).cuda()
found["fused"] = fused(list(model.parameters()))
found["settings"] = settings(x.device)
runner = Runner("cuda:0")
found["runner"] = runner.non_blocking()
found["top level"] = "fast path" if x.device.type == "cuda" else "slow path"

def step(t):
    if t.device.type == "cuda":
        return t * 2
    return t * 3

@torch.jit.script
def scripted(t: torch.Tensor):
    if t.device.type == "cuda" or str(t.device).startswith("cuda"):
        return t * 2
    return t * 3

class Net(torch.nn.Module):
    def forward(self, t):
        return step(t)

found["eager"] = step(x)[0, 0].item()
found["compiled"] = torch.compile(step, backend="aot_eager", fullgraph=True)(x)[0, 0].item()
found["fx"] = float(step(x)[0, 0])
found["exported"] = torch.export.export(Net(), (x,)).module()(x)[0, 0].item()
found["scripted"] = scripted(x)[0, 0].item()
print(json.dumps(found))
"""

FAST = {
    "autocast": "torch.bfloat16",
    "context": "torch.bfloat16",
    "pinned": True,
    "fused": True,
    "settings": "nccl",
    "runner": True,
    "top level": "fast path",
    **dict.fromkeys(("eager", "compiled", "fx", "exported", "scripted"), 2.0),
}
OFF = "torch.transfer_to_npu.names,torch.transfer_to_npu.library_names"


def run(folder: Path, *options: str, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    (folder / "library.py").write_text(LIBRARY)
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-W", "ignore", "-m", "patchcore", "run", OPTION, *options, "program.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done


def test_every_branch_is_that_of_cuda(tmp_path: Path) -> None:
    done = run(tmp_path, "--report-dir", "report")
    assert json.loads(done.stdout.splitlines()[-1]) == FAST
    assert 'compare with "cuda" and held for NPUs, too' in done.stderr
    lines = rows(tmp_path / "report")
    ran = {(Path(row["file"]).name, row["cuda"]) for row in lines if row["count"]}
    assert ("library.py", 'device.type in ("cuda", "cpu", "xpu")') in ran
    assert ("library.py", '"cuda" in name') in ran
    assert ("program.py", 't.device.type == "cuda"') in ran


def test_without_the_patches_each_branch_is_lost(tmp_path: Path) -> None:
    done = run(tmp_path, "--disable", OFF, program=PROGRAM.replace('found["settings"] = settings(x.device)\n', ""))
    found = json.loads(done.stdout.splitlines()[-1])
    assert not any(found[key] == FAST[key] for key in found), found


def rows(folder: Path, title: str = 'Lines that compare with "cuda"') -> list[dict[str, Any]]:
    """Return the rows of a section in the reports of all processes."""
    found = []
    for path in folder.glob("*.json"):
        for section in json.loads(path.read_text()).get("sections", []):
            if section["title"] == title:
                found += section["data"]
    return found


def test_an_installed_package_is_edited_too(tmp_path: Path) -> None:
    package = tmp_path / "site-packages"
    package.mkdir()
    (package / "of_a_library.py").write_text(
        "def kind(d): return 'gpu' if d.type == 'cuda' else 'cpu'\n"
        "def knows(d): return 'npu' if d.type == 'npu' else 'gpu' if d.type == 'cuda' else 'cpu'\n"
    )
    program = f"""
import sys
sys.path.insert(0, {str(package)!r})
import torch, of_a_library as lib
d = torch.ones(1, device="cuda").device
print(lib.kind(d), lib.knows(d))
"""
    assert run(tmp_path, program=program).stdout.splitlines()[-1] == "gpu npu"
    off = ("--disable", "torch.transfer_to_npu.library_names")
    assert run(tmp_path, *off, program=program).stdout.splitlines()[-1] == "cpu npu"


#: As accelerate, peft and transformers have them.
WITH_BRANCHES = """
import importlib.util
import torch

def is_npu_available():
    return importlib.util.find_spec("torch_npu") is not None and torch.npu.is_available()

def is_cuda_available():
    return torch.cuda.is_available()

def infer_device():
    if torch.cuda.is_available():
        return "cuda"
    elif is_npu_available():
        return "npu"
    return "cpu"

def states():
    found = []
    if is_cuda_available():
        found.append("cuda")
    if is_npu_available():
        found.append("npu")
    return found

def supported():
    return torch.cuda.is_available()
"""


def test_a_library_takes_its_branch_for_npus(tmp_path: Path) -> None:
    for package in ("peft", "of_another_library"):
        folder = tmp_path / "site-packages" / package
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(WITH_BRANCHES)
    program = f"""
import json, sys
sys.path.insert(0, {str(tmp_path / "site-packages")!r})
import torch, peft, of_another_library
for library in (peft, of_another_library):
    print(json.dumps([library.infer_device(), library.states(), library.supported(), torch.cuda.is_available()]))
"""
    cuda, npu = ["cuda", ["cuda", "npu"], True, True], ["npu", ["npu"], True, True]
    done = run(tmp_path, "--report-dir", "report", program=program)
    assert [json.loads(line) for line in done.stdout.splitlines()[-2:]] == [npu, cuda]
    assert "2 lines of libraries found no CUDA, for their branch for NPUs" in done.stderr
    found = rows(tmp_path / "report", "Lines that find no CUDA, for the branch for NPUs")
    assert [(row["line"], row["count"]) for row in found] == [(9, 1), (12, 1)]
    off = ("--disable", "torch.transfer_to_npu.npu_branches")
    done = run(tmp_path, *off, program=program)
    assert [json.loads(line) for line in done.stdout.splitlines()[-2:]] == [cuda, cuda]


def test_ranks(tmp_path: Path) -> None:
    program = "import torch\nx = torch.ones(1, device='cuda')\nprint(x.device.type == 'cuda')\n"
    (tmp_path / "program.py").write_text(program)
    start = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "program.py"]
    run_command = [sys.executable, "-W", "ignore", "-m", "patchcore", "run", OPTION, *start]
    done = subprocess.run(run_command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert without_note(done.stdout).split() == ["True", "True"], done.stderr


def test_what_a_program_compiles_itself(tmp_path: Path) -> None:
    program = """
import torch
x = torch.ones(1, device="cuda")
exec(compile("def kind(d): return 'gpu' if d.type == 'cuda' else 'cpu'", "settings.py", "exec"))
print(kind(x.device), torch.compile(kind, backend="eager", fullgraph=True)(x.device), x.device.type == "cuda")
"""
    (tmp_path / "program.py").write_text(program)
    start = ["-m", "cProfile", "-o", "profile", "program.py"]
    command = [sys.executable, "-W", "ignore", "-m", "patchcore", "run", OPTION, *start]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert without_note(done.stdout).split() == ["gpu", "gpu", "True"], done.stderr


def test_what_cannot_be_edited_is_in_the_report(tmp_path: Path) -> None:
    program = """
import torch
d = torch.ones(1, device="cuda").device.type
print(eval("d == 'cuda'"))
exec('''
def kind(d):
    return d in ("cuda", "cpu")
''')
print(d == "cuda")
"""
    done = run(tmp_path, "--report-dir", "report", program=program)
    assert without_note(done.stdout).split() == ["False", "True"]
    assert '2 comparisons with "cuda" could not be edited' in done.stderr
    report = json.loads(next((tmp_path / "report").glob("*.json")).read_text())
    (section,) = (each for each in report["sections"] if "could not be edited" in each["title"])
    found = [(row["file"], row["line"], row["function"], Path(row["runner"]).name) for row in section["data"]]
    assert found == [("<string>", 1, "<module>", "program.py:4"), ("<string>", 3, "kind", "program.py:5")]
    program = "import torch; print(torch.ones(1, device='cuda').device.type == 'cuda')"
    command = [sys.executable, "-W", "ignore", "-m", "patchcore", "run", OPTION, sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert without_note(done.stdout).split() == ["False"]
    assert '1 comparison with "cuda" could not be edited' in done.stderr
