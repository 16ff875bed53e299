"""Which libraries' tests are run, and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["LIBRARIES", "MODES", "TITLES", "TORCH_NPU", "TRANSFORMERS", "Library"]

_RUN = ("-m", "patchcore", "run", "--emulate-npu=imitation")

#: How tests are run, by the name in results: arguments of Python in front of ``-m pytest``.
MODES: dict[str, tuple[str, ...]] = {
    "cpu": (),
    "npu": _RUN,
    "npu-plain": (
        *_RUN,
        "--disable",
        ",".join(
            f"torch.transfer_to_npu.{name}" for name in ("names", "library_names", "npu_branches", "equal_devices")
        ),
    ),
    "cann": ("-m", "fake_cann", "run"),
    "cann-patched": ("-m", "fake_cann", "run", "-m", "patchcore", "run"),
}

#: What the page calls them.
TITLES = {
    "cpu": "CPU, no patches",
    "npu": "emulated NPU",
    "npu-plain": "emulated NPU, without the patches for names",
    "cann": "torch_npu on the fake CANN, no patches",
    "cann-patched": "torch_npu on the fake CANN, with the patches of transformers",
}


class Library(NamedTuple):
    """A library whose tests are run.

    Args:
        name: as it is imported and installed.
        url: of its repository.
        tag: of a release, with the version in the place of ``{}``.
        needed: the folders of the repository that the tests need.
        root: folder in which pytest is started.
        folders: of tests, from there.
        environment: variables for the tests.
        of_folders: variables for the tests of a folder, by folder.
        reasons: why tests fail on the emulated NPU though the patches are right, by a part of the name of the test or
            of its error.
        modes: those of :data:`MODES` in which its tests are run.
        refusals: parts of the error with which a test ends that calls something which is not emulated.
        disabled: file of the tests that its developers have disabled on the real device, from its root, in JSON by
            ``test (module.Class)``; empty for none.
        alone: whether each module has a process of its own; else those of a folder share one. As its developers do it.
        made: modules of tests that are made, by name, for a library whose tests come with the distribution of its
            sources and not from its repository; empty for others.
        reference: the mode with which the judged one is compared.
    """

    name: str
    url: str
    tag: str
    needed: tuple[str, ...]
    root: str
    folders: tuple[str, ...]
    environment: dict[str, str]
    of_folders: dict[str, dict[str, str]]
    reasons: dict[str, str]
    modes: tuple[str, ...] = ("cpu", "npu", "npu-plain")
    refusals: tuple[str, ...] = ()
    disabled: str = ""
    alone: bool = False
    made: Mapping[str, str] = MappingProxyType({})
    reference: str = "cpu"

    @property
    def judged(self) -> str:
        """The mode whose failures need a reason."""
        return "npu" if "npu" in self.modes else self.modes[-1]


#: The tests of torch_npu are those of its adapter on the fake CANN, in an environment of their own.
TORCH_NPU = Library(
    name="torch_npu",
    url="https://github.com/Ascend/pytorch",
    tag="",  # the commit of the wheel
    needed=("test",),
    root="test",
    folders=(
        *(".", "nn", "custom_ops", "npu", "contrib", "optim", "autograd", "trans_contiguous", "distributed"),
        *("allocator", "cpp_extensions", "dynamo", "functorch", "fx", "jit", "onnx", "package", "profiler"),
        *("testing", "utils", "_afd", "_inductor"),
    ),
    environment={"FAKE_CANN_DEVICES": "2"},
    of_folders={},
    reasons={
        "failed on setup with": "a function that its module calls itself: no test of pytest's",
        "not supported by the current soc version": "needs another chip (`--soc`)",
        "aclgraph": "graphs of an NPU are not emulated",
        "Failed to build stub": "compiles against the sources of torch_npu, which are not there",
        "No module named": "needs a library that is not installed",
        "test_roll_shape_format_uint8": "compares times",
        "test_drop_path_shape_format": "expects that an NPU draws the same numbers for two shapes",
        "encode_xyxy2xywh_A2": "expects how an NPU rounds in float16",
        "test_npu_iou_same_shape_input": "expects how an NPU rounds in float16",
        "test_global_and_local_hooks_order": "passes alone: torch remembers an earlier test's full backward hook",
        "TestModuleGlobalHooks": "passes alone: torch remembers an earlier test's full backward hook",
        "_dtype_cast_non_blocking": "expects that work is not done yet when it is submitted",
        "TestAutogradMultipleDispatchNPU": "expects gradients and nested tensors that torch has for CUDA only",
        "test_boolean_indexing_weirdness": "torch_npu raises RuntimeError where torch raises IndexError",
        "test_broaderrors_indexing": "torch_npu raises RuntimeError where torch raises IndexError",
        "test_ipc_event.py": "needs 32 GiB of memory, and the machine has less",
        "test_fraction_one_via_env": "needs 32 GiB of memory, and the machine has less",
        "test_opapi_op_with_multi_device": "expects how an NPU rounds in float16",
        "test_swapped_memory_allocator.py": "torch_npu's `empty_cache` frees swapped memory that a tensor uses",
        "test_device_count_not_cached_pre_init": "expects that `ASCEND_RT_VISIBLE_DEVICES` is read again",
        "ASCEND_HOME_PATH environment variable is not set": "compares the output, in which torch_npu has a warning",
        "called a synchronizing NPU operation": "passes alone: an earlier test sets a mode of torch_npu",
        "No such file or directory: 'NPU": "reads the sources of torch_npu, which are not there",
        "test_ld_preload_acl_hook": "a preloaded library looks for names of CANN behind itself: they are loaded later",
        "test_uce.py": "needs errors of memory that a device reports",
        "cannot import name": "needs a name that another release of torch has",
        "_pickle.UnpicklingError": "written for a release of torch that loads every object",
        "Overriden is not allowed": "compares with a message of another release of torch",
        "RNN input dtype": "compares with a message of another release of torch",
        "test_share_comm_context": "gives a function of FSDP the arguments that it has in another release of torch",
        "test_correct_module_names": "compares names of torch_npu's modules with a list; nothing runs on a device",
        "found two different devices": "compares with a message of another release of torch",
        "TestFunctionalTracing": "expects of torch.fx, on the CPU, what another release of torch does",
        "test_npu_conv_transpose2d": "fails at times: the CPU rounds each step of this convolution in float16",
        "test_legacy_load_maplocation_map_kind_none": "expects that saving in the old format fails, and it works",
        "test_public_api_surface": "uses no device; its way through torch.fx is deeper than Python allows",
        "test_override_can_fuse_on_cpu_invalid_type": "uses no device; torch accepts what the test wants refused",
        "test_anti_quant_device_check": "expects a text that the message of torch_npu does not have",
        "test_modules_can_be_imported": "imports modules of torch that need triton, which is not installed",
        "test_reentrant_parent_error_on_cpu": "expects one of two errors that two threads raise at about the same time",
        "test_math_autogradcpu": "uses no device; registers an operator that the test before it left behind",
        "test_conv_c1_backward": "torch_npu returns a gradient of the bias that nobody has asked for",
        "test_mixed_wrappers_valid": "uses no device; torch's logging tensor does not fit this test",
        "test_save_for_backwards_segfault": "uses no device; torch's logging tensor does not fit this test",
        "TestFX.test_no_mutation": "uses no device; expects the error of another release of torch",
        "TestFX.test_stack_traces": "uses no device; expects of torch.fx what another release does",
        'AssertionError: "\\n\\n[': "compares with a graph as another release of torch prints it",
        "AssertionError: '\\n\\n[": "compares with a graph as another release of torch prints it",
        "AssertionError: 'def [": "compares with a graph as another release of torch prints it",
    },
    modes=("cann",),
    refusals=("NotEmulated", " not in lib", "the fake CANN has no", "please upgrade CANN"),
    disabled="unsupported_test_cases/.pytorch-disabled-tests.json",
    alone=True,
)

_TWO_CLASSES = """from .of_models import made_for

{0}ModelTest = made_for("{0}", "{1}Model", "{2}", {3})
"""

#: The tests that transformers has for all models, of five of them, in an environment of their own.
TRANSFORMERS = Library(
    name="transformers",
    url="",
    tag="{}",
    needed=(),
    root=".",
    folders=("tests/models",),
    environment={"HF_HUB_OFFLINE": "1", "FAKE_CANN_DEVICES": "2", "PATCHCORE_PLUGINS": "transformers"},
    of_folders={},
    reasons={},
    modes=("cann", "cann-patched"),
    alone=True,
    made={
        "bert": _TWO_CLASSES.format("Bert", "Bert", "BertForMaskedLM", ""),
        "gemma3": _TWO_CLASSES.format(
            "Gemma3Text", "Gemma3Text", "Gemma3ForCausalLM", "num_key_value_heads=2, head_dim=8"
        ),
        "llama": _TWO_CLASSES.format("Llama", "Llama", "LlamaForCausalLM", "num_key_value_heads=2"),
        # Without patches torch multiplies with the matrices of experts only if their rows have a multiple of 16 bytes.
        "mixtral": _TWO_CLASSES.format(
            "Mixtral",
            "Mixtral",
            "MixtralForCausalLM",
            "num_key_value_heads=2, num_local_experts=4, intermediate_size=40",
        ),
        "qwen3": _TWO_CLASSES.format("Qwen3", "Qwen3", "Qwen3ForCausalLM", "num_key_value_heads=2, head_dim=8"),
    },
    reference="cann",
)

LIBRARIES = (
    Library(
        name="accelerate",
        url="https://github.com/huggingface/accelerate",
        tag="v{}",
        needed=("tests", "examples"),
        root=".",
        folders=("tests",),
        environment={"HF_HUB_OFFLINE": "1", "NPU_EMULATOR_DEVICES": "2"},
        of_folders={},
        reasons={
            "https://huggingface.co": "needs models that it downloads",
            "Repo for model": "needs models that it downloads",
            "Cannot find the requested files in the disk cache": "needs models that it downloads",
            "::TestLoadCheckpointAndDispatchWithBroadcast": "needs models that it downloads",
            ".test_ddp_comm_hook": "torch allows its hook for bfloat16 only if `torch.version.cuda` is set",
            "can't allocate memory": "fills the memory of the device, 64 GB, and the machine has less",
        },
    ),
    Library(
        name="lightning",
        url="https://github.com/Lightning-AI/pytorch-lightning",
        tag="{}",
        needed=("tests",),
        root="tests",
        folders=("tests_fabric", "tests_pytorch"),
        environment={"NPU_EMULATOR_DEVICES": "2"},
        # Lightning's developers set it on machines with GPUs: in other tests a Trainer would use both devices, and
        # start pytest once more for the second
        of_folders={"tests_pytorch": {"RUN_ONLY_CUDA_TESTS": "1"}},
        reasons={
            "you must call `.launch()`": "uses all devices: it fails on a machine with two GPUs, too",
            "test_setup_module_parameters_on_different_devices": "expects `cuda:0` in a message that has `npu:0`",
            "test_get_torch_gpu_stats": "reads statistics of pools and splits, which are not emulated",
            "test_device_stats_gpu_from_torch": "reads statistics of pools and splits, which are not emulated",
            "nvidia-smi": "runs `nvidia-smi`, which is for NVIDIA's GPUs",
            "XPASS(strict)": "marked as failing with this release of torch, and passes here",
            "models/test_onnx.py": "onnxruntime is not installed",
            "cannot be sent to another process": "sends a tensor on the device to another process: not emulated",
            "test_load_from_checkpoint_map_location_automatic": "compares by `startswith` with its parameter, `cuda`",
            "register_privateuse1_backend() has already been set": "names a device of its own, and torch has the NPU",
            ".py::test_collectives_distributed_cuda": "gloo, which the emulated HCCL runs on, has no `PREMUL_SUM`",
        },
    ),
)
