"""Files that ``patchcore migrate`` reads and writes: encodings, line ends, trees, C++ sources, texts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("libcst")

from npu_migrate.migrate.extensions import operators
from npu_migrate.migrate.files import LeftOut, walk, write
from npu_migrate.migrate.project import Job, Outcome, convert_files
from npu_migrate.migrate.rules import RuleTable, built_in_rules

TABLE = RuleTable(built_in_rules())
SOURCE = "import torch\n# café\nx = torch.ones(1).cuda()\n"
EXPECTED = "import torch\nimport torch_npu  # noqa: F401\n# café\nx = torch.ones(1).npu()\n"


def converted(*paths: Path, jobs: int = 1) -> list[Outcome]:
    return list(convert_files([(path, path.name) for path in paths], Job(TABLE), jobs=jobs))


class TestBytes:
    @pytest.mark.parametrize(
        ("head", "encoding", "ends"),
        [
            ("", "utf-8", "\n"),
            ("", "utf-8", "\r\n"),
            ("", "utf-8-sig", "\n"),
            ("", "utf-8-sig", "\r\n"),
            ("# -*- coding: latin-1 -*-\n", "latin-1", "\n"),
            ("#!/usr/bin/env python\n# vim: set fileencoding=cp1252 :\n", "cp1252", "\r\n"),
        ],
    )
    def test_encoding_byte_order_mark_and_line_ends_stay(
        self, tmp_path: Path, head: str, encoding: str, ends: str
    ) -> None:
        path = tmp_path / "x.py"
        path.write_bytes((head + SOURCE).replace("\n", ends).encode(encoding))
        (outcome,) = converted(path)
        assert outcome.content == (head + EXPECTED).replace("\n", ends).encode(encoding)

    def test_tabs_form_feeds_mixed_line_ends_and_a_missing_last_one_stay(self, tmp_path: Path) -> None:
        path = tmp_path / "x.py"
        path.write_bytes(b"import torch\r\nif 1:\n\tx = torch.ones(1)\n\x0c\n\tx = x.cuda( )\t# end")
        (outcome,) = converted(path)
        expected = (
            b"import torch\r\nimport torch_npu  # noqa: F401\r\nif 1:\n\tx = torch.ones(1)\n\x0c\n\tx = x.npu( )\t# end"
        )
        assert outcome.content == expected
        assert outcome.diff.endswith("\\ No newline at end of file\n")

    def test_a_link_stays_a_link_and_permissions_stay(self, tmp_path: Path) -> None:
        real, link = tmp_path / "real.py", tmp_path / "link.py"
        real.write_text("old")
        real.chmod(0o750)
        link.symlink_to(real)
        write(link, b"new")
        assert link.is_symlink()
        assert (real.read_bytes(), real.stat().st_mode & 0o777) == (b"new", 0o750)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["link.py", "real.py"]


class TestBrokenFiles:
    @pytest.mark.parametrize(
        ("content", "message", "line"),
        [
            (b"import torch\nx = torch.cuda.(\n", "not Python 3", 2),
            (b"import torch\nprint 'cuda'\n", "not Python 3", 2),
            (b"import torch  # caf\xe9 cuda\n", "declare its encoding", 1),
            (b"# coding: no-such\nimport torch.cuda\n", "no-such", 1),
            (b"import torch\rtorch.cuda.init()\r", "carriage returns", 1),
        ],
        ids=["syntax", "python 2", "undeclared", "unknown encoding", "carriage returns"],
    )
    def test_one_is_reported_and_the_others_are_converted(
        self, tmp_path: Path, content: bytes, message: str, line: int
    ) -> None:
        broken, good = tmp_path / "a.py", tmp_path / "b.py"
        broken.write_bytes(content)
        good.write_text(SOURCE, encoding="utf-8")
        first, second = converted(broken, good)
        (finding,) = first.findings
        assert (finding.level, finding.file, first.content) == ("error", broken.as_posix(), None)
        assert message in finding.note
        assert finding.line >= line
        assert second.content == EXPECTED.encode()

    @pytest.mark.parametrize("shape", ["{}" + " + 1" * 600, "(" * 600 + "{}" + ")" * 600], ids=["long", "deep"])
    def test_what_generators_write_is_converted(self, tmp_path: Path, shape: str) -> None:
        (tmp_path / "x.py").write_text(f"import torch.cuda\nx = {shape.format('torch.cuda.device_count()')}\n")
        (outcome,) = converted(tmp_path / "x.py")
        assert outcome.content is not None
        assert shape.format("torch.npu.device_count()") in outcome.content.decode()

    def test_a_file_that_is_gone_is_an_error_of_that_file(self, tmp_path: Path) -> None:
        (outcome,) = converted(tmp_path / "gone.py")
        assert [finding.level for finding in outcome.findings] == ["error"]


class TestTrees:
    def test_what_is_not_of_the_project_is_left_out(self, tmp_path: Path) -> None:
        for name in ("a.py", "pkg/b.py", ".git/c.py", "build/d.py", "myenv/pyvenv.cfg", "myenv/e.py", "gen/f.py"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("")
        (tmp_path / ".gitignore").write_text("gen/\n*.log\n!keep.log\n")
        (tmp_path / "pkg" / ".gitignore").write_text("/only_here.py\n")
        for name in ("x.log", "keep.log", "pkg/only_here.py", "only_here.py", "out/g.py", "pkg/skip_me.py"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("")
        (tmp_path / "loop").symlink_to(tmp_path)
        found = [name for _, name in walk(tmp_path, ["skip_*"], [tmp_path / "out"])]
        assert found == [".gitignore", "a.py", "keep.log", "only_here.py", "pkg/.gitignore", "pkg/b.py"]

    def test_what_runs_have_written_is_left_out(self, tmp_path: Path) -> None:
        report = "report-0-4711-0a1b2c.json"
        names = ("a.py", "work_dirs/config.py", f"reports/{report}", "reports/report.html", "own/report-1.json")
        for name in (*names, f"mixed/{report}", "mixed/tool.py"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("")
        left_out: list[LeftOut] = []
        found = [name for _, name in walk(tmp_path, left_out=left_out)]
        assert found == ["a.py", "mixed/tool.py", "own/report-1.json"]
        assert [each[:2] for each in left_out] == [
            ("reports/", "reports of patchcore run"),
            ("work_dirs/", "written by runs"),
        ]

    def test_several_processes_give_the_same_in_the_same_order(self, tmp_path: Path) -> None:
        paths = [tmp_path / f"m{number:02}.py" for number in range(70)]
        for path in paths:
            path.write_text(SOURCE.replace("x =", f"{path.stem} ="), encoding="utf-8")
        alone, together = converted(*paths), converted(*paths, jobs=2)
        assert together == alone
        assert [outcome.path for outcome in alone] == paths

    def test_a_class_of_another_file_with_a_cuda_of_its_own_is_respected(self, tmp_path: Path) -> None:
        (tmp_path / "batch.py").write_text("class Batch:\n    def cuda(self):\n        return self\n")
        (tmp_path / "train.py").write_text(
            "import torch\nfrom batch import Batch\n"
            "Batch().cuda()\ntorch.ones(1).cuda()\ndef f(x):\n    return x.cuda()\n"
        )
        (tmp_path / "other.py").write_text("def f(x):\n    return x.cuda()\n")
        other, train = converted(tmp_path / "batch.py", tmp_path / "other.py", tmp_path / "train.py")[1:]
        assert other.content is not None
        assert b"x.npu()" in other.content
        assert train.content is not None
        assert train.content.decode().splitlines()[3:] == [
            "Batch().cuda()",
            "torch.ones(1).npu()",
            "def f(x):",
            "    return x.cuda()",
        ]
        assert [(f.line, f.level) for f in train.findings if f.level != "change"] == [(6, "review")]


CPP = """
#include <torch/extension.h>
// m.def("in_a_comment", &f);
#ifdef WITH_CUDA
at::Tensor bev_pool_forward(at::Tensor x);
#endif
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("bev_pool_forward", &bev_pool_forward,
        "text with // slashes");
}
TORCH_LIBRARY(mine, lib) {
  lib.def("scale(Tensor x, float by) -> Tensor");
}
TORCH_LIBRARY_IMPL(mine, CUDA, lib) { lib.impl("scale", &scale_cuda); }
TORCH_LIBRARY_IMPL(mine, CPU, lib) { lib.impl("scale", &scale_cpu); }
"""
CU = """
template <typename T>
__global__ void __launch_bounds__(256) nms_kernel(const T *a) {}
/* __global__ void not_this(int) {} */
static __global__ void other(int n) {}
"""


class TestOtherFiles:
    def test_operators_that_are_registered_are_found_with_their_place(self) -> None:
        found = [(f.line, f.before, f.rule) for f in operators(CPP, TABLE, "x.cpp")]
        assert found == [
            (8, "operator bev_pool_forward", "operator.bev-pool"),
            (12, "operator mine::scale", "operator.other"),
            (14, "operator mine::scale", "operator.other"),
        ]

    def test_kernels_are_found(self) -> None:
        found = [(f.line, f.column, f.before, f.rule) for f in operators(CU, TABLE, "x.cu")]
        assert found == [
            (3, 40, "kernel nms_kernel", "operator.boxes"),
            (5, 24, "kernel other", "operator.other"),
        ]

    def test_operators_of_the_cpu_are_nobodys_business_unless_there_are_cuda_sources(self, tmp_path: Path) -> None:
        source = 'PYBIND11_MODULE(fast, m) { m.def("split", &split); }\n'
        assert list(operators(source, TABLE, "x.cpp")) == []
        (tmp_path / "x.cpp").write_text(source)
        (tmp_path / "y.cu").write_text("")
        first, _ = converted(tmp_path / "x.cpp", tmp_path / "y.cu")
        assert [finding.before for finding in first.findings] == ["operator fast::split"]

    @pytest.mark.parametrize(
        ("name", "content", "expected"),
        [
            ("run.sh", "#!/bin/sh\nCUDA_VISIBLE_DEVICES=0 python train.py\n", [(2, "text.environment")]),
            ("a.yaml", "lr: 1\ndevice: cuda:0\nbackend: 'nccl'\n", [(2, "text.settings"), (3, "text.settings")]),
            ("a.yaml", "title: training on cuda devices\n", []),
            ("requirements.txt", "numpy\ncupy-cuda12x==13\n", [(2, "text.requirements")]),
            ("requirements-gpu.txt", "torch==2.1+cu118\n", [(1, "text.requirements")]),
            ("a.ipynb", '{"cells": ["x.cuda()"]}', [(1, "notebook")]),
            ("a.ipynb", '{"cells": ["x.cpu()"]}', []),
            ("a.md", "device: cuda", []),
        ],
    )  # fmt: skip
    def test_what_is_no_python_is_reported(
        self, tmp_path: Path, name: str, content: str, expected: list[tuple[int, str]]
    ) -> None:
        (tmp_path / name).write_text(content)
        (outcome,) = converted(tmp_path / name)
        assert sorted((finding.line, finding.rule) for finding in outcome.findings) == expected
        assert outcome.content is None
        assert {finding.level for finding in outcome.findings} <= {"review"}


def test_write_leaves_the_file_alone_where_it_fails(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    path = tmp_path / "sub" / "x.py"
    path.parent.mkdir()
    path.write_text("old")
    path.parent.chmod(0o500)
    try:
        with pytest.raises(OSError, match="denied"):
            write(path, b"new")
        assert path.read_text() == "old"
    finally:
        path.parent.chmod(0o700)
