"""Migrations written for mx_driving.patcher, examples/migrations: unchanged, on the emulated NPU, with real libraries.

What they come to is compared with the same models on the CPU, unpatched, where small stand-ins take the places of the
CUDA extensions that nobody has here.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import running
import torch
from migrations_on_cpu import losses
from states import same, state

import mx_driving_compat as compat
import patchcore as pc
from mx_driving_compat.messages.results import PatchStatus
from mx_driving_compat.patcher.patcher import Patcher
from mx_driving_compat.predefined import catalogue
from mx_driving_compat.predefined.classes import ALL
from patchcore.declare.changes import resolve
from patchcore.declare.target import Target

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "migrations"
MODELS_OF_MMCV = {1: "mmdet.models.builder", 2: "mmdet.registry"}

#: mmcv 1.x imports torchvision, which is not installed here; a plugin's patch stands in.
WITHOUT_TORCHVISION = {1: ["--enable", "mmcv.torchvision"], 2: []}

#: Largest difference of a loss (0.5 to 0.8) between CPU and NPU. The largest found is 1e-5, and 7e-5 where the patches
#: run the backbone in half precision (torch 2.13).
TOLERANCE = {"functions": 1e-4, "classes": 2e-3}
STEPS = 4

#: How the lines begin in which the models print their losses.
WHO = {"functions": "", "classes": "rank 0 "}

#: What each step calls: two images, 7 bottlenecks of which 4 have modulated deformable convolution, attention of the
#: cells once to each other and once to each of two cameras; ...
KERNELS = {
    "functions": {
        "npu_max_pool2d": 1,
        "npu_add_relu": 7,
        "npu_add_relu_backward": 7,
        "modulated_deform_conv2d": 4,
        "modulated_deform_conv2d_backward": 4,
        "multi_scale_deformable_attn": 3,
        "multi_scale_deformable_attn_backward": 3,
        "npu_batch_matmul": 1,
    },
    # ... and points to pillars, key points, targets, 4 basic blocks
    "classes": {
        "scatter_mean": 1,
        "scatter_mean_backward": 1,
        "scatter_max": 1,
        "scatter_max_backward": 1,
        "furthest_point_sampling": 1,
        "points_in_boxes_all": 1,
        "npu_add_relu": 4,
        "npu_add_relu_backward": 4,
    },
}

#: What the patch.py of each replaces in the model.
REPLACED = {
    "functions": [
        "projects.occupancy.data:to_tensor",
        "projects.occupancy.attention:FlashAttention.forward",
        "projects.occupancy.attention:CameraAttention.project",
        "projects.occupancy.ops.deformable_aggregation:DeformableAggregationFunction",
    ],
    "classes": [
        "projects.pillars.data:Sweeps.__getitem__",
        "projects.pillars.models.attention:FlashAttention.forward",
        "projects.pillars.models.encoder:pillar_index",
        "projects.pillars.models.encoder:normalize",
        "projects.pillars.models.net:pillar_index",
    ],
}

#: Runs a program as it is, and writes down what it leaves: kernel calls, and where replaced functions come from.
OBSERVE = """
import importlib, json, os, runpy, sys

def comes_from(place):
    module, _, path = place.partition(":")
    value = sys.modules[module]
    for name in path.split("."):
        value = getattr(value, name)
    return value.__module__

if __name__ == "__main__":
    seen, places, script, *arguments = sys.argv[1:]
    sys.argv = [script, *arguments]
    sys.path[0] = os.path.dirname(script)
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        from npu_emulator.mx_driving import calls
        places = {place: comes_from(place) for place in json.loads(places)}
        with open(seen, "w") as file:
            json.dump({"calls": calls, "places": places}, file)
"""

#: What a program writes at its top instead of being started by ``patchcore run``.
IN_THE_PROGRAM = """
import os, runpy, sys
import patchcore, mx_driving_compat

{install}mx_driving_compat.install()
if {major} == 1:
    patchcore.Patcher.discover(plugins=["mmcv"], enable="mmcv.torchvision", disable="*").apply()
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Repository:
    """One of the examples, in this process, until :meth:`forget`.

    Args:
        name: of its folder.
        major: the major version of mmcv.
    """

    def __init__(self, name: str, major: int) -> None:
        self.name = name
        self._registry = importlib.import_module(MODELS_OF_MMCV[major]).MODELS._module_dict
        self._registered = dict(self._registry)
        self._path = list(sys.path)
        sys.path.insert(0, str(EXAMPLES / name))

    def forget(self) -> None:
        """Leave the process as it was."""
        sys.path[:] = self._path
        for name in list(sys.modules):
            if name.partition(".")[0] in {"projects", "tools", "migrate_to_ascend", "flash_attn"}:
                del sys.modules[name]
        self._registry.clear()
        self._registry.update(self._registered)


@pytest.fixture
def functions(major: int) -> Iterator[Repository]:
    repository = Repository("functions", major)
    yield repository
    repository.forget()


@pytest.fixture(scope="module")
def references(major: int) -> dict[str, list[float]]:
    """The losses of the unpatched models on the CPU."""
    script = str(Path(__file__).with_name("migrations_on_cpu.py"))
    found = {}
    for name, who in WHO.items():
        done = run_python([script, name, str(major), str(STEPS)], running.without_npu())
        found[name] = losses(done.stdout, who)
    return found


class Done(NamedTuple):
    """What a program has left."""

    stdout: str
    stderr: str
    seen: dict[str, Any]
    reports: list[dict[str, Any]]


def run_python(
    arguments: list[str], environ: Mapping[str, str] = os.environ, **environment: str
) -> subprocess.CompletedProcess[str]:
    quiet = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**environ, **quiet, **environment},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def observe(name: str, major: int, folder: Path, *arguments: str) -> Done:
    """Run an example under ``patchcore run``."""
    (folder / "observe.py").write_text(OBSERVE)
    seen, reports = folder / "seen.json", folder / "reports"
    options = [
        "--compat",
        "mx_driving",
        running.OPTION,
        *WITHOUT_TORCHVISION[major],
        "--report-dir",
        str(reports),
    ]
    program = [str(EXAMPLES / name / "migrate_to_ascend" / "train.py"), *arguments]
    observer = [str(folder / "observe.py"), str(seen), json.dumps(REPLACED[name])]
    done = run_python(["-m", "patchcore", "run", *options, *observer, *program])
    read = [json.loads(path.read_text()) for path in sorted(reports.glob("report-*.json"))]
    return Done(done.stdout, done.stderr, json.loads(seen.read_text()), read)


def assert_losses(name: str, done: Any, expected: list[float], steps: int) -> None:
    """Fail unless a program has printed the losses of so many steps, and they are as expected."""
    found = losses(done.stdout, WHO[name])
    assert len(found) == steps
    assert found == pytest.approx(expected[:steps], abs=TOLERANCE[name], rel=0)


def applied_in(report: dict[str, Any]) -> set[str]:
    """Return the names of the patches that a process's report says are in force by a migration."""
    (section,) = (section for section in report["sections"] if section["title"] == "mx_driving.patcher")
    return {record["name"] for record in section["data"] if record["status"] == "applied"}


def trace_of(folder: Path) -> list[dict[str, Any]]:
    """Return the events of the one trace below a folder."""
    (trace,) = folder.rglob("trace_view.json")
    events = json.loads(trace.read_text())
    return events["traceEvents"] if isinstance(events, dict) else events


@pytest.fixture(scope="module")
def of_functions(major: int, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A run of the example with functions, whose data are read by a worker process that is spawned."""
    return observe("functions", major, tmp_path_factory.mktemp("functions"), "--workers", "1")


@pytest.fixture(scope="module")
def of_classes(major: int, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A run of the example with classes."""
    return observe("classes", major, tmp_path_factory.mktemp("classes"))


class TestFunctions:
    """API 1.0."""

    def test_losses_are_those_of_the_cpu(self, of_functions: Done, references: dict[str, list[float]]) -> None:
        assert losses(of_functions.stdout, WHO["functions"]) == pytest.approx(
            references["functions"], abs=TOLERANCE["functions"], rel=0
        )
        assert len(references["functions"]) == STEPS
        assert "trained on npu:0" in of_functions.stdout

    def test_kernels_are_called_in_each_step(self, of_functions: Done) -> None:
        expected = {kernel: STEPS * count for kernel, count in KERNELS["functions"].items()}
        assert of_functions.seen["calls"] == expected

    def test_after_the_block_the_models_functions_are_back(self, of_functions: Done) -> None:
        assert {place: place.partition(":")[0] for place in REPLACED["functions"]} == of_functions.seen["places"]

    def test_a_worker_process_has_the_patches(self, of_functions: Done) -> None:
        (worker,) = (report for report in of_functions.reports if report["role"] == "worker")
        assert {"single_precision", "numpy.compat", "mmcv.modulated_deform_conv"} <= applied_in(worker)

    def test_summary(self, of_functions: Done) -> None:
        applied, skipped = of_functions.stderr.split("Skipped Patches:")
        for name in ("flash_attention", "camera_projection", "deformable_aggregation", "single_precision"):
            assert f"+ {name}" in applied
        assert "~ old_layout (AttributeError: SparseAttention attr not found)" in skipped
        assert "never to be seen" not in of_functions.stderr
        assert "no such patch" not in of_functions.stderr

    def test_installed_by_the_program_with_profiling_and_brake(
        self, major: int, tmp_path: Path, references: dict[str, list[float]]
    ) -> None:
        starter = tmp_path / "start.py"
        starter.write_text(IN_THE_PROGRAM.format(major=major, install=running.INSTALL_KERNELS))
        program = str(EXAMPLES / "functions" / "migrate_to_ascend" / "train.py")
        traces = tmp_path / "traces"
        done = run_python([str(starter), program], OCCUPANCY_PROFILE=str(traces), OCCUPANCY_PERFORMANCE="3")
        assert_losses("functions", done, references["functions"], 3)
        assert "trained on" not in done.stdout
        names = Counter(event.get("name") for event in trace_of(traces))
        assert names["Optimizer.step#" + ("NpuFusedSGD.step" if major == 1 else "SGD.step")] == 1

    def test_everything_is_restored(self, functions: Repository, monkeypatch: pytest.MonkeyPatch, major: int) -> None:
        import numpy

        if major == 1:
            runner = importlib.import_module("mmcv.runner")
            monkeypatch.setattr(runner, "build_optimizer", runner.build_optimizer)  # patch.py sets it when imported
        with compat.install():
            patch = importlib.import_module("migrate_to_ascend.patch")
            builder = patch.generate_patcher_builder()
            importlib.import_module("tools.train")
            known = catalogue.load()
            plugins = known.named("dc", "mdc", "msda", "resnet_add_relu", "resnet_maxpool", "index", "batch_matmul")
            places = [change.target for found in plugins for change in found.patch.changes]
            places += map(Target.parse, REPLACED["functions"])
            before = [state(resolve(place, raw=True)) for place in places]
            with builder.build() as patcher:
                assert patcher.is_applied
                left = [place for place, then in zip(places, before) if same(state(resolve(place, raw=True)), then)]
                assert not left
                assert numpy.int is int
                assert torch.zeros(1, device="cuda").device.type == "npu"
            assert all(same(state(resolve(place, raw=True)), then) for place, then in zip(places, before))
            assert not patcher.is_applied
            with pytest.raises(AttributeError):
                numpy.int
            assert not torch.cuda.is_available()


class TestClasses:
    """API 2.0."""

    def test_losses_are_those_of_the_cpu(self, of_classes: Done, references: dict[str, list[float]]) -> None:
        assert losses(of_classes.stdout, WHO["classes"]) == pytest.approx(
            references["classes"], abs=TOLERANCE["classes"], rel=0
        )
        assert len(references["classes"]) == STEPS
        assert "trained on npu:0" in of_classes.stdout

    def test_kernels_are_called_in_each_step(self, of_classes: Done) -> None:
        assert of_classes.seen["calls"] == {kernel: STEPS * count for kernel, count in KERNELS["classes"].items()}

    def test_patches_stay_to_the_end_of_the_program(self, of_classes: Done) -> None:
        found = of_classes.seen["places"]
        kept = {place for place in found if "normalize" in place}  # a dispatcher says that it is the original
        assert {place for place, module in found.items() if module == "migrate_to_ascend.patch"} == found.keys() - kept
        (main,) = (report for report in of_classes.reports if report["role"] == "main")
        dotted = {place.replace(":", ".") for place in REPLACED["classes"] if "net:" not in place}
        assert dotted <= applied_in(main)

    def test_summary(self, of_classes: Done, major: int) -> None:
        applied, skipped = of_classes.stderr.split("Skipped Patches:")
        assert "+ projects.pillars.models.head_v1.PillarHeadV1" not in applied
        for text in ("- flash_attn", "- torch_scatter", "* projects.pillars.ops.boxes", "* keypoint_ext"):
            assert text in applied
        assert "+ projects.pillars.models.PillarHeadV1" in applied
        assert "+ torch_scatter.scatter.scatter_max" in applied
        assert "~ projects.pillars.models.net.PillarNet.draw (target not found" in skipped
        registries = {1: "mmcv.runner.optimizer.builder.OPTIMIZERS.SGD", 2: "mmengine.registry.OPTIMIZERS.SGD"}
        assert f"+ {registries[major]}" in applied
        assert f"~ {registries[3 - major]} (registry not found" in skipped
        assert ("+ mmcv.runner.init_dist" in applied) == (major == 1)
        assert ("~ mmcv.runner.init_dist (precheck failed)" in skipped) == (major == 2)
        assert "resnet_maxpool" not in applied
        assert "resnet_fp16" in applied

    def test_installed_by_the_program_with_profiling_and_brake(
        self, major: int, tmp_path: Path, references: dict[str, list[float]]
    ) -> None:
        starter = tmp_path / "start.py"
        starter.write_text(IN_THE_PROGRAM.format(major=major, install=running.INSTALL_KERNELS))
        program = str(EXAMPLES / "classes" / "migrate_to_ascend" / "train.py")
        done = run_python([str(starter), program, "--performance"], PILLARS_PROFILE=str(tmp_path / "traces"))
        assert_losses("classes", done, references["classes"], 3)
        assert "trained on" not in done.stdout
        names = Counter(event.get("name") for event in trace_of(tmp_path / "traces"))
        assert names["Optimizer.step#NpuFusedSGD.step"] == 1

    def test_both_ranks_of_torchrun(self, major: int, tmp_path: Path) -> None:
        options = [
            "--compat",
            "mx_driving",
            running.OPTION,
            *WITHOUT_TORCHVISION[major],
            "--report-dir",
            str(tmp_path),
        ]
        launcher = ["torchrun", "--standalone", "--nproc-per-node", "2"]
        program = [
            str(EXAMPLES / "classes" / "migrate_to_ascend" / "train.py"),
            "--launcher",
            "pytorch",
            "--steps",
            "2",
        ]
        done = run_python(["-m", "patchcore", "run", *options, "--", *launcher, *program])
        for rank in (0, 1):
            assert len(re.findall(rf"rank {rank} step \d: loss", done.stdout)) == 2, done.stdout
            assert f"trained on npu:{rank}" in done.stdout
        reports = [json.loads(path.read_text()) for path in tmp_path.glob("report-*.json")]
        ranks = [applied_in(report) for report in reports if report["role"] == "rank"]
        assert len(ranks) == 2
        assert ranks[0] == ranks[1]
        assert "projects.pillars.models.encoder.pillar_index" in ranks[0]


#: For each mmcv, what has nothing to patch there, and what the reason says.
FOREIGN = {
    1: {"nuscenes_metric": "requires mmdet3d>=1.1", "optimizer_wrapper": "mmengine is not installed"},
    2: {
        "stream": "requires mmcv>=1.3,<2",
        "ddp": "requires mmcv>=1",
        "nuscenes_dataset": "requires mmdet3d>=1.0.0rc6,<1.1",
        "optimizer_hooks": "requires mmcv>=1.3.12,<2",
    },
}
#: Not installed in either environment; the example with classes makes the first one importable and has it filled.
NOT_INSTALLED = {"torch_scatter", "transformers", "diffusers"}


def essence(value: Any) -> Any:
    """Return what two applications of one patch have in common."""
    value = getattr(value, "__func__", value)
    return getattr(value, "__code__", value)


class TestPredefined:
    """Each class alone does what the plugin's patch does, which test_numeric_patches compares with the library."""

    @pytest.mark.parametrize("name", [each.name for each in ALL])
    def test_does_what_the_plugin_does(self, name: str, major: int) -> None:
        (predefined,) = (each for each in ALL if each.name == name)
        missing = [each.name for each in ALL if each.target_module in NOT_INSTALLED]
        foreign = {**FOREIGN[major], **dict.fromkeys(missing, "not installed")}
        plugins = [found.patch for found in catalogue.load().named(*predefined.provided_by)]
        assert plugins
        if name in foreign:
            results = predefined.apply_all()
            assert {result.status for result in results} == {PatchStatus.SKIPPED}
            assert all(foreign[name] in (result.reason or "") for result in results), results
            pytest.skip(results[0].reason or "")
        patcher = Patcher().disable("transfer_to_npu").add(predefined)
        if predefined.target_module == "mmdet3d":
            importlib.import_module("mmdet3d_libraries")  # with what lets it be imported here
        plan = pc.Patcher(plugins, enable=plugins).plan()
        fitting = [entry.patch for entry in plan if entry.verdict == "apply"]
        assert fitting
        targets = [change.target for patch in fitting for change in patch.changes]
        places = []
        for applied in (pc.Patcher(fitting, enable=fitting, strict=True), patcher):
            with applied:
                places.append([essence(resolve(target, raw=True)) for target in targets])
        assert places[0] == places[1]
        assert not patcher.is_applied
