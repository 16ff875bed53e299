"""Programs that know CUDA by the text ``"cuda"`` take its branch on the NPU: the situations of public reports.

Each program prints what it does; without the two patches it takes the other branch, in silence.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
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

def doubled(t):
    return t * 2 if t.device.type == "cuda" else t * 3

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
half = x.half()
FLOAT = "torch.cuda.FloatTensor"
# as Megatron and old optimizers
found["types of tensors"] = [
    x.type() == "torch.cuda.FloatTensor", half.type() in ["torch.cuda.HalfTensor", "torch.cuda.BFloat16Tensor"],
    "cuda" in x.type(), x.type() == FLOAT, "fast" if x.type().startswith("torch.cuda") else "slow"
]

def step(t):
    if t.device.type == "cuda":
        return t * 2
    return t * 3

@torch.jit.script
def scripted(t: torch.Tensor, n: int = 0):
    added = torch.ones(4, 4, device="cuda" if t.is_cuda else "cpu")
    factor = {"cuda": 1, "cpu": 0}.get(t.device.type, 0)
    held = t.device.type == "cuda" and str(t.device).startswith("cuda") and "cuda" in str(t.device)
    return t * factor + added if held and str(t.device) == f"cuda:{n}" else t * 3

class Scripted(torch.nn.Module):
    kind: torch.jit.Final[str] = "cuda"
    def forward(self, t: torch.Tensor):
        return t * 2 if t.device.type == self.kind else t * 3

class Net(torch.nn.Module):
    def forward(self, t):
        return step(t)

class Traced(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.device = x.device
    def forward(self, t):
        return t * 2 if self.device.type == "cuda" and str(self.device).startswith("cuda") else t * 3

found["eager"] = step(x)[0, 0].item()
found["compiled"] = torch.compile(step, backend="aot_eager", fullgraph=True)(x)[0, 0].item()
found["compiled library"] = torch.compile(lambda t: doubled(t), backend="aot_eager", fullgraph=True)(x)[0, 0].item()
found["fx"] = torch.fx.symbolic_trace(Traced())(x)[0, 0].item()
found["exported"] = torch.export.export(Net(), (x,)).module()(x)[0, 0].item()
found["exported strictly"] = torch.export.export(Net(), (x,), strict=True).module()(x)[0, 0].item()
found["scripted module"] = torch.jit.script(Scripted())(x)[0, 0].item()
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
    "types of tensors": [True, True, True, True, "fast"],
    **dict.fromkeys(("eager", "compiled", "compiled library", "fx", "exported", "exported strictly"), 2.0),
    **dict.fromkeys(("scripted", "scripted module"), 2.0),
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


#: Each line with the mark is edited and runs on the NPU; the one with the other mark names NPUs itself.
TRAINING = """
import contextlib
import json
import os
import sys

import torch
from torch import nn

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda"
KIND = "cuda"

def autocast(device):
    kind = "cuda" if "cuda" in device else "cpu"  # edited
    return torch.amp.autocast(device_type=kind, enabled=False)

def batches(device):
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(16, 6, generator=generator)
    data = torch.utils.data.TensorDataset(images, (images.sum(1) > 0).long())
    return torch.utils.data.DataLoader(data, batch_size=4, pin_memory=device.startswith("cuda"))  # edited

class Trainer:
    def __init__(self, device):
        self.device = torch.zeros(1, device=device).device
        self.streams = {"cpu": 0, "cuda": 1}[self.device.type]  # edited
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).to(self.device)
        fused = all(p.device.type in ("cuda", "xpu") for p in self.model.parameters())  # edited
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 0.1, fused=fused)

    def kind(self):
        return "npu" if self.device.type == "npu" else "gpu" if self.device.type == "cuda" else "cpu"  # left alone

    def train(self):
        for images, labels in batches(str(self.device)):
            non_blocking = self.device.type == KIND  # edited
            images, labels = (each.to(self.device, non_blocking=non_blocking) for each in (images, labels))
            with autocast(str(self.device)):
                loss = nn.functional.cross_entropy(self.model(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            yield loss.item()

torch.manual_seed(0)
trainer = Trainer(DEVICE)
losses = list(trainer.train())
fused = trainer.optimizer.param_groups[0]["fused"]
if trainer.device.type != "cuda":  # edited
    fused = False
print(json.dumps({"losses": losses, "fused": fused, "streams": trainer.streams, "kind": trainer.kind()}))
"""


def test_a_program_trains_to_the_losses_of_the_cpu_and_every_edited_line_is_in_the_report(tmp_path: Path) -> None:
    on_npu = json.loads(run(tmp_path, "--report-dir", "report", program=TRAINING).stdout.splitlines()[-1])
    command = [sys.executable, "-W", "ignore", "program.py", "cpu"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True)
    on_cpu = json.loads(done.stdout.splitlines()[-1])
    assert on_npu.pop("losses") == pytest.approx(on_cpu.pop("losses"), rel=1e-5)
    assert on_npu == {"fused": True, "streams": 1, "kind": "npu"}
    assert on_cpu == {"fused": False, "streams": 0, "kind": "cpu"}
    numbered = list(enumerate(TRAINING.splitlines(), 1))
    found = [row for row in rows(tmp_path / "report") if Path(row["file"]).name == "program.py"]
    assert [row["line"] for row in found if row["count"]] == [n for n, line in numbered if line.endswith("# edited")]
    assert [(row["line"], row["npu"]) for row in found if not row["count"]] == [
        (n, "its function names npu itself") for n, line in numbered if line.endswith("# left alone")
    ]


def rows(folder: Path, title: str = 'Lines that compare with "cuda"') -> list[dict[str, Any]]:
    """Return the rows of a section in the reports of all processes."""
    found = []
    for path in folder.glob("*.json"):
        for section in json.loads(path.read_text()).get("sections", []):
            if section["title"] == title:
                found += section["data"]
    return found


#: Without the word: the devices come from somewhere else.
PLAIN = """
def generator_fits(generator, device):
    return generator.device.type == device.type

def to_same(x, device):
    return x if x.device.type == device.type else x.cpu()
"""
TWO_DEVICES = """
import json
import torch
import plain

device = torch.device("cuda")
x = torch.ones(2, device=device)
found = [plain.to_same(x, device).device.type, plain.generator_fits(torch.Generator("cuda"), device)]
found += [x.device.type == device.type, str(x.device) == str(torch.device("cuda:0"))]
found.append(torch.compile(plain.to_same, backend="aot_eager", fullgraph=True)(x, device).device.type)
print(json.dumps(found))
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [((), ["npu", True, True, True, "npu"]), (("--disable", OFF), ["cpu", False, False, False, "cpu"])],
    ids=["with the patches", "without"],
)
def test_the_types_of_two_devices(options: tuple[str, ...], expected: list[Any], tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    done = run(tmp_path, *options, program=TWO_DEVICES)
    assert json.loads(done.stdout.splitlines()[-1]) == expected


TESTS = """
import sys

IS_EARLY = "torch" not in sys.modules

import torch

def test_names():
    x = torch.ones(2, device="cuda")
    assert IS_EARLY
    assert x.device.type == "cuda"
    assert x.device.type == torch.device("cuda").type
    assert x.device.type in ("cuda", "xpu"), x.device

def test_fails():
    assert torch.ones(2).device.type == "cuda"
"""


def test_tests_that_pytest_compiles(tmp_path: Path) -> None:
    (tmp_path / "test_names.py").write_text(TESTS)
    command = [sys.executable, "-m", "patchcore", "run", OPTION, "-m", "pytest", "-q", "test_names.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "'cpu' = device(type='cpu').type" in done.stdout
    assert '4 lines compare with "cuda" and held for NPUs, too' in done.stderr


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
