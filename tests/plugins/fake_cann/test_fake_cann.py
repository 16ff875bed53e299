"""What fake-cann does without torch: its table, and what it refuses."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Callable

import pytest

table = pytest.importorskip("fake_cann.table", reason="needs the plugins of this repository")

from fake_cann import build, elf, environment, support, wheel  # noqa: E402
from fake_cann.__main__ import main  # noqa: E402
from fake_cann.errors import FakeCannError, RealCannError  # noqa: E402


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A torch and a torch_npu that only look like it, not imported."""
    for name in ("torch", "torch_npu"):
        (tmp_path / name / "lib").mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text("raise AssertionError('imported')")
        (tmp_path / name / "version.py").write_text("__version__ = '2.13.0+cpu'")
        (tmp_path / name / "lib" / "libtorch_npu.so").touch()
    monkeypatch.setattr(wheel, "package_of", lambda name: tmp_path / name)
    monkeypatch.setattr(build, "package_of", wheel.package_of)
    monkeypatch.setattr(environment, "torch_npu_version", lambda: "2.13.0")
    build._key.cache_clear()
    yield tmp_path
    build._key.cache_clear()


def test_the_package_needs_neither_torch_nor_a_compiler_to_be_imported() -> None:
    code = "import sys, fake_cann, fake_cann.plugin; sys.exit('torch' in sys.modules or 'torch_npu' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_table() -> None:
    operators = table.computed()
    assert operators["Add"].letters == "TTST"
    assert operators["Add"].recipe == "TTST add.out 0 1 2 3"
    assert list(operators) == sorted(operators)


def test_places_of_the_table_are_places_of_the_letters() -> None:
    for operator in table.computed().values():
        places = [word.rstrip("?").replace("type", "") for word in operator.words]
        numbers = [int(place) for place in places if place.isdigit()]
        assert all(number < len(operator.letters) for number in numbers), operator


@pytest.mark.parametrize("text", ["Add", "Add TTX own", "Add TT own\nAdd TT own"])
def test_a_table_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="Add"):
        table.parse(text)


def test_every_function_of_its_own_is_in_the_sources() -> None:
    sources = Path(table.TABLE.parent, "csrc", "operators").glob("own_*.cpp")
    text = "".join(source.read_text(encoding="utf-8") for source in sources)
    own = {name for name, operator in table.computed().items() if operator.computed_by == "own"}
    assert {name for name in own if f'{{"{name}",' not in text} == set()


def test_operators_that_a_wheel_calls(packages: Path) -> None:
    library = packages / "torch_npu" / "lib" / "libtorch_npu.so"
    library.write_bytes(
        b"\0aclnnAddGetWorkspaceSize\0aclnnAdd\0aclnnSvdGetWorkspaceSize\0xaclnnNoGetWorkspaceSize\0"
        b"aclStftGetWorkspaceSize\0"
    )
    assert wheel.operators_called() == ["Add", "Svd", "aclStft"]
    assert [table.symbol_of(name) for name in wheel.operators_called()] == ["aclnnAdd", "aclnnSvd", "aclStft"]


def test_a_real_cann_is_never_hidden(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {build.CACHE: str(tmp_path / "cache")}
    environment.refuse_real_cann(environ)
    with pytest.raises(RealCannError, match="/opt/Ascend"):
        environment.refuse_real_cann({**environ, "ASCEND_HOME_PATH": "/opt/Ascend"})
    (tmp_path / "libascendcl.so").touch()
    with pytest.raises(RealCannError, match=str(tmp_path)):
        environment.refuse_real_cann({**environ, "LD_LIBRARY_PATH": f"/nowhere{os.pathsep}{tmp_path}"})


@pytest.fixture
def make_wheel(tmp_path: Path) -> Callable[[bytes], Path]:
    """Return what makes a wheel of torch_npu from the data of its library."""

    def make(data: bytes) -> Path:
        path = tmp_path / "torch_npu-2.99.0-cp311-cp311-linux_x86_64.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("torch_npu/lib/libtorch_npu.so", data)
            schemas = (
                "- func: npu_one(Tensor self) -> Tensor\n  exec: aclnnAdd\n- func: npu_two() -> (Tensor, Tensor)\n"
            )
            archive.writestr("torch_npu/csrc/aten/npu_native_functions_by_codegen.yaml", schemas)
        return path

    return make


def library_of(needed: Sequence[str], defined: Sequence[str], machine: int) -> bytes:
    """Return a shared library with a table of dynamic symbols and nothing else."""
    names = b"\0".join([b"", *(name.encode() for name in (*needed, *defined)), b""])
    offsets, at = [], 1
    for name in (*needed, *defined):
        offsets.append(at)
        at += len(name) + 1
    table = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", offset, 0x12, 0, 0 if number < len(needed) else 1, 0, 0)
        for number, offset in enumerate(offsets)
    )
    start = 64
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, start, len(table), 2, 0, 8, 24)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, start + len(table), len(names), 0, 0, 1, 0)
    end = start + len(table) + len(names)
    identity = b"\x7fELF\x02\x01".ljust(16, b"\0")
    header = struct.pack("<16sHHIQQQIHHHHHH", identity, 3, machine, 1, 0, 0, end, 0, 64, 0, 0, 64, 3, 0)
    return header + table + names + sections


def test_a_wheel_is_read_and_not_installed(
    make_wheel: Callable[[bytes], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    data = library_of(["aclrtMalloc", "malloc", "HcclNew", "rtNew"], ["torch_npu_init"], machine=183)
    data += b"\0aclnnAddGetWorkspaceSize\0aclnnNewGetWorkspaceSize\0"
    path = make_wheel(data)
    assert main(["wheel", str(path), "--list"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{path.name}: aarch64",
        "  calls 2 operators: 1 computed, 1 refused",
        "  needs 3 names of CANN to be loaded: 1 are there",
        "  has 2 schemas",
        "  missing: HcclNew",
        "  missing: rtNew",
        "  refused: aclnnNew",
        "  npu_one(Tensor self) -> Tensor",
        "  npu_two() -> (Tensor, Tensor)",
    ]
    assert elf.symbols(data)[1] == {"torch_npu_init"}


@pytest.mark.parametrize("data", [b"", b"MZ" + bytes(100), b"\x7fELF\x01\x01" + bytes(100)])
def test_what_is_no_wheel_of_torch_npu(
    data: bytes, make_wheel: Callable[[bytes], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["wheel", str(make_wheel(data))]) == 1
    (tmp_path / "text.whl").write_text("no archive")
    assert main(["wheel", str(tmp_path / "text.whl")]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert [line.partition(", found")[0] for line in errors] == ["fake_cann: expected a wheel of torch_npu"] * 2


def test_a_fake_cann_of_another_torch_is_none_that_is_real(packages: Path, tmp_path: Path) -> None:
    environ = {build.CACHE: str(tmp_path / "cache")}
    other = build.libraries(environ).with_name("of-another-torch")
    other.mkdir(parents=True)
    (other / "libascendcl.so").touch()
    (other / "fake-cann.txt").write_text("key")
    environment.refuse_real_cann({**environ, "LD_LIBRARY_PATH": str(other)})


def test_random_numbers_come_from_the_device_or_the_cpu(packages: Path, tmp_path: Path) -> None:
    with pytest.raises(FakeCannError, match="FAKE_CANN_RANDOM is one of device, cpu, found 'gpu'"):
        environment.prepare({build.CACHE: str(tmp_path / "cache"), "FAKE_CANN_RANDOM": "gpu"})


def test_kernels_of_other_libraries_are_those_of_npu_emulator(run_python: Callable[..., str]) -> None:
    printed = run_python("""
        from fake_cann.kernels import install_kernels

        print(install_kernels(), install_kernels())
        import importlib.util, sys, npu_emulator, patchcore
        from npu_emulator.installation import device_is_active, is_installed
        import mx_driving
        print(mx_driving.__name__, is_installed(), any("OperatorsHook" in repr(finder) for finder in sys.meta_path))
        """)
    assert printed.split() == ["True", "True", "npu_emulator.mx_driving", "False", "True"]


def test_kernels_of_a_real_mx_driving_stay(run_python: Callable[..., str], make_package: Callable[..., Path]) -> None:
    make_package({"mx_driving": "REAL = True"})
    printed = run_python("""
        from fake_cann.kernels import install_kernels

        print(install_kernels())
        import mx_driving
        print(mx_driving.REAL)
        """)
    assert printed.split() == ["False", "True"]


@pytest.mark.skipif(sys.platform != "linux", reason="the libraries are for Linux")
def test_without_a_compiler(packages: Path, tmp_path: Path) -> None:
    environ = {build.CACHE: str(tmp_path / "cache"), "PATH": str(tmp_path), "CXX": "no-compiler -O2"}
    with pytest.raises(FakeCannError, match="expected a C\\+\\+ compiler, found no no-compiler -O2"):
        build.build(environ=environ)


@pytest.mark.skipif(os.name != "posix", reason="permissions of folders")
def test_a_cache_that_others_can_enter(packages: Path, tmp_path: Path) -> None:
    environ = {build.CACHE: str(tmp_path / "cache")}
    folder = build.libraries(environ)
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    with pytest.raises(FakeCannError, match="others may enter"):
        build.libraries(environ)


def test_a_process_that_does_not_use_it_loads_nothing_that_compiles(run_python: Callable[..., str]) -> None:
    printed = run_python("""
        import sys
        import fake_cann
        from fake_cann import plugin, support

        assert support.report_sections() == ()
        print("fake_cann.environment" in sys.modules, fake_cann.install.__name__)
        """)
    assert printed.split() == ["False", "install"]


def test_without_torch_npu(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FakeCannError, match="expected a_package_that_is_not_there"):
        wheel.package_of("a_package_that_is_not_there")


def test_without_torch_no_device_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "package_of", lambda name: wheel.package_of("a_package_that_is_not_there"))
    with pytest.raises(FakeCannError):
        build.libraries()
    assert support.emulated_devices() == []


def test_the_environment_of_children(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {build.CACHE: str(tmp_path / "cache"), "LD_LIBRARY_PATH": "/opt/mine"}
    folder = build.libraries(environ)
    monkeypatch.setattr(environment, "build", lambda report, environ: folder)
    assert not environment.finds_libraries(environ)
    environment.prepare(environ)
    environment.prepare(environ)
    assert environ["LD_LIBRARY_PATH"] == f"{folder}{os.pathsep}/opt/mine"
    assert environ["TASK_QUEUE_ENABLE"] == "0"
    assert environment.finds_libraries(environ)
    assert support.emulated_devices() == []
    monkeypatch.setenv(build.CACHE, environ[build.CACHE])
    monkeypatch.setenv("LD_LIBRARY_PATH", environ["LD_LIBRARY_PATH"])
    assert support.emulated_devices() == ["npu"]


@pytest.mark.parametrize("options", [["-m", "json.tool"], ["-c", "print(1)"], ["-u", "train.py", "--devices", "3"]])
def test_options_of_python_and_of_the_program_are_theirs(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    def start(_: str, arguments: list[str], environ: dict[str, str]) -> None:
        started.append([*arguments, environ["FAKE_CANN_DEVICES"]])

    monkeypatch.setattr(environment, "prepare", lambda environ: None)
    monkeypatch.setattr(os, "execve", start)
    main(["run", "--devices", "2", *options])
    assert started == [[sys.executable, *options, "2"]]


def test_what_no_command_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["build", "--fast"])
    assert "unrecognized arguments: --fast" in capsys.readouterr().err
