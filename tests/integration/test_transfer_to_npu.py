"""The parts of transfer_to_npu that need no NPU: which values name CUDA, the wrappers, the audit, the plan."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import patchcore as pc

torch = pytest.importorskip("torch")

from torch_npu_patches.transfer_to_npu import APEX, TRANSFER_TO_NPU, audit, devices, tables  # noqa: E402
from torch_npu_patches.transfer_to_npu.apex import amp  # noqa: E402
from torch_npu_patches.transfer_to_npu.apex.scaling import WINDOW, LossScaler  # noqa: E402
from torch_npu_patches.transfer_to_npu.groups import SWITCH, TRITON  # noqa: E402
from torch_npu_patches.transfer_to_npu.visible_devices import ASCEND, CUDA  # noqa: E402
from torch_npu_patches.transfer_to_npu.wrappers import Argument, counting, rewriting, rewriting_class  # noqa: E402
from torch_npu_patches.wrapping import innermost  # noqa: E402

#: Triton comes with the CUDA build of torch.
FOR_THIS_ENVIRONMENT = [patch for patch in TRANSFER_TO_NPU if patch is not TRITON or find_spec("triton")]

TARGET = pc.Target.parse("torch:here.called")


@pytest.fixture(autouse=True)
def empty_audit() -> Iterator[None]:
    audit.clear()
    yield
    audit.clear()


class TestNames:
    @pytest.mark.parametrize(("text", "npu"), [("cuda", "npu"), ("cuda:0", "npu:0"), ("cuda:17", "npu:17")])
    def test_a_device_as_a_whole(self, text: str, npu: str) -> None:
        assert devices.npu_name(text) == npu
        assert devices.npu_device(text) == npu

    @given(st.text(alphabet="cuda:0123456789/ .\n٣", max_size=12))
    def test_nothing_but_whole_tokens(self, text: str) -> None:
        head, colon, number = text.partition(":")
        is_device = head == "cuda" and (not colon or (number != "" and set(number) <= set("0123456789")))
        assert devices.npu_name(text) == ("npu" + text[4:] if is_device else None)

    @given(st.text(min_size=1), st.text())
    def test_no_text_around_a_device(self, before: str, after: str) -> None:
        assert devices.npu_name(f"{before}cuda{after}") is None

    @pytest.mark.parametrize(
        "value",
        [
            None,
            0,
            3,
            True,
            1.5,
            b"cuda",
            torch.device("cpu"),
            torch.device("cpu", 0),
            torch.float32,
            torch.ones(1),
            object(),
        ],
        ids=lambda value: "object" if type(value) is object else str(value),
    )
    def test_other_objects_stay(self, value: Any) -> None:
        assert devices.npu_device(value) is None

    def test_an_object_that_has_a_type(self) -> None:
        assert devices.npu_device(SimpleNamespace(type="cuda", index=0)) is None

    def test_lists(self) -> None:
        assert devices.npu_devices(["cuda:0", "cpu", 1]) == ["npu:0", "cpu", 1]
        assert devices.npu_devices(("cuda",)) == ("npu",)
        assert devices.npu_devices("cuda:1") == "npu:1"
        assert devices.npu_devices([0, 1]) is None
        assert devices.npu_devices([]) is None

    def test_tensor_types(self) -> None:
        assert devices.npu_tensor_type("torch.cuda.FloatTensor") == "torch.npu.FloatTensor"
        for other in ("torch.FloatTensor", "torch.cuda", "torch.cuda.", "torch.cuda.amp", "my torch.cuda.FloatTensor"):
            assert devices.npu_tensor_type(other) is None
        assert devices.npu_tensor_type(torch.float32) is None


class TestBackends:
    @pytest.mark.parametrize(
        ("backend", "npu"),
        [
            ("nccl", "hccl"),
            ("NCCL", "hccl"),
            ("cpu:gloo,cuda:nccl", "cpu:gloo,npu:hccl"),
            ("cuda:nccl,cpu:gloo", "npu:hccl,cpu:gloo"),
            ("cuda:gloo", "npu:gloo"),
        ],
    )
    def test_token_by_token(self, backend: str, npu: str) -> None:
        assert devices.npu_backend(backend) == npu

    @pytest.mark.parametrize("backend", ["gloo", "hccl", "cpu:gloo", "cpu:gloo,npu:hccl", "mynccl", "", None, 3])
    def test_others_stay(self, backend: Any) -> None:
        assert devices.npu_backend(backend) is None

    @given(st.lists(st.sampled_from(["nccl", "cuda:nccl", "gloo", "cpu:gloo", "mpi", "cpu:mpi"]), min_size=1))
    def test_there_and_back(self, tokens: list[str]) -> None:
        backend = ",".join(tokens)
        npu = devices.npu_backend(backend) or backend
        assert "nccl" not in npu
        assert "cuda" not in npu
        assert (devices.nccl_backend(npu) or npu) == backend


class TestLocations:
    def test_devices(self) -> None:
        assert devices.npu_location("cuda:1") == "npu:1"
        assert devices.npu_location("cpu") is None
        assert devices.npu_location(None) is None

    def test_a_mapping_answers_files_from_both(self) -> None:
        given = {"cuda:0": "cuda:1", "cpu": "cpu"}
        assert devices.npu_location(given) == {"cuda:0": "npu:1", "npu:0": "npu:1", "cpu": "cpu"}
        assert given == {"cuda:0": "cuda:1", "cpu": "cpu"}
        assert devices.npu_location({"cuda:0": "cpu", "npu:0": "npu:3"}) is None
        assert devices.npu_location({"cpu": "cpu"}) is None

    def test_functions_stay(self) -> None:
        assert devices.npu_location(lambda storage, location: storage) is None


def called(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, kwargs


class TestWrappers:
    def test_keyword(self) -> None:
        wrapped = rewriting(called, [Argument("device")], "g", TARGET)
        assert wrapped("cuda", device="cuda:1", path="cuda") == (("cuda",), {"device": "npu:1", "path": "cuda"})
        assert wrapped(device="cpu") == ((), {"device": "cpu"})
        assert wrapped("cuda") == (("cuda",), {})

    def test_position_of_a_function_written_in_c(self) -> None:
        wrapped = rewriting(called, [Argument("device", position=1)], "g", TARGET)
        assert wrapped("cuda", "cuda") == (("cuda", "npu"), {})
        assert wrapped("cuda", "cuda", "cuda") == (("cuda", "npu", "cuda"), {})
        assert wrapped("cuda", device="cuda") == (("cuda",), {"device": "npu"})
        assert wrapped("cuda") == (("cuda",), {})

    def test_position_of_a_python_function_is_its_own(self) -> None:
        def load(file: str, mode: str = "r", map_location: Any = None) -> tuple[str, str, Any]:
            return file, mode, map_location

        wrapped = rewriting(load, [Argument("map_location", position=0)], "g", TARGET)
        assert wrapped("cuda", "cuda", "cuda") == ("cuda", "cuda", "npu")
        assert wrapped("cuda", map_location="cuda") == ("cuda", "r", "npu")
        assert wrapped("cuda") == ("cuda", "r", None)

    def test_default_that_names_cuda(self) -> None:
        def scaler(device: str = "cuda", scale: float = 1.0) -> tuple[str, float]:
            return device, scale

        wrapped = rewriting(scaler, [Argument("device")], "g", TARGET)
        assert wrapped() == ("npu", 1.0)
        assert wrapped(scale=2.0) == ("npu", 2.0)
        assert wrapped("cpu") == ("cpu", 1.0)

    def test_several_arguments(self) -> None:
        arguments = [Argument("device_ids", devices.npu_devices), Argument("output_device")]
        wrapped = rewriting(called, arguments, "g", TARGET)
        assert wrapped(device_ids=["cuda:0"], output_device="cuda:0")[1] == {
            "device_ids": ["npu:0"],
            "output_device": "npu:0",
        }
        assert innermost(wrapped) is called
        assert innermost(called) is called

    def test_name_is_that_in_torch(self) -> None:
        wrapped = rewriting(torch.zeros, [Argument("device")], "g", pc.Target.parse("torch:zeros"))
        assert (wrapped.__module__, wrapped.__qualname__, wrapped.__doc__) == ("torch", "zeros", torch.zeros.__doc__)
        assert wrapped.__wrapped__ is torch.zeros

    def test_errors_of_the_original_reach_the_caller(self) -> None:
        with pytest.raises(TypeError, match="zeros"):
            rewriting(torch.zeros, [Argument("device")], "g", TARGET)(nonsense=1)

    def test_this_torch_has_every_factory_of_the_table(self) -> None:
        for path in tables.FACTORIES:
            function: Any = torch
            for name in path.split("."):
                function = getattr(function, name, None)
            assert callable(function), path


class Native:
    """Like a class written in C, but for being able to say what it was made with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.made_with = args, kwargs


class TestClasses:
    @pytest.fixture
    def stand_in(self) -> type:
        return rewriting_class(Native, [Argument("device", position=0)], "g", TARGET)

    def test_makes_instances_of_the_original(self, stand_in: type) -> None:
        made = stand_in("cuda:1", 2)
        assert type(made) is Native
        assert made.made_with == (("npu:1", 2), {})
        assert stand_in(device="cuda").made_with == ((), {"device": "npu"})

    def test_instances_and_subclasses(self, stand_in: type) -> None:
        class Derived(Native):
            pass

        assert isinstance(Native(), stand_in)
        assert isinstance(stand_in(), stand_in)
        assert issubclass(Derived, stand_in)
        assert issubclass(stand_in, Native)
        assert not isinstance(3, stand_in)
        assert stand_in.__name__ == "Native"

    def test_derived_from(self, stand_in: Any) -> None:
        class Derived(stand_in):
            pass

        made = Derived("cuda")
        assert type(made) is Derived
        assert made.made_with == (("npu",), {})
        assert isinstance(made, Native)
        assert isinstance(made, stand_in)
        assert not isinstance(Native(), Derived)


class TestAudit:
    def test_counts_by_line_and_value(self) -> None:
        wrapped = rewriting(called, [Argument("device")], "group", TARGET)
        for device in ["cuda", "cuda", "cuda:1", "cpu"]:
            wrapped(device=device)
        wrapped(device="cuda")
        found = [(site.line, site.before, site.after, site.count) for site in audit.sites()]
        first = found[0][0]
        assert found == [(first, "cuda", "npu", 2), (first, "cuda:1", "npu:1", 1), (first + 1, "cuda", "npu", 1)]
        assert all(site.file == __file__ for site in audit.sites())
        assert audit.sites()[0].place == audit.Place("group", "torch:here.called", "device")

    def test_by_group_and_as_json(self) -> None:
        for group in ("a", "b"):
            rewriting(called, [Argument("ids", devices.npu_devices)], group, TARGET)(ids=["cuda:0"])
        assert [site.place.group for site in audit.sites("b")] == ["b"]
        (row,) = json.loads(json.dumps(audit.details("a")))
        assert (row["patch"], row["cuda"], row["npu"], row["kind"], row["count"]) == (
            *("a", "torch.here.called(ids=['cuda:0'])", "['npu:0']", "argument", 1),
        )
        assert str(audit.sites("a")[0]).endswith("torch.here.called(ids=['cuda:0']) -> ['npu:0'], 1x [a]")
        audit.clear()
        assert audit.sites() == []

    def test_numbers_stay_and_are_counted(self) -> None:
        for argument, value in [
            (Argument("device"), 1),
            (Argument("device"), -1),  # the CPU
            (Argument("device"), True),
            (Argument("device", devices.npu_devices), [0, 1]),
            (Argument("device", devices.npu_devices), []),
            (Argument("device", devices.npu_backend), 3),
        ]:
            args, kwargs = rewriting(called, [argument], "group", TARGET)(device=value)
            assert kwargs["device"] is value
            assert not args
        found = [(site.kind, site.before, site.after, site.count) for site in audit.sites()]
        assert sorted(found) == [("number", "1", "npu:1", 1), ("number", "[0, 1]", "['npu:0', 'npu:1']", 1)]

    def test_calls_by_the_program_are_counted_and_those_by_torch_are_not(self) -> None:
        wrapped = counting(called, [Argument("device")], "group", pc.Target.parse("torch:cuda.called"))
        inner = {"__name__": "torch.optim.adam", "wrapped": wrapped}
        exec("def step(**kwargs):\n    return wrapped(**kwargs)", inner)
        for _ in range(3):
            inner["step"]()
            inner["step"](device=0)
        assert audit.sites() == []
        inner["step"](device="cuda")  # torch was handed a device that names CUDA
        for _ in range(2):
            wrapped()
        wrapped(device=torch.device("meta"))
        found = [(site.kind, site.call, site.after, site.count) for site in audit.sites()]
        assert found == [
            ("argument", "torch.cuda.called(device=cuda)", "npu", 1),
            ("call", "torch.cuda.called()", "torch.npu.called", 2),
            ("call", "torch.cuda.called()", "torch.npu.called", 1),
        ]

    def test_no_count_is_lost_between_threads(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        wrapped = rewriting(called, [Argument("device")], "group", TARGET)

        def many() -> None:
            for _ in range(2000):
                wrapped(device="cuda")

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda _: many(), range(4)))
        finally:
            sys.setswitchinterval(interval)
        assert [site.count for site in audit.sites()] == [8000]


@pytest.fixture
def torch_npu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A torch_npu that can be found, which is all that a plan asks for."""
    (tmp_path / "torch_npu.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)


class TestPlan:
    def test_needs_torch_npu(self) -> None:
        plan = pc.Patcher(TRANSFER_TO_NPU, enable=APEX).plan()
        assert {entry.verdict for entry in plan} == {"skipped"}
        assert plan["torch.transfer_to_npu.load"].reason.startswith("needs module torch_npu")

    def test_no_two_groups_write_one_place(self, torch_npu: None) -> None:
        plan = pc.Patcher(FOR_THIS_ENVIRONMENT, enable=APEX).plan()
        assert not plan.conflicts
        assert {entry.verdict for entry in plan} == {"apply"}

    def test_one_name_switches_all_of_them_off(self, torch_npu: None) -> None:
        plan = pc.Patcher(TRANSFER_TO_NPU, disable="transfer_to_npu").plan()
        assert {entry.verdict for entry in plan} == {"off"}

    @pytest.mark.parametrize(("value", "go"), [("0", False), ("1", True), ("", True)])
    def test_environment_switch(self, value: str, go: bool, torch_npu: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(SWITCH, value)
        plan = pc.Patcher(FOR_THIS_ENVIRONMENT, enable=APEX).plan()
        assert {entry.verdict == "apply" for entry in plan} == {go}

    def test_environment_switch_that_says_neither(self, torch_npu: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(SWITCH, "maybe")
        entry = pc.Patcher(TRANSFER_TO_NPU).plan()["torch.transfer_to_npu.load"]
        assert entry.verdict == "failed"
        assert "TORCH_TRANSFER_TO_NPU is 0 or 1, found 'maybe'" in entry.reason

    def test_apex_is_missing_by_default_and_a_run_names_the_patch(self) -> None:
        from torch_npu_patches import plugin

        assert not next(patch for patch in TRANSFER_TO_NPU if patch.name == APEX).default
        advice = "apex.amp on torch.amp: patchcore run --enable torch.transfer_to_npu.apex"
        assert [plugin.advise(*named) for named in (("apex.amp", "import"), ("apex", ""))] == [advice, None]

    def test_a_real_apex_is_left_alone(self, torch_npu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "apex.py").touch()
        entry = pc.Patcher(TRANSFER_TO_NPU, enable=APEX).plan()[APEX]
        assert (entry.verdict, entry.reason) == ("skipped", f"a real apex is installed: {tmp_path / 'apex.py'}")

    def test_imports_nothing(self, run_python: Callable[..., str], tmp_path: Path) -> None:
        (tmp_path / "torch_npu.py").write_text("raise AssertionError('imported')\n")
        out = run_python("""
            import sys
            sys.path.insert(0, ".")
            import patchcore as pc
            from torch_npu_patches.transfer_to_npu import TRANSFER_TO_NPU
            patcher = pc.Patcher(TRANSFER_TO_NPU, strict=True)
            print(patcher.apply().summary())
            print([name for name in ("torch", "torch_npu", "numpy") if name in sys.modules])
        """)
        assert out.splitlines() == ["19 pending" if find_spec("triton") else "18 pending, 1 skipped", "[]"]

    def test_apex_is_there_once_torch_is(self, run_python: Callable[..., str], tmp_path: Path) -> None:
        (tmp_path / "torch_npu.py").touch()
        out = run_python("""
            import sys
            sys.path.insert(0, ".")
            import patchcore as pc
            from torch_npu_patches.transfer_to_npu import TRANSFER_TO_NPU
            patches = [patch for patch in TRANSFER_TO_NPU if patch.name.endswith(".apex")]
            print(pc.Patcher(patches).plan()["torch.transfer_to_npu.apex"].verdict)
            patcher = pc.Patcher(patches, strict=True, enable="torch.transfer_to_npu.apex")
            patcher.apply()
            import torch
            from apex import amp
            import apex.amp
            assert apex.amp is amp and callable(amp.scale_loss)
            try:
                import apex.parallel
            except ModuleNotFoundError as error:
                print(error)
            try:
                apex.parallel.convert_syncbn_model
            except ImportError as error:
                print(error)
            # mmcv 1.7.2 looks for _check_balance in all modules
            assert not hasattr(apex, "_check_balance") and not hasattr(apex, "anything")
            patcher.revert()
            try:
                import apex
            except ModuleNotFoundError as error:
                print(error)
        """)
        assert out.splitlines() == [
            "off",
            "No module named 'apex.parallel'",
            "No module named 'apex.parallel': only apex.amp is stood in for",
            "No module named 'apex'",
        ]


class TestVisibleDevices:
    @pytest.mark.parametrize(
        ("cuda", "ascend", "seen", "reason"),
        [
            ("2,3", None, "2,3", ""),
            (" 0, 1", None, "0,1", ""),
            ("2,3", "5", "5", f"{ASCEND} is set already"),
            (None, None, None, f"{CUDA} is not set"),
            (
                "GPU-8932f937",
                None,
                None,
                f"{CUDA}='GPU-8932f937' names GPUs by UUID, and all NPUs are seen; choose NPUs by number: {ASCEND}=0,1",
            ),
            ("", None, "", ""),
            ("-1", None, "", ""),
            ("NoDevFiles", None, "", ""),
            ("2,-1,3", None, "2", ""),
            ("3,1", None, "1,3", ""),
            ("1,1", None, "", ""),
        ],
    )
    def test_when_torch_has_been_imported(
        self,
        cuda: str | None,
        ascend: str | None,
        seen: str | None,
        reason: str,
        torch_npu: None,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        import os

        for name, value in ((CUDA, cuda), (ASCEND, ascend)):
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)
        patch = next(patch for patch in TRANSFER_TO_NPU if patch.name.endswith("visible_devices"))
        with pc.Patcher([patch], strict=True) as patcher:
            assert os.environ.get(ASCEND) == seen
            assert patcher.report()[patch.name].reason == reason
        assert os.environ.get(ASCEND) == ascend
        assert os.environ.get(CUDA) == cuda

    @pytest.mark.parametrize(("value", "said"), [("3,1", "is not ascending"), ("MIG-GPU-1/2/3", "by UUID")])
    def test_what_npus_cannot_do_is_in_the_log(
        self, value: str, said: str, torch_npu: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv(CUDA, value)
        monkeypatch.delenv(ASCEND, raising=False)
        with pc.Patcher([patch for patch in TRANSFER_TO_NPU if patch.name.endswith("visible_devices")], strict=True):
            assert said in caplog.text

    def test_a_change_after_the_import_of_torch_is_reported(
        self, torch_npu: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from torch_npu_patches.plugin import report_sections

        monkeypatch.setenv(CUDA, "1")
        monkeypatch.delenv(ASCEND, raising=False)
        with pc.Patcher([patch for patch in TRANSFER_TO_NPU if patch.name.endswith("visible_devices")], strict=True):
            assert not [section for section in report_sections() if section.title == "visible devices"]
            monkeypatch.setenv(CUDA, "2")
            (section,) = (section for section in report_sections() if section.title == "visible devices")
            assert section.lines == (
                f"{CUDA} was '1' when torch was imported and is '2' now: set it before `import torch`",
            )

    def test_set_by_the_program_itself(self, run_python: Callable[..., str], tmp_path: Path) -> None:
        (tmp_path / "torch_npu.py").touch()
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch" / "__init__.py").write_text("import torch._utils_internal\n")
        (tmp_path / "torch" / "_utils_internal.py").write_text("import os\n")
        out = run_python(f"""
            import os, sys
            sys.path.insert(0, {str(tmp_path)!r})
            os.environ.pop("{ASCEND}", None)
            import patchcore as pc
            from torch_npu_patches.transfer_to_npu.visible_devices import AsAscendVariable
            with pc.Patcher([pc.Patch("visible", [AsAscendVariable()])], strict=True):
                os.environ["{CUDA}"] = "3"
                print(os.environ.get("{ASCEND}"))
                import torch
                print(os.environ.get("{ASCEND}"))
            print(os.environ.get("{ASCEND}"))
        """)
        assert out.split() == ["None", "3", "None"]


def parameter(value: float, grad: float | None) -> Any:
    made = torch.nn.Parameter(torch.tensor([value]))
    made.grad = None if grad is None else torch.tensor([grad])
    return made


class TestLossScaler:
    def test_unscales(self) -> None:
        scaler, p = LossScaler(8.0), parameter(1.0, 4.0)
        assert scaler.unscale([p, parameter(1.0, None)])
        assert p.grad.tolist() == [0.5]
        assert scaler.scale == 8.0

    def test_dynamic_goes_down_and_up(self) -> None:
        scaler = LossScaler("dynamic", at_least=2.0**15, at_most=2.0**16)
        assert scaler.scale == 2.0**16
        for expected in (2.0**15, 2.0**15):
            assert not scaler.unscale([parameter(1.0, float("inf"))])
            assert scaler.scale == expected
        for _ in range(WINDOW):
            assert scaler.scale == 2.0**15
            assert scaler.unscale([parameter(1.0, 1.0)])
        assert scaler.scale == 2.0**16

    def test_gradients_add_up_over_passes(self) -> None:
        scaler, p = LossScaler(4.0), parameter(1.0, 3.0)  # unscaled already
        scaler.set_aside([p])
        assert p.grad is None
        p.grad = torch.tensor([8.0])
        assert scaler.unscale([p])
        assert p.grad.tolist() == [5.0]

    def test_scale_that_is_none(self) -> None:
        with pytest.raises(ValueError, match="a loss scale is a number or 'dynamic', found 'some'"):
            LossScaler("some")


class TestApexAmp:
    def test_step_is_skipped_once_after_an_overflow(self) -> None:
        model = torch.nn.Linear(1, 1, bias=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        model, optimizer = amp.initialize(model, optimizer, opt_level="O0", loss_scale="dynamic")
        before = model.weight.detach().clone()
        with amp.scale_loss(model(torch.ones(1, 1)).sum() * float("inf"), optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        assert torch.equal(model.weight, before)
        assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 2.0**15, "unskipped": 0}}
        optimizer.zero_grad()
        with amp.scale_loss(model(torch.ones(1, 1)).sum(), optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        assert torch.equal(model.weight, before - 1)

    def test_misuse(self) -> None:
        with pytest.raises(ValueError, match="opt_level is one of O0, O1, O2, O3, found 'O4'"):
            amp.initialize(torch.nn.Linear(1, 1), opt_level="O4")
        amp.initialize(torch.nn.Linear(1, 1), opt_level="O0")
        with (
            pytest.raises(RuntimeError, match=r"loss_id=1 of 1 loss; call amp.initialize\(..., num_losses=2\)"),
            amp.scale_loss(torch.ones(1), [], loss_id=1),
        ):
            pass
        with pytest.raises(ValueError, match="expected 1 loss scaler, found 2"):
            amp.load_state_dict({"loss_scaler0": {}, "loss_scaler1": {}})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_worker_counts_for_itself() -> None:
    counter = audit.counter_of(audit.Place("group", "torch:zeros", "device"))

    def rewrite() -> None:
        counter.note("cuda", "npu")

    rewrite()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, f"{len(audit.sites('group'))} ".encode())
            rewrite()
            os.write(writing, str(len(audit.sites("group"))).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"0 1"
    assert [site.count for site in audit.sites("group")] == [1]
    audit.clear()
