"""The conformance suite: what it says of a vendor that is right, of one that is not, of settings without a meaning."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import conformance_vendors
import pytest
import torch
from warm import Warm

import npu_graph
import patchcore as pc
from npu_graph import Backend, UnknownVendor
from npu_graph.c.toolchain import MISSING, find_toolchain
from npu_graph.conformance.cases import CASES
from npu_graph.conformance.naming import find_backend
from npu_graph.conformance.suite import Suite
from npu_graph.conformance.training import differences
from patchcore.errors import SettingsError

TEMPLATES = Path(npu_graph.__file__).parent / "conformance"
SUITE_ARGUMENTS = ("-p", "npu_graph.conformance", "--pyargs", "npu_graph.conformance")

Run = Callable[..., "subprocess.CompletedProcess[str]"]

#: What takes a run of the suite longer than the few operators that most tests try.
IMPORTS = """
import sys, pytest, _pytest.assertion.rewrite, _pytest.junitxml
import numpy, torch, torch._dynamo, torch._functorch.aot_autograd, torch._inductor.decomposition
import torch.fx.experimental.symbolic_shapes
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """A process that has imported what the suite needs of others."""
    with Warm(tmp_path_factory.mktemp("warm"), IMPORTS, OMP_NUM_THREADS="1") as warm:
        yield warm


@pytest.fixture
def run(warm: Warm, tmp_path: Path) -> Run:
    """Return a function that runs pytest in a process of its own, in a folder of its own."""

    def run(*arguments: str, vendor: str = "") -> subprocess.CompletedProcess[str]:
        (tmp_path / "local_vendor.py").write_text(vendor)
        modules = {"PATCHCORE_MODULES": "local_vendor"} if vendor else {}
        code = "sys.argv[0] = pytest.__main__.__file__; sys.exit(pytest.main())"
        return warm.run(f"import pytest.__main__; {code}", arguments, cwd=tmp_path, path=[tmp_path], **modules)

    return run


needs_compiler = pytest.mark.skipif(find_toolchain() is None, reason=MISSING)


#: Each operator with sizes that are symbols, which fail where plain sizes would; the models once for each vendor and
#: once for each kind of sizes. The c vendor's models with symbols are the detectors of test_graph_mmdet.py.
RUNS = [
    ("reference", "dynamic", "test_operators"),
    pytest.param("reference", "dynamic", "test_models and not without_some_conversions", marks=pytest.mark.slow),
    pytest.param("c", "dynamic", "test_operators", marks=needs_compiler),
    pytest.param("c", "static", "test_models and not resnet50", marks=[needs_compiler, pytest.mark.slow]),
    pytest.param("c", "static", "resnet50 and not inference", marks=[needs_compiler, pytest.mark.slow]),
]


@pytest.mark.parametrize(("vendor", "sizes", "part"), RUNS)
def test_the_vendors_here_convert_all_and_equal_eager(
    run: Run, tmp_path: Path, vendor: str, sizes: str, part: str
) -> None:
    few = ("-o", "graph_dtypes=float32 float64 int64 int32 uint8 bool") if sizes == "static" else ()
    ini = str(TEMPLATES / f"{sizes}.ini")
    done = run("-c", ini, *few, "--backend", vendor, "-k", part, "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout.splitlines()[-1], "every conversion has a case"
    if part == "test_operators":
        assert f"operators: {done.stdout.count(f'-float32-{sizes}]')} converted and equal" in done.stdout


def test_a_vendor_that_is_right_passes_with_what_it_leaves_eager_named(run: Run, tmp_path: Path) -> None:
    done = run(
        *SUITE_ARGUMENTS,
        *("--backend", "plain", "-k", "aten.tanh.default or aten.sigmoid.default or aten.cos.default", "-v"),
        *("--dynamic", "all", "--junit-xml", "junit.xml"),
        vendor=conformance_vendors.TORCH_VENDOR,
    )
    assert done.returncode == 0, done.stdout
    lines = [line for line in done.stdout.splitlines() if "test_operator[" in line]
    for trial, word in {
        "aten.tanh.default-float32-static": "PASSED",
        "aten.tanh.default-float16-dynamic": "PASSED",
        "aten.cos.default-float32-dynamic": "EAGER",
    }.items():
        (line,) = (line for line in lines if f"npu_graph/conformance/test_operators.py::test_operator[{trial}]" in line)
        assert word in line
    assert "float32 dynamic: 3 operators: 2 converted and equal, 1 eager" in done.stdout
    names = {each.get("name") for each in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")}
    assert "test_operator[aten.tanh.default-float32-static]" in names


def test_an_operator_that_is_wrong_is_named_with_its_dtype_and_the_others_pass(run: Run) -> None:
    chosen = ("-k", "aten.tanh.default or aten.sigmoid.default", "--dynamic", "false")
    wrong = conformance_vendors.WRONG_OPERATOR
    done = run(*SUITE_ARGUMENTS, "--backend", "plain", *chosen, "-p", "no:cacheprovider", vendor=wrong)
    assert done.returncode == 1, done.stdout
    for part in (
        "test_operator[aten.tanh.default-float32-static]",
        "aten.tanh.default[plain] float32-static: of x float32 (7, 9): result 0, float32 (7, 9): 63 of 63 elements",
        "allowed: 2e-05 of each, 1e-05 of the largest",
        "compiled alone, it does so too",
        "to reproduce: pytest -p npu_graph.conformance --pyargs npu_graph.conformance --backend plain --dynamic false "
        "-k aten.tanh.default-float32-static",
        "float32 static: 2 operators: 1 converted and equal, 1 failed",
        "float16 static: 2 operators: 2 converted and equal",
    ):
        assert part in done.stdout, done.stdout


def test_a_conversion_that_is_wrong_only_when_sizes_are_dynamic_fails_there_only(run: Run) -> None:
    chosen = ("-k", "aten.sum.dim_IntList-float32", "--dynamic", "all", "-p", "no:cacheprovider")
    done = run(*SUITE_ARGUMENTS, "--backend", "plain", *chosen, vendor=conformance_vendors.WRONG_WHEN_DYNAMIC)
    assert "float32 static: 1 operator: 1 converted in part" in done.stdout, done.stdout
    assert "float32 dynamic: 1 operator: 1 failed" in done.stdout
    assert "aten.sum.dim_IntList[plain] float32-dynamic: of x float32 (7, 9)" in done.stdout


def test_failures_that_are_expected_are_no_failures_until_they_are_gone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ngraph_operators = aten.tanh\ngraph_dtypes = float32\ngraph_expected_failures =\n"
        "    aten.tanh.default:float32 a coarse table\n"
        "    aten.sigmoid.default[plain] no reason at all\n"
    )
    chosen = ("-k", "aten.tanh.default or aten.sigmoid.default", "--dynamic", "false", "-ra", "-p", "no:cacheprovider")
    done = run(*SUITE_ARGUMENTS, "--backend", "plain", *chosen, vendor=conformance_vendors.WRONG_OPERATOR)
    assert "float32 static: 2 operators: 1 failed as expected, 1 failed" in done.stdout, done.stdout
    assert "a coarse table" in done.stdout
    assert "take the line out of graph_expected_failures: aten.sigmoid.default[plain] no reason at all" in done.stdout


def test_an_operator_that_must_be_converted_and_is_not_fails_with_the_reason(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ngraph_operators = aten.cos\n")
    chosen = ("-k", "aten.cos.default-float32", "--dynamic", "false", "-p", "no:cacheprovider")
    done = run(*SUITE_ARGUMENTS, "--backend", "plain", *chosen, vendor=conformance_vendors.TORCH_VENDOR)
    assert "aten.cos.default[plain] float32-static: not converted: aten.cos.default: no conversion" in done.stdout


ADDED = """
import torch
from npu_graph.conformance.cases import FLOATS, Case

aten = torch.ops.aten


def pytest_graph_operator_cases(vendor):
    assert vendor.name == "plain"
    return [
        Case("aten.logaddexp.default", lambda t: aten.logaddexp.default(t.x, t.row)),
        Case("aten.tanh.default", lambda t: aten.tanh.default(t.turned), FLOATS, "turned"),
    ]
"""


def test_others_add_cases_in_a_conftest(run: Run, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(ADDED)
    chosen = ("-k", "(aten.logaddexp.default or aten.tanh.default) and float32", "--dynamic", "false", "-v")
    done = run(*SUITE_ARGUMENTS, "--backend", "plain", *chosen, vendor=conformance_vendors.WRONG_OPERATOR)
    assert "test_operator[aten.logaddexp.default-float32-static] EAGER" in done.stdout, done.stdout
    assert "aten.tanh.default[turned] float32-static: of turned float32 (7, 9) strides (1, 7)" in done.stdout


@pytest.mark.parametrize(
    ("setting", "given", "message"),
    [
        ("operators", ["aten.tanhh.default"], "did you mean 'aten.tanh.default'?"),
        ("operators", ["aten.add aten.hypot"], "no case of an operator 'aten.hypot'"),
        ("models", ["resnet5"], "did you mean 'resnet50'?"),
        ("dtypes", ["float32", "float23"], "did you mean 'float32'?"),
        ("tolerances", ["float32 much"], "as: float32 1e-4 1e-5, got 'float32 much'"),
        ("tolerances", ["float23 1 1"], "did you mean 'float32'?"),
        ("share", "3", "graph_share: expected a number from 0 to 1, got '3'"),
        ("model_tolerance", "little", "graph_model_tolerance: expected a number"),
        ("expected_failures", ["aten.add.Tensor[alhpa] x"], "did you mean 'alpha'?"),
        ("expected_failures", ["aten.ad.Tensor x"], "did you mean 'aten.add.Tensor'?"),
        ("expected_failures", ["aten.add.Tensor:int65 x"], "did you mean 'int64'?"),
        ("expected_failures", ["aten.add.Tensor"], "and a reason"),
    ],
    ids=str,
)
def test_a_setting_that_has_no_meaning_is_an_error_with_the_nearest(
    reference: Any, setting: str, given: Any, message: str
) -> None:
    names = ("operators", "models", "dtypes", "tolerances", "expected_failures")
    settings = {**{f"graph_{name}": [] for name in names}, "graph_share": "", "graph_model_tolerance": ""}
    Suite(Backend("reference"), reference, CASES, (False,), settings)
    with pytest.raises(SettingsError) as caught:
        Suite(Backend("reference"), reference, CASES, (False,), {**settings, f"graph_{setting}": given})
    assert message in str(caught.value)
    assert f"graph_{setting}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "say whose backend is to be tried: --backend NAME (known: "),
        ("referense", "did you mean 'reference'?"),
        ("patchcore_referense", "did you mean 'patchcore_reference'?"),
    ],
)
def test_a_backend_that_there_is_not_is_an_error_with_the_nearest(name: Any, message: str) -> None:
    with pytest.raises(UnknownVendor) as caught:
        find_backend(name)
    assert message in str(caught.value)


def test_a_backend_has_the_name_of_its_vendor_or_that_of_torch_compile() -> None:
    assert find_backend("c").vendor == find_backend("patchcore_c").vendor == "c"


def test_a_setting_without_a_meaning_is_a_usage_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ngraph_models = resnet5\n")
    done = run(*SUITE_ARGUMENTS, "--backend", "reference")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stderr.strip().startswith("ERROR: graph_models: there is no 'resnet5'; did you mean 'resnet50'?")


def test_without_torch_the_message_says_what_to_install(run: Run) -> None:
    code = "import sys; sys.modules['torch'] = None; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *SUITE_ARGUMENTS, "--backend", "reference"],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert pc.install_command("npu-graph[torch]") in done.stderr


def test_importing_the_plugin_imports_no_torch(run_python: Any) -> None:
    printed = run_python("import sys, npu_graph.conformance.plugin; print({'torch', 'numpy'} & set(sys.modules))")
    assert printed.strip() == "set()"


def test_a_change_may_be_off_by_what_its_parameter_is_rounded_to() -> None:
    """A weight of 1 moved by 1.15e-4 with one CPU and by a unit of its last place more with another."""
    one, other = ({"weight": torch.tensor([1.0]) + change - 1} for change in (1.15e-4, 1.15e-4 + 1.3e-7))
    assert differences(one, other, 0.001)
    assert not differences(one, other, 0.001, {"weight": 2 * torch.finfo(torch.float32).eps})
    assert differences(one, {"weight": torch.tensor([1.16e-4])}, 0.001, {"weight": 2 * torch.finfo(torch.float32).eps})
