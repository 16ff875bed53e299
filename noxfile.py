"""Every check of the project, each in a virtual environment of its own.

python3 -m pip install nox
python3 -m nox -s tests             # the suite with the real libraries; the first run compiles mmcv's operators
python3 -m nox -s tests -- -k name  # what follows -- goes to pytest
python3 -m nox -s demo-3.13         # with the libraries on another Python that is here
python3 -m nox -s dev               # an environment to work in: source .venv/bin/activate && pytest tests/core
python3 -m nox --list

Virtual environments are kept in .nox/ and reinstalled only when a file that decides their contents has changed. The
compiled mmcv wheel is kept outside the checkout, see tools/mmcv_wheel.py.

An environment with the real libraries (``Libraries``) has those of mmcv 1.x or of mmcv 2.x on one Python. It is made in
two steps: torch and the distributions of this checkout, which need no compiler (session ``libraries``), then the
OpenMMLab libraries with compiled operators (session ``operators``). Where the compiler is missing, the second step says
what to install, and the sessions run what they can without.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Callable, NamedTuple

import nox
import nox.command

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))
sys.path.insert(0, str(Path(__file__).resolve().parent / "tests" / "helpers"))

import browsers
import each_module
import mmcv_wheel
import pythons

DEMO = "examples.mmdet_training"
CUDA_SCRIPT = "examples/train_cuda.py"
EMULATOR_CORES = ("python", "native")
# Folders of tests/ that the session core runs, the one with the longest tests first.
CORE_TESTS = ("tests/hostile", "tests/core", "tests/builtin", "tests/plugins", "tests/house")
# Of the folders and of tests/integration, the tests of the session tests.
WITH_LIBRARIES = "libraries and not slow"
# Modules that take minutes each.
LONGEST = (
    "test_walkthroughs.py",
    "test_examples.py",
    "test_demo_training.py",
    "test_every_process.py",
    "test_graph_conformance.py",
)
# Of tests/integration, what depends on how torch was built: the pages, and what asks torch about CUDA.
CUDA_BUILD_TESTS = (
    "test_compat_transfer.py",
    "test_examples.py",
    "test_import_changes_of_libraries.py",
    "test_markers_in_torch.py",
    "test_markers_run.py",
    "test_profiling.py",
    "test_real_libraries.py",
    "test_torch_npu_patches.py",
    "test_transfer_to_npu.py",
    "test_walkthroughs.py",
)
# Of tests/emulated and tests/openmmlab, what takes long and depends little on the Python, numpy and build of torch: the
# values of operators, the losses of further detectors. A run on a second Python leaves it out.
ONE_PYTHON_IS_ENOUGH = (
    "tests/emulated/test_complex.py",
    "tests/emulated/test_data_loading.py",
    "tests/emulated/test_distributed.py",
    "tests/emulated/test_hccl.py",
    "tests/emulated/test_operators.py",
    "tests/emulated/test_shared_random.py",
    "tests/emulated/test_strict_dtypes.py",
    "tests/openmmlab/test_stock_models.py",
)
# Of the folders, what depends little on the Python: two that run one after the other share its modules out. Of
# tests/hostile, what is about files, texts and plugins, not about the objects of a Python.
SHARED_TESTS = ("tests/builtin", "tests/plugins", "tests/house")
SHARED_MODULES = (
    "test_broken_plugins.py",
    "test_files.py",
    "test_reports.py",
    "test_streams.py",
    "test_terminal_text.py",
)
# Slow tests lie next to each other: whoever has none left takes some from the others.
STEALING = ("--numprocesses=auto", "--dist=worksteal")
# pytest has a worker for each core: threads of torch that wait for each other would take the cores of other workers.
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
# Hundreds of processes import torch, and a third of the time that takes is the garbage collector's, half of it at exit.
# The variable is that of a file in the environment of the libraries; the session core collects as ever.
SELDOM_COLLECTED = {"COLLECT_SELDOM": "50000"}
COLLECT_SELDOM = (
    "import os; exec(os.environ.get('COLLECT_SELDOM') and 'import atexit, gc; "
    "gc.set_threshold(int(os.environ[\"COLLECT_SELDOM\"]), 20, 100); atexit.register(gc.freeze)' or '')\n"
)
# Wherever bytecode is not to be written, each process would rewrite the assertions of every test module anew.
WITH_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}

# nox loads this file and runs every session in the folder that holds it.
ROOT = Path(".")
REQUIREMENTS = Path("requirements")
CONSTRAINTS = Path("constraints.txt")
CONSTRAINT = f"--constraint={CONSTRAINTS}"
TORCH = REQUIREMENTS / "torch.txt"
BUILD = REQUIREMENTS / "build.txt"
TEST = REQUIREMENTS / "test.txt"
TEST_TORCH = REQUIREMENTS / "test-torch.txt"
PACKAGING = REQUIREMENTS / "packaging.txt"
RELEASE = REQUIREMENTS / "release.txt"
BENCH = REQUIREMENTS / "bench.txt"
COVERAGE = REQUIREMENTS / "coverage.txt"
SOURCES = REQUIREMENTS / "sources.txt"
LINT = REQUIREMENTS / "lint.txt"
TYPES = REQUIREMENTS / "types.txt"
DOCS = REQUIREMENTS / "docs.txt"
BROWSER = REQUIREMENTS / "browser.txt"
LIBRARY_TESTS = REQUIREMENTS / "library-tests.txt"
CANN = REQUIREMENTS / "cann.txt"
CLUSTERS = REQUIREMENTS / "clusters.txt"
DEEPSPEED = REQUIREMENTS / "clusters-deepspeed.txt"
MPICH = REQUIREMENTS / "clusters-mpich.txt"
TORCH_NPU_TESTS = REQUIREMENTS / "torch-npu-tests.txt"
TRANSFORMERS_TESTS = REQUIREMENTS / "transformers-tests.txt"
# By session: the two lines of transformers that the plugin is for, and its oldest release.
TRANSFORMERS = {
    name: REQUIREMENTS / f"{name}.txt" for name in ("transformers", "transformers-4", "transformers-oldest")
}
TRANSFORMERS_NODEPS = REQUIREMENTS / "transformers-nodeps.txt"
# Releases of torch on which its patches are applied: the oldest that they name, one in between, the newest one.
TORCH_RELEASES = ("2.4.1", "2.8.0", "2.14.0")
# Of these, the ones whose torch_npu was tried on the fake CANN: it trains small models there.
WITH_TORCH_NPU = ("2.8.0", "2.14.0")
# Of tests/with_transformers, what runs with the suite; the architectures and the programs take minutes each.
TRANSFORMERS_IN_PART = ("test_doors_attention.py", "test_doors_experts.py")


class OpenMMLab(NamedTuple):
    """The OpenMMLab libraries of one major version of mmcv; those of another cannot be installed beside them.

    Args:
        mmcv: the major version: 1 with mmdet 2.x and mmdet3d 1.0, 2 with mmengine, mmdet 3.x and mmdet3d 1.4.
        suffix: of the names of the sessions that prepare its environment.
        others: whatever else that environment needs.
    """

    mmcv: int
    suffix: str
    others: tuple[Path, ...] = ()

    @property
    def dependencies(self) -> Path:
        """What the libraries import, installed as pip resolves it."""
        return REQUIREMENTS / f"openmmlab-{self.mmcv}.txt"

    @property
    def nodeps(self) -> Path:
        """The libraries whose own lists of dependencies cannot be met."""
        return REQUIREMENTS / f"openmmlab-{self.mmcv}-nodeps.txt"

    @property
    def operators(self) -> Path:
        """The library with compiled operators, mmcv."""
        return REQUIREMENTS / f"openmmlab-{self.mmcv}-operators.txt"


MMCV_1 = OpenMMLab(1, "-1")
# This is also the environment of tests, demo and bench.
MMCV_2 = OpenMMLab(2, "", (PACKAGING, BENCH))

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
# One of the core's interpreters that is not there is skipped; without the libraries', install_torch says so.
nox.options.error_on_missing_interpreters = False


pythons.reveal_pyenv()

#: The Python of tests and demo, then those of the sessions with a version in their names (``demo-3.13``).
LIBRARIES_PYTHON, *OTHER_PYTHONS = pythons.of_libraries()
# For sessions that need one Python and no real library.
ONE_PYTHON = LIBRARIES_PYTHON if pythons.is_here(LIBRARIES_PYTHON) else None


# --- installing, once -------------------------------------------------------------------------------------------------


class Stamp:
    """What an install was made from, noted in the virtual environment so that the next run can leave it alone.

    Args:
        location: the virtual environment.
        name: tells the installs of one environment apart.
        inputs: files whose names and content decide the result.
    """

    def __init__(self, location: str | Path, name: str, inputs: Sequence[Path]) -> None:
        digest = hashlib.sha256()
        for path in inputs:
            digest.update(f"{path}\n".encode() + path.read_bytes())
        self.digest = digest.hexdigest()
        self.path = Path(location, f".installed-{name}")

    def matches(self) -> bool:
        """Tell whether the environment was made from exactly these inputs."""
        return self.path.exists() and self.path.read_text() == self.digest

    def write(self) -> None:
        """Note that it was; only after everything has been installed."""
        self.path.write_text(self.digest)


def pip_install(
    session: nox.Session, *arguments: str | Path, python: str = "python", env: dict[str, str] | None = None
) -> bool:
    """Run ``pip install``; return False when nox was told to install nothing (``--no-install``).

    Some downloads take minutes: a terminal gets pip's bars, a log one line for each file.
    """
    bar = "on" if sys.stdout.isatty() else "off"
    command = (python, "-m", "pip", "install", f"--progress-bar={bar}", "--disable-pip-version-check")
    return session.run_install(*command, *map(str, arguments), env=env, external=True) is not None


def install_requirements(session: nox.Session, *files: Path) -> None:
    """Install requirement files, the newest releases that they and this interpreter allow."""
    stamp = Stamp(session.virtualenv.location, "requirements", files)
    if not stamp.matches() and pip_install(session, *(f"--requirement={file}" for file in files)):
        stamp.write()


def install_distributions(session: nox.Session, *folders: Path, options: Sequence[str] = ()) -> None:
    """Install distributions of this checkout in editable mode; requirements/build.txt must be installed.

    Args:
        session: the running session.
        folders: each holds a pyproject.toml.
        options: further options of ``pip install``.
    """
    # A distribution may take its version from its package's __init__.py.
    patterns = ("pyproject.toml", "*.pth", "*/__init__.py")
    inputs = [path for folder in folders for pattern in patterns for path in sorted(folder.glob(pattern))]
    stamp = Stamp(session.virtualenv.location, "distributions", inputs)
    editable = (f"--editable={folder}" for folder in folders)
    if not stamp.matches() and pip_install(session, "--no-build-isolation", *options, *editable):
        stamp.write()


def plugins() -> list[Path]:
    """Return the folders of the plugins in this checkout."""
    return [path.parent for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))]


def run_pytest(
    session: nox.Session, *arguments: str, python: str = "python", env: dict[str, str] | None = None, name: str = ""
) -> None:
    """Run pytest, with a JUnit file in ``$PATCHCORE_JUNIT_DIR`` where that is set, named after the session or ``name``.

    Finding no tests passes, unless they were chosen by arguments after ``--``.
    """
    options = list(arguments)
    junit = os.environ.get("PATCHCORE_JUNIT_DIR")
    if junit:
        options.append(f"--junit-xml={Path(junit, name or session.name)}.xml")
    success = [0] if session.posargs else [0, each_module.NO_TESTS]
    env = {**WITH_BYTECODE, **(env or {})}
    session.run(python, "-m", "pytest", *options, *session.posargs, env=env, external=True, success_codes=success)


def run_each_module(
    session: nox.Session,
    paths: Sequence[str | Path],
    *options: str,
    python: str = "python",
    env: dict[str, str] | None = None,
) -> None:
    """Run each module of tests in a process of its own, see tools/each_module.py, with JUnit files as by run_pytest.

    Args:
        session: the running session.
        paths: modules, and folders of modules.
        options: of pytest.
        python: runs it.
        env: variables of its environment.
    """
    junit = os.environ.get("PATCHCORE_JUNIT_DIR")
    written = [f"--junit={Path(junit, session.name)}"] if junit else []
    command = (python, "tools/each_module.py", *written, *map(str, paths), "--", *options)
    session.run(*command, env={**WITH_BYTECODE, **(env or {})}, external=True)


# --- the real libraries -----------------------------------------------------------------------------------------------


class Libraries(NamedTuple):
    """What decides an environment with the real libraries.

    Args:
        openmmlab: the OpenMMLab libraries.
        python: the version that has them.
    """

    openmmlab: OpenMMLab = MMCV_2
    python: str = LIBRARIES_PYTHON

    def named(self, session: str) -> str:
        """Return the name that a session has on this Python: ``tests``, or ``tests-3.13`` on another than nox's."""
        if self.python == LIBRARIES_PYTHON:
            return session
        name, parenthesis, parameters = session.partition("(")
        return f"{name}-{self.python}{parenthesis}{parameters}"

    @property
    def libraries(self) -> str:
        """The session that makes the environment, with torch and this checkout's distributions: no compiler needed."""
        return self.named(f"libraries{self.openmmlab.suffix}")

    @property
    def operators(self) -> str:
        """The session that adds the OpenMMLab libraries, with compiled operators."""
        return self.named(f"operators{self.openmmlab.suffix}")


class Environment:
    """A prepared environment, seen from a session that has none of its own.

    Args:
        session: a session that ``requires`` those that prepare it.
        libraries: which environment.
        name: the session whose environment it is, by default the one that prepares these libraries.
    """

    def __init__(self, session: nox.Session, libraries: Libraries, name: str = "") -> None:
        self.libraries = libraries
        # nox writes "-" for the dot of a version; programs are started in other folders, hence absolute
        self.location = Path(session.cache_dir.parent, (name or libraries.libraries).replace(".", "-")).absolute()
        programs = self.location / "bin"
        self.python = str(programs / "python")
        self.env = {
            "VIRTUAL_ENV": str(self.location),
            "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)]),
        }

    def of_tests(self, **others: str) -> dict[str, str]:
        """Return the variables of pytest and all that it starts."""
        return {**self.env, **ONE_THREAD, **SELDOM_COLLECTED, **others}


Run = Callable[..., None]


def with_libraries(*needs: OpenMMLab, name: str = "", operators: bool = True) -> Callable[[Run], Run]:
    """Register a session for each Python that can have the real libraries: ``name``, and ``name-3.13`` on another.

    The function that is decorated gets the session and the Environment, and what ``nox.parametrize`` adds.

    Args:
        needs: the libraries that the session needs, by default those of mmcv 2.x; the Environment has the first.
        name: of the session, by default the function's.
        operators: False if torch and the distributions of this checkout are enough at its start.
    """

    def register(run: Run) -> Run:
        for python in (LIBRARIES_PYTHON, *OTHER_PYTHONS):
            needed = [Libraries(openmmlab, python) for openmmlab in needs or (MMCV_2,)]
            requires = [each.operators if operators else each.libraries for each in needed]
            session_of(run, needed[0].named(name or run.__name__), needed[0], requires=requires)
        return run

    return register


def session_of(run: Run, name: str, libraries: Libraries, requires: Sequence[str]) -> None:
    """Register one session, without an environment of its own."""

    @functools.wraps(run)
    def in_environment(session: nox.Session, **parameters: str) -> None:
        environment = Environment(session, libraries)
        if not Path(environment.python).exists():  # nox skips a session whose interpreter it could not fetch
            session.error(f"Python {libraries.python} could not be fetched, the reason is above: {pythons.missing()}")
        run(session, environment, **parameters)

    nox.session(in_environment, name=name, python=False, requires=requires)


def register_environments(openmmlab: OpenMMLab) -> None:
    """Register the sessions that prepare the environments of one major version of mmcv."""
    for python in (LIBRARIES_PYTHON, *OTHER_PYTHONS):
        libraries = Libraries(openmmlab, python)

        def torch(session: nox.Session, python: str = python) -> None:
            """Prepare an environment with torch and the distributions of this checkout; needs no compiler."""
            install_torch(session, python)

        nox.session(torch, name=libraries.libraries, **pythons.options(python))

        def operators(session: nox.Session, environment: Environment) -> None:
            """Add the OpenMMLab libraries to that environment, with compiled operators."""
            install_openmmlab(session, environment)
            build_native_core(session, environment)

        session_of(operators, libraries.operators, libraries, requires=[libraries.libraries])


def install_torch(session: nox.Session, python: str) -> None:
    """Install torch and the distributions of this checkout: what runs a CUDA script on the emulated NPU."""
    if session.python is False:
        session.error(pythons.missing())
    location = session.virtualenv.location
    (site,) = Path(location).glob("lib/python*/site-packages")
    stamp = torch_stamp(location)
    if not stamp.matches():
        session.log("downloading torch: 0.2 GB if pip finds a CPU build, else 3 GB, once; pip keeps its downloads")
        try:
            installed = pip_install(session, CONSTRAINT, f"--requirement={TORCH}", f"--requirement={BUILD}")
        except nox.command.CommandFailed:
            session.error(
                "pip could not install requirements/torch.txt, its message is above. If a download broke off: run this "
                "again, on a poor connection with PIP_RESUME_RETRIES=50 in the environment. If it found no "
                "torch==2.13.0: the package index in use has none for this Python and platform. Add one that has with "
                "PIP_EXTRA_INDEX_URL, or a folder that holds the wheel with PIP_FIND_LINKS (PyTorch's installation "
                "page lists indexes of CPU builds), and run this again"
            )
        if installed:
            stamp.write()
    (site / "collect_seldom.pth").write_text(COLLECT_SELDOM)
    install_distributions(session, ROOT, *plugins(), options=[CONSTRAINT])


def torch_stamp(location: str | Path) -> Stamp:
    """Return what tells whether torch is installed in an environment."""
    return Stamp(location, "torch", [CONSTRAINTS, TORCH, BUILD])


def install_openmmlab(session: nox.Session, environment: Environment) -> None:
    """Install the OpenMMLab libraries, what they import, and what the tests need.

    Where the operators of mmcv cannot be compiled, for want of a compiler, a warning says what to install.
    """
    openmmlab, python = environment.libraries.openmmlab, environment.python
    resolved = (openmmlab.dependencies, TEST, TEST_TORCH, *openmmlab.others)
    stamp = Stamp(environment.location, "openmmlab", [CONSTRAINTS, openmmlab.nodeps, *resolved])
    if not stamp.matches():
        if not pip_install(session, CONSTRAINT, *(f"--requirement={file}" for file in resolved), python=python):
            return
        nodeps = ("--no-deps", "--no-build-isolation", f"--requirement={openmmlab.nodeps}")
        pip_install(session, CONSTRAINT, *nodeps, python=python, env=mmcv_wheel.setup_environment(environment.env))
        stamp.write()
    stamp = Stamp(environment.location, "operators", [CONSTRAINTS, TORCH, openmmlab.operators])
    if stamp.matches():
        return
    for pin in pins(openmmlab.operators):
        try:
            wheel = mmcv_wheel.cached_wheel(pin, python=python, log=session.log)
        except mmcv_wheel.MissingTool as error:
            session.warn(f"{error}\nuntil then the tests that need mmcv, mmdet or mmdet3d are skipped; the others run")
            return
        except mmcv_wheel.WheelError as error:
            session.error(str(error))
        # The same version may have been compiled for another torch.
        pip_install(session, "--no-deps", "--force-reinstall", wheel, python=python)
    stamp.write()


def torch_npu_beside(session: nox.Session, environment: Environment) -> Path | None:
    """Return a folder with the wheel of torch_npu for ``PYTHONPATH``; None where pip finds none for this Python.

    The wheel has a folder of its own: torch imports torch_npu wherever it is found, and the tests of the imitation have
    the same environment.
    """
    folder = environment.location / "torch-npu" / "site-packages"
    stamp = Stamp(environment.location, "torch-npu-beside", [CANN])
    if stamp.matches():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    needed = [pin for pin in pins(CANN) if pin.startswith(("torch_npu", "pyyaml"))]
    options = ("--no-deps", f"--target={folder}", *needed)
    try:
        if not pip_install(session, CONSTRAINT, *options, python=environment.python, env=environment.env):
            return None
    except nox.command.CommandFailed:
        return None
    stamp.write()
    return folder


def has_operators(environment: Environment) -> bool:
    """Return True if mmcv with compiled operators is installed in an environment."""
    return Stamp(environment.location, "operators", []).path.exists()


def build_native_core(session: nox.Session, environment: Environment) -> None:
    """Compile the core of npu-emulator, unless it was compiled for this torch; it is kept as the wheel of mmcv is."""
    try:
        session.run(environment.python, "-m", "npu_emulator", "build", env=environment.env, external=True)
    except nox.command.CommandFailed:
        session.warn(
            "the compiled core of npu-emulator could not be built, its message is above: the emulated NPU runs on the "
            "core in Python, and emulated(core='native') is skipped"
        )


register_environments(MMCV_2)
register_environments(MMCV_1)


def pins(file: Path) -> list[str]:
    """Return the requirements of a file, without its comments."""
    lines = (line.partition("#")[0].strip() for line in file.read_text().splitlines())
    return [line for line in lines if line]


#: The Pythons that share tests out in this run of nox: none unless ``tests`` runs them.
SHARING: list[str] = []

#: The Pythons whose sessions run a part of their tests in this run of nox: none unless ``other-python`` runs them.
IN_PART: list[str] = []


@with_libraries()
def tests(session: nox.Session, environment: Environment) -> None:
    """Run the suite, but for what the sessions packaging and slow run: here what needs the real libraries.

    The rest is run by sessions that follow, each once, and none that was run before: nox leaves those out.
    """
    env = environment.of_tests()
    if session.posargs:  # what is chosen by name may be anywhere
        chosen = ["--ignore=tests/packaging", "--ignore=tests/browser", "--ignore=tests/site"]
        run_pytest(session, *chosen, *STEALING, python=environment.python, env=env)
        return
    named = environment.libraries.named
    if environment.libraries.python == LIBRARIES_PYTHON:
        SHARING[:] = pythons.of_the_suite()
        for version in SHARING:
            session.notify(f"core-{version}")
    for core in EMULATOR_CORES:
        session.notify(named(f"emulated(core={core!r})"))
    # what a session requires does not run by itself when it is notified
    for name in ("openmmlab-2", "libraries-1", "operators-1", "openmmlab-1"):
        session.notify(named(name))
    session.notify("cann-plugins")
    session.notify("browser")
    run_each_module(session, modules_with_libraries(), "-m", WITH_LIBRARIES, python=environment.python, env=env)


@with_libraries()
def slow(session: nox.Session, environment: Environment) -> None:
    """Run the tests that repeat on larger models, for minutes each, what others protect; before a release."""
    env = environment.of_tests()
    run_pytest(session, "tests/integration", "-m", "slow", *STEALING, python=environment.python, env=env)


def modules_with_libraries() -> list[Path]:
    """Return the modules that have tests which need a real library: of tests/integration, and of the session core.

    Those that take longest come first: at the end, one would run alone.
    """
    needs = re.compile(r"mark\.libraries|[(, ]torch: ")
    found = [module for module in modules_in(CORE_TESTS) if needs.search(module.read_text(encoding="utf-8"))]
    integration = modules_in(["tests/integration"])
    return sorted([*integration, *found], key=lambda module: (module.name not in LONGEST, module))


def modules_in(folders: Iterable[str]) -> list[Path]:
    """Return the modules of tests in these folders."""
    return each_module.modules_in(ROOT / folder for folder in folders)


@with_libraries()
@nox.parametrize("core", EMULATOR_CORES)
def emulated(session: nox.Session, environment: Environment, core: str) -> None:
    """Run tests/emulated on the emulated NPU, which stays to the end of a process; once with each of its cores."""
    if core == "native" and not has_native_core(session, environment):
        session.skip("npu-emulator's compiled core is missing: `python -m npu_emulator build` says what it needs")
    options = ["tests/emulated", "--emulate-npu=imitation", "--numprocesses=auto", *left_out(environment)]
    if core == "python":  # what both cores do alike is tested on the faster one
        options += ["-m", "not either_core"]
    env = environment.of_tests(NPU_EMULATOR_CORE=core)
    run_pytest(session, *options, python=environment.python, env=env, name=f"{session.name.partition('(')[0]}-{core}")


def left_out(environment: Environment) -> list[str]:
    """Return the options by which the sessions of a second Python leave out what one Python is enough for."""
    if environment.libraries.python not in IN_PART:
        return []
    return [f"--ignore={module}" for module in ONE_PYTHON_IS_ENOUGH]


def has_native_core(session: nox.Session, environment: Environment) -> bool:
    """Tell whether the compiled core of npu-emulator is there for this environment's torch."""
    code = "from npu_emulator.device import native; print(native.is_built())"
    printed = session.run(environment.python, "-c", code, env=environment.env, external=True, silent=True)
    return isinstance(printed, str) and printed.split()[-1:] == ["True"]


@with_libraries(MMCV_1, name="openmmlab-1")
@with_libraries(MMCV_2, name="openmmlab-2")
def openmmlab(session: nox.Session, environment: Environment) -> None:
    """Run tests/openmmlab with one major version of mmcv, on the emulator's compiled core where it could be built."""
    if not has_operators(environment):
        session.skip(f"mmcv's operators are not compiled: nox -s {environment.libraries.operators} says what they need")
    options = ("tests/openmmlab", "--emulate-npu=imitation", "--numprocesses=auto", *left_out(environment))
    env = environment.of_tests(NPU_EMULATOR_CORE="auto")
    run_pytest(session, *options, python=environment.python, env=env)


@with_libraries(name="tests-cuda-build")
def tests_cuda_build(session: nox.Session, environment: Environment) -> None:
    """Run what depends on the build of torch in its CUDA build, without a GPU; skipped where pip found a CPU build."""
    if not has_cuda_build(environment):
        session.skip(
            f"torch for Python {environment.libraries.python} is a CPU build here; "
            f"other Pythons: {', '.join(f'nox -s tests-cuda-build-{python}' for python in OTHER_PYTHONS) or 'none'}"
        )
    for name in ("emulated(core='native')", "openmmlab-2"):
        session.notify(environment.libraries.named(name))
    modules = [path for path in modules_with_libraries() if "integration" not in path.parts]
    modules += [ROOT / "tests" / "integration" / name for name in CUDA_BUILD_TESTS]
    run_each_module(session, modules, "-m", WITH_LIBRARIES, python=environment.python, env=environment.of_tests())


def has_cuda_build(environment: Environment) -> bool:
    """Tell whether torch was built with CUDA in an environment, from torch's own record of that."""
    records = environment.location.glob("lib/python*/site-packages/torch/version.py")
    return any(re.search(r"^cuda\b.*= *['\"]", record.read_text(), re.MULTILINE) for record in records)


#: What CI runs on a second Python, where pip may find another numpy and another build of torch.
ON_OTHER_PYTHON = ("libraries", "operators", "demo", "emulated(core='native')", "openmmlab-2", "cann-beside")


@nox.session(name="other-python", python=False)
def other_python(session: nox.Session) -> None:
    """Run the demo, and most tests of the emulated NPUs and mmcv 2.x, on the newest Python besides the one of tests.

    ``nox -s tests-3.13`` runs all tests there.
    """
    if not OTHER_PYTHONS:
        session.skip(f"the real libraries have Python {LIBRARIES_PYTHON} alone here")
    libraries = Libraries(python=OTHER_PYTHONS[0])
    # By a nox of its own: a session that is required fails the run, and an index or a mirror may lack the torch of this
    # Python. What fails after torch is installed, fails again in the sessions below.
    nox_again = (sys.executable, "-m", "nox", "--sessions", libraries.libraries)
    session.run(*nox_again, external=True, success_codes=range(256))
    if not torch_stamp(Environment(session, libraries).location).matches():
        session.skip(
            f"not run on Python {libraries.python}: torch could not be installed for it, see above; nox -s "
            f"{libraries.libraries} tries again"
        )
    IN_PART.append(libraries.python)
    for name in ON_OTHER_PYTHON:
        session.notify(libraries.named(name))


@nox.session(python=False)
def prepare(session: nox.Session) -> None:
    """Prepare the environments of tests and other-python."""
    for libraries in (Libraries(), Libraries(MMCV_1), *(Libraries(python=python) for python in OTHER_PYTHONS[:1])):
        session.notify(libraries.libraries)
        session.notify(libraries.operators)


@with_libraries(operators=False)
def demo(session: nox.Session, environment: Environment) -> None:
    """Run a CUDA script on the emulated NPU, then patch a stock mmdet training run, compare and restore it."""
    if not session.posargs:  # they are the second part's
        session.log(f"Part 1 of 2: {CUDA_SCRIPT}, an untouched CUDA script, on the emulated NPU")
        run_cuda_script(session, environment, CUDA_SCRIPT, env=real_torch_npu(session, environment))
        session.log(
            "Part 2 of 2: a stock mmdet detector, unpatched, patched and restored; mmcv is compiled once for it"
        )
    for pin in [] if has_operators(environment) else pins(environment.libraries.openmmlab.operators):
        try:  # before the packages of this part are downloaded
            mmcv_wheel.require_tools(pin, python=environment.python)
        except mmcv_wheel.MissingTool as error:
            session.warn(str(error))
            session.skip(
                "part 1 is done: a CUDA script has trained on the emulated NPU. Part 2 compiles mmcv, and what "
                "it needs is missing: install what the warning above names, and run this again"
            )
    install_openmmlab(session, environment)
    session.run(environment.python, "-m", DEMO, *session.posargs, env=environment.env, external=True)
    session.log(
        "Conclusion: the detector trained alike without patches, with them, and after they were taken back. Next: "
        "patchcore run --emulate-npu with a script of your own, see docs/quickstart.md"
    )


def real_torch_npu(session: nox.Session, environment: Environment) -> dict[str, str]:
    """Return variables with which a run has the real torch_npu, on the fake CANN; none where it cannot have it."""
    imitation = "the demo goes on with an imitation of torch_npu"
    folder = torch_npu_beside(session, environment) if sys.platform == "linux" else None
    if folder is None:
        session.log(f"There is no wheel of torch_npu for this machine and Python: {imitation}")
        return {}
    variables = {"PYTHONPATH": str(folder)}
    session.log("The fake CANN for the real torch_npu is compiled once, in some minutes")
    program = ("-m", "fake_cann", "run", "-c", "import torch; torch.ones(1).npu()")
    try:
        session.run(environment.python, *program, env={**environment.env, **variables}, external=True)
    except nox.command.CommandFailed:
        session.warn(f"the real torch_npu does not run here, the message is above: {imitation}")
        return {}
    return variables


def run_cuda_script(
    session: nox.Session,
    environment: Environment,
    *command: str,
    name: str = "script",
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a program of CUDA on the emulated NPU and report what was rewritten."""
    directory = str(Path(session.create_tmp(), f"reports-{name}"))
    shutil.rmtree(directory, ignore_errors=True)
    run = ("-m", "patchcore", "run", "--emulate-npu", "--report-dir", directory, *command)
    session.run(environment.python, *run, env={**environment.env, **(env or {})}, external=True)
    session.run(environment.python, "-m", "patchcore", "report", directory, env=environment.env, external=True)


@with_libraries(MMCV_2, MMCV_1)
def models(session: nox.Session, environment: Environment) -> None:
    """Train a configuration of every family on the CPU and on the emulated NPU; write docs/models.md. Resumable."""
    failed = False
    for openmmlab in (MMCV_2, MMCV_1):
        each = Environment(session, environment.libraries._replace(openmmlab=openmmlab))
        command = (each.python, "-m", "tools.models", *session.posargs)
        try:
            session.run(*command, env=each.env, external=True)
        except nox.command.CommandFailed:  # the models of the other version are trained all the same
            failed = True
    if failed:
        session.error("models do not train: docs/models.md says which")


@nox.session(name="library-tests", **pythons.options(LIBRARIES_PYTHON))
def library_tests(session: nox.Session) -> None:
    """Run the tests of accelerate and Lightning with and without patches; write docs/library-tests.md. Resumable."""
    install_torch(session, LIBRARIES_PYTHON)
    install_requirements(session, TEST, LIBRARY_TESTS)
    session.run("python", "-m", "tools.library_tests", *session.posargs)


@nox.session(python=ONE_PYTHON)
def browser(session: nox.Session) -> None:
    """Look at every page and at the documentation site in Chromium or Chrome; skipped where there is none."""
    if browsers.find_browser() is None:
        (session.error if browsers.must_be_there() else session.skip)(browsers.MISSING)
    install_requirements(session, TEST, BUILD, DOCS, BROWSER)
    folders = (Path("plugins", name) for name in ("patchcore_torch", "torch_npu_patches", "npu_migrate", "npu_graph"))
    install_distributions(session, ROOT, *folders)
    run_pytest(session, "tests/browser")


@with_libraries(name="demo-cuda", operators=False)
def demo_cuda(session: nox.Session, environment: Environment) -> None:
    """Run an untouched CUDA training script on the emulated NPU, alone and in two ranks; report what was rewritten."""
    env = real_torch_npu(session, environment)
    run_cuda_script(session, environment, CUDA_SCRIPT, *session.posargs, env=env)
    ranks = ("--", "torchrun", "--nproc-per-node=2", CUDA_SCRIPT, *session.posargs)
    run_cuda_script(session, environment, *ranks, name="ranks", env=env)


@with_libraries()
def bench(session: nox.Session, environment: Environment) -> None:
    """Measure patchcore against the alternatives in one run, as a table of ratios."""
    session.run(environment.python, "-m", "benchmarks", *session.posargs, env=environment.env, external=True)


# --- without libraries ------------------------------------------------------------------------------------------------


@nox.session(python=False)
def dev(session: nox.Session) -> None:
    """Make .venv, in which ``pytest`` runs the tests that need no libraries, and ruff and patchcore are there."""
    folder = ROOT / ".venv"
    python = str(folder / "bin" / "python")
    if not Path(python).exists():
        session.run(sys.executable, "-m", "venv", str(folder), external=True)
    requirements = (f"--requirement={file}" for file in (TEST, BUILD, LINT))
    pip_install(session, *requirements, python=python)
    editable = (f"--editable={path}" for path in (ROOT, *plugins()))
    pip_install(session, "--no-build-isolation", *editable, python=python)
    session.log(
        f"{folder} is ready: source {folder}/bin/activate && pytest tests/core. The real libraries are in the "
        f"environment of nox -s operators: {Environment(session, Libraries()).python} -m pytest tests/integration"
    )


@nox.session(python=pythons.CORE)
def core(session: nox.Session) -> None:
    """Run the tests that need no libraries, on each Python that is found; the plugins install without them too."""
    install_requirements(session, TEST, BUILD, LINT)  # what patchcore new writes is checked by ruff, too
    install_distributions(session, ROOT, *plugins())
    if session.posargs:
        run_pytest(session, *STEALING, f"--override-ini=testpaths={' '.join(CORE_TESTS)}")
    else:
        run_each_module(session, core_tests(str(session.python)))


def core_tests(version: str) -> list[Path]:
    """Return the modules that the session core runs on a Python: all, unless it shares them out with others."""
    modules = modules_in(folder for folder in CORE_TESTS if folder not in SHARED_TESTS)
    on_each = [module for module in modules if module.name not in SHARED_MODULES]
    shared = [module for module in modules if module.name in SHARED_MODULES] + modules_in(SHARED_TESTS)
    return on_each + (shared[SHARING.index(version) :: len(SHARING)] if version in SHARING else shared)


@nox.session(python=ONE_PYTHON)
def coverage(session: nox.Session) -> None:
    """Report the lines and branches of the core that its tests reach; what follows -- goes to pytest. No threshold."""
    install_requirements(session, TEST, BUILD, LINT, COVERAGE)
    install_distributions(session, ROOT, *plugins())
    tests = session.posargs or ["tests/core", "tests/builtin"]
    # A test that fails because it is measured does not cost the report. Parts of the last run would count too.
    session.run("coverage", "erase")
    session.run("coverage", "run", "-m", "pytest", "-q", "--numprocesses=auto", *tests, success_codes=[0, 1])
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report")


@nox.session(python="3.11")
def cann(session: nox.Session) -> None:
    """Run the tests of the real torch_npu on the fake CANN; needs a C++ compiler, and minutes for the first run."""
    # In an environment of its own: torch loads torch_npu in every process that imports torch.
    install_requirements(session, TEST, TEST_TORCH, BUILD, CANN)
    names = ("fake_cann", "npu_emulator", "npu_migrate", "patchcore_torch", "torch_npu_patches")
    folders = (Path("plugins", name) for name in names)
    install_distributions(session, ROOT, *folders)
    run_pytest(session, "tests/fake_cann")
    session.notify("cann-plugins")


@nox.session(name="cann-plugins", python="3.11")
def cann_plugins(session: nox.Session) -> None:
    """Run the tests of patchcore's own plugins on the real torch_npu with the fake CANN: torch and OpenMMLab.

    The environment is one with the real libraries and torch_npu, which torch then loads in every process.
    """
    # Where torch_npu is installed already, what imports torch to install something has no CANN.
    session.env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    environment = Environment(session, Libraries(python=str(session.python)), session.name)
    install_torch(session, str(session.python))
    install_openmmlab(session, environment)
    stamp = Stamp(environment.location, "torch-npu", [CANN])
    if not stamp.matches() and pip_install(session, CONSTRAINT, f"--requirement={CANN}"):
        stamp.write()
    del session.env["TORCH_DEVICE_BACKEND_AUTOLOAD"]
    run = ("python", "-m", "fake_cann", "run", "-m", "pytest", "-q", "--numprocesses=auto")
    folders = ["tests/emulated", *(f"tests/fake_cann/test_{name}.py" for name in ("adapter_names", "default_adapter"))]
    folders += [f"tests/fake_cann/test_{name}.py" for name in ("wheels", "conjugated_copies")]
    folders += ["tests/openmmlab"] * has_operators(environment)
    for folder in folders:
        env = {**WITH_BYTECODE, **environment.of_tests()}
        # What was chosen may be in one of the folders only.
        success = [0, each_module.NO_TESTS] if session.posargs else [0]
        session.run(*run, folder, *session.posargs, env=env, success_codes=success)
    beside = transformers_beside(session, environment)
    if beside is not None and not session.posargs:
        chosen = [str(Path("tests", "with_transformers", name)) for name in TRANSFORMERS_IN_PART]
        session.run(*run, *chosen, env={**WITH_BYTECODE, **environment.of_tests(PYTHONPATH=str(beside))})


def transformers_beside(session: nox.Session, environment: Environment) -> Path | None:
    """Return a folder with transformers 5 for ``PYTHONPATH``, made once; None if nox was started to install nothing.

    In the environment itself mmengine and mmdet would import it.
    """
    folder = environment.location / "transformers" / "site-packages"
    requirements = TRANSFORMERS["transformers"]
    stamp = Stamp(environment.location, "transformers-beside", [CONSTRAINTS, requirements])
    if not stamp.matches():
        shutil.rmtree(folder, ignore_errors=True)
        (transformers,) = (pin for pin in pins(requirements) if pin.startswith("transformers=="))
        if not pip_install(session, CONSTRAINT, f"--target={folder}", transformers):
            return None
        stamp.write()
    return folder


@nox.session(name="transformers", python="3.11")
def transformers(session: nox.Session) -> None:
    """Run the tests of transformers-npu-patches with transformers 5: kernels, architectures and programs."""
    run_transformers(session)


@nox.session(name="transformers-4", python="3.11")
def transformers_4(session: nox.Session) -> None:
    """Run the tests of transformers-npu-patches with transformers 4."""
    run_transformers(session)


@nox.session(name="transformers-oldest", python="3.11")
def transformers_oldest(session: nox.Session) -> None:
    """Run the tests of transformers-npu-patches and diffusers-npu-patches with the oldest releases they are for."""
    run_transformers(session)


def run_transformers(session: nox.Session) -> None:
    """Run tests/with_transformers and tests/with_diffusers, or what follows ``--``, on the fake CANN."""
    # Where torch_npu is installed already, what imports torch to install something has no CANN.
    session.env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    install_requirements(session, TORCH, BUILD, TEST, TEST_TORCH, CANN, TRANSFORMERS[session.name.partition("-3.")[0]])
    stamp = Stamp(session.virtualenv.location, "nodeps", [TRANSFORMERS_NODEPS])
    # transformers 4.51 cannot load a model of remote code beside a timm without torchvision
    if (
        "oldest" not in session.name
        and not stamp.matches()
        and pip_install(session, "--no-deps", f"--requirement={TRANSFORMERS_NODEPS}")
    ):
        stamp.write()
    install_distributions(session, ROOT, *plugins())
    del session.env["TORCH_DEVICE_BACKEND_AUTOLOAD"]
    run = ("python", "-m", "fake_cann", "run", "-m", "pytest", "-q", "--numprocesses=auto")
    tests = session.posargs or ["tests/with_transformers", "tests/with_diffusers"]
    session.run(*run, *tests, env={**WITH_BYTECODE, **ONE_THREAD})


@with_libraries(name="cann-beside")
def cann_beside(session: nox.Session, environment: Environment) -> None:
    """Train on the real torch_npu of another Python, with the torch that pip finds for it: mostly the CUDA build.

    torch_npu lies beside the libraries, not among them. As a part of ``other-python`` the training steps alone run.
    """
    python = environment.libraries.python
    folder = torch_npu_beside(session, environment)
    if folder is None:
        session.skip(f"pip finds no wheel of torch_npu for Python {python} on this platform, see above")
    env = environment.of_tests(PYTHONPATH=str(folder))
    without_adapter = {**env, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    session.run(environment.python, "-m", "fake_cann", "build", env=without_adapter, external=True)
    tests = "tests/fake_cann/test_training.py" if python in IN_PART else "tests/fake_cann"
    run_pytest(session, tests, "--numprocesses=auto", python=environment.python, env=env)


@nox.session(python=ONE_PYTHON)
def clusters(session: nox.Session) -> None:
    """Run programs with the real Ray, accelerate, DeepSpeed, Open MPI and MPICH; Ray starts slowly: some minutes."""
    install_requirements(session, TEST, TEST_TORCH, BUILD, CLUSTERS)
    stamp = Stamp(session.virtualenv.location, "apart", [DEEPSPEED, MPICH])
    if not stamp.matches():
        apart = ("--no-deps", "--upgrade", f"--target={Path(session.bin, 'mpich')}", f"--requirement={MPICH}")
        own = ("--no-build-isolation", f"--requirement={DEEPSPEED}")
        if pip_install(session, *apart) and pip_install(session, *own, env={"DS_BUILD_OPS": "0"}):
            stamp.write()
    install_distributions(session, ROOT, Path("plugins", "patchcore_torch"), Path("plugins", "ray_patches"))
    tests = ("test_launchers.py", "test_ray_programs.py", "test_ray_workers.py", "test_restarts.py")
    run_pytest(session, *(f"tests/integration/{name}" for name in tests))


@nox.session(name="torch-releases", python="3.11")
@nox.parametrize("release", TORCH_RELEASES, ids=TORCH_RELEASES)
def torch_releases(session: nox.Session, release: str) -> None:
    """Apply the patches of torch on other releases than the suite's, the oldest to the newest: gigabytes each.

    Models are trained with the real torch_npu of two; the tests of the transfer run with that of the newest.
    """
    session.env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    stamp = Stamp(session.virtualenv.location, "torch", [])
    if not stamp.matches() and pip_install(session, f"torch=={release}", "numpy<3", "pyyaml"):
        stamp.write()
    install_requirements(session, BUILD, TEST, TEST_TORCH)
    names = ("fake_cann", "npu_emulator", "npu_migrate", "patchcore_torch", "torch_markers", "torch_npu_patches")
    install_distributions(session, ROOT, *(Path("plugins", name) for name in names))
    run_pytest(session, "tests/torch_releases", "--numprocesses=auto")
    if release not in WITH_TORCH_NPU:
        return
    stamp = Stamp(session.virtualenv.location, "torch-npu", [])
    if not stamp.matches() and pip_install(session, "--no-deps", f"torch_npu=={release}"):
        stamp.write()
    del session.env["TORCH_DEVICE_BACKEND_AUTOLOAD"]
    run = ("python", "-m", "fake_cann", "run", "-m", "pytest", "-q", "--numprocesses=auto")
    session.run(*run, "tests/fake_cann/test_training.py", env=WITH_BYTECODE)
    if release in fake_cann_releases():
        tests = (f"tests/emulated/test_{name}.py" for name in ("transfer_to_npu", "cuda_names"))
        session.run(*run, *tests, env=WITH_BYTECODE)


@nox.session(name="torch-npu-tests", python="3.11")
def torch_npu_tests(session: nox.Session) -> None:
    """Run torch_npu's own tests on the fake CANN; write docs/torch-npu-tests.md. Resumable."""
    install_requirements(session, TEST, TEST_TORCH, BUILD, CANN, TORCH_NPU_TESTS)
    install_distributions(session, ROOT, Path("plugins", "fake_cann"))
    session.run("python", "-m", "tools.library_tests", "torch_npu", *session.posargs)


@nox.session(name="transformers-tests", python="3.11")
def transformers_tests(session: nox.Session) -> None:
    """Run transformers' tests of five models on the fake CANN, with and without patches; write their page."""
    requirements = (TORCH, BUILD, TEST, TEST_TORCH, CANN, TRANSFORMERS["transformers"], TRANSFORMERS_TESTS)
    session.env["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # see run_transformers
    install_requirements(session, *requirements)
    install_distributions(session, ROOT, *plugins())
    del session.env["TORCH_DEVICE_BACKEND_AUTOLOAD"]
    session.run("python", "-m", "tools.library_tests", "transformers", *session.posargs)


@nox.session
def packaging(session: nox.Session) -> None:
    """Build sdists and wheels of every distribution and use them from a clean environment."""
    install_requirements(session, TEST, BUILD, PACKAGING, RELEASE)
    install_distributions(session, ROOT)
    torch = f"{sys.version_info.major}.{sys.version_info.minor}" in pythons.LIBRARIES and sys.platform == "linux"
    stamp = Stamp(session.virtualenv.location, "torch-npu", [CANN])
    # The tests import neither; one has the wheel of fake-cann with compiled libraries beside them.
    if torch and not stamp.matches() and pip_install(session, f"--requirement={CANN}"):
        stamp.write()
    # Each file has wheels that its tests share.
    run_pytest(session, "tests/packaging", "--numprocesses=auto", "--dist=loadfile")


@nox.session
def release(session: nox.Session) -> None:
    """Build the sdist and the wheel of every distribution in dist/ and check them; see CONTRIBUTING.md."""
    install_requirements(session, PACKAGING, RELEASE, BUILD)
    install_distributions(session, ROOT)
    prebuilt = compile_fake_cann(session)
    shutil.rmtree("dist", ignore_errors=True)
    for folder in (ROOT, *plugins()):
        env = {"FAKE_CANN_PREBUILT": prebuilt} if folder.name == "fake_cann" else {}
        session.run("python", "-m", "build", "--outdir", "dist", str(folder), env=env)
    session.run("python", "-m", "twine", "check", "--strict", *map(str, Path("dist").iterdir()))


def compile_fake_cann(session: nox.Session) -> str:
    """Return a folder with the libraries of the fake CANN for each torch of its wheel; empty if this is no Linux."""
    if sys.platform != "linux":
        session.warn("the wheel of fake-cann has no compiled libraries: they are made on Linux")
        return ""
    prebuilt = Path(session.create_tmp(), "prebuilt").absolute()
    shutil.rmtree(prebuilt, ignore_errors=True)
    package = ROOT / "plugins" / "fake_cann"
    for release in fake_cann_releases():
        torch = Path(session.create_tmp(), f"torch-{release}").absolute()  # its headers and libraries are enough
        if not (torch / "torch" / "version.py").exists():
            pip_install(session, "--no-deps", f"--target={torch}", f"torch=={release}")
        env = {"PYTHONPATH": os.pathsep.join((str(torch), str(package.absolute())))}
        session.run("python", "-m", "fake_cann", "build", f"--into={prebuilt}", env=env)
    return str(prebuilt)


def fake_cann_releases() -> list[str]:
    """Return the releases of torch whose torch_npu runs on the fake CANN."""
    source = ROOT / "plugins" / "fake_cann" / "fake_cann" / "build.py"
    tried = re.search(r"^TRIED = \((.*)\)", source.read_text(), re.MULTILINE)
    return re.findall(r'"(.*?)"', tried[1] if tried else "")


def install_plugins_alone(session: nox.Session) -> None:
    """Install patchcore and the plugins without the libraries, whose sources are read."""
    install_requirements(session, BUILD, SOURCES)
    install_distributions(session, ROOT, *plugins())


@nox.session(python=ONE_PYTHON)
def drift(session: nox.Session) -> None:
    """Tell which targets have changed in the newest releases of the libraries; what it says changes with the index."""
    install_plugins_alone(session)
    session.run("python", "tools/check_newest.py", *session.posargs)


@nox.session(python=ONE_PYTHON)
def fingerprints(session: nox.Session) -> None:
    """Record the fingerprints of the plugins for every supported release of the libraries."""
    install_plugins_alone(session)
    session.run("python", "tools/record_fingerprints.py", *session.posargs)


@nox.session(python=ONE_PYTHON)
def quickstart(session: nox.Session) -> None:
    """Walk docs/quickstart.md in an environment of its own, which it makes by the commands of the page."""
    install_requirements(session, BUILD)
    session.run("python", "tools/walk_quickstart.py")


# On the newest Python that is here, or that of nox: import-linter supports few.
@nox.session(python=(pythons.of_the_suite() or [None])[-1])
def lint(session: nox.Session) -> None:
    """Check style, format, which way imports go and the words of docstrings; print the sizes of the packages."""
    install_requirements(session, LINT)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    # Read where they lie: no plugin is installed here.
    session.run("lint-imports", env={"PYTHONPATH": os.pathsep.join(map(str, plugins()))})
    session.run("python", "tools/sizes.py")
    session.run("python", "tools/words.py")


@nox.session(python=ONE_PYTHON)
def docs(session: nox.Session) -> None:
    """Build the documentation site in site/ and test it; a dead link or a page outside of the index is an error."""
    install_requirements(session, DOCS, TEST, BUILD)
    install_distributions(session, ROOT, Path("plugins/patchcore_torch"))
    session.run("mkdocs", "build", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})
    run_pytest(session, "tests/site")


@nox.session
def types(session: nox.Session) -> None:
    """Check the type hints of patchcore, of its plugins without the libraries that they patch, and of a new plugin."""
    install_requirements(session, TYPES, BUILD, TEST)  # a new plugin has tests
    install_distributions(session, ROOT)
    session.run("mypy", "--strict")
    folder = session.create_tmp()
    shutil.rmtree(Path(folder, "example-npu"), ignore_errors=True)
    session.run("patchcore", "new", "example-npu", "--directory", folder)
    with session.chdir(Path(folder, "example-npu")):
        session.run("mypy")
