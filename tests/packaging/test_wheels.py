"""Wheels of every distribution, and what a user gets who installs them in a clean environment."""

from __future__ import annotations

import ensurepip
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import patchcore

pytest.importorskip("build", reason="needs the package build: python -m nox -s packaging")

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
DISTRIBUTIONS = [ROOT, *PLUGINS]
BOUND = f">={patchcore.__version__}"
TORCH = f"patchcore-torch{BOUND}"
THIRD_PARTY = {
    "pyproject.toml": """
        [build-system]
        requires = ["hatchling"]
        build-backend = "hatchling.build"

        [project]
        name = "acme-npu-patches"
        version = "3.1.4"
        dependencies = ["patchcore"]

        [project.entry-points.npu_patches]
        acme = "acme_npu:plugin"

        [tool.hatch.build.targets.wheel]
        packages = ["acme_npu"]
        """,
    "acme_npu/__init__.py": """
        import json as _json

        import patchcore as pc


        @pc.wrap("json:dumps", summary="sorted keys")
        def sorted_keys(original, value, **options):
            return original(value, **{"sort_keys": True, **options})


        class plugin:
            @staticmethod
            @pc.hookimpl
            def register_patches():
                return [sorted_keys]
        """,
}


def run(*command: object, cwd: Path | None = None, code: int = 0) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHONPATH", "PATCHCORE_"))}
    arguments = [str(part) for part in command]
    done = subprocess.run(arguments, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == code, f"{' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(folder: Path, out: Path) -> None:
    """Build the source distribution of a folder, and the wheel from that."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, folder)


@pytest.fixture(scope="session")
def third_party(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source tree of a plugin that has nothing to do with this checkout."""
    from textwrap import dedent

    folder = tmp_path_factory.mktemp("acme")
    for name, content in THIRD_PARTY.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(dedent(content))
    return folder


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, third_party: Path) -> Path:
    """A folder with what is built of every distribution and of the third party's plugin."""
    out = tmp_path_factory.mktemp("built")
    for folder in (*DISTRIBUTIONS, third_party):
        build(folder, out)
    return out


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory, built: Path) -> Path:
    """A folder with the wheel of every distribution and of the third party's plugin."""
    out = tmp_path_factory.mktemp("wheels")
    for wheel in built.glob("*.whl"):
        wheel.rename(out / wheel.name)
    return out


class Installation:
    """A virtual environment of its own.

    Args:
        folder: where to make it.
    """

    def __init__(self, folder: Path) -> None:
        run(sys.executable, "-m", "venv", folder)
        self.python = folder / "bin" / "python"
        self.patchcore = folder / "bin" / "patchcore"
        self.folder = folder

    def install(self, *arguments: object) -> None:
        run(self.python, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", *arguments)

    def list(self) -> Any:
        return json.loads(run(self.patchcore, "list", "--format", "json", cwd=self.folder))


#: Distributions with patches, the last of them somebody else's; and those without.
PLUGINS = (
    "diffusers-npu-patches",
    "mmcv-npu-patches",
    "mmdet3d-npu-patches",
    "torch-npu-patches",
    "transformers-npu-patches",
    "acme-npu-patches",
)
TOOLS = (
    "fake-cann",
    "mindspeed-compat",
    "mx-driving-compat",
    "npu-emulator",
    "npu-graph",
    "npu-migrate",
    "ray-patches",
    "torch-markers",
)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Installation:
    """What a user gets by naming the core, our plugins and somebody else's."""
    environment = Installation(tmp_path_factory.mktemp("clean"))
    environment.install("--find-links", wheels, *TOOLS, *PLUGINS)
    return environment


def files_of(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def text_of(wheel: Path, ending: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(ending)]
        return archive.read(name).decode()


def sources(folder: Path, packages: Sequence[str]) -> set[str]:
    """The files of some packages that belong in a wheel, relative to the folder."""
    paths = [path for package in packages for path in (folder / package).rglob("*")]
    return {str(path.relative_to(folder)) for path in paths if path.is_file() and "__pycache__" not in path.parts}


def wheel_of(wheels: Path, name: str) -> Path:
    (found,) = wheels.glob(f"{name.replace('-', '_')}-*.whl")
    return found


class TestWheels:
    @pytest.mark.parametrize(
        ("name", "folder", "packages"),
        [
            ("patchcore", ROOT, ["patchcore", "patchcore_startup"]),
            ("mmcv-npu-patches", ROOT / "plugins" / "mmcv_npu", ["mmcv_npu"]),
            ("mmdet3d-npu-patches", ROOT / "plugins" / "mmdet3d_npu", ["mmdet3d_npu"]),
            ("diffusers-npu-patches", ROOT / "plugins" / "diffusers_npu", ["diffusers_npu"]),
            ("patchcore-torch", ROOT / "plugins" / "patchcore_torch", ["patchcore_torch"]),
            ("torch-npu-patches", ROOT / "plugins" / "torch_npu_patches", ["torch_npu_patches"]),
            ("transformers-npu-patches", ROOT / "plugins" / "transformers_npu", ["transformers_npu"]),
            ("mx-driving-compat", ROOT / "plugins" / "mx_driving_compat", ["mx_driving_compat"]),
            ("mindspeed-compat", ROOT / "plugins" / "mindspeed_compat", ["mindspeed_compat"]),
            ("npu-emulator", ROOT / "plugins" / "npu_emulator", ["npu_emulator"]),
            ("fake-cann", ROOT / "plugins" / "fake_cann", ["fake_cann", "fake_cann_startup"]),
            ("npu-graph", ROOT / "plugins" / "npu_graph", ["npu_graph"]),
            ("npu-migrate", ROOT / "plugins" / "npu_migrate", ["npu_migrate"]),
            ("ray-patches", ROOT / "plugins" / "ray_patches", ["ray_patches"]),
            ("torch-markers", ROOT / "plugins" / "torch_markers", ["torch_markers"]),
        ],
    )
    def test_contents(self, wheels: Path, name: str, folder: Path, packages: list[str]) -> None:
        wheel = wheel_of(wheels, name)
        ours, metadata = set(), set()
        for file in files_of(wheel):
            (metadata if ".dist-info/" in file else ours).add(file)
        startup = {f"{package}.pth" for package in packages if package.endswith("_startup")}
        assert ours == {*sources(folder, packages), *startup}
        assert any(file.endswith("/licenses/LICENSE") for file in metadata)
        assert text_of(wheel, "/licenses/LICENSE") == (ROOT / "LICENSE").read_text()
        headers = Parser().parsestr(text_of(wheel, "/METADATA"))
        assert headers["Name"] == name
        assert headers["License-Expression"] == "Apache-2.0"
        assert headers["Requires-Python"] == ">=3.9"
        assert headers["Version"] == patchcore.__version__
        assert headers.get_payload() == (folder / "DESCRIPTION.md").read_text()

    def test_descriptions_are_shown_whole_without_the_repository(self, wheels: Path) -> None:
        """An index shows them: a link into the repository would lead nowhere."""
        pytest.importorskip("twine", reason="needs twine: python -m nox -s packaging")
        files = [wheel for wheel in wheels.iterdir() if not wheel.name.startswith("acme")]
        assert run(sys.executable, "-m", "twine", "check", "--strict", *files).count("PASSED") == len(DISTRIBUTIONS)
        for wheel in files:
            links = re.findall(r"\]\(([^)]*)\)", text_of(wheel, "/METADATA"))
            assert [link for link in links if not link.startswith("https://")] == [], wheel.name

    def test_what_needs_another_of_ours_says_from_which_version_on(self, wheels: Path) -> None:
        ours = {wheel.name.split("-")[0].replace("_", "-") for wheel in wheels.iterdir()}
        bounds = {}
        for wheel in wheels.iterdir():
            headers = Parser().parsestr(text_of(wheel, "/METADATA"))
            for requirement in map(Requirement, headers.get_all("Requires-Dist", [])):
                if requirement.name in ours and headers["Name"] != "acme-npu-patches":
                    bounds[headers["Name"], requirement.name] = str(requirement.specifier)
        assert set(bounds.values()) == {f">={patchcore.__version__}"}
        assert ("mmdet3d-npu-patches", "mmcv-npu-patches") in bounds
        assert {name for name, needed in bounds if needed == "patchcore"} == ours - {"patchcore", "acme-npu-patches"}

    def test_every_distribution_is_looked_at(self, wheels: Path) -> None:
        names = {name.replace("-", "_") for name in ("patchcore", "patchcore-torch", *TOOLS, *PLUGINS)}
        assert {wheel.name.split("-")[0] for wheel in wheels.iterdir()} == names
        assert len(DISTRIBUTIONS) + 1 == len(names)

    def test_the_core_is_typed_and_has_its_command(self, wheels: Path) -> None:
        wheel = wheel_of(wheels, "patchcore")
        assert "patchcore/py.typed" in files_of(wheel)
        assert "patchcore = patchcore.cli:main" in text_of(wheel, "/entry_points.txt")

    def test_the_plugins_are_typed(self, wheels: Path) -> None:
        typed = {
            wheel.name.split("-")[0] for wheel in wheels.iterdir() if any("py.typed" in f for f in files_of(wheel))
        }
        untyped = {wheel.name.split("-")[0] for wheel in wheels.iterdir()} - typed
        assert untyped == {"acme_npu_patches"}  # of the examples

    def test_files_for_the_start_of_every_process_are_one_line(self, wheels: Path) -> None:
        for name, folder in (("patchcore", ROOT), ("fake-cann", ROOT / "plugins" / "fake_cann")):
            file = f"{name.replace('-', '_')}_startup.pth"
            text = text_of(wheel_of(wheels, name), file)
            assert text == (folder / file).read_text()
            assert text.startswith("import ")  # site runs such lines
            assert text.count("\n") == 1

    @pytest.mark.parametrize(
        ("name", "entry", "needs", "extras"),
        [
            (
                "mmcv-npu-patches",
                "mmcv = mmcv_npu.plugin",
                [f"patchcore-torch{BOUND}"],
                {"mmcv", "mmcv-full", "mmdet", "mmdet2"},
            ),
            ("mmdet3d-npu-patches", "mmdet3d = mmdet3d_npu.plugin", [f"mmcv-npu-patches{BOUND}"], {"mmdet3d"}),
            (
                "mx-driving-compat",
                "mx_driving = mx_driving_compat.plugin",
                [TORCH, "packaging>=21"],
                set(),
            ),
            ("mindspeed-compat", "mindspeed = mindspeed_compat.plugin", [], set()),
            ("diffusers-npu-patches", "diffusers = diffusers_npu.plugin", [], {"diffusers"}),
            ("ray-patches", "ray = ray_patches.plugin", [], {"ray"}),
            ("transformers-npu-patches", "transformers = transformers_npu.plugin", [TORCH], {"transformers"}),
            (
                "torch-npu-patches",
                "torch_npu = torch_npu_patches.plugin",
                [TORCH, "packaging>=21"],
                {"torch", "numpy"},
            ),
        ],
    )
    def test_plugins_need_the_core_and_no_library(
        self, wheels: Path, name: str, entry: str, needs: list[str], extras: set[str]
    ) -> None:
        wheel = wheel_of(wheels, name)
        assert f"[npu_patches]\n{entry}\n" in text_of(wheel, "/entry_points.txt")
        headers = Parser().parsestr(text_of(wheel, "/METADATA"))
        required = [line for line in headers.get_all("Requires-Dist", []) if "extra ==" not in line]
        assert sorted(required) == sorted([f"patchcore{BOUND}", *needs])
        assert set(headers.get_all("Provides-Extra", [])) == extras

    def test_the_adapter_comes_by_either_spelling_of_its_extra(self, wheels: Path) -> None:
        headers = Parser().parsestr(text_of(wheel_of(wheels, "fake-cann"), "/METADATA"))
        required = [Requirement(line) for line in headers.get_all("Requires-Dist", [])]
        for extra in headers.get_all("Provides-Extra", []):  # pip before 23.3 compares the texts
            found = {each.name for each in required if each.marker and each.marker.evaluate({"extra": extra})}
            assert found == {"torch", "torch-npu", "numpy", "pyyaml"}
        assert set(headers.get_all("Provides-Extra", [])) == {"torch_npu", "torch-npu"}

    @pytest.mark.parametrize("extra", ["torch_npu", "torch-npu"])
    def test_the_pip_of_this_python_knows_the_extra_of_the_adapter(
        self, wheels: Path, tmp_path: Path, extra: str
    ) -> None:
        bundled = next(Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl"), None)
        if bundled is None:
            pytest.skip("this Python has no pip of its own")
        command = [sys.executable, str(bundled / "pip"), "install", "--dry-run", "--no-index", f"--find-links={wheels}"]
        command += ["--ignore-installed", f"--target={tmp_path}", f"fake-cann[{extra}]"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        # Without an index the first requirement is not found. One of the extra is looked for before those of patchcore.
        assert "does not provide the extra" not in done.stderr
        assert f'extra == "{extra}"' in done.stderr


class TestInstalled:
    def test_plugins_with_name_version_and_origin(self, installed: Installation) -> None:
        content = installed.list()
        assert [(p["name"], p["distribution"], p["version"], p["origin"]) for p in content["plugins"]] == [
            ("acme", "acme-npu-patches", "3.1.4", "acme_npu:plugin"),
            ("diffusers", "diffusers-npu-patches", patchcore.__version__, "diffusers_npu.plugin"),
            ("fake_cann", "fake-cann", patchcore.__version__, "fake_cann.plugin"),
            ("mindspeed", "mindspeed-compat", patchcore.__version__, "mindspeed_compat.plugin"),
            ("mmcv", "mmcv-npu-patches", patchcore.__version__, "mmcv_npu.plugin"),
            ("mmdet3d", "mmdet3d-npu-patches", patchcore.__version__, "mmdet3d_npu.plugin"),
            ("mx_driving", "mx-driving-compat", patchcore.__version__, "mx_driving_compat.plugin"),
            ("npu_emulator", "npu-emulator", patchcore.__version__, "npu_emulator.plugin"),
            ("npu_graph", "npu-graph", patchcore.__version__, "npu_graph.plugin"),
            ("npu_migrate", "npu-migrate", patchcore.__version__, "npu_migrate.plugin"),
            ("ray", "ray-patches", patchcore.__version__, "ray_patches.plugin"),
            ("torch_markers", "torch-markers", patchcore.__version__, "torch_markers.plugin"),
            ("torch_npu", "torch-npu-patches", patchcore.__version__, "torch_npu_patches.plugin"),
            ("transformers", "transformers-npu-patches", patchcore.__version__, "transformers_npu.plugin"),
        ]
        assert all(Path(plugin["file"]).is_relative_to(installed.folder) for plugin in content["plugins"])
        assert content["problems"] == []
        missing = {p["name"]: p["reason"] if p["verdict"] == "skipped" else p["unmet"] for p in content["patches"]}
        fitting = [name for name, reason in missing.items() if not reason]
        assert sorted(fitting) == ["acme_npu.sorted_keys", "collections.compat"]  # what changes the standard library
        known = re.compile(
            r"requires (\S+?)[<>=].*, \1 is not installed"
            r"|needs module (?:torch_npu|apex), which is neither installed nor emulated here"
            r"|\w+ is not installed"
        )
        assert [reason for reason in missing.values() if reason and not known.fullmatch(reason)] == []

    def test_no_library_came_along(self, installed: Installation) -> None:
        freeze = run(installed.python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check")
        names = {row["name"].lower().replace("_", "-") for row in json.loads(freeze)}
        ours = {"patchcore", "patchcore-torch", *TOOLS, *PLUGINS}
        needed = {"pluggy", "packaging", "rich", "msgspec", "markdown-it-py", "mdurl", "pygments"}
        needed |= {"libcst", "pathspec", "pyyaml", "pyyaml-ft"}  # reads the programs that `patchcore migrate` converts
        backports = {"importlib-metadata", "tomli", "typing-extensions", "zipp"}
        assert ours <= names
        assert names - ours - needed - backports <= {"pip", "setuptools"}
        run(installed.python, "-m", "pip", "check")

    def test_the_core_is_ours(self, installed: Installation) -> None:
        """An index may have another project of that name."""
        file = run(installed.python, "-c", "import patchcore; print(patchcore.__file__)", cwd=installed.folder).strip()
        assert Path(file).is_relative_to(installed.folder)
        assert Path(file).read_bytes() == (ROOT / "patchcore" / "__init__.py").read_bytes()

    def test_commands_work(self, installed: Installation) -> None:
        for arguments in (["list"], ["check"], ["check", "--apply"], ["doctor"], ["explain", "acme"], ["--help"]):
            run(installed.patchcore, *arguments, cwd=installed.folder)
        (installed.folder / "train.py").write_text("import json\nprint(json.dumps({'b': 1, 'a': 2}))\n")
        assert run(installed.python, "train.py", cwd=installed.folder) == '{"b": 1, "a": 2}\n'
        assert run(installed.patchcore, "run", "train.py", cwd=installed.folder) == '{"a": 2, "b": 1}\n'
        run(installed.python, "-c", "import npu_emulator; npu_emulator.install(device=False)", cwd=installed.folder)

    def test_a_migration_runs_and_becomes_a_plugin(self, installed: Installation) -> None:
        source = "\n".join(
            [
                "import json",
                "from mx_driving.patcher import AtomicPatch, Patcher",
                "def dumps(value): return 'patched'",
                "Patcher().add(AtomicPatch('json.dumps', dumps)).apply()",
            ]
        )
        (installed.folder / "migrated.py").write_text(source + "\nprint(json.dumps(1))\n")
        done = run(installed.patchcore, "run", "--compat", "mx_driving", "migrated.py", cwd=installed.folder)
        assert done == "patched\n"
        done = run(installed.patchcore, "new", "acme-json", "--from", "migrated.py", cwd=installed.folder)
        assert "written to acme-json" in done
        assert "mx_driving_compat.patcher" in (installed.folder / "acme-json/acme_json/replacements.py").read_text()

    @pytest.mark.parametrize("flags", [[], ["-E"], ["-I"]])
    def test_run_reaches_isolated_interpreters(self, installed: Installation, flags: list[str]) -> None:
        code = "import json; print(json.dumps({'b': 1, 'a': 2}))"
        command = [
            installed.patchcore,
            "run",
            "--",
            "bash",
            "-c",
            'exec "$@"',
            "-",
            installed.python,
            *flags,
            "-c",
            code,
        ]
        assert run(*command, cwd=installed.folder) == '{"a": 2, "b": 1}\n'

    def test_workers_are_reached(self, installed: Installation) -> None:
        content = json.loads(run(installed.patchcore, "doctor", "--workers", "--format", "json", cwd=installed.folder))
        results = {worker["kind"]: worker["result"] for worker in content["workers"]}
        unreachable = {"python -S", "python, empty environment"}
        assert {kind for kind, result in results.items() if result != "patched"} == unreachable
        assert {"multiprocessing, spawn", "python", "python -E", "python -I"} <= results.keys()


class TestSourceDistribution:
    """The wheels of the other tests were built from them."""

    def test_the_core_s_has_its_sources_and_nothing_else(self, built: Path) -> None:
        (sdist,) = built.glob("patchcore-*.tar.gz")
        with tarfile.open(sdist) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        assert sources(ROOT, ["patchcore", "patchcore_startup"]) <= names
        assert {"patchcore_startup.pth", "LICENSE", "DESCRIPTION.md", "CHANGELOG.md", "pyproject.toml"} <= names
        assert not [name for name in names if name.startswith(("tests", "plugins", ".ci", "examples"))]

    def test_every_distribution_has_one(self, built: Path) -> None:
        assert len(list(built.glob("*.tar.gz"))) == len(DISTRIBUTIONS) + 1
