"""What holds for every program that ``patchcore migrate`` converts, tried on programs put together at random."""

from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("libcst")

from npu_migrate.migrate.convert import Conversion, convert
from npu_migrate.migrate.rules import RuleTable, built_in_rules

TABLE = RuleTable(built_in_rules())

IMPORTS = (
    "import torch",
    "import torch as t",
    "import torch.cuda",
    "import torch.cuda.amp as amp",
    "import torch, os",
    "from torch import cuda",
    "from torch import cuda as c, nn",
    "from torch.cuda import Stream, nvtx, CUDAGraph as graph",
    "from torch.profiler import ProfilerActivity, profile, record_function",
    "from torch.cuda.amp import *",
    "import torch.distributed as dist",
    "import torch_npu",
    "import numpy as np",
    "try:\n    import torch\nexcept ImportError:\n    torch = None",
)
DEVICES = (
    '"cuda"',
    '"cuda:1"',
    'f"cuda:{i}"',
    '"cuda:%d" % i',
    '"cuda" if ok else "cpu"',
    "device",
    "self.device",
    '"cpu"',
)
STATEMENTS = (
    "x = torch.zeros(2, device={device})",
    "x.to({device}, non_blocking=True)",
    "model = model.cuda()",
    "device = {device}",
    "self.device = {device}",
    "table = {{{device}: 1}}",
    "unknown({device})",
    "torch.load('/data/cuda/x', map_location={device})",
    "torch.cuda.synchronize( )",
    "cuda.empty_cache()",
    "c.CUDAGraph(); nvtx.mark('cuda')",
    "t.cuda.no_such_name()",
    "with amp.autocast(), torch.autocast({device}): pass",
    "if x.is_cuda and x.device.type == 'cuda': pass",
    "dist.init_process_group('cpu:gloo,cuda:nccl')",
    "backend = 'nccl'",
    "dist.init_process_group(backend)",
    "torch.cuda = None",
    "torch = x",
    "os.environ['CUDA_VISIBLE_DEVICES'] = '0'",
    "profile(activities=[ProfilerActivity.CUDA])",
    "parser.add_argument('--device', default={device})",
    "print('prose about cuda and nccl', {device})",
    "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    "loader = torch.utils.data.DataLoader(data, shuffle=True)",
    "for epoch in range(2): pass",
    "torch.save(model.state_dict(), 'cuda.pth')",
    "model.cuda() ; y = 1  # a comment about cuda",
)
BLOCKS = (
    "{}",
    "def f(x, device={device}):\n{}",
    "class A:\n    def cuda(self):\n{}",
    "if ok:\n{}",
    "def g(torch):\n{}",
)


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A module: imports, here and there, and statements, in blocks that may be inside blocks."""
    lines = draw(st.lists(st.sampled_from(IMPORTS), max_size=3))
    for _ in range(draw(st.integers(1, 3))):
        inside = draw(st.lists(st.sampled_from(STATEMENTS) | st.sampled_from(IMPORTS[:6]), min_size=1, max_size=4))
        body = "\n".join(line.format(device=draw(st.sampled_from(DEVICES))) for line in inside)
        for _ in range(draw(st.integers(0, 2))):
            block = draw(st.sampled_from(BLOCKS))
            depth = 0 if block == "{}" else 8 if "class" in block else 4
            body = block.format(textwrap.indent(body, " " * depth), device=draw(st.sampled_from(DEVICES[:5])))
        lines.append(body)
    head = draw(st.sampled_from(["", '"""Runs on cuda."""\n', "# cuda\n", "from __future__ import annotations\n"]))
    return head + "\n".join(lines) + "\n"


# The second pass took the model for one of torch: the first one had made it model = DistributedDataParallel(model).
OWN_CUDA = """import torch
class A:
    def cuda(self):
        model.cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


@settings(max_examples=60, deadline=None)
@given(source=programs(), distributed=st.booleans())
@example(source=OWN_CUDA, distributed=True)
def test_what_is_converted(source: str, distributed: bool) -> None:
    """Several properties of one conversion, which is what takes the time."""
    ast.parse(source)
    first = convert(source, TABLE, distributed=distributed)
    ast.parse(first.source)
    a_second_pass_changes_nothing_and_says_so(convert(first.source, TABLE, distributed=distributed), first)
    prose_paths_and_comments_stay(source, first.source)
    if not distributed:  # which adds lines
        every_changed_line_has_a_finding_and_no_other_line_is_touched(source, first)


def a_second_pass_changes_nothing_and_says_so(second: Conversion, first: Conversion) -> None:
    assert second.source == first.source
    assert [finding for finding in second.findings if finding.level == "change"] == []


def every_changed_line_has_a_finding_and_no_other_line_is_touched(source: str, made: Conversion) -> None:
    changed = {finding.line for finding in made.findings if finding.level == "change"}
    assert bool(changed) == (made.source != source)
    kept = [line for number, line in enumerate(source.splitlines(), 1) if number not in changed]
    rest = iter(made.source.splitlines())
    assert all(line in rest for line in kept)  # in this order


def prose_paths_and_comments_stay(source: str, made: str) -> None:
    for text in ("prose about cuda and nccl", "/data/cuda/x", "# a comment about cuda", '"""Runs on cuda."""'):
        assert made.count(text) == source.count(text)
