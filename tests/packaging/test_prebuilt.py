"""The wheel of fake-cann with compiled libraries, where there is no compiler, beside the real torch_npu."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("build", reason="needs the package build: python -m nox -s packaging")

ROOT = Path(__file__).resolve().parents[2]
FAKE_CANN = ROOT / "plugins" / "fake_cann"
PROGRAM = """
import subprocess, sys
import torch

def train(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    losses = []
    for _ in range(3):
        loss = model(torch.ones(4, 8, device=device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

assert train("npu") == train("cpu"), (train("npu"), train("cpu"))
child = "import torch; print('child', (torch.ones(2, device='npu') + 1).tolist())"
subprocess.run([sys.executable, "-c", child], check=True)
print("trained on", torch.npu.get_device_name())
"""


def has(name: str) -> bool:
    try:
        return bool(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return False


is_served = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
pytestmark = pytest.mark.skipif(not is_served, reason="the libraries are for Linux on x86-64 and aarch64")
with_torch_npu = pytest.mark.skipif(
    not (has("torch") and has("torch_npu")), reason="needs torch and torch_npu: python -m nox -s packaging"
)


def run(*command: object, env: dict[str, str] | None = None, code: int = 0) -> str:
    """Return stdout and stderr of a command, which has to end with ``code``."""
    outside = ("PYTHONPATH", "PATCHCORE_", "FAKE_CANN_", "CXX", "LD_LIBRARY_PATH")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(outside)}
    arguments = [str(part) for part in command]
    done = subprocess.run(arguments, env={**environment, **(env or {})}, capture_output=True, text=True, timeout=900)
    assert done.returncode == code, f"{' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def build_wheel(folder: Path, out: Path, **env: str) -> Path:
    """Build the source distribution of a folder, and the wheel from that."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, folder, env=env)
    (wheel,) = out.glob(f"{folder.name if folder != ROOT else 'patchcore'}-*.whl")
    return wheel


def make_environment(folder: Path, *wheels: Path) -> Path:
    """Return the Python of a new virtual environment with wheels; torch and torch_npu are those of this one."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "torch_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(python, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--force-reinstall", *wheels)
    return python


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of patchcore."""
    return build_wheel(ROOT, tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="module")
def prebuilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of fake-cann as the session release builds it, for one release of torch."""
    folder = tmp_path_factory.mktemp("prebuilt")
    command = (sys.executable, "-m", "fake_cann", "build", f"--into={folder / 'libraries'}")
    run(*command, env={"PYTHONPATH": str(FAKE_CANN)})
    return build_wheel(FAKE_CANN, folder / "dist", FAKE_CANN_PREBUILT=str(folder / "libraries"))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, core: Path, prebuilt: Path) -> Path:
    """The Python of an environment with these wheels."""
    return make_environment(tmp_path_factory.mktemp("environment"), core, prebuilt)


def no_compiler(cache: Path, **others: str) -> dict[str, str]:
    return {"CXX": "/bin/false", "FAKE_CANN_CACHE": str(cache), "OMP_NUM_THREADS": "1", **others}


@with_torch_npu
class TestWheelWithLibraries:
    def test_is_for_this_platform_and_for_any_python(self, prebuilt: Path) -> None:
        assert "-py3-none-manylinux_2_" in prebuilt.name
        assert prebuilt.name.endswith(f"_{platform.machine()}.whl")
        release = importlib.metadata.version("torch").partition("+")[0]
        with zipfile.ZipFile(prebuilt) as archive:
            names = archive.namelist()
        assert f"fake_cann/prebuilt/{release}/libopapi.so" in names
        assert f"fake_cann/prebuilt/{release}/recorder/libopapi.so" in names

    def test_trains_where_there_is_no_compiler(self, python: Path, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text(PROGRAM)
        env = no_compiler(tmp_path / "cache")
        printed = run(python, "-m", "fake_cann", "run", tmp_path / "train.py", env=env)
        assert "trained on Ascend910B3" in printed
        assert "child [2.0, 2.0]" in printed
        assert "compil" not in printed
        (tmp_path / "installs.py").write_text("import fake_cann\nfake_cann.install()\n" + PROGRAM)
        assert "trained on Ascend910B3" in run(python, tmp_path / "installs.py", env=env)
        patchcore = (python, "-m", "patchcore", "run", "--emulate-npu=cann", tmp_path / "train.py")
        assert "trained on Ascend910B3" in run(*patchcore, env=env)
        assert not (tmp_path / "cache").exists()

    def test_has_no_say_where_the_table_was_changed(
        self, core: Path, prebuilt: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
    ) -> None:
        python = make_environment(tmp_path_factory.mktemp("changed"), core, prebuilt)
        (table,) = python.parent.parent.glob("lib/python*/site-packages/fake_cann/operators.txt")
        table.write_text(table.read_text() + "# changed\n")
        printed = run(python, "-m", "fake_cann", "build", env=no_compiler(tmp_path / "cache"), code=1)
        assert "/bin/false" in printed

    def test_is_not_compiled_again_in_place(self, python: Path, tmp_path: Path) -> None:
        env = no_compiler(tmp_path / "cache")
        assert "prebuilt" in run(python, "-m", "fake_cann", "build", env=env)
        assert "came with the wheel" in run(python, "-m", "fake_cann", "build", "--force", env=env, code=1)


@with_torch_npu
def test_a_wheel_without_libraries_names_the_compiler_that_it_needs(
    core: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    wheel = build_wheel(FAKE_CANN, tmp_path_factory.mktemp("plain"))
    assert wheel.name.endswith("-py3-none-any.whl")
    python = make_environment(tmp_path_factory.mktemp("without"), core, wheel)
    printed = run(python, "-m", "fake_cann", "run", "-c", "1", env=no_compiler(tmp_path / "cache"), code=1)
    assert "/bin/false" in printed
    assert "Traceback" not in printed


def test_a_folder_without_libraries_is_no_wheel(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path / "dist", FAKE_CANN)
    printed = run(*command, env={"FAKE_CANN_PREBUILT": str(tmp_path)}, code=1)
    assert "expected libraries of python -m fake_cann build --into, found none" in printed
