"""Build the mmcv wheel with its CPU operators once, and keep it outside the checkout.

mmcv is published as source only, and compiling its operators takes 8 to 20 minutes on two cores because each of its
seventy-odd files parses torch's headers again. Parsing them once into a precompiled header brings the build under two
minutes. The wheel fits one Python and one torch, so the cache is keyed by both::

    $PATCHCORE_CACHE/wheels/mmcv-2.1.0-cp311-torch2.13.0+cpu-linux_x86_64/mmcv-2.1.0-cp311-cp311-linux_x86_64.whl

Without ``PATCHCORE_CACHE`` the folder is ``patchcore`` in ``XDG_CACHE_HOME`` (``~/.cache``).

The noxfile calls ``cached_wheel``. The interpreter that the wheel is for must have torch, a setuptools that still has
``pkg_resources``, pip and ninja: ``requirements/torch.txt`` installs them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Callable

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

Log = Callable[[str], None]

# Of this checkout, whether or not patchcore and what it needs are installed.
_FILES = Path(__file__).resolve().parent.parent / "patchcore" / "builtin" / "shared" / "files.py"
_spec = importlib.util.spec_from_file_location("files", _FILES)
files = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(files)

#: Where the interpreter of a build finds a module that it imports at its start.
OLD_SETUP = Path(__file__).resolve().parent / "old_setup"

_OTHER_FOLDER = "or name another folder for it: PATCHCORE_CACHE=~/patchcore-cache"

# What nearly every operator source includes, by way of mmcv's pytorch_cpp_helper.hpp.
TORCH_HEADER = "#include <torch/types.h>\n"

# gcc takes a precompiled header only when every flag that changes code or macros is the one it was made with. In CFLAGS
# the first four replace Python's own; the others are what torch's BuildExtension and mmcv's setup.py add.
CFLAGS = ("-DNDEBUG", "-fwrapv", "-g0", "-O1")
EXTENSION_FLAGS = ("-fPIC", "-std=c++17", "-DTORCH_API_INCLUDE_EXTENSION_H", "-DTORCH_EXTENSION_NAME=_ext")

# mmcv's setup.py turns to another device when it sees one: the wheel must be the CPU build on every machine.
CPU_ONLY = {
    "MMCV_WITH_OPS": "1",
    "MMCV_WITH_DIOPI": "0",
    "FORCE_CUDA": "0",
    "FORCE_MLU": "0",
    "FORCE_MPS": "0",
    "FORCE_NPU": "0",
    "CUDA_VISIBLE_DEVICES": "",
}

PROBE = """
import json, shutil, sys, sysconfig
facts = {"python": sys.executable, "version": "%d.%d" % sys.version_info[:2], "error": ""}
facts["platform"] = sysconfig.get_platform().replace("-", "_").replace(".", "_")
facts["python_headers"] = sysconfig.get_paths()["include"]
facts["scripts"] = sysconfig.get_paths()["scripts"]
try:
    import pkg_resources, torch
    from torch.utils.cpp_extension import include_paths
    facts.update(torch=str(torch.__version__), torch_headers=list(include_paths()))
except Exception as error:
    facts["error"] = "%s: %s" % (type(error).__name__, error)
json.dump(facts, sys.stdout)
"""


class WheelError(Exception):
    """The wheel cannot be built; the message says what is missing and how to get it."""


class MissingTool(WheelError):
    """A compiler, the headers of Python or ninja is missing; the message names it and the line that installs it."""


def facts_of(python: str) -> SimpleNamespace:
    """Return what the build needs to know of an interpreter, see :data:`PROBE`.

    Args:
        python: path of the executable.

    Raises:
        WheelError: it cannot be run, or torch or a setuptools that mmcv can use is not installed in it.
    """
    try:
        answer = subprocess.run([python, "-W", "ignore", "-c", PROBE], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise WheelError(f"cannot run {python}: {getattr(error, 'stderr', None) or error}") from error
    facts = SimpleNamespace(**json.loads(answer.stdout))
    if facts.error:
        raise WheelError(
            f"torch or pkg_resources, of setuptools 80, cannot be imported by {python}: {facts.error}\n"
            f"install them: {python} -m pip install -c constraints.txt -r requirements/torch.txt"
        )
    return facts


def cache_root() -> Path:
    """Return the folder for what is expensive to make: ``$PATCHCORE_CACHE``, or ``patchcore`` in the user's cache."""
    explicit = os.environ.get("PATCHCORE_CACHE")
    if explicit:
        return Path(explicit).expanduser().resolve()
    return files.user_cache() / "patchcore"


def cached_wheel(requirement: str, *, python: str = sys.executable, log: Log = print) -> Path:
    """Return the wheel of an mmcv release for this interpreter, building it when the cache has none.

    Safe to call from several processes at once: one builds, the others wait and take its wheel. A build that is killed
    leaves no wheel behind, and the next one clears what it left.

    Args:
        requirement: exact pin, ``"mmcv==2.1.0"`` or ``"mmcv-full==1.7.2"``.
        python: the interpreter that the wheel is for.
        log: called with what is done.

    Returns:
        Path of a complete wheel that contains the compiled operators.

    Raises:
        WheelError: a build tool is missing, the build failed, or others can enter the folder of the wheel.
    """
    name, version = _parsed(requirement)
    interpreter = facts_of(python)
    folder = _folder(name, version, interpreter)
    try:
        folder = files.refuse_shared(folder)
        wheel = _find_wheel(folder)
        if wheel is None:
            files.private_folder(folder)
            with _build_lock(folder / "lock", log) as lock:
                # Whoever held the lock before us may just have placed it.
                wheel = _find_wheel(folder) or _Build(name, version, interpreter, folder, lock, log).run()
    except files.UntrustedPath as error:
        raise WheelError(f"the cache of wheels cannot be used: {error}\n{_OTHER_FOLDER}") from error
    return wheel


def require_tools(requirement: str, *, python: str = sys.executable) -> None:
    """Raise where the build that ``cached_wheel`` would start lacks a tool; do nothing where the cache has the wheel.

    Args:
        requirement: as of ``cached_wheel``.
        python: the interpreter that the wheel is for.

    Raises:
        MissingTool: the compiler, the headers of Python or ninja is missing.
        WheelError: as by ``cached_wheel``.
    """
    name, version = _parsed(requirement)
    interpreter = facts_of(python)
    folder = _folder(name, version, interpreter)
    if _find_wheel(folder) is None:
        _Build(name, version, interpreter, folder, -1, print).require_tools()


def _parsed(requirement: str) -> tuple[str, str]:
    pin = re.fullmatch(r"\s*([A-Za-z0-9._-]+)==([A-Za-z0-9.]+)\s*", requirement)
    if pin is None:
        raise WheelError(f"expected an exact pin such as mmcv==2.1.0, found {requirement!r}")
    return pin[1], pin[2]


def _folder(name: str, version: str, interpreter: SimpleNamespace) -> Path:
    tag = f"cp{interpreter.version.replace('.', '')}"
    key = f"{name}-{version}-{tag}-torch{interpreter.torch}-{interpreter.platform}"
    return cache_root() / "wheels" / key


def setup_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which setup.py files of the OpenMMLab libraries run on every Python.

    Args:
        environment: the variables of the process that starts the build.

    Returns:
        A copy with ``tools/old_setup`` in front of ``PYTHONPATH``; that folder's docstring says what it repairs.
    """
    path = [str(OLD_SETUP), environment.get("PYTHONPATH", "")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def _find_wheel(folder: Path) -> Path | None:
    return next(iter(sorted(folder.glob("*.whl"))), None)


@contextmanager
def _build_lock(path: Path, log: Log) -> Iterator[int]:
    """Hold the lock of one cache entry; gives its file descriptor."""
    if fcntl is None:
        raise WheelError("mmcv's operators can be built on Linux and macOS only: this Python has no fcntl")
    # The system releases the lock when the last process that has the file open ends, however it ends.
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log(f"another process builds this wheel, waiting for it (lock {path})")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


class _Build:
    """One build, in a folder of the cache that only the holder of the lock touches."""

    def __init__(
        self, name: str, version: str, interpreter: SimpleNamespace, folder: Path, lock: int, log: Log
    ) -> None:
        self.name = name
        self.version = version
        self.interpreter = interpreter
        self.folder = folder
        self.work = folder / "build"
        self.log_file = folder / "build.log"
        self.lock = lock
        self.log = log
        self.environment = setup_environment(os.environ)
        self.environment.update(CPU_ONLY)
        # torch's BuildExtension starts ninja by name.
        self.environment["PATH"] = os.pathsep.join([interpreter.scripts, self.environment.get("PATH", os.defpath)])
        self.environment.setdefault("MAX_JOBS", str(os.cpu_count() or 1))
        self.compiler = self.environment.get("CXX", "c++").split()

    def run(self) -> Path:
        self.require_tools()
        # A build that was killed leaves up to 500 MB here.
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        self.log_file.write_bytes(b"")
        try:
            header = self._precompile_header()
            wheel = self._build_wheel(header)
            # Within one file system a rename is atomic: the wheel is either whole or not there.
            placed = self.folder / wheel.name
            wheel.chmod(0o644)  # the umask may let others write
            os.replace(wheel, placed)
        finally:
            shutil.rmtree(self.work, ignore_errors=True)
        self.log(f"{self._label} built: {placed}")
        return placed

    @property
    def _label(self) -> str:
        return f"{self.name} {self.version}"

    def require_tools(self) -> None:
        path, version = self.environment["PATH"], self.interpreter.version
        missing = ""
        if shutil.which(self.compiler[0], path=path) is None:
            missing = (
                f"no C++ compiler is on PATH: expected {self.compiler[0]!r} "
                f"({'CXX' if 'CXX' in self.environment else 'the default'}), found none\n"
                "install one: apt-get install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora), or point CXX at it\n"
                "what else needs one: the compiled core of npu-emulator, npu-graph's vendor c, inductor, torch_scatter"
            )
        elif not Path(self.interpreter.python_headers, "Python.h").is_file():
            missing = (
                f"the headers of Python {version} are missing: expected {self.interpreter.python_headers}/Python.h\n"
                f"install them: apt-get install python{version}-dev (Debian, Ubuntu), dnf install "
                f"python{version}-devel (Fedora); a Python made by pyenv has them already"
            )
        elif shutil.which("ninja", path=path) is None:
            missing = (
                f"ninja is missing: expected it in {self.interpreter.scripts} or on PATH\n"
                f"install it: {self.interpreter.python} -m pip install ninja"
            )
        if missing:
            raise MissingTool(f"{self._label} has operators to compile, and {missing}")

    def _precompile_header(self) -> Path | None:
        """Compile torch's headers once; ``None`` when this compiler cannot."""
        header = self.work / "torch_types.h"
        header.write_text(TORCH_HEADER)
        folders = [*self.interpreter.torch_headers, self.interpreter.python_headers]
        command = [*self.compiler, "-x", "c++-header", *CFLAGS, *EXTENSION_FLAGS]
        command += [f"-I{folder}" for folder in folders]
        command += [str(header), "-o", f"{header}.gch"]
        code = self._run(command, "precompiling torch's headers")
        if code != 0:
            self.log(
                f"{self._label}: the compiler cannot precompile torch's headers (exit {code}, {self.log_file}); "
                "building without, which takes 8 to 20 minutes"
            )
            return None
        return header

    def _build_wheel(self, header: Path | None) -> Path:
        flags = list(CFLAGS)
        if header is not None:
            flags += ["-Winvalid-pch", "-include", shlex.quote(str(header))]  # distutils splits as a shell does
        self.environment["CFLAGS"] = " ".join(flags)
        output = self.work / "wheel"
        # pip's own cache of built wheels knows neither the torch nor the flags that a wheel was built with.
        command = [self.interpreter.python, "-m", "pip", "wheel", "--verbose", "--progress-bar", "off"]
        command += ["--no-cache-dir", "--no-deps", "--no-build-isolation", f"--no-binary={self.name}"]
        command += ["--wheel-dir", str(output), f"{self.name}=={self.version}"]
        code = self._run(command, "compiling operators")
        wheel = _find_wheel(output)
        if code != 0 or wheel is None:
            tail = "\n".join(self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-25:])
            raise WheelError(
                f"{self._label} did not build (pip wheel, exit {code}). The last lines of {self.log_file}:\n{tail}"
            )
        with zipfile.ZipFile(wheel) as archive:
            if not any(re.fullmatch(r"mmcv/_ext\..*so", member) for member in archive.namelist()):
                raise WheelError(
                    f"{self._label} was built without operators: expected mmcv/_ext.*.so in {wheel.name}, "
                    f"found none; see {self.log_file}"
                )
        return wheel

    def _run(self, command: list[str], doing: str) -> int:
        """Run a command with its output in the log file."""
        self.log(f"{self._label}: {doing}; output in {self.log_file}")
        with open(self.log_file, "ab") as output:
            # The child keeps the lock too: should this process be killed, nobody starts over while the child goes on.
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment,
                pass_fds=[self.lock],
            )
        return done.returncode
