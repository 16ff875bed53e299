"""The end of a run says what to do about a missing module and about options that stand behind the program."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from programs import Programs


def install_plugin(programs: Programs, package: str, plugin: str, distribution: str) -> None:
    """Install a plugin of this repository for the Python of the programs."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not here")
    (programs.site / package).symlink_to(Path(found.origin).parent)
    programs.install({}, distribution, "0.1.0", **{plugin: f"{package}.plugin"})


def last_lines(programs: Programs, *arguments: str, code: int = 1) -> str:
    return programs.run(programs.patchcore, *arguments, code=code).stderr


class TestErrors:
    """A plugin may know what to do about the exception that has ended the program."""

    PLUGIN = """
import patchcore as pc

@pc.hookimpl
def advise(name, command):
    return f"for {name!r}: buy a bigger till" if command == "error" and "till" in name else None
"""

    @pytest.mark.parametrize(
        ("end", "advice"),
        [
            (
                "raise ValueError('the till\\nis full')",
                "patchcore: for 'ValueError: the till is full': buy a bigger till",
            ),
            ("raise ValueError('no apples')", ""),
            ("raise SystemExit('the till is full')", ""),
        ],
    )
    def test_the_advice_stands_at_the_end(self, programs: Programs, end: str, advice: str) -> None:
        programs.install({"tills.py": self.PLUGIN}, "tills", tills="tills")
        programs.write({"sell.py": end})
        lines = last_lines(programs, "sell.py").splitlines()
        assert [line for line in lines if "buy" in line] == ([advice] if advice else [])


class TestMissingModules:
    def test_torch_under_the_emulated_npu(self, programs: Programs) -> None:
        install_plugin(programs, "npu_emulator", "npu_emulator", "npu-emulator")
        programs.write({"train.py": "import torch\n"})
        said = last_lines(programs, "--emulate-npu", "train.py").splitlines()
        assert "ModuleNotFoundError: No module named 'torch'" in said
        (line,) = (line for line in said if line.startswith("patchcore: no module named"))
        assert line.startswith("patchcore: no module named 'torch': to install it: ")
        assert line.endswith(" -m pip install torch==2.13.0")

    @pytest.mark.parametrize("program", ["import mx_driving\n", "from mx_driving.patcher import Patcher\n"])
    def test_mx_driving_with_its_interface_installed(self, programs: Programs, program: str) -> None:
        install_plugin(programs, "mx_driving_compat", "mx_driving", "mx-driving-compat")
        programs.write({"train.py": program})
        said = last_lines(programs, "train.py")
        expected = (
            "patchcore: no module named 'mx_driving': patchcore run --compat mx_driving provides mx_driving.patcher; "
        )
        assert expected in said  # and nothing is to be installed for that

    def test_mx_driving_without_its_interface(self, programs: Programs) -> None:
        programs.write({"train.py": "import mx_driving.patcher\n"})
        said = last_lines(programs, "train.py")
        assert "patchcore run --compat mx_driving provides mx_driving.patcher, after " in said
        assert "plugins/mx_driving_compat" in said

    @pytest.mark.skipif(sys.version_info < (3, 10), reason="Python 3.9 does not keep the name of the module")
    def test_a_module_that_is_run(self, programs: Programs) -> None:
        assert "patchcore: no module named 'torch': to install it: " in last_lines(
            programs, "-m", "torch.distributed.run"
        )

    @pytest.mark.parametrize(
        ("program", "code"),
        [
            ("import shop_that_nobody_knows\n", 1),
            ("try:\n    import torch\nexcept ImportError:\n    pass\n", 0),
            ("raise ModuleNotFoundError('json is broken', name='json')\n", 1),
            ("raise ValueError(\"No module named 'torch'\")\n", 1),
        ],
        ids=["unknown", "the program goes on", "the module is there", "another error"],
    )
    def test_nothing_is_said_where_nothing_is_known(self, programs: Programs, program: str, code: int) -> None:
        programs.write({"train.py": program})
        assert "no module named" not in last_lines(programs, "train.py", code=code)


LATE = "was given to train.py, whose source does not have it; options of patchcore run stand before the program: "


class TestLateOptions:
    @pytest.fixture(autouse=True)
    def program(self, programs: Programs) -> None:
        programs.write({"train.py": "import helper\n", "helper.py": "OPTIONS = {'--epochs': int, 'dry_run': bool}\n"})

    @pytest.mark.parametrize("option", ["--emulate-npu", "--report-dir", "--disable=shop", "--markers"])
    def test_an_option_of_the_run_or_of_a_plugin_that_is_missing(self, programs: Programs, option: str) -> None:
        said = last_lines(programs, "train.py", option, code=0)
        name = option.partition("=")[0]
        assert f"patchcore: {name} {LATE}patchcore run {name} train.py ..." in said

    def test_several_are_said_in_one_line(self, programs: Programs) -> None:
        said = last_lines(programs, "train.py", "--emulate-npu", "--epochs", "3", "--strict", "--strict", code=0)
        assert f"patchcore: --emulate-npu --strict {LATE}patchcore run --emulate-npu --strict train.py ..." in said

    @pytest.mark.parametrize(
        "arguments",
        [
            ("train.py", "--epochs"),  # the program's own
            ("train.py", "--unheard-of"),  # of nobody
            ("train.py", "--", "--strict"),  # behind the dashes it is no option
            ("train.py", "strict"),
            ("--strict", "train.py", "--strict"),  # the run has it
        ],
    )
    def test_other_arguments_are_the_programs(self, programs: Programs, arguments: tuple[str, ...]) -> None:
        assert "stand before" not in last_lines(programs, *arguments, code=0)

    @pytest.mark.parametrize("source", ["parser = '--strict'\n", "def main(strict=False): ...\n"])
    def test_an_option_that_a_module_of_the_program_has(self, programs: Programs, source: str) -> None:
        programs.write({"helper.py": source})
        assert "stand before" not in last_lines(programs, "train.py", "--strict", code=0)

    def test_a_program_that_has_changed_its_arguments(self, programs: Programs) -> None:
        programs.write({"train.py": "import sys\nsys.argv = None\n"})
        assert "stand before" not in last_lines(programs, "train.py", "--strict", code=0)
