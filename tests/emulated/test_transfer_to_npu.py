"""CUDA -> NPU on the emulated device: programs that say CUDA, what stays, and that everything is put back."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import types
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from running import INSTALL, ON_CANN, OPTION, output_of, without_note
from torch import Tensor, nn

import patchcore as pc
from torch_npu_patches import wrapping
from torch_npu_patches.transfer_to_npu import TRANSFER_TO_NPU, audit, without_counterpart
from torch_npu_patches.transfer_to_npu.groups import COMPILE, FACTORY, TENSOR
from torch_npu_patches.wrapping import innermost

#: Namespaces that are compared attribute by attribute, with all modules below them that are loaded.
COMPARED = ("torch.cuda", "torch.distributed", "torch.amp", "torch.nn", "torch.jit", "torch.profiler", "torch.storage")


def make_layer() -> pc.Patcher:
    return pc.Patcher([wrapping.COMPILE, *TRANSFER_TO_NPU], strict=True, enable="torch.transfer_to_npu.apex")


@pytest.fixture(scope="module")
def kept() -> Iterator[list[pc.Patcher]]:
    """The layer, as long as tests that use it follow each other: to apply it takes longer than most of them."""
    kept: list[pc.Patcher] = []
    yield kept
    while kept:
        kept.pop().revert()


@pytest.fixture(autouse=True)
def layer_is_gone(kept: list[pc.Patcher], request: pytest.FixtureRequest) -> None:
    """Revert the layer that other tests share before a test that does not."""
    while kept and "layer" not in request.fixturenames:
        kept.pop().revert()


@pytest.fixture
def layer(kept: list[pc.Patcher]) -> Iterator[pc.Patcher]:
    """The layer in force, which the test leaves so."""
    if not kept:
        kept.append(make_layer())
        kept[0].apply()
    audit.clear()
    yield kept[0]
    audit.clear()


@pytest.fixture
def own_layer() -> Iterator[pc.Patcher]:
    """The layer in force after the other fixtures of the test, which may revert it."""
    audit.clear()
    with make_layer() as patcher:
        yield patcher
    audit.clear()


def on_npu(value: Any, index: int | None = None) -> bool:
    return value.device.type == "npu" and index in (None, value.device.index)


def state() -> dict[tuple[str, str], Any]:
    """Everything that torch's namespaces and the classes in them hold, by owner and name."""
    modules = [
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, types.ModuleType) and (name in ("torch", "torch._C") or name.startswith(COMPARED))
    ]
    classes = {value for module in modules for value in vars(module).values() if isinstance(value, type)}
    owners = [*modules, *(cls for cls in classes if cls.__module__.partition(".")[0] in ("torch", "torch_npu"))]
    ignored = ("__warningregistry__", "__slotnames__")
    return {
        (f"{getattr(owner, '__module__', '')}.{owner.__name__} {id(owner)}", key): value
        for owner in owners
        for key, value in list(vars(owner).items())
        if key not in ignored
    }


class TestRevert:
    def test_every_attribute_is_the_object_it_was(self) -> None:
        before = state()
        with pc.Patcher(TRANSFER_TO_NPU, strict=True) as patcher:
            written = state()
            changed = {place for place in written if written[place] is not before.get(place, patcher)}
            assert len(changed) > 150
        after = state()
        assert after.keys() == before.keys()
        assert [place for place in before if after[place] is not before[place]] == []
        assert patcher.report().notes == ()

    def test_device_contexts_and_scripting_work_afterwards(self, make_script: Callable[[str], Any]) -> None:
        with pc.Patcher(TRANSFER_TO_NPU, strict=True), torch.device("cuda"):
            assert on_npu(torch.zeros(2))
        with torch.device("meta"):
            assert torch.zeros(2).device.type == "meta"
        module = make_script("""
            @torch.jit.script
            def f(x):
                return x + torch.zeros(2)
        """)
        assert module.f(torch.ones(2)).tolist() == [1, 1]

    def test_groups_apply_alone(self) -> None:
        for patch in TRANSFER_TO_NPU:
            with pc.Patcher([patch], strict=True) as patcher:
                assert patcher.report()[patch.name].status in ("applied", "pending", "skipped")

    def test_a_group_that_is_switched_off_leaves_its_functions(self) -> None:
        original = torch.load
        with pc.Patcher(TRANSFER_TO_NPU, disable="torch.transfer_to_npu.load", strict=True):
            assert torch.load is original
            assert torch.cuda.is_available()


@pytest.fixture
def make_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """A function that imports a module from source, which TorchScript has to be able to read."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(source: str) -> Any:
        (tmp_path / "scripted_for_test.py").write_text(f"import torch\n{textwrap.dedent(source)}")
        importlib.invalidate_caches()
        return importlib.import_module("scripted_for_test")

    yield make
    sys.modules.pop("scripted_for_test", None)


class TestDevices:
    @pytest.mark.parametrize("device", ["cuda", "cuda:0", torch.device("cuda"), torch.device("cuda:0")], ids=repr)
    def test_factories(self, device: Any, layer: pc.Patcher) -> None:
        assert on_npu(torch.zeros(2, device=device), 0)
        assert on_npu(torch.full_like(torch.zeros(2), 1, device=device), 0)
        assert on_npu(torch.tensor([1.0], device=device), 0)
        assert on_npu(torch.fft.rfftfreq(4, device=device), 0)
        assert on_npu(torch.zeros(2).new_zeros(2, device=device), 0)
        assert on_npu(torch.as_tensor([1.0], device=device), 0)

    def test_other_devices_stay(self, layer: pc.Patcher) -> None:
        assert torch.zeros(2).device.type == "cpu"
        assert torch.zeros(2, device="cpu").device.type == "cpu"
        assert torch.zeros(2, device="meta").device.type == "meta"
        assert audit.sites() == []

    def test_numbers(self, layer: pc.Patcher) -> None:
        assert on_npu(torch.zeros(2, device=1), 1)
        assert on_npu(nn.Linear(2, 2, device=1).weight, 1)
        assert on_npu(torch.ones(2).to(1), 1)
        assert on_npu(torch.Generator(1), 1)

    def test_to(self, layer: pc.Patcher) -> None:
        x = torch.ones(2)
        assert on_npu(x.to("cuda:1"), 1)
        assert on_npu(x.to(torch.device("cuda")), 0)
        assert on_npu(x.to(device="cuda", dtype=torch.float16))
        assert on_npu(x.to(1), 1)
        assert x.to(torch.float64).dtype == torch.float64
        assert on_npu(x.to(torch.ones(1, device="cuda")))

    def test_cuda(self, layer: pc.Patcher) -> None:
        x = torch.ones(2)
        assert on_npu(x.cuda(), 0)
        assert on_npu(x.cuda(1), 1)
        assert on_npu(x.cuda("cuda:1", non_blocking=True), 1)
        assert on_npu(x.cuda(torch.device("npu", 1)), 1)
        assert (x.is_cuda, x.cuda().is_cuda) == (False, True)
        with pytest.raises(ValueError, match=r"expected a CUDA device or an NPU, found 'cpu'; write .to\('cpu'\)"):
            x.cuda("cpu")

    def test_modules(self, layer: pc.Patcher) -> None:
        assert on_npu(nn.Linear(2, 2).cuda().weight)
        assert on_npu(nn.Linear(2, 2).cuda(1).weight, 1)
        assert on_npu(nn.Linear(2, 2).to("cuda").weight)
        assert on_npu(nn.Linear(2, 2).to(torch.device("cuda"), torch.float16).weight)
        assert on_npu(nn.Linear(2, 2, device="cuda").weight)
        assert on_npu(nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight)

    def test_lazy_modules(self, layer: pc.Patcher) -> None:
        x = torch.ones(1, 2, device="cuda")
        assert on_npu(nn.LazyLinear(3).to("cuda")(x))
        assert on_npu(nn.LazyLinear(3).cuda()(x))

    def test_default_devices(self, layer: pc.Patcher) -> None:
        with torch.device("cuda:1"):
            assert on_npu(torch.zeros(2), 1)
            assert on_npu(nn.Linear(2, 2).weight, 1)
        torch.set_default_device("cuda")
        try:
            assert on_npu(torch.zeros(2))
        finally:
            torch.set_default_device(None)

    def test_generator(self, layer: pc.Patcher) -> None:
        assert on_npu(torch.Generator("cuda"))
        assert on_npu(torch.Generator(device="cuda:1"), 1)
        assert torch.Generator().device.type == "cpu"
        assert isinstance(torch.Generator(), torch.Generator)

        class Own(torch.Generator):
            pass

        assert type(Own("cuda")) is Own
        assert on_npu(Own("cuda"))
        assert on_npu(Own(device="cuda:1"), 1)
        a = torch.rand(3, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
        b = torch.rand(3, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
        assert torch.equal(a, b)

    def test_event_and_stream(self, layer: pc.Patcher) -> None:
        assert isinstance(torch.Event("cuda"), torch.Event)
        assert torch.Stream(device="cuda").device.type == "npu"
        assert isinstance(torch.npu.current_stream(), torch.Stream)
        assert isinstance(torch.npu.current_stream(), torch.cuda.Stream)

    def test_storages(self, layer: pc.Patcher) -> None:
        assert on_npu(torch.UntypedStorage(4, device="cuda"))
        assert torch.UntypedStorage(4).cuda().is_cuda
        assert not torch.UntypedStorage(4).is_cuda
        assert torch.ones(2).cuda().untyped_storage().is_cuda

    def test_packed_sequences(self, layer: pc.Patcher) -> None:
        packed = nn.utils.rnn.pack_sequence([torch.ones(2, 1)])
        assert on_npu(packed.cuda().data)
        assert on_npu(packed.cuda(1).data, 1)
        assert packed.to("cuda").is_cuda

    def test_tensor_types(self, layer: pc.Patcher) -> None:
        x = torch.ones(2).type("torch.cuda.FloatTensor")
        assert on_npu(x)
        assert isinstance(x, torch.cuda.FloatTensor)
        assert torch.cuda.FloatTensor is torch.npu.FloatTensor
        assert torch.ones(2).type(torch.float64).dtype == torch.float64

    def test_default_tensor_type(self, layer: pc.Patcher) -> None:
        try:
            torch.set_default_tensor_type("torch.cuda.HalfTensor")
            assert on_npu(torch.tensor([1.5]))
            assert torch.ones(2).dtype == torch.float16
            torch.set_default_tensor_type(torch.cuda.FloatTensor)
            assert torch.ones(2).dtype == torch.float32
        finally:
            torch.set_default_tensor_type(torch.FloatTensor)
        assert (torch.ones(2).device.type, torch.ones(2).dtype) == ("cpu", torch.float32)

    def test_data_loader(self, layer: pc.Patcher) -> None:
        data = torch.utils.data.TensorDataset(torch.arange(4.0))
        loader = torch.utils.data.DataLoader(data, batch_size=2, pin_memory_device="cuda")
        assert [on_npu(batch.cuda(non_blocking=True)) for (batch,) in loader] == [True, True]


class TestNamespace:
    def test_points_at_torch_npu(self, layer: pc.Patcher) -> None:
        assert innermost(torch.cuda.synchronize) is torch.npu.synchronize
        assert torch.cuda.is_available() is True
        assert torch.cuda.device_count() == torch.npu.device_count()
        assert torch.cuda.get_device_name("cuda:0") == torch.npu.get_device_name(0)
        assert torch.get_device_module("cuda") is torch.cuda  # whose functions take CUDA devices, too

    def test_submodules_that_define_the_names(self, layer: pc.Patcher) -> None:
        assert torch.cuda.memory.memory_allocated is torch.cuda.memory_allocated
        assert torch.cuda.random.manual_seed_all is torch.cuda.manual_seed_all
        assert innermost(torch.cuda.manual_seed_all) is torch.npu.manual_seed_all

    def test_current_device(self, layer: pc.Patcher) -> None:
        torch.cuda.set_device("cuda:1")
        assert torch.npu.current_device() == 1
        with torch.cuda.device("cuda:0"):
            assert torch.npu.current_device() == 0
        torch.cuda.set_device(torch.device("cuda", 0))
        torch.cuda.synchronize("cuda")
        assert torch.npu.current_device() == 0

    def test_random_state(self, layer: pc.Patcher) -> None:
        torch.cuda.manual_seed_all(3)
        before = torch.cuda.get_rng_state("cuda")
        drawn = torch.rand(3, device="cuda")
        torch.cuda.set_rng_state(before, "cuda:0")
        assert torch.equal(drawn, torch.rand(3, device="cuda"))
        with torch.random.fork_rng():
            torch.rand(3, device="cuda")

    def test_memory(self, layer: pc.Patcher) -> None:
        before = torch.cuda.memory_allocated("cuda:0")
        kept = torch.ones(1 << 16, device="cuda")
        assert torch.cuda.memory_allocated(torch.device("cuda:0")) > before
        assert kept.is_cuda

    def test_capability_is_never_none(self, layer: pc.Patcher) -> None:
        major, minor = torch.cuda.get_device_capability("cuda:0")
        assert (major, minor) == (torch.npu.get_device_capability() or (0, 0))
        assert torch.cuda.is_bf16_supported(including_emulation=False) == torch.npu.is_bf16_supported()

    def test_properties_have_the_numbers_that_programs_compare(self, layer: pc.Patcher) -> None:
        properties = torch.cuda.get_device_properties("cuda:0")
        npu = torch.npu.get_device_properties(0)
        assert (properties.major, properties.minor) == (0, 0)
        assert properties.multi_processor_count == npu.vector_core_num
        assert (properties.name, properties.total_memory) == (npu.name, npu.total_memory)

    def test_default_generators(self, layer: pc.Patcher) -> None:
        assert len(torch.cuda.default_generators) == torch.npu.device_count()
        torch.cuda.default_generators[1].manual_seed(5)
        assert torch.npu.initial_seed() != 5
        with torch.npu.device(1):
            assert torch.npu.initial_seed() == 5

    def test_accelerator(self, layer: pc.Patcher) -> None:
        torch.accelerator.set_device_index("cuda:1")
        assert torch.npu.current_device() == 1
        torch.accelerator.set_device_index(torch.device("cuda", 0))
        torch.accelerator.synchronize("cuda")
        kept = torch.ones(1 << 10, device="cuda:0")
        assert torch.accelerator.memory_allocated("cuda:0") == torch.npu.memory_allocated(0) >= kept.nbytes

    def test_names_without_counterpart_stay_and_are_listed(self) -> None:
        names = without_counterpart()
        before = {name: getattr(torch.cuda, name) for name in names}
        assert "cudart" in names
        assert not {"is_available", "Stream", "get_device_capability", "amp"} & set(names)
        with pc.Patcher(TRANSFER_TO_NPU, strict=True) as patcher:
            assert all(getattr(torch.cuda, name) is before[name] for name in names)
            changes = patcher.report()["torch.transfer_to_npu.namespace"].changes
        left = [change for change in changes if change.status == "skipped"]
        assert left
        assert all("does not exist: what torch has stays" in change.reason for change in left)


class TestMixedPrecision:
    @pytest.mark.parametrize("clone", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
    def test_contexts_are_copied(self, clone: Callable[[Any], Any], layer: pc.Patcher) -> None:
        for context in (torch.autocast("cuda", torch.bfloat16), torch.cuda.amp.autocast(dtype=torch.bfloat16)):
            with clone(context):
                assert (
                    torch.mm(torch.ones(2, 2, device="cuda"), torch.ones(2, 2, device="cuda")).dtype == torch.bfloat16
                )

    @pytest.mark.parametrize(
        "make",
        [
            lambda: torch.cuda.amp.autocast(),
            lambda: torch.autocast("cuda"),
            lambda: torch.amp.autocast(device_type="cuda", dtype=torch.float16),
        ],
        ids=["torch.cuda.amp", "torch", "torch.amp"],
    )
    @pytest.mark.filterwarnings("ignore:.*torch.cuda.amp.*:FutureWarning")
    def test_autocast(self, make: Callable[[], Any], layer: pc.Patcher) -> None:
        x = torch.ones(2, 2, device="cuda")
        assert not torch.is_autocast_enabled()
        with make():
            assert torch.is_autocast_enabled()
            assert torch.is_autocast_enabled("cuda")
            assert torch.get_autocast_gpu_dtype() == torch.get_autocast_dtype("cuda") == torch.float16
            assert torch.mm(x, x).dtype == torch.float16
        assert torch.mm(x, x).dtype == torch.float32
        assert not torch.is_autocast_enabled("cpu")

    @pytest.mark.filterwarnings("ignore:.*torch.cuda.amp.*:FutureWarning")
    def test_scaler_defaults_to_the_npu(self, layer: pc.Patcher) -> None:
        for scaler in (torch.amp.GradScaler(), torch.amp.GradScaler("cuda"), torch.cuda.amp.GradScaler()):
            assert scaler._device == "npu"
            assert scaler.is_enabled()

    @pytest.mark.filterwarnings("ignore:.*torch.cuda.amp.*:FutureWarning")
    def test_custom_functions(self, layer: pc.Patcher) -> None:
        class Double(torch.autograd.Function):
            @staticmethod
            @torch.cuda.amp.custom_fwd(cast_inputs=torch.float32)
            def forward(ctx: Any, x: Tensor) -> Tensor:
                return x * 2

            @staticmethod
            @torch.cuda.amp.custom_bwd
            def backward(ctx: Any, gradient: Tensor) -> Tensor:
                return gradient * 2

        x = torch.ones(2, device="cuda", dtype=torch.float16, requires_grad=True)
        with torch.autocast("cuda"):
            y = Double.apply(x)
        y.sum().backward()
        assert y.dtype == torch.float32
        assert x.grad.tolist() == [2, 2]

    @pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
    def test_apex(self, level: str, layer: pc.Patcher) -> None:
        from apex import amp

        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        model, optimizer = amp.initialize(model, optimizer, opt_level=level)
        before = copy.deepcopy(model.state_dict())
        x = torch.ones(2, 4, device="cuda")
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = (model(x).float() - 1).pow(2).mean()
            with amp.scale_loss(loss, optimizer) as scaled:
                scaled.backward()
            nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0]
        dtypes = {parameter.dtype for parameter in model.parameters()}
        assert dtypes == {torch.float16 if level == "O3" else torch.float32}
        assert any(not torch.equal(before[name], value) for name, value in model.state_dict().items())

    @pytest.mark.filterwarnings("ignore:.*torch.cuda.amp.*:FutureWarning")
    def test_an_unmodified_training_loop(self, layer: pc.Patcher) -> None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
        model = model.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        scaler = torch.cuda.amp.GradScaler()
        x, y = torch.randn(8, 1, 8, 8), torch.arange(8) % 2
        losses = []
        for _ in range(8):
            optimizer.zero_grad()
            with torch.cuda.amp.autocast():
                loss = nn.functional.cross_entropy(model(x.cuda(non_blocking=True)), y.to(device))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        assert losses[-1] < losses[0] / 2
        assert all(on_npu(parameter) for parameter in model.parameters())


class TestLoad:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        folder = tmp_path / "cuda:0_cuda_ckpts"
        folder.mkdir()
        path = folder / "cuda"
        torch.save({"cuda": torch.ones(2), "weight": torch.ones(2, device="npu")}, path)
        return path

    def test_locations(self, file: Path, own_layer: pc.Patcher) -> None:
        assert torch.load(str(file))["cuda"].device.type == "cpu"
        assert on_npu(torch.load(str(file), "cuda")["cuda"])
        assert on_npu(torch.load(file, map_location=torch.device("cuda:1"))["cuda"], 1)
        assert on_npu(torch.load(file, map_location={"cuda:0": "cuda:1"})["weight"], 1)
        assert on_npu(torch.load(file, map_location=lambda storage, _: storage.cuda(1))["cuda"], 1)
        assert torch.load(file, map_location="cpu")["weight"].device.type == "cpu"

    def test_file_written_on_a_gpu(self, layer: pc.Patcher) -> None:
        file = written_on_a_gpu(torch.arange(3.0))
        assert torch.load(file).tolist() == [0, 1, 2]
        for location, index in ((None, 0), ("cuda:1", 1), ({"cuda:0": "cuda:1"}, 1)):
            file.seek(0)
            assert on_npu(torch.load(file, map_location=location), index)

    def test_scripted_module(self, layer: pc.Patcher) -> None:
        file = io.BytesIO()
        torch.jit.save(torch.jit.script(nn.Linear(2, 2)), file)
        file.seek(0)
        assert on_npu(torch.jit.load(file, "cuda:1").weight, 1)


def written_on_a_gpu(tensor: Tensor) -> io.BytesIO:
    """What ``torch.save`` writes for ``tensor`` on ``cuda:0``."""
    saved = io.BytesIO()
    torch.save(tensor.npu(), saved)
    made = io.BytesIO()
    writer = torch._C.PyTorchFileWriter(made)
    archive = zipfile.ZipFile(saved)
    for name in archive.namelist():
        content, record = archive.read(name), name.partition("/")[2]
        if record == "data.pkl":
            # pickled texts carry their length
            content = content.replace(b"X\x05\x00\x00\x00npu:0", b"X\x06\x00\x00\x00cuda:0")
        if record != "version" and not record.startswith(".data"):
            writer.write_record(record, content, len(content))
    writer.write_end_of_file()
    assert b"cuda:0" in made.getvalue()
    made.seek(0)
    return made


class TestDistributed:
    @pytest.fixture(autouse=True)
    def one_rank(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
        for name, value in (("RANK", "0"), ("WORLD_SIZE", "1")):
            monkeypatch.setenv(name, value)
        yield f"file://{tmp_path}/cuda:nccl"
        if dist.is_initialized():
            dist.destroy_process_group()

    def test_nccl_is_hccl_and_answers_what_was_asked_for(self, one_rank: str, own_layer: pc.Patcher) -> None:
        dist.init_process_group("nccl", init_method=one_rank, rank=0, world_size=1)
        assert dist.is_nccl_available()
        assert dist.get_backend() == "nccl"
        assert dist.get_backend(dist.new_group([0])) == "nccl"
        assert dist.get_backend(dist.new_group([0], backend="gloo")) == "gloo"
        told_to_torch: dict[str, Any] = {"__name__": "torch.distributed.some_module", "get_backend": dist.get_backend}
        exec("def ask():\n    return get_backend()", told_to_torch)
        assert told_to_torch["ask"]() == "hccl"
        world = dist.group.WORLD
        assert world is not None
        assert world._get_backend(torch.device("cuda")).name() == world._get_backend(torch.device("npu")).name()
        x = torch.ones(2, device="cuda")
        dist.all_reduce(x)
        assert x.tolist() == [1, 1]
        gathered: list[Any] = [None]
        dist.all_gather_object(gathered, {"cuda": "nccl"})
        assert gathered == [{"cuda": "nccl"}]
        listed = ["cuda"]
        dist.broadcast_object_list(listed, src=0, device=torch.device("cuda"))
        assert listed == ["cuda"]

    def test_hccl_answers_hccl(self, one_rank: str, own_layer: pc.Patcher) -> None:
        dist.init_process_group("hccl", init_method=one_rank, rank=0, world_size=1)
        assert dist.get_backend() == "hccl"

    def test_backends_by_device(self, one_rank: str, own_layer: pc.Patcher) -> None:
        dist.init_process_group("cpu:gloo,cuda:nccl", init_method=one_rank, rank=0, world_size=1)
        assert dist.get_backend() == "cpu:gloo,cuda:nccl"
        for device in ("cpu", "cuda"):
            x = torch.ones(2, device=device)
            dist.all_reduce(x)
            assert x.tolist() == [1, 1]

    def test_truth_after_revert(self, one_rank: str, own_layer: pc.Patcher) -> None:
        dist.init_process_group("nccl", init_method=one_rank, rank=0, world_size=1)
        own_layer.revert()
        assert dist.get_backend() == "hccl"

    @pytest.mark.parametrize("devices", [[0], ["cuda:0"], [torch.device("cuda:0")], None], ids=repr)
    def test_data_parallel(self, devices: Any, one_rank: str, own_layer: pc.Patcher) -> None:
        dist.init_process_group("nccl", init_method=one_rank, rank=0, world_size=1)
        output = None if devices is None else devices[0]
        model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2).cuda(), device_ids=devices, output_device=output)
        model(torch.ones(1, 2, device="cuda")).sum().backward()
        assert on_npu(model.module.weight.grad)

    @pytest.mark.parametrize("devices", [[0], ["cuda:0"], [0, 1], [0, 1, 2], None], ids=repr)
    def test_data_parallel_trains(self, devices: Any, own_layer: pc.Patcher) -> None:
        module = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).cuda()
        inputs = torch.randn(11, 4)
        expected = module(inputs.cuda())
        expected.square().sum().backward()
        gradients = [parameter.grad.clone() for parameter in module.parameters()]
        module.zero_grad()
        model = nn.DataParallel(module, device_ids=devices)
        for given in (inputs, inputs.cuda()):
            result = model(given)
            assert on_npu(result, 0)
            torch.testing.assert_close(result, expected)
        result.square().sum().backward()
        torch.testing.assert_close([parameter.grad for parameter in module.parameters()], gradients)

    @pytest.mark.filterwarnings("error")
    def test_what_data_parallel_is_made_of(self, layer: pc.Patcher) -> None:
        from torch.cuda import comm

        x = torch.arange(5.0)
        parts = comm.scatter(x.cuda(), ["cuda:0", 1])
        assert [part.tolist() for part in parts] == [[0, 1, 2], [3, 4]]
        assert on_npu(comm.gather(parts), 0)
        copies = comm.broadcast(x.cuda(), [0, 1])
        assert [on_npu(copy, index) for index, copy in enumerate(copies)] == [True, True]
        assert [
            [each.item() for each in one] for one in comm.broadcast_coalesced([x[:1].cuda(), x[4:].cuda()], [0, 1])
        ] == [
            [0, 4],
            [0, 4],
        ]
        assert comm.reduce_add(copies, 1).tolist() == [0, 2, 4, 6, 8]
        assert comm.reduce_add_coalesced([[copies[0]], [copies[1]]], 0)[0].tolist() == [0, 2, 4, 6, 8]
        replicas = nn.parallel.replicate(nn.Linear(2, 2).cuda(), [0, 1])
        assert [on_npu(replica.weight, index) for index, replica in enumerate(replicas)] == [True, True]
        pieces = nn.parallel.parallel_apply(replicas, [torch.ones(1, 2).cuda(0), torch.ones(1, 2).cuda(1)])
        assert nn.parallel.gather(pieces, 0).shape == (2, 2)

    @pytest.mark.filterwarnings("error")
    def test_nccl_between_the_devices_of_one_process(self, layer: pc.Patcher) -> None:
        from torch.cuda import nccl

        def pair() -> list[torch.Tensor]:
            return [torch.tensor([1.0, 2.0]).cuda(0), torch.tensor([3.0, 5.0]).cuda(1)]

        assert nccl.version() == (0, 0, 0)
        assert nccl.is_available(pair())
        tensors = pair()
        nccl.all_reduce(tensors)
        assert [each.tolist() for each in tensors] == [[4, 7], [4, 7]]
        tensors = pair()
        nccl.reduce(tensors, root=1, output=tensors[1])
        assert [each.tolist() for each in tensors] == [[1, 2], [4, 7]]
        tensors = pair()
        nccl.broadcast(tensors, root=1)
        assert [each.tolist() for each in tensors] == [[3, 5], [3, 5]]
        gathered = [torch.empty(4).cuda(0), torch.empty(4).cuda(1)]
        nccl.all_gather(pair(), gathered)
        assert [each.tolist() for each in gathered] == [[1, 2, 3, 5]] * 2
        scattered = [torch.empty(1).cuda(0), torch.empty(1).cuda(1)]
        nccl.reduce_scatter(pair(), scattered)
        assert [each.tolist() for each in scattered] == [[4], [7]]

    def test_device_mesh(self, one_rank: str, own_layer: pc.Patcher) -> None:
        device = torch.device("cuda:0")
        dist.init_process_group("nccl", init_method=one_rank, rank=0, world_size=1, device_id=device)
        assert dist.init_device_mesh("cuda", (1,)).device_type == "npu"

    @pytest.mark.filterwarnings("ignore::FutureWarning")
    def test_fully_sharded(self, one_rank: str, own_layer: pc.Patcher) -> None:
        from torch.distributed.fsdp import FullyShardedDataParallel

        dist.init_process_group("nccl", init_method=one_rank, rank=0, world_size=1)
        assert own_layer.report()["torch.transfer_to_npu.fsdp"].status == "applied"
        model = FullyShardedDataParallel(nn.Linear(2, 2), device_id=torch.device("cuda:0"))
        assert all(on_npu(parameter, 0) for parameter in model.parameters())
        assert {site.before for site in audit.sites("torch.transfer_to_npu.fsdp")} == {"cuda:0"}


class TestScripting:
    def test_functions_and_modules_are_scripted(self, layer: pc.Patcher, make_script: Callable[[str], Any]) -> None:
        module = make_script("""
            @torch.jit.script
            def add(x):
                return x + torch.zeros(2) + torch.full([2], 1.0)

            @torch.jit.script
            def where(x):
                return torch.zeros(2) if x.is_cuda else torch.ones(2, dtype=x.dtype)

            class Model(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.linear = torch.nn.Linear(2, 2)

                def forward(self, x):
                    return self.linear(x) + torch.zeros_like(x)
        """)
        assert isinstance(module.add, torch.jit.ScriptFunction)
        assert "aten::zeros" in str(module.add.graph)
        assert module.add(torch.ones(2)).tolist() == [2, 2]
        assert module.where(torch.ones(2)).tolist() == [1, 1]
        model = torch.jit.script(module.Model().cuda())
        assert isinstance(model, torch.jit.ScriptModule)
        assert on_npu(model(torch.ones(1, 2, device="cuda")))

    @pytest.mark.parametrize(
        "expression",
        [
            "torch.zeros(2, device='cuda')",
            "torch.zeros(2, device=torch.device('cuda:1'))",
            "torch.zeros_like(x, device='cuda')",
            "x.to('cuda')",
            "x.cuda()",
        ],
    )
    def test_devices_in_scripts(self, expression: str, layer: pc.Patcher, make_script: Callable[[str], Any]) -> None:
        source = f"@torch.jit.script\ndef f(x):\n    return {expression}"
        assert on_npu(make_script(source).f(torch.ones(2)))

    def test_is_cuda_in_scripts(self, layer: pc.Patcher, make_script: Callable[[str], Any]) -> None:
        module = make_script("""
            @torch.jit.script
            def f(x, y: int = 2):
                # type: (Tensor, int) -> Tuple[bool, bool]
                return x.sum().is_cuda, not x.is_cuda
        """)
        assert module.f(torch.ones(2, device="cuda")) == (True, False)
        assert module.f(torch.ones(2)) == (False, True)

    def test_trace(self, layer: pc.Patcher) -> None:
        x = torch.ones(2, device="cuda")
        traced = torch.jit.trace(lambda x: x + torch.ones(2, device="cuda"), x)
        assert traced(x).tolist() == [2, 2]
        assert on_npu(traced(x))


def step(x: Tensor) -> Tensor:
    y = torch.zeros(2, device="cuda") + x.to("cuda")
    if x.is_cuda:
        return y + 1
    return y + torch.ones(2).cuda() + 5


def under_autocast(x: Tensor) -> Tensor:
    with torch.autocast("cuda", dtype=torch.float16):
        return torch.mm(x, x)


def run_emulated(folder: Path, *command: str) -> str:
    """Return what a program in ``folder`` prints in a run of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "patchcore", "run", OPTION, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return without_note(done.stdout)


class TestCompile:
    @pytest.fixture(autouse=True)
    def afresh(self) -> Iterator[None]:
        torch.compiler.reset()
        yield
        torch.compiler.reset()

    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    @pytest.mark.parametrize("device", ["cpu", "npu"])
    def test_no_graph_break(self, backend: str, device: str, layer: pc.Patcher) -> None:
        x = torch.ones(2, device=device)
        compiled = torch.compile(step, backend=backend, fullgraph=True)(x)
        assert on_npu(compiled)
        assert torch.equal(compiled, step(x))
        assert layer.report()[COMPILE.name].status == "applied"

    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    def test_autocast(self, backend: str, layer: pc.Patcher) -> None:
        x = torch.ones(2, 2, device="cuda")
        assert torch.compile(under_autocast, backend=backend, fullgraph=True)(x).dtype == torch.float16

    def test_properties_are_constants(self, tmp_path: Path) -> None:
        (tmp_path / "ask.py").write_text(
            "import torch\n"
            "def f(x):\n"
            "    return x if torch.cuda.get_device_properties(x.device).major >= 7 else x * 2\n"
            "compiled = torch.compile(f, backend='eager', fullgraph=True)\n"
            "print(compiled(torch.ones(1, device='cuda')).tolist())\n"
        )
        assert run_emulated(tmp_path, "ask.py") == "[2.0]\n"

    def test_the_kind_of_gpu_is_the_npu(self, layer: pc.Patcher) -> None:
        inductor = importlib.import_module("torch._inductor.utils")
        assert inductor.get_gpu_type() == "npu"

    @pytest.mark.skipif(ON_CANN, reason="torch_npu has a has_triton of its own, which needs the whole of triton")
    def test_triton_is_for_no_device_that_stands_in_for_cuda(self, tmp_path: Path) -> None:
        """torch asks what CUDA's compute capability is as soon as a package of this name can be imported."""
        (tmp_path / "triton").mkdir()
        (tmp_path / "triton" / "__init__.py").write_text('__version__ = "3.7.1"\n')
        (tmp_path / "ask.py").write_text(
            "import torch\n"
            "from torch.utils._triton import has_triton, has_triton_package\n"
            "print(torch.cuda.is_available(), has_triton_package(), has_triton())\n"
        )
        assert run_emulated(tmp_path, "ask.py") == "True True False\n"

    @pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
    @pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
    def test_with_triton_installed_a_program_on_the_cpu_compiles(self, backend: str, tmp_path: Path) -> None:
        if backend == "inductor" and " " in torch.__file__:
            pytest.skip("inductor of torch 2.13.0 gives the linker the folder of torch without quotes")
        (tmp_path / "compile.py").write_text(
            "import sys, torch\n"
            "from torch._dynamo.device_interface import CudaInterface\n"
            "assert torch.cuda.is_available() and not CudaInterface.is_triton_capable()\n"
            "print(torch.compile(lambda x: x * 2 + 1, backend=sys.argv[1], fullgraph=True)(torch.ones(2)).tolist())\n"
        )
        assert run_emulated(tmp_path, "compile.py", backend) == "[3.0, 3.0]\n"


class TestOthers:
    def test_tensors_are_pickled_and_copied(self, layer: pc.Patcher) -> None:
        x = torch.ones(2, device="cuda")
        for copied in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
            assert on_npu(copied)
            assert torch.equal(copied, x)

    def test_profiler(self, layer: pc.Patcher) -> None:
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
            torch.ones(2).cuda()
            profiler.step()
        import torch_npu

        assert isinstance(profiler, torch_npu.profiler.profile)
        assert isinstance(profiler, torch.profiler.profile)

    def test_fake_tensors_and_vmap(self, layer: pc.Patcher) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            assert on_npu(torch.ones(2, device="cuda").to("cuda"))
        doubled = torch.vmap(lambda row: row.cuda() + torch.ones(2, device="cuda"))(torch.ones(3, 2))
        assert on_npu(doubled)


class TestAudit:
    def test_call_sites(self, layer: pc.Patcher) -> None:
        line = sys._getframe().f_lineno
        for _ in range(3):
            nn.Linear(2, 2, device="cuda")
        torch.ones(2).cuda()
        found = [
            (site.line - line, site.place.group, site.before, site.after, site.count)
            for site in audit.sites()
            if os.path.samefile(site.file, __file__)
        ]
        assert found == [(2, FACTORY.name, "cuda", "npu", 6), (3, TENSOR.name, "None", "npu", 1)]

    def test_every_kind_of_request(self, layer: pc.Patcher) -> None:
        line = sys._getframe().f_lineno
        torch.cuda.is_available()
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        torch.cuda.set_device(0)
        torch.ones(2).to(0)
        torch.zeros(2, device=0)
        torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize("cuda:0")
        nn.Linear(2, 2, device=1)
        with torch.cuda.stream(stream), torch.cuda.device(1):
            pass
        torch.is_autocast_enabled()
        found = [(site.line - line, site.call, site.after, site.kind, site.count) for site in audit.sites()]
        assert found == [
            (1, "torch.cuda.is_available()", "True", "call", 1),
            (2, "torch.cuda.Stream()", "torch.npu.Stream", "call", 1),
            (3, "torch.cuda.synchronize()", "torch.npu.synchronize", "call", 1),
            (4, "torch.cuda.set_device(device=0)", "npu:0", "call", 1),
            (5, "torch.Tensor.to(device=0)", "npu:0", "number", 1),
            (6, "torch.zeros(device=0)", "npu:0", "number", 1),
            (7, "torch.cuda.Event()", "torch.npu.Event", "call", 1),
            (8, "torch.cuda.synchronize(device=cuda:0)", "npu:0", "call", 1),
            (9, "torch.empty(device=1)", "npu:1", "number", 2),
            (10, "torch.cuda.device(device=1)", "npu:1", "call", 1),
            (10, "torch.cuda.stream()", "torch.npu.stream", "call", 1),
            (12, "torch.is_autocast_enabled()", "npu", "call", 1),
        ]

    def test_requests_without_a_call_of_torch_cuda(self, layer: pc.Patcher) -> None:
        x = torch.ones(2)
        line = sys._getframe().f_lineno
        _ = x.is_cuda
        _ = x.cuda().untyped_storage().is_cuda
        x.type("torch.cuda.FloatTensor")
        nn.Sequential(nn.ReLU(), nn.Flatten()).cuda()
        model = nn.Linear(2, 2).cuda()
        nn.DataParallel(model)(torch.ones(4, 2, device="npu"))
        nn.DataParallel(model, [0, 1])
        torch.distributed.is_nccl_available()
        _ = nn.utils.rnn.pack_sequence([x]).is_cuda
        found = [(site.line - line, site.call, site.after, site.kind, site.count) for site in audit.sites()]
        assert found == [
            (1, "torch.Tensor.is_cuda", "False", "is_cuda", 1),
            (2, "torch.Tensor.cuda(device=None)", "npu", "argument", 1),
            (2, "torch.UntypedStorage.is_cuda", "True", "is_cuda", 1),
            (3, "torch.Tensor.type(dtype=torch.cuda.FloatTensor)", "torch.npu.FloatTensor", "argument", 1),
            (4, "torch.nn.Module.cuda(device=None)", "npu", "argument", 1),
            (5, "torch.Tensor.cuda(device=None)", "npu", "argument", 2),
            (6, "torch.nn.DataParallel()", "npu", "call", 1),
            (7, "torch.nn.DataParallel(device_ids=[0, 1])", "npu:0, npu:1", "call", 1),
            (8, "torch.distributed.is_nccl_available()", "True", "call", 1),
            (9, "torch.nn.utils.rnn.PackedSequence.is_cuda", "False", "is_cuda", 1),
        ]

    def test_copies_between_devices(self, layer: pc.Patcher) -> None:
        from torch.cuda import comm, nccl

        x = torch.ones(4, device="npu")
        line = sys._getframe().f_lineno
        comm.broadcast(x, [0, 1])
        comm.scatter(x, [0, 1])
        nccl.version()
        nccl.is_available([x])
        nn.parallel.replicate(nn.Linear(2, 2, device="npu"), [0, 1])
        found = [(site.line - line, site.call, site.after, site.kind) for site in audit.sites()]
        assert found == [
            (1, "torch.nn.parallel.comm.broadcast()", "npu", "call"),
            (2, "torch.nn.parallel.comm.scatter()", "npu", "call"),
            (3, "torch.cuda.nccl.version()", "npu", "call"),
            (4, "torch.cuda.nccl.is_available()", "npu", "call"),
            (5, "torch.nn.parallel.replicate()", "npu", "call"),
        ]

    @pytest.mark.parametrize(("activity", "lines"), [("CPU", 0), ("CUDA", 1)])
    def test_a_profiler_of_the_cpu_asks_for_nothing(self, activity: str, lines: int, layer: pc.Patcher) -> None:
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.__members__[activity]])
        assert len(audit.sites()) == lines

    def test_calls_that_torch_makes_itself_are_not_the_programs(self, layer: pc.Patcher) -> None:
        torch.manual_seed(0)  # calls torch.cuda.manual_seed_all
        optimizer = torch.optim.Adam([torch.ones(2, requires_grad=True)])
        optimizer.step()  # calls torch.cuda.is_available
        torch.utils.checkpoint.checkpoint(torch.relu, torch.ones(2), use_reentrant=False)  # torch.is_autocast_enabled
        assert audit.sites() == []

    def test_compiled_calls_of_torch_cuda(self) -> None:
        """In a process of its own: torch.compile fills its tables once, here with the patches applied."""
        source = """
            import patchcore as pc
            from torch_npu_patches import wrapping
            from torch_npu_patches.transfer_to_npu import TRANSFER_TO_NPU
            pc.Patcher([wrapping.COMPILE, *TRANSFER_TO_NPU], strict=True).apply()
            import torch

            @torch.compile(fullgraph=True, backend="eager")
            def f(x):
                torch.cuda.synchronize()
                x = x.type("torch.cuda.FloatTensor").to(0) if x.is_cuda else x.cuda()
                return x + torch.cuda.current_device() + 1 if torch.cuda.is_available() else x

            print(f(torch.zeros(1, device="npu")).tolist())
        """
        assert output_of(INSTALL + textwrap.dedent(source)).strip() == "[1.0]"


class TestBeforeTorch:
    @pytest.mark.parametrize(("first", "autoload"), [("torch", "0"), ("torch", "1"), ("torch_npu", "0")])
    def test_applied_before_torch_is_imported(self, first: str, autoload: str) -> None:
        """In a process of its own, with and without torch importing torch_npu by itself."""
        source = f"""
            import sys
            import patchcore as pc
            from torch_npu_patches.transfer_to_npu import TRANSFER_TO_NPU
            patcher = pc.Patcher(TRANSFER_TO_NPU, strict=True)
            patcher.apply()
            assert "torch" not in sys.modules and "torch_npu" not in sys.modules
            import {first}
            import torch
            print(torch.zeros(2, device="cuda").device, torch.cuda.is_available())
            patcher.revert()
            print(torch.cuda.is_available())
        """
        printed = output_of(INSTALL + textwrap.dedent(source), TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
        assert printed.split() == ["npu:0", "True", "False"]


class TestMemoryHistory:
    """``torch.cuda.memory`` as torch's guide to memory snapshots uses it."""

    def test_a_snapshot_has_what_tensors_hold(self, layer: pc.Patcher, tmp_path: Path) -> None:
        import pickle

        from torch.cuda import _memory_viz

        unlike = pytest.warns(UserWarning, match=r"allocations of the host.s memory are not recorded")
        with contextlib.nullcontext() if ON_CANN else unlike:  # torch_npu records them
            torch.cuda.memory._record_memory_history(max_entries=100)
        held = torch.ones(1000, device="cuda")
        snapshot = torch.cuda.memory._snapshot()
        assert sum(segment["allocated_size"] for segment in snapshot["segments"]) >= held.nbytes
        torch.cuda.memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
        torch.cuda.memory._record_memory_history(enabled=None)
        with (tmp_path / "snapshot.pickle").open("rb") as file:
            assert pickle.load(file).keys() == snapshot.keys()
        assert "<html>" in _memory_viz.segment_plot(snapshot)
        assert _memory_viz.segsum(snapshot)

    def test_torch_npu_has_it_too(self, tmp_path: Path) -> None:
        memory = torch.npu.memory
        with pytest.raises(RuntimeError, match="expected state to be"):
            memory._record_memory_history("some")
        memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
        assert (tmp_path / "snapshot.pickle").stat().st_size


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_forked_process_that_cannot_use_the_npu_says_so(layer: pc.Patcher) -> None:
    """Launchers of accelerate and Lightning refuse to go on there. torch_npu notices forks of multiprocessing alone."""
    torch.cuda.init()
    assert not torch.cuda._is_in_bad_fork()
    assert not torch._C._cuda_isInBadFork()
    child = multiprocessing.get_context("fork").Process(target=end_by_fork)
    child.start()
    child.join()
    assert child.exitcode == 11


def end_by_fork() -> None:
    os._exit(10 * torch.cuda._is_in_bad_fork() + torch._C._cuda_isInBadFork())


def test_a_program_may_import_the_adapter_of_torch_npu_while_the_layer_is_in_force() -> None:
    printed = output_of(
        INSTALL
        + textwrap.dedent(
            """
            import torch, torch_npu
            import patchcore
            from torch_npu_patches.transfer_to_npu import TRANSFER_TO_NPU
            patchcore.Patcher(TRANSFER_TO_NPU, strict=True).apply()
            from torch_npu.contrib import transfer_to_npu
            event = torch.Event(device="cuda")
            print(torch.ones(1).cuda().device, event.device.type, isinstance(event, torch.Event))
            """
        )
    )
    assert printed.split() == ["npu:0", "npu", "True"]


class TestVisibleDevices:
    """In processes of their own: the devices are counted at the end of the import of torch."""

    PROGRAM = """
        import os, sys
        for value in sys.argv[1:]:
            os.environ["CUDA_VISIBLE_DEVICES"] = value
        import torch
        print(torch.cuda.device_count(), torch.cuda.is_available())
    """

    @pytest.mark.parametrize("by_the_program", [False, True], ids=["by its environment", "by the program"])
    @pytest.mark.parametrize(("value", "seen"), [("1,3", "2 True"), ("-1", "0 False")])
    def test_a_run_sees_those_of_cuda(self, tmp_path: Path, value: str, seen: str, by_the_program: bool) -> None:
        (tmp_path / "count.py").write_text(textwrap.dedent(self.PROGRAM))
        environ = {name: text for name, text in os.environ.items() if not name.endswith("VISIBLE_DEVICES")}
        if not by_the_program:
            environ["CUDA_VISIBLE_DEVICES"] = value
        command = [sys.executable, "-m", "patchcore", "run", OPTION, "count.py"]
        command += [value] if by_the_program else []
        done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
        assert without_note(done.stdout) == f"{seen}\n", done.stderr
