"""Every check of the project, each in a virtual environment of its own.

python3 -m pip install nox
python3 -m nox -s tests             # the suite with the real libraries; the first run compiles mmcv's operators
python3 -m nox -s tests -- -k name  # what follows -- goes to pytest
python3 -m nox --list

Virtual environments are kept in .nox/ and reinstalled only when a file that decides their contents has changed. The
compiled mmcv wheel is kept outside the checkout, see tools/mmcv_wheel.py.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import nox
import nox.command

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))

import each_module
import mmcv_wheel

CORE_PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
# The one Python on which constraints.txt has been tried.
LIBRARIES_PYTHON = "3.11"
LIBRARIES = "libraries"
LIBRARIES_1 = "libraries-1"
DEMO = "examples.mmdet_training"
CUDA_SCRIPT = "examples/train_cuda.py"
EMULATOR_CORES = ("python", "native")
# Folders of tests/ that the session core runs, the one with the longest tests first.
CORE_TESTS = ("tests/hostile", "tests/core", "tests/builtin", "tests/plugins", "tests/house")
# Modules that take minutes each.
LONGEST = (
    "test_walkthroughs.py",
    "test_examples.py",
    "test_demo_training.py",
    "test_every_process.py",
    "test_graph_conformance.py",
)
# Of the folders, what depends little on the Python: two that run one after the other share its modules out.
SHARED_TESTS = ("tests/builtin", "tests/plugins", "tests/house")
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
TORCH = REQUIREMENTS / "torch.txt"
BUILD = REQUIREMENTS / "build.txt"
TEST = REQUIREMENTS / "test.txt"
TEST_TORCH = REQUIREMENTS / "test-torch.txt"
PACKAGING = REQUIREMENTS / "packaging.txt"
RELEASE = REQUIREMENTS / "release.txt"
BENCH = REQUIREMENTS / "bench.txt"
SOURCES = REQUIREMENTS / "sources.txt"
LINT = REQUIREMENTS / "lint.txt"
TYPES = REQUIREMENTS / "types.txt"
DOCS = REQUIREMENTS / "docs.txt"


class OpenMMLab(NamedTuple):
    """One of the two lines of the OpenMMLab libraries, which cannot be installed together.

    Args:
        line: 1 for mmcv 1.x and what is built on it, 2 for mmcv 2.x.
        libraries: name of the session that prepares its environment.
        others: whatever else that environment needs.
    """

    line: int
    libraries: str
    others: tuple[Path, ...] = ()

    @property
    def dependencies(self) -> Path:
        """What the libraries import, installed as pip resolves it."""
        return REQUIREMENTS / f"openmmlab-{self.line}.txt"

    @property
    def nodeps(self) -> Path:
        """The libraries whose own lists of dependencies cannot be met."""
        return REQUIREMENTS / f"openmmlab-{self.line}-nodeps.txt"

    @property
    def operators(self) -> Path:
        """The library with compiled operators, mmcv."""
        return REQUIREMENTS / f"openmmlab-{self.line}-operators.txt"


LINE_1 = OpenMMLab(1, LIBRARIES_1)
# Line 2 is also the environment of tests, demo and bench.
LINE_2 = OpenMMLab(2, LIBRARIES, (PACKAGING, BENCH))

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
# One of the core's interpreters that is not there is skipped; the libraries' interpreter is demanded below.
nox.options.error_on_missing_interpreters = False


def reveal_pyenv_interpreters() -> None:
    """Put the interpreters that pyenv has installed on PATH.

    pyenv's own commands (shims) fail for every version but the selected one, so a shim does not count as found.
    """
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for wanted in CORE_PYTHONS:
        found = shutil.which(f"python{wanted}")
        if found is not None and Path(found).parent.name != "shims":
            continue
        installed = [folder for folder in versions.glob(f"{wanted}.*") if (folder / "bin" / f"python{wanted}").exists()]
        if installed:
            newest = max(installed, key=lambda folder: [int(part) for part in re.findall(r"\d+", folder.name)])
            # In front of the shims; no session runs the bare "python" of the outer PATH.
            os.environ["PATH"] = os.pathsep.join([str(newest / "bin"), os.environ.get("PATH", os.defpath)])


reveal_pyenv_interpreters()


def has_interpreter(version: str) -> bool:
    """Tell whether this Python (``"3.11"``) runs nox itself or is on PATH."""
    return "{}.{}".format(*sys.version_info) == version or shutil.which(f"python{version}") is not None


# --- installing, once -------------------------------------------------------------------------------------------------


class Stamp:
    """What an install was made from, noted in the virtual environment so that the next run can leave it alone.

    Args:
        session: the session whose virtual environment it is.
        name: tells the installs of one environment apart.
        inputs: files whose names and content decide the result.
    """

    def __init__(self, session: nox.Session, name: str, inputs: Sequence[Path]) -> None:
        digest = hashlib.sha256()
        for path in inputs:
            digest.update(f"{path}\n".encode() + path.read_bytes())
        self.digest = digest.hexdigest()
        self.path = Path(session.virtualenv.location, f".installed-{name}")

    def matches(self) -> bool:
        """Tell whether the environment was made from exactly these inputs."""
        return self.path.exists() and self.path.read_text() == self.digest

    def write(self) -> None:
        """Note that it was; only after everything has been installed."""
        self.path.write_text(self.digest)


def pip_install(session: nox.Session, *arguments: str | Path) -> bool:
    """Run ``pip install``; return False when nox was told to install nothing (``--no-install``)."""
    command = ("python", "-m", "pip", "install", "--progress-bar=off", "--disable-pip-version-check")
    return session.run_install(*command, *map(str, arguments)) is not None


def install_requirements(session: nox.Session, *files: Path) -> None:
    """Install requirement files, the newest releases that they and this interpreter allow."""
    stamp = Stamp(session, "requirements", files)
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
    stamp = Stamp(session, "distributions", inputs)
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


# Without its interpreter the session still runs, to say so: nox alone would skip it.
PYTHON_OF_LIBRARIES = LIBRARIES_PYTHON if has_interpreter(LIBRARIES_PYTHON) else False


@nox.session(name=LIBRARIES, python=PYTHON_OF_LIBRARIES)
def libraries(session: nox.Session) -> None:
    """Prepare the environment that tests, demo and bench share: torch and line 2 of the OpenMMLab libraries."""
    prepare_libraries(session, LINE_2)


@nox.session(name=LIBRARIES_1, python=PYTHON_OF_LIBRARIES)
def libraries_1(session: nox.Session) -> None:
    """Prepare the environment of openmmlab-1: torch and line 1 of the OpenMMLab libraries."""
    prepare_libraries(session, LINE_1)


def prepare_libraries(session: nox.Session, openmmlab: OpenMMLab) -> None:
    """Install one line of the libraries, the distributions of this checkout, and the compiled core of npu-emulator."""
    if session.python is False:
        session.error(
            f"the real libraries need Python {LIBRARIES_PYTHON}, and neither PATH nor pyenv has it. Install it: "
            f"pyenv install {LIBRARIES_PYTHON}, or apt-get install python{LIBRARIES_PYTHON}-dev "
            f"python{LIBRARIES_PYTHON}-venv. The core alone needs no libraries: nox -s core"
        )
    install_libraries(session, openmmlab)
    (site,) = Path(session.virtualenv.location).glob("lib/python*/site-packages")
    (site / "collect_seldom.pth").write_text(COLLECT_SELDOM)
    install_distributions(session, ROOT, *plugins(), options=[f"--constraint={CONSTRAINTS}"])
    # Kept outside the checkout, like the wheel of mmcv; does nothing where it was built for this torch.
    try:
        session.run("python", "-m", "npu_emulator", "build")
    except nox.command.CommandFailed:
        session.warn(
            "the compiled core of npu-emulator could not be built, its message is above: the sessions openmmlab-1 and "
            "openmmlab-2 run on the core in Python, and emulated(core='native') is going to fail"
        )


def install_libraries(session: nox.Session, openmmlab: OpenMMLab) -> None:
    """Install everything that is not of this checkout."""
    resolved = (openmmlab.dependencies, BUILD, TEST, TEST_TORCH, *openmmlab.others)
    stamp = Stamp(session, "libraries", [CONSTRAINTS, TORCH, openmmlab.nodeps, openmmlab.operators, *resolved])
    if stamp.matches():
        return
    constraint = f"--constraint={CONSTRAINTS}"
    try:
        if not pip_install(session, constraint, f"--requirement={TORCH}"):
            return
    except nox.command.CommandFailed:
        session.error(
            "pip could not install requirements/torch.txt, its message is above. If it found no torch==2.13.0: the "
            "package index in use has none for this Python and platform. Add one that has with PIP_EXTRA_INDEX_URL, or "
            "a folder that holds the wheel with PIP_FIND_LINKS (PyTorch's installation page lists indexes of CPU "
            "builds), and run this again"
        )
    pip_install(session, constraint, *(f"--requirement={file}" for file in resolved))
    pip_install(session, constraint, "--no-deps", "--no-build-isolation", f"--requirement={openmmlab.nodeps}")
    python = Path(session.bin, "python")
    for pin in pins(openmmlab.operators):
        try:
            wheel = mmcv_wheel.cached_wheel(pin, python=str(python), log=session.log)
        except mmcv_wheel.WheelError as error:
            session.error(str(error))
        # The same version may have been compiled for another torch.
        pip_install(session, "--no-deps", "--force-reinstall", wheel)
    stamp.write()


def pins(file: Path) -> list[str]:
    """Return the requirements of a file, without its comments."""
    lines = (line.partition("#")[0].strip() for line in file.read_text().splitlines())
    return [line for line in lines if line]


#: The Pythons that share tests out in this run of nox: none unless ``tests`` runs them.
SHARING: list[str] = []


def pythons_of_the_suite() -> list[str]:
    """Return the Pythons on which ``tests`` runs what needs no libraries: of those that are here, oldest and newest."""
    here = [version for version in CORE_PYTHONS if has_interpreter(version)]
    return [here[0], here[-1]] if len(here) > 1 else here


class LibrariesEnvironment:
    """The prepared environment, seen from a session that has none of its own.

    Args:
        session: a session that ``requires`` the session that prepares it.
        name: name of that session.
    """

    def __init__(self, session: nox.Session, name: str = LIBRARIES) -> None:
        location = Path(session.cache_dir.parent, name).absolute()  # programs are started in other folders, too
        programs = location / "bin"
        self.python = str(programs / "python")
        self.env = {
            "VIRTUAL_ENV": str(location),
            "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)]),
        }


@nox.session(python=False, requires=[LIBRARIES])
def tests(session: nox.Session) -> None:
    """Run the suite, but for what the sessions packaging, browser and slow run: here what needs the real libraries.

    The rest is run by sessions that follow, each once, and none that was run before: nox leaves those out.
    """
    environment = LibrariesEnvironment(session)
    env = {**environment.env, **ONE_THREAD, **SELDOM_COLLECTED}
    if session.posargs:  # what is chosen by name may be anywhere
        chosen = ["--ignore=tests/packaging", "--ignore=tests/browser", "--ignore=tests/site"]
        run_pytest(session, *chosen, *STEALING, python=environment.python, env=env)
        return
    SHARING[:] = pythons_of_the_suite()
    for version in SHARING:
        session.notify(f"core-{version}")
    for core in EMULATOR_CORES:
        session.notify(f"emulated(core={core!r})")
    # what a session requires does not run by itself when it is notified
    for name in ("openmmlab-2", LIBRARIES_1, "openmmlab-1"):
        session.notify(name)
    marks = "libraries and not slow"
    run_each_module(session, modules_with_libraries(), "-m", marks, python=environment.python, env=env)


@nox.session(python=False, requires=[LIBRARIES])
def slow(session: nox.Session) -> None:
    """Run the tests that repeat on larger models, for minutes each, what others protect; before a release."""
    environment = LibrariesEnvironment(session)
    env = {**environment.env, **ONE_THREAD, **SELDOM_COLLECTED}
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


@nox.session(python=False, requires=[LIBRARIES])
@nox.parametrize("core", EMULATOR_CORES)
def emulated(session: nox.Session, core: str) -> None:
    """Run tests/emulated on the emulated NPU, which stays to the end of a process; once with each of its cores."""
    environment = LibrariesEnvironment(session)
    env = {**environment.env, **ONE_THREAD, **SELDOM_COLLECTED, "NPU_EMULATOR_CORE": core}
    options = ["tests/emulated", "--emulate-npu", "--numprocesses=auto"]
    if core == "python":  # what both cores do alike is tested on the faster one
        options += ["-m", "not either_core"]
    run_pytest(session, *options, python=environment.python, env=env, name=f"emulated-{core}")


@nox.session(name="openmmlab-1", python=False, requires=[LIBRARIES_1])
def openmmlab_1(session: nox.Session) -> None:
    """Run tests/openmmlab on the emulated NPU with mmcv 1.x, mmdet 2.x and mmdet3d 1.0."""
    run_openmmlab(session, LINE_1)


@nox.session(name="openmmlab-2", python=False, requires=[LIBRARIES])
def openmmlab_2(session: nox.Session) -> None:
    """Run tests/openmmlab on the emulated NPU with mmcv 2.x, mmengine, mmdet 3.x and mmdet3d 1.4."""
    run_openmmlab(session, LINE_2)


def run_openmmlab(session: nox.Session, openmmlab: OpenMMLab) -> None:
    """Run tests/openmmlab with one line of the libraries, on the emulator's compiled core where it could be built."""
    environment = LibrariesEnvironment(session, openmmlab.libraries)
    env = {**environment.env, **ONE_THREAD, **SELDOM_COLLECTED, "NPU_EMULATOR_CORE": "auto"}
    options = ("tests/openmmlab", "--emulate-npu", "--numprocesses=auto")
    run_pytest(session, *options, python=environment.python, env=env)


@nox.session(python=False, requires=[LIBRARIES])
def demo(session: nox.Session) -> None:
    """Patch a stock mmdet training run, compare it with the unpatched one, and restore it."""
    environment = LibrariesEnvironment(session)
    session.run(environment.python, "-m", DEMO, *session.posargs, env=environment.env, external=True)


@nox.session(python=False, requires=[LIBRARIES, LIBRARIES_1])
def models(session: nox.Session) -> None:
    """Train a configuration of every family on the CPU and on the emulated NPU; write docs/models.md. Resumable."""
    failed = False
    for name in (LIBRARIES, LIBRARIES_1):
        environment = LibrariesEnvironment(session, name)
        command = (environment.python, "-m", "tools.models", *session.posargs)
        try:
            session.run(*command, env=environment.env, external=True)
        except nox.command.CommandFailed:  # the other line is trained all the same
            failed = True
    if failed:
        session.error("models do not train: docs/models.md says which")


@nox.session
def browser(session: nox.Session) -> None:
    """Look at the page of ``patchcore report --html`` in Chromium or Chrome, which has to be installed."""
    install_requirements(session, TEST, BUILD)
    install_distributions(session, ROOT)
    run_pytest(session, "tests/browser")


@nox.session(name="demo-cuda", python=False, requires=[LIBRARIES])
def demo_cuda(session: nox.Session) -> None:
    """Run an untouched CUDA training script on the emulated NPU, alone and in two ranks; report what was rewritten."""
    environment = LibrariesEnvironment(session)
    reports = session.create_tmp()
    for number, command in enumerate(([CUDA_SCRIPT], ["--", "torchrun", "--nproc-per-node=2", CUDA_SCRIPT])):
        directory = str(Path(reports, f"reports-{number}"))
        shutil.rmtree(directory, ignore_errors=True)
        run = ("-m", "patchcore", "run", "--emulate-npu", "--report-dir", directory, *command, *session.posargs)
        session.run(environment.python, *run, env=environment.env, external=True)
        session.run(environment.python, "-m", "patchcore", "report", directory, env=environment.env, external=True)


@nox.session(python=False, requires=[LIBRARIES])
def bench(session: nox.Session) -> None:
    """Measure patchcore against the alternatives in one run, as a table of ratios."""
    environment = LibrariesEnvironment(session)
    session.run(environment.python, "-m", "benchmarks", *session.posargs, env=environment.env, external=True)


# --- without libraries ------------------------------------------------------------------------------------------------


@nox.session(python=CORE_PYTHONS)
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
    on_each = modules_in(folder for folder in CORE_TESTS if folder not in SHARED_TESTS)
    shared = modules_in(SHARED_TESTS)
    return on_each + (shared[SHARING.index(version) :: len(SHARING)] if version in SHARING else shared)


@nox.session
def packaging(session: nox.Session) -> None:
    """Build sdists and wheels of every distribution and use them from a clean environment."""
    install_requirements(session, TEST, BUILD, PACKAGING, RELEASE)
    install_distributions(session, ROOT)
    # Each file has wheels that its tests share.
    run_pytest(session, "tests/packaging", "--numprocesses=auto", "--dist=loadfile")


@nox.session
def release(session: nox.Session) -> None:
    """Make a release, ``nox -s release -- 0.2.0``: versions, changelog, sdists, wheels, checks; upload nothing."""
    install_requirements(session, PACKAGING, RELEASE)
    session.run("python", "tools/release.py", *session.posargs)


def install_plugins_alone(session: nox.Session) -> None:
    """Install patchcore and the plugins without the libraries, whose sources are read."""
    install_requirements(session, BUILD, SOURCES)
    install_distributions(session, ROOT, *plugins())


@nox.session(python=PYTHON_OF_LIBRARIES)
def drift(session: nox.Session) -> None:
    """Tell which targets have changed in the newest releases of the libraries; what it says changes with the index."""
    install_plugins_alone(session)
    session.run("python", "tools/check_newest.py", *session.posargs)


@nox.session(python=PYTHON_OF_LIBRARIES)
def fingerprints(session: nox.Session) -> None:
    """Record the fingerprints of the plugins for every supported release of the libraries."""
    install_plugins_alone(session)
    session.run("python", "tools/record_fingerprints.py", *session.posargs)


@nox.session(python=PYTHON_OF_LIBRARIES)
def quickstart(session: nox.Session) -> None:
    """Walk docs/quickstart.md in an environment of its own, which it makes by the commands of the page."""
    install_requirements(session, BUILD)
    session.run("python", "tools/walk_quickstart.py")


# On the newest Python that is here, or that of nox: import-linter supports few.
@nox.session(python=(pythons_of_the_suite() or [None])[-1])
def lint(session: nox.Session) -> None:
    """Check style, format and which way imports go."""
    install_requirements(session, LINT)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    # Read where they lie: no plugin is installed here.
    session.run("lint-imports", env={"PYTHONPATH": os.pathsep.join(map(str, plugins()))})


@nox.session(python=PYTHON_OF_LIBRARIES)
def docs(session: nox.Session) -> None:
    """Build the documentation site in site/ and test it; a dead link or a page outside of the index is an error."""
    install_requirements(session, DOCS, TEST, BUILD)
    install_distributions(session, ROOT)
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
