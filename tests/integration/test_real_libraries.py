"""What must hold of a process with the real torch, mmcv, mmdet and numpy: each test in an interpreter of its own."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from warm import Warm

pytest.importorskip("torch")
pytest.importorskip("mmcv._ext", reason="needs mmcv with its compiled operators")
pytest.importorskip("mmdet")

Run = Callable[[str], str]

# Prepended to every program: the emulated NPU, and what the tests ask for.
PRELUDE = '''
import importlib.util
import os
import sys
import types
import warnings
import npu_emulator

warnings.simplefilter("ignore")
npu_emulator.install()
LIBRARIES = ("torch", "mmcv", "mmengine", "mmdet", "numpy", "mx_driving", "torch_npu")
ROOTS = ("mmcv", "mmengine", "mmdet", "numpy")
OURS = ("patchcore", "patchcore_torch", "mmcv_npu", "torch_npu_patches")
#: What the names of their files begin with, and those of functions that patchcore writes.
PACKAGES = [importlib.util.find_spec(name).submodule_search_locations[0] for name in OURS]
FILES = ("<patchcore ", *(package + os.sep for package in PACKAGES))


def loaded():
    return [name for name in LIBRARIES if name in sys.modules]


CLASS = "the class itself"


def spaces():
    """Every module of the libraries, every class in them, every registry table and torch.Tensor: name -> vars()."""
    import torch

    found = {"torch:Tensor": dict(vars(torch.Tensor)), "torch": dict(vars(torch))}
    for name, module in list(sys.modules.items()):
        if module is None or (name.partition(".")[0] not in ROOTS and name != "torch._dynamo.trace_rules"):
            continue
        found[name] = dict(vars(module))
        for key, value in found[name].items():
            if isinstance(value, type) and value.__module__ == name:
                found[f"{name}:{value.__qualname__}"] = {CLASS: value, **vars(value)}
            elif isinstance(getattr(value, "_module_dict", None), dict):
                found[f"registry {value.name} {id(value)}"] = dict(value._module_dict)  # has many names
    return found


def changed(before, after):
    """The places that hold another object, or appeared, or are gone; imports and pickling leave marks of their own."""
    nothing = object()
    marks = ("__slotnames__", "__warningregistry__")
    return sorted(
        f"{space} {key}"
        for space, content in before.items()
        for now in [after.get(space, content)]
        if content.get(CLASS) is now.get(CLASS)  # where another class is, its module tells
        for key in {**content, **now}
        if content.get(key, nothing) is not now.get(key, nothing) and key not in marks
    )


def made_by_us(value):
    """Whether a function, or what a descriptor or bound method holds, comes from a plugin or from patchcore."""
    if type(value) in (staticmethod, classmethod, types.MethodType):
        value = value.__func__
    if type(value) is not types.FunctionType:
        return False
    return value.__module__.partition(".")[0] in OURS or value.__code__.co_filename.startswith(FILES)


def left_of_us():
    everything = ((f"{space} {key}", value) for space, found in spaces().items() for key, value in found.items())
    return sorted(place for place, value in everything if made_by_us(value))


def names(patcher, status):
    records = patcher.report().with_status(status)
    return sorted(record.name for record in records if "transfer_to_npu" not in record.name)


def import_everything():
    import mmcv.ops, mmdet.models, mmdet.apis, mmengine.registry, numpy
    import torch._dynamo.trace_rules  # what the first torch.compile of a program imports
'''


@pytest.fixture
def run(run_python: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a program after the prelude and return what it printed."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return lambda program: run_python(PRELUDE + program)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """A process that has imported everything, for programs that begin so."""
    with Warm(tmp_path_factory.mktemp("warm"), PRELUDE + "import_everything()\n", OMP_NUM_THREADS="1") as warm:
        yield warm


@pytest.fixture
def run_after_imports(warm: Warm, tmp_path: Path) -> Run:
    """Run a program after the prelude and ``import_everything()`` and return what it printed."""

    def run(program: str) -> str:
        done = warm.run(program, cwd=tmp_path)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


# Without the CUDA layer, some of which waits for parts of torch that few programs import.
PENDING = [
    "mmcv.deform_conv",
    "mmcv.modulated_deform_conv",
    "mmcv.multi_scale_deformable_attention",
    "mmcv.nms_rotated",
    "mmcv.spconv3d",
    "mmdet.resnet_add_relu",
    "mmdet.resnet_maxpool",
    "mmdet3d.nuscenes_metric",
    "numpy.compat",
    "torch.batch_matmul",
    "torch.compile",
    "torch.internal_format",
    "torch.npu_conjugated_copies",
    "torch.tensor_index",
]
APPLIED = [name for name in PENDING if name != "mmdet3d.nuscenes_metric"]  # mmdet3d takes long to import


class TestApplyImportsNothing:
    def test_all_plugins(self, run: Run) -> None:
        out = run("""
import patchcore
patcher = patchcore.apply(strict=True)
print(loaded())
print(names(patcher, "pending"))
patcher.plan()
patcher.report()
patcher.revert()
print(loaded())
""")
        assert out.splitlines() == ["[]", str(PENDING), "[]"]

    @pytest.mark.parametrize("missing", ["torch", "mmcv", "mmdet", "numpy"])
    def test_a_library_that_is_not_installed_is_skipped(self, run: Run, missing: str) -> None:
        out = run(f"""
sys.modules[{missing!r}] = None
import patchcore
with patchcore.apply() as patcher:
    print([(record.status, record.reason) for record in patcher.report().patches
           if all(change.target.partition(":")[0].partition(".")[0] == {missing!r} for change in record.changes)])
""")
        assert out
        assert "pending" not in out
        assert f"{missing} is not installed" in out


class TestImportingLater:
    def test_names_taken_before_and_after(self, run: Run) -> None:
        out = run("""
import patchcore, types
from mmcv.ops import deform_conv2d as before, DeformConv2d
from mmcv.ops.modulated_deform_conv import modulated_deform_conv2d as modulated_before
original = before
patcher = patchcore.apply(strict=True)
from mmcv.ops import deform_conv2d as after, modulated_deform_conv2d as modulated_after
import mmcv.ops.saconv
print(before is after is mmcv.ops.saconv.deform_conv2d, modulated_before is modulated_after)

import torch
calls = npu_emulator.mx_driving.calls
x, offset, weight = torch.randn(1, 64, 6, 6), torch.rand(1, 18, 4, 4), torch.randn(64, 64, 3, 3)
on_cpu = before(x, offset, weight)
x, offset, weight = x.npu(), offset.npu(), weight.npu()
results = [f(x, offset, weight) for f in (before, after)] + [DeformConv2d(64, 64, 3).npu()(x, offset)]
print(calls["deform_conv2d"], *(torch.allclose(result.cpu(), on_cpu, atol=1e-4) for result in results[:2]))

patcher.revert()
print(before is after is mmcv.ops.deform_conv2d is original)
original(x.cpu(), offset.cpu(), weight.cpu()), mmcv.ops.DeformConv2d(64, 64, 3)(x.cpu(), offset.cpu())
print(calls["deform_conv2d"])
""")
        assert out.splitlines() == ["True True", "3 True True", "True", "3"]

    def test_everything_imported_while_patched(self, run: Run) -> None:
        out = run("""
import patchcore
patcher = patchcore.apply(strict=True)
from mmcv.ops import deform_conv2d as taken
import_everything()
print(names(patcher, "applied"))
import mmcv.ops, mmdet.models.backbones.resnet as resnet, numpy, torch
print(taken is mmcv.ops.deform_conv2d)
print(made_by_us(resnet.BasicBlock.forward), made_by_us(vars(torch.Tensor)["__getitem__"]), numpy.int)
print(bool(left_of_us()))

patcher.revert()
print(left_of_us())
print("__getitem__" in vars(torch.Tensor), taken is mmcv.ops.deform_conv2d, made_by_us(taken))
print([name for name in ("int", "float") if name in vars(numpy)])
""")
        assert out.splitlines() == [
            str(APPLIED),
            "True",
            "True True <class 'int'>",
            "True",
            "[]",
            "False True False",
            "[]",
        ]

    def test_a_script_that_knows_nothing_of_it(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text("""\
import torch
from mmcv.ops import DeformConv2dPack
from mmdet.models.backbones import ResNet

torch.set_num_threads(1)
model = ResNet(18, num_stages=1, strides=(1,), dilations=(1,), out_indices=(0,), frozen_stages=0).cuda()
features = DeformConv2dPack(64, 64, 3, padding=1).cuda()(model(torch.randn(1, 3, 32, 32).cuda())[0])
features.sum().backward()
print(tuple(features.shape))
""")
        (tmp_path / "stand_ins.py").write_text("""\
import atexit
import npu_emulator
import patchcore

npu_emulator.install()
atexit.register(lambda: print(dict(sorted(npu_emulator.mx_driving.calls.items()))))

@patchcore.hookimpl
def register_patches():
    return []
""")
        out = run("""
from patchcore.cli import main
main(["run", "--strict", "-p", "stand_ins", "train.py"])
""")
        assert out.splitlines() == [
            "(1, 64, 8, 8)",
            "{'deform_conv2d': 1, 'deform_conv2d_backward': 1, 'npu_add_relu': 2, 'npu_add_relu_backward': 2, "
            "'npu_max_pool2d': 1}",
        ]


class TestRevert:
    def test_everything_is_the_identical_object_again(self, run_after_imports: Run) -> None:
        out = run_after_imports("""
import patchcore
import torch
from mmcv.ops import deform_conv2d as taken
globals_before = dict(globals())
before = spaces()
print(len(before) > 500)
for enabled in ([], ["resnet_fp16"]):
    patcher = patchcore.apply(strict=True, enable=enabled, disable="transfer_to_npu")
    places = changed(before, spaces())
    print(len(places), len(patcher.report().with_status("applied")))
    patcher.revert()
    print(changed(before, spaces()))
print(taken is globals_before["taken"])
""")
        first, *rest = out.splitlines()
        assert first == "True"
        # Names, as Python functions stay in their places and have their bodies written: 8 of numpy, 19 with numpy 2; of
        # torch what is written in C; of mmcv functions that C makes (deform_conv2d is a method of a class of autograd)
        # with the names that took them by value, and 5 classes of sparse convolution, under 7 names by value, with 3
        # entries of a registry.
        places = f"{35 if importlib.metadata.version('numpy') < '2' else 46} 13"
        assert rest == [places, "[]", places, "[]", "True"]

    def test_nested_and_repeated(self, run_after_imports: Run) -> None:
        out = run_after_imports("""
import patchcore
before = spaces()
outer = patchcore.apply(strict=True)
patched = spaces()
with patchcore.apply(strict=True):
    print(changed(patched, spaces()))
print(changed(patched, spaces()))
outer.revert()
print(changed(before, spaces()))
outer.apply()
print(len(changed(before, spaces())) == len(changed(before, patched)))
outer.revert()
print(changed(before, spaces()))
""")
        assert out.splitlines() == ["[]", "[]", "[]", "True", "[]"]

    def test_no_warning_and_no_lazy_attribute_is_woken(self, run_after_imports: Run) -> None:
        """Looking for references opens every loaded module; that is not to be felt."""
        out = run_after_imports("""
import torch, torch.distributed
before = set(sys.modules)
import patchcore
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with patchcore.apply(strict=True):
        pass
print([str(warning.message) for warning in caught])
targets = {"torch.utils._device"}  # of the CUDA layer
known = {"patchcore", "pluggy", "packaging", "fake_cann_startup"}  # the last in every process, by its .pth
new = {name.partition(".")[0] for name in set(sys.modules) - before - targets}
print(sorted(new - set(sys.stdlib_module_names) - known))
""")
        assert out.splitlines()[0] == "[]"
        assert eval(out.splitlines()[1]) == [
            "diffusers_npu",
            "fake_cann",
            "mindspeed_compat",
            "mmcv_npu",
            "mmdet3d_npu",
            "mx_driving",
            "mx_driving_compat",
            "npu_emulator",
            "npu_graph",
            "npu_migrate",
            "patchcore_torch",
            "ray_patches",
            "torch_markers",
            "torch_npu_patches",
            "transformers_npu",
        ]


def test_applying_installed_plugins_imports_none_of_them(run_python: Run) -> None:
    out = run_python("""
import sys
import patchcore
patchcore.apply()
print([name for name in ("torch", "numpy", "mmcv", "mmengine", "mmdet") if name in sys.modules])
""")
    assert out == "[]\n"
