"""mmcv.version: mmdet and mmdet3d can be imported beside an mmcv that is newer than they know."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import patchcore as pc
from mmcv_npu.mmcv_version import mmcv_version, newest_for_mmdet, newest_for_mmdet3d, refused_by_mmdet3d

RunPython = Callable[..., str]

#: What mmcv 1.x and mmdet3d 1.0 need besides to be imported here, and a look at mmcv as the libraries' checks see it.
PROGRAM = """
import patchcore as pc
from mmcv_npu.mmcv_version import MMCV_VERSION_MMDET, MMCV_VERSION_MMDET3D, mmcv_version
from mmcv_npu.torchvision import TORCHVISION
from torch_npu_patches.numpy_compat import NUMPY_COMPAT

ENABLED = [MMCV_VERSION_MMDET, MMCV_VERSION_MMDET3D]

def patcher(*patches):
    return pc.Patcher([TORCHVISION, NUMPY_COMPAT, *patches], enable=patches)

"""


def last_line(program: Path, *options: str) -> str:
    """What ``patchcore run`` says at the end of a program that fails."""
    command = [sys.executable, "-m", "patchcore", "run", *options, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("real", "for_mmdet", "for_mmdet3d"),
    [
        ("1.6.0", "1.6.0", "1.6.0"),
        ("1.7.0", "1.7.0", "1.7.0"),
        ("1.7.2", "1.7.2", "1.7.0"),
        ("2.0.0rc4", "2.0.0rc4", "2.0.0rc4"),
        ("2.1.0", "2.1.0", "2.1.0"),
        ("2.2.0", "2.1.0", "2.1.0"),
        ("2.10.0+cpu", "2.1.0", "2.1.0"),
        ("3.0.0", "3.0.0", "3.0.0"),
    ],
)
def test_a_version_is_shown_as_it_is_up_to_the_newest_that_is_accepted(
    real: str, for_mmdet: str, for_mmdet3d: str
) -> None:
    assert newest_for_mmdet(real) == for_mmdet
    assert newest_for_mmdet3d(real) == for_mmdet3d


@pytest.mark.openmmlab(1)
class TestLine1:
    def test_mmdet3d_refuses_this_mmcv_without_the_patch(self, run_python: RunPython) -> None:
        printed = run_python(
            PROGRAM + "with patcher():\n    try: import mmdet3d\n    except AssertionError as e: print(e)"
        )
        assert "MMCV==1.7.2 is used but incompatible. Please install mmcv>=1.5.2, <=1.7.0" in printed

    def test_it_is_on_by_default_because_mmdet3d_refuses_this_mmcv(self, run_python: RunPython, tmp_path: Path) -> None:
        program = tmp_path / "program.py"
        program.write_text("import mmdet3d, mmcv\nprint(mmdet3d.mmcv_version, mmcv.__version__)\n")
        assert "[1, 7, 0] 1.7.2" in run_python("-m", "patchcore", "run", program)

    def test_a_refusal_is_followed_by_the_patch_that_lifts_it(self, tmp_path: Path) -> None:
        program = tmp_path / "program.py"
        program.write_text("import mmdet3d\n")
        assert last_line(program, "--disable", "mmcv.version.mmdet3d").count(
            "mmdet3d refused mmcv 1.7.2, --enable mmcv.version.mmdet3d lifts that"
        )

    def test_mmdet3d_is_imported_and_the_real_version_is_back(self, run_python: RunPython) -> None:
        printed = run_python(
            PROGRAM + "with patcher(*ENABLED):\n"
            "    import mmcv, mmdet3d, mmdet3d.ops\n"
            "    print(mmdet3d.mmcv_version, mmcv.__version__, mmcv.version.__version__)"
        )
        assert printed.split("\n")[-2] == "[1, 7, 0] 1.7.2 1.7.2"


@pytest.mark.openmmlab(2)
class TestLine2:
    LATER = "import mmcv\nmmcv.__version__ = '2.2.0'\n"

    def test_the_patch_for_mmdet3d_has_nothing_to_do_where_mmdet3d_takes_this_mmcv(self) -> None:
        answer = refused_by_mmdet3d()
        assert isinstance(answer, pc.Skip)
        assert answer.reason == "mmdet3d does not refuse mmcv 2.1.0"

    def test_a_refusal_is_followed_by_the_patch_that_lifts_it(self, tmp_path: Path) -> None:
        program = tmp_path / "program.py"
        program.write_text(f"{self.LATER}import mmdet\n")
        assert "mmdet refused mmcv 2.2.0, --enable mmcv.version.mmdet lifts that" in last_line(program)

    def test_another_error_is_followed_by_nothing(self, tmp_path: Path) -> None:
        program = tmp_path / "program.py"
        program.write_text("assert False, 'MMCV==9 is used but incompatible'\n")
        assert "lifts that" not in last_line(program)

    def test_mmdet_refuses_a_later_mmcv_without_the_patch(self, run_python: RunPython) -> None:
        printed = run_python(self.LATER + "try: import mmdet\nexcept AssertionError as e: print(e)")
        assert "MMCV==2.2.0 is used but incompatible" in printed

    def test_mmdet_and_mmdet3d_are_imported_and_the_real_version_is_back(self, run_python: RunPython) -> None:
        printed = run_python(
            PROGRAM + self.LATER + "with patcher(*ENABLED):\n"
            "    import mmdet3d, mmdet\n"
            "    print(mmdet3d.mmcv_version[:3], mmdet.mmcv_version[:3], mmcv.__version__)"
        )
        assert printed.split("\n")[-2] == "(2, 1, 0) (2, 1, 0) 2.2.0"


class TestVersionOfOnesOwn:
    def test_the_libraries_see_it_and_the_real_one_is_back_when_they_fail(self, run_python: RunPython) -> None:
        printed = run_python(
            PROGRAM + "import mmcv\n"
            "before = mmcv.__version__\n"
            "with patcher(mmcv_version('0.1.0', 'mmdet', 'mmdet3d')):\n"
            "    for library in ('mmdet', 'mmdet3d'):\n"
            "        try: __import__(library)\n"
            "        except AssertionError as error: print(library, error)\n"
            "        assert mmcv.__version__ == before\n"
        )
        lines = [line for line in printed.split("\n") if "is used but incompatible" in line]
        assert [line.split()[:2] for line in lines] == [["mmdet", "MMCV==0.1.0"], ["mmdet3d", "MMCV==0.1.0"]]

    def test_mmdet_is_the_library_unless_others_are_named(self) -> None:
        assert [change.target.module for change in mmcv_version("2.1.0").changes] == ["mmdet"]

    def test_both_answers_to_one_question_are_not_applied_together(self) -> None:
        own = mmcv_version("2.1.0", "mmdet", "mmdet3d")
        assert set(own.conflicts) == {"mmcv.version.mmdet", "mmcv.version.mmdet3d"}


def test_legacy_names_mean_both() -> None:
    from mmcv_npu.plugin import PATCHES

    for name in ("mmcv_version", "patch_mmcv_version", "ensure_mmcv_version"):
        meant = [patch.name for patch in PATCHES if name in patch.legacy_names]
        assert meant == ["mmcv.version.mmdet", "mmcv.version.mmdet3d"]
