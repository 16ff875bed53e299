"""The table of the operators' arguments, and calls that are checked against it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional


def signatures(*arguments: str, folder: Optional[Path] = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fake_cann", "signatures", *arguments]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=environ, cwd=folder, check=False)


def test_what_is_computed_has_the_arguments_of_the_table() -> None:
    from fake_cann.table import computed, signatures

    assert {
        name: it.letters for name, it in computed().items() if it.letters not in signatures()[name].split("|")
    } == {}


def test_torch_npu_passes_what_the_table_has_and_leaves_no_files(tmp_path: Path) -> None:
    done = signatures("--only", "rms_norm", folder=tmp_path)
    assert not list(tmp_path.iterdir())
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("torch_npu 2.13.0 calls 906 operators: the arguments of 899 are known, "), last
    assert last.endswith(", 0 otherwise than the table has it")
    called = int(last.split(" known, ")[1].split()[0])
    assert called > 5, "operators that are refused are called, too"


def test_a_call_that_does_not_fit_is_refused_with_the_argument(on_cann: Any) -> None:
    program = """
        import ctypes
        import torch

        torch.zeros(1).npu().abs()  # loads the library
        library, runtime = ctypes.CDLL("libopapi.so"), ctypes.CDLL("libascendcl.so")
        runtime.aclGetRecentErrMsg.restype = ctypes.c_char_p
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        pair = ctypes.byref(size), ctypes.byref(executor)
        sizes = (ctypes.c_int64 * 1)(1)
        library.aclCreateIntArray.restype = library.aclCreateTensor.restype = ctypes.c_void_p
        array = ctypes.c_void_p(library.aclCreateIntArray(sizes, 1))
        for given in (ctypes.c_void_p(8), array):
            assert library.aclnnAbsGetWorkspaceSize(given, None, *pair) != 0
            print(runtime.aclGetRecentErrMsg().decode())
        library.aclDestroyIntArray(array)
        assert library.aclnnAbsGetWorkspaceSize(array, None, *pair) != 0
        print(runtime.aclGetRecentErrMsg().decode())
        assert library.aclnnAbsGetWorkspaceSize(None, None, None, None) != 0
        print(runtime.aclGetRecentErrMsg().decode())
        """
    lines = on_cann(program, FAKE_CANN_CHECK="1").stdout.splitlines()
    start = "fake CANN: aclnnAbs: FAKE_CANN_CHECK: "
    gone = "argument 0: expected a tensor, found no object that torch_npu has created and not destroyed"
    assert lines == [
        start + gone,
        start + "argument 0: expected a tensor, found an array of whole numbers",
        start + gone,
        start
        + "expected the addresses of the workspace's size and of the executor behind argument 2, found other numbers",
    ]


def test_training_passes_the_checks(on_cann: Any) -> None:
    plain, checked = (on_cann("training_program.py", "gpt", FAKE_CANN_CHECK=check).stdout for check in ("0", "1"))
    assert plain.startswith('{"cpu": [')
    assert checked == plain
