"""``patchcore migrate`` on projects with compiled operators: what serves them, and which branch an NPU takes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("libcst")

from npu_migrate.migrate.findings import Finding
from npu_migrate.migrate.kernels import compiled_by
from npu_migrate.migrate.project import Job, convert_files
from npu_migrate.migrate.rules import RuleTable, built_in_rules

TABLE = RuleTable(built_in_rules())

#: As in BEVFormer (bevformer/modules/multi_scale_deformable_attn_function.py), VAD, UniAD and MapTR.
COPY = """\
from mmcv.utils import ext_loader
from torch.autograd import Function
ext_module = ext_loader.load_ext('_ext', ['{operator}'])


class Copy(Function):
    @staticmethod
    def forward(ctx, value):
        return ext_module.{operator}(value)
"""
BRANCH = """\
import torch
from .function import Copy


def forward(value):
    if torch.cuda.is_available() and value.is_cuda:
        return Copy.apply(value)
    return portable(value)
"""
#: As in OpenPCDet: setup.py and pcdet/ops.
SETUP = """\
from torch.utils.cpp_extension import CppExtension, CUDAExtension
setup(ext_modules=[
    make_cuda_ext(name='iou3d_layer', module='shop.ops'), CUDAExtension('shop.ops.Attend', []),
    CppExtension('shop.ops.on_cpu', []),
])
"""


def converted(folder: Path, files: dict[str, str], table: RuleTable = TABLE) -> tuple[dict[str, str], list[Finding]]:
    """The new sources of the files that change, and what is found in all."""
    for name, source in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    outcomes = list(convert_files([(folder / name, name) for name in files], Job(table)))
    changed = {outcome.name: outcome.content.decode() for outcome in outcomes if outcome.content is not None}
    return changed, [finding for outcome in outcomes for finding in outcome.findings]


def rows(findings: list[Finding], family: str) -> list[tuple[str, int, str, str]]:
    return [
        (Path(finding.file).name, finding.line, finding.rule, finding.level)
        for finding in findings
        if finding.rule.startswith(family)
    ]


def test_a_branch_with_a_function_of_another_file_stays(tmp_path: Path) -> None:
    files = {"function.py": COPY.format(operator="ms_deform_attn_forward"), "attention.py": BRANCH}
    changed, findings = converted(tmp_path, files)
    assert changed == {}
    assert rows(findings, "kernel.") == [
        ("function.py", 3, "kernel.mmcv-attention", "review"),
        ("attention.py", 6, "kernel.branch", "review"),
    ]
    assert "Copy may have no kernel" in findings[-1].note


def test_a_branch_with_an_operator_that_npus_have_becomes_one_for_npus(tmp_path: Path) -> None:
    changed, findings = converted(
        tmp_path, {"function.py": COPY.format(operator="roi_align_forward"), "attention.py": BRANCH}
    )
    assert "if torch.npu.is_available() and value.is_npu:" in changed["attention.py"]
    assert rows(findings, "kernel.") == [("function.py", 3, "kernel.mmcv", "review")]


def test_without_the_rules_branches_are_rewritten(tmp_path: Path) -> None:
    table = RuleTable(built_in_rules(), ["kernel.*"])
    files = {"function.py": COPY.format(operator="ms_deform_attn_forward"), "attention.py": BRANCH}
    changed, _ = converted(tmp_path, files, table)
    assert "value.is_npu" in changed["attention.py"]


def test_a_rule_of_ones_own_tells_of_a_kernel(tmp_path: Path) -> None:
    from npu_migrate.migrate.rules import read_rules

    row = {"id": "kernel.mine", "kind": "kernel", "match": "mmcv._ext.carafe_forward", "note": "ours"}
    table = RuleTable([*built_in_rules(), *read_rules({"rule": [row]})])
    changed, findings = converted(
        tmp_path, {"function.py": COPY.format(operator="carafe_forward"), "attention.py": BRANCH}, table
    )
    assert "value.is_npu" in changed["attention.py"]
    assert [finding.note for finding in findings if finding.rule == "kernel.mine"] == ["ours"]


def test_an_operator_that_is_not_listed_is_reported_where_it_is_called(tmp_path: Path) -> None:
    source = "from mmcv import _ext as fast\nfast.nms(1)\nfast.tin_shift_forward(1)\nfast.nms(2)\n"
    _, findings = converted(tmp_path, {"a.py": source})
    assert rows(findings, "kernel.") == [
        ("a.py", 2, "kernel.mmcv", "review"),
        ("a.py", 3, "kernel.mmcv-other", "unsupported"),
    ]


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("from . import iou3d_cuda\n", "operator.boxes"),
        ("from . import bev_pool_ext as pool\n", "operator.bev-pool"),
        ("from .knn_ext import knn\n", "operator.points"),
        ("from .ops.iou3d_layer import boxes\n", "operator.boxes"),
        ("from shop.ops import iou3d_layer\n", "operator.boxes"),
        ("import Attend as A\n", "operator.other"),
    ],
)
def test_a_module_that_the_project_compiles_is_reported_where_it_is_imported(
    tmp_path: Path, source: str, rule: str
) -> None:
    _, findings = converted(tmp_path, {"setup.py": SETUP, "ops/a.py": source})
    assert rows(findings, "operator.") == [("a.py", 1, rule, "unsupported")]
    assert "is a module that the project compiles for CUDA" in findings[-1].note


@pytest.mark.parametrize(
    "source",
    [
        "from . import plain_ext\n",  # a file of the project
        "from .plain_ext import f\n",
        "from . import on_cpu\n",
        "import other_cuda\n",  # of another project, for the rules about libraries
        "from . import context\n",
    ],
)
def test_other_imports_are_not(tmp_path: Path, source: str) -> None:
    _, findings = converted(tmp_path, {"setup.py": SETUP, "ops/a.py": source, "ops/plain_ext.py": "f = 1\n"})
    assert rows(findings, "operator.") == []


def test_a_branch_with_a_compiled_module_stays(tmp_path: Path) -> None:
    source = "from . import Attend\n\n\ndef f(x):\n    return Attend.f(x) if x.is_cuda else x * 2\n"
    changed, findings = converted(tmp_path, {"setup.py": SETUP, "ops/a.py": source})
    assert "ops/a.py" not in changed
    assert rows(findings, "kernel.") == [("a.py", 5, "kernel.branch", "review")]


def test_what_a_setup_script_compiles() -> None:
    assert compiled_by(SETUP) == {"iou3d_layer", "Attend"}
    assert compiled_by("def (") == frozenset()
