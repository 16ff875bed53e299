"""Devices, memory, streams, events, what is refused, and processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any


def test_devices(on_cann: Any) -> None:
    program = """
        import torch
        print(torch.npu.device_count(), torch.npu.get_device_name(0), torch.npu.mem_get_info()[1] >> 20)
        """
    options = ("--devices", "3", "--memory-mib", "2048", "--soc", "Ascend910B1")
    assert on_cann(program, options=options).stdout == "3 Ascend910B1 2048\n"
    assert on_cann(program, options=options, ASCEND_RT_VISIBLE_DEVICES="1,0").stdout[:2] == "2 "
    count = "import torch; print(torch.npu.device_count())"
    assert on_cann(count, options=options, ASCEND_RT_VISIBLE_DEVICES="5").stdout == "0\n"


def test_memory_ends(on_cann: Any) -> None:
    program = """
        import torch
        kept = torch.empty(20 << 20, dtype=torch.uint8, device="npu:1")
        used = torch.npu.memory_allocated(1)
        try:
            torch.empty(60 << 20, dtype=torch.uint8, device="npu:1")
        except torch.OutOfMemoryError as error:
            print(used >> 20, "64.00 MiB total capacity" in str(error))
        torch.empty(60 << 20, dtype=torch.uint8, device="npu:0")
        """
    assert on_cann(program, options=("--memory-mib", "64")).stdout == "20 True\n"


def test_streams_and_events(on_cann: Any) -> None:
    program = """
        import torch
        start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
        stream = torch.npu.Stream()
        with torch.npu.stream(stream):
            start.record()
            x = torch.ones(4).npu() * 3
            end.record()
        torch.npu.current_stream().wait_stream(stream)
        end.synchronize()
        print(x.sum().item(), start.elapsed_time(end) >= 0, end.query())
        """
    assert on_cann(program).stdout == "12.0 True True\n"


def test_a_missing_operator_is_named_and_computes_nothing(on_cann: Any) -> None:
    program = """
        import torch
        for work in (lambda x: torch.ops.npu.npu_alloc_float_status(x), lambda x: torch._foreach_round([x])):
            try:
                work(torch.ones(3, 3).npu())
            except RuntimeError as error:
                print([line for line in str(error).splitlines() if "NotEmulated" in line or "aclnn" in line][-1])
        """
    lines = on_cann(program).stdout.splitlines()
    assert lines[0].startswith(
        "NotEmulated: the fake CANN has no operator NPUAllocFloatStatus (aclop), which is called at "
    )
    assert re.search(r"program\d+\.py:3\. Compute this part on the CPU", lines[0])
    assert "aclnnForeachRoundOffNumber" in lines[1]


def test_children_find_the_libraries(on_cann: Any) -> None:
    program = """
        import multiprocessing as mp
        import os, subprocess, sys

        def work(q):
            import torch
            q.put(float(torch.ones(3).npu().sum()))

        if __name__ == "__main__":
            code = "import torch; print(float(torch.ones(2).npu().sum()))"
            print(subprocess.check_output([sys.executable, "-c", code], text=True).strip())
            for method in ("spawn", "fork"):
                context = mp.get_context(method)
                queue = context.Queue()
                process = context.Process(target=work, args=(queue,))
                process.start()
                print(queue.get(timeout=120))
                process.join()
        """
    assert on_cann(program).stdout.split() == ["2.0", "3.0", "3.0"]


def test_install_in_a_process_that_was_not_prepared(on_cann: Any) -> None:
    program = """
        import os, subprocess, sys
        code = (
            "import fake_cann; fake_cann.install(); import subprocess, sys, torch;"
            "print(float(torch.ones(2).npu().sum()), flush=True);"
            "child = 'import torch; print(float(torch.ones(4).npu().sum()))';"
            "subprocess.run([sys.executable, '-c', child], check=True)"
        )
        environ = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "TASK_QUEUE_ENABLE")}
        subprocess.run([sys.executable, "-c", code], check=True, env=environ)
        """
    assert on_cann(program).stdout.split() == ["2.0", "4.0"]


def test_memory_of_the_host_that_the_device_uses(on_cann: Any) -> None:
    program = """
        import torch
        import torch_npu

        swapped = torch_npu.empty_with_swapped_memory([4], dtype=torch.float32, device="npu:0")
        print(swapped.fill_(2).add(torch.ones(4).npu()).cpu().tolist())
        """
    assert on_cann(program).stdout.split("\n")[0] == "[3.0, 3.0, 3.0, 3.0]"


def test_graphs_refuse_by_name_and_pinned_memory_is_copied_still(on_cann: Any) -> None:
    program = """
        import torch

        def copied():
            pinned = torch.full((2,), 2.0).pin_memory()
            return pinned.to("npu", non_blocking=True).add(1).cpu().tolist()

        print(copied())
        try:
            with torch.npu.graph(torch.npu.NPUGraph()):
                torch.ones(2).npu() + 1
        except RuntimeError as error:
            print([line for line in str(error).splitlines() if "NotEmulated" in line][0])
        print(copied(), torch.npu.is_current_stream_capturing())
        """
    before, refused, after, *_ = on_cann(program).stdout.splitlines()
    assert refused.startswith(
        "NotEmulated: the fake CANN has no graphs of an NPU (torch.npu.graph, aclmdlRICaptureBegin)"
    )
    assert (before, after) == ("[3.0, 3.0]", "[3.0, 3.0] False")


def test_the_list_of_operators(on_cann: Any) -> None:
    program = """
        from fake_cann.__main__ import main
        main(["operators"])
        """
    lines = on_cann(program).stdout.splitlines()
    assert "aclnnAdd  computed  add.out" in lines
    assert "aclStft  computed  own" in lines, "some names have no nn"
    assert "aclnnFlashAttentionScoreV4  refused" in lines
    assert lines[-1].startswith("torch_npu 2.13.0 calls 906 operators: ")


def test_expandable_segments(on_cann: Any) -> None:
    """torch_npu reserves more addresses than there is memory, and maps parts of them."""
    program = """
        import torch

        kept = [torch.ones(1 << 20, device="npu") for _ in range(40)]
        assert sum(float(each.sum()) for each in kept) == 40 * (1 << 20)
        del kept
        torch.npu.empty_cache()
        assert torch.npu.memory_reserved() == 0
        try:
            torch.ones(1 << 30, device="npu")
        except torch.OutOfMemoryError:
            print(float(torch.ones(5, device="npu").sum()))
        """
    options = ("--memory-mib", "1024")
    done = on_cann(program, options=options, PYTORCH_NPU_ALLOC_CONF="expandable_segments:True")
    assert done.stdout == "5.0\n"


class TestTheDefaultBackendOfCompile:
    PROGRAM = """
        import sys
        if "install" in sys.argv:
            import fake_cann
            fake_cann.install()
        import torch
        linear = torch.nn.Linear(4, 4).npu()
        x = torch.ones(4, device="npu")
        for function in (linear, torch.sin, lambda x: x.relu().sum()):
            try:
                torch.compile(function)(x)
            except Exception as error:
                print(str(error).partition("NotEmulated: ")[2][:39])
            torch._dynamo.reset()
        print(torch.equal(torch.compile(linear, backend="aot_eager")(x), linear(x)))
        print(torch.compile(lambda x: x * 2)(torch.ones(1)).item())
        """
    REFUSED = "the default backend of torch.compile (i"

    def test_is_refused_by_name_and_serves_the_cpu(self, on_cann: Any) -> None:
        assert on_cann(self.PROGRAM).stdout.splitlines() == [*[self.REFUSED] * 3, "True", "2.0"]

    def test_is_refused_in_a_process_that_was_not_prepared(self, tmp_path: Path) -> None:
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(self.PROGRAM), encoding="utf-8")
        environ = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        done = subprocess.run(
            [sys.executable, file, "install"], capture_output=True, text=True, env=environ, check=True
        )
        assert done.stdout.splitlines()[-5:] == [*[self.REFUSED] * 3, "True", "2.0"]


def test_the_end_of_the_process_over_an_idle_device_is_explained(on_cann: Any) -> None:
    program = """
        import sys, torch
        with torch.npu.device(3):
            getattr(torch.npu, sys.argv[1])()
        torch.nn.Linear(2, 2).npu()(torch.ones(2, device="npu")).sum().backward()
        print("trained")
        """
    ended = on_cann(program, "synchronize", code=-signal.SIGABRT)
    assert "fake CANN: npu:3 was made current, but nothing has run on it." in ended.stderr
    assert on_cann(program, "current_stream").stdout == "trained\n"


def test_sparse_tensors_are_computed_or_refused_by_name(on_cann: Any) -> None:
    program = """
        import torch
        places, values = torch.tensor([[0, 1, 1], [2, 0, 0]]), torch.tensor([3.0, 4.0, 5.0])
        made = torch.sparse_coo_tensor(places, values, (2, 3), device="npu")
        print(made.coalesce().values().tolist(), made.to_dense().tolist(), torch.eye(2).npu().to_sparse()._nnz())
        try:
            torch.sparse.mm(made, torch.ones(3, 2, device="npu"))
        except RuntimeError as error:
            print(str(error).splitlines()[0])
        """
    assert on_cann(program).stdout.splitlines() == [
        "[3.0, 9.0] [[0.0, 0.0, 3.0], [9.0, 0.0, 0.0]] 2",
        "CAUTION: The operator 'aten::addmm' is not currently supported on the NPU backend.",
    ]
