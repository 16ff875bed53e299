"""install(): ``mx_driving.patcher`` is found among patchcore's modules, with kernels of the name or without."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import pkgutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import patchcore as pc
from mx_driving_compat import finder, install, is_installed
from mx_driving_compat import patcher as ours
from patchcore.engine.importing import ImportWatch
from patchcore.errors import SettingsError
from patchcore.objects.modules import find_module

KERNELS = {
    "mx_driving": "__version__ = '1.0'\nfrom mx_driving.ops import conv",
    "mx_driving.ops": "def conv(x): return ('kernel', x)",
    "mx_driving.modules": "",
}

#: The modules that migrations import from, and what some of them import there.
SUBMODULES = {
    "patcher": ["Patcher", "PatcherBuilder", "replace_with"],
    "patch": ["AtomicPatch", "BasePatch", "LegacyPatch", "Patch", "PatchStatus", "RegistryPatch", "with_imports"],
    "legacy": ["LegacyPatchWrapper", "PatcherBuilder", "default_patcher_builder"],
    "version": ["check_version", "get_version", "is_mmcv_v1x", "is_mmcv_v2x", "mmcv_version"],
    "reporting": ["PatchResult", "PatchStatus"],
    "patcher_logger": ["PatchError", "configure_patcher_logging", "patcher_logger", "set_patcher_log_level"],
    "mmcv_patch": ["DeformConv", "MultiScaleDeformableAttention", "dc", "ddp", "mdc", "msda", "spconv3d", "stream"],
    "mmengine_patch": ["OptimizerWrapper", "optimizer_wrapper"],
    "mmdet_patch": ["ResNetAddRelu", "pseudo_sampler", "resnet_add_relu", "resnet_fp16", "resnet_maxpool"],
    "mmdet3d_patch": ["NuScenes", "NuScenesDataset", "nuscenes_dataset", "nuscenes_metric"],
    "diffusers_patch": ["AttnProcessor2_0", "DiffusersNPU"],
    "transformers_patch": [
        *(
            "BaseImageProcessorFast_preprocess",
            "FlashAttention",
            "FlashAttentionVarlen",
            "QWen3VLNPU",
            "Qwen2VL_preprocess",
        ),
        *("Qwen3RMSNorm", "Qwen3RoPE", "Qwen3VLRoPE", "Qwen3VLTextRMSNorm", "Qwen3VL_get_placeholder_mask"),
        "TransformersNPU",
    ],
    "numpy_patch": ["NumpyCompat", "numpy_type"],
    "torch_patch": ["BatchMatmul", "TensorIndex", "batch_matmul", "index"],
    "torch_scatter_patch": ["TorchScatter", "scatter"],
}


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Let nobody have imported mx_driving before."""
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "mx_driving"}
    yield
    assert not [name for name in sys.modules if name.startswith("mx_driving.patcher")]
    sys.modules.update(hidden)


@pytest.fixture
def kernels(make_package: Any) -> None:
    make_package(KERNELS)


@pytest.fixture
def installed(forgotten: None) -> Iterator[None]:
    with install():
        yield


@pytest.fixture(params=["with kernels", "without kernels"])
def either(request: pytest.FixtureRequest, installed: None) -> bool:
    """Both with and without a package of kernels; whether there is one."""
    if request.param == "with kernels":
        request.getfixturevalue("make_package")(KERNELS)
    elif importlib.util.find_spec("mx_driving").loader.__class__.__module__ != finder.__name__:
        pytest.skip("mx_driving is installed here")
    return request.param == "with kernels"


class TestTheModules:
    @pytest.mark.parametrize("name", SUBMODULES)
    def test_so_is_each_module_in_it(self, either: bool, name: str) -> None:
        module = importlib.import_module(f"mx_driving.patcher.{name}")
        assert module is importlib.import_module(f"mx_driving_compat.patcher.{name}")
        assert not [public for public in SUBMODULES[name] if not hasattr(module, public)]

    @pytest.mark.parametrize("name", finder.OLDER_MODULES)
    def test_older_versions_had_modules_of_other_names(self, either: bool, name: str) -> None:
        module = importlib.import_module(f"mx_driving.patcher.{name}")
        assert module.__name__ == f"mx_driving.patcher.{name}"
        for function in finder.OLDER_MODULES[name]:
            assert getattr(module, function) is getattr(ours, function)

    def test_every_public_name_can_be_imported(self, either: bool) -> None:
        module = importlib.import_module("mx_driving.patcher")
        assert [name for name in module.__all__ if getattr(module, name, None) is None] == []
        assert set(dir(module)) == set(module.__all__)
        public = {name for names in SUBMODULES.values() for name in names}
        assert public - {"BasePatch"} <= {*module.__all__, "PatcherBuilder"}

    def test_what_there_is_not_is_an_import_error(self, either: bool) -> None:
        with pytest.raises(ImportError):
            importlib.import_module("mx_driving.patcher.absent")
        patcher = importlib.import_module("mx_driving.patcher")
        with pytest.raises(AttributeError, match="has no attribute 'Qwen4RMSNorm'"):
            patcher.Qwen4RMSNorm
        with pytest.raises(ImportError, match="cannot import name 'Qwen4RMSNorm'"):
            exec("from mx_driving.patcher import Qwen4RMSNorm")

    def test_what_is_pickled_is_found_again(self, either: bool) -> None:
        from mx_driving.patcher.patch import AtomicPatch  # type: ignore[import-not-found]

        assert pickle.loads(pickle.dumps(AtomicPatch)) is AtomicPatch
        assert b"mx_driving_compat" in pickle.dumps(AtomicPatch)  # also where nothing is installed

    def test_walks_find_the_modules(self, either: bool) -> None:
        package = importlib.import_module("mx_driving.patcher")
        assert set(SUBMODULES) <= {info.name for info in pkgutil.iter_modules(package.__path__)}


class TestWithKernels:
    def test_they_stay_reachable(self, kernels: None, installed: None) -> None:
        import mx_driving

        assert mx_driving.conv("x") == mx_driving.ops.conv("x") == ("kernel", "x")
        importlib.import_module("mx_driving.patcher")
        assert (mx_driving.__version__, mx_driving.patcher) == ("1.0", ours)
        assert find_module("mx_driving")

    def test_a_patcher_of_their_own_is_not_imported(self, make_package: Any, installed: None) -> None:
        make_package({**KERNELS, "mx_driving.patcher": "raise RuntimeError('theirs')", "mx_driving.patcher.patch": ""})
        assert importlib.import_module("mx_driving.patcher") is ours

    def test_one_that_was_imported_is_refused(self, make_package: Any) -> None:
        make_package({**KERNELS, "mx_driving.patcher": ""})
        theirs = importlib.import_module("mx_driving.patcher")
        with pytest.raises(SettingsError, match=r"mx_driving.patcher was imported already, from .*patcher.py; call"):
            install()
        assert not is_installed()
        assert sys.modules.pop("mx_driving.patcher") is theirs

    def test_one_that_imports_its_patcher_itself(self, make_package: Any, installed: None) -> None:
        make_package(
            {**KERNELS, "mx_driving": "from mx_driving import patcher\nfrom mx_driving.patcher import Patcher"}
        )
        import mx_driving

        assert mx_driving.patcher is ours


class TestWithoutKernels:
    @pytest.fixture(autouse=True)
    def without(self, forgotten: None) -> None:
        if find_module("mx_driving"):
            pytest.skip("mx_driving is installed here")

    def test_the_package_can_be_imported_for_its_patcher(self, installed: None) -> None:
        import mx_driving

        assert mx_driving.patcher is ours

    def test_a_kernel_says_why_it_is_not_there(self, installed: None) -> None:
        import mx_driving

        with pytest.raises(AttributeError, match=r"no attribute 'conv': its kernels are not installed here"):
            mx_driving.conv
        with pytest.raises(ImportError):
            exec("from mx_driving import deform_conv2d")
        with pytest.raises(ImportError):
            importlib.import_module("mx_driving.ops")
        assert not hasattr(mx_driving, "__version__")

    def test_it_is_not_there_for_patches_that_need_it(self, installed: None) -> None:
        assert not find_module("mx_driving")
        importlib.import_module("mx_driving")
        assert not find_module("mx_driving")
        patch = pc.Patch("p", [pc.Replace("json:dumps", "mx_driving:conv")], needs=["mx_driving"])
        with pc.Patcher([patch]) as patcher:
            assert patcher.report()["p"].status == "skipped"


class TestUninstalling:
    def test_nothing_is_left(self, either: bool) -> None:
        """See the fixtures; here what was imported in between."""
        before = list(sys.meta_path)
        again = install()
        importlib.import_module("mx_driving.patcher.legacy")
        importlib.import_module("mx_driving.patcher.functions")
        again.uninstall()  # somebody else has installed it
        # where torch was imported, what asks for CUDA is patched from the import of mx_driving.patcher on
        assert [finder for finder in sys.meta_path if not isinstance(finder, ImportWatch)] == before
        assert importlib.import_module("mx_driving.patcher") is ours

    @pytest.mark.parametrize(
        "first",
        ["from mx_driving.patcher import Patcher", "import mx_driving.patcher.patcher_logger", "pass"],
    )
    def test_the_logger_is_no_module_whatever_was_imported_first(self, run_python: Any, first: str) -> None:
        """It has the name of the module that it is in."""
        code = f"""
            import sys
            import mx_driving_compat as compat
            with compat.install():
                {first}
                from mx_driving.patcher import patcher_logger
                print(type(patcher_logger).__name__)
                from mx_driving.patcher.patcher_logger import PatcherLogger
                import mx_driving.patcher
                print(mx_driving.patcher.patcher_logger is patcher_logger, isinstance(patcher_logger, PatcherLogger))
            print([name for name in sys.modules if name.partition(".")[0] == "mx_driving"])
            """
        assert run_python(code) == "PatcherLogger\nTrue True\n[]\n"


class TestCost:
    CODE = """
        import sys
        import patchcore
        before = set(sys.modules)
        import mx_driving_compat as compat
        compat.install()
        {line}
        new = set(sys.modules) - before
        print(sorted({{"torch", "numpy", "mmcv", "mmengine", "mmdet", "rich", {more}}} & new))
        """

    @pytest.mark.parametrize(
        ("line", "more"),
        [
            ("import mx_driving.patcher", "'logging', 'packaging', 'importlib.metadata', 'patchcore.patcher'"),
            ("from mx_driving.patcher import mmcv_version, is_mmcv_v2x", "'logging', 'patchcore.patcher'"),
            ("from mx_driving.patcher import AtomicPatch, Patch, Patcher, default_patcher", ""),
            ("from mx_driving.patcher import PatcherBuilder, Patch, default_patcher_builder, msda", ""),
        ],
        ids=["nothing of it", "versions", "2.0", "1.0"],
    )
    def test_nothing_heavy_is_imported(self, run_python: Any, make_package: Any, line: str, more: str) -> None:
        make_package(dict.fromkeys(("torch", "numpy", "mmcv", "mmengine", "mmdet"), "raise RuntimeError('imported')"))
        assert run_python(self.CODE.format(line=line, more=more)) == "[]\n"
