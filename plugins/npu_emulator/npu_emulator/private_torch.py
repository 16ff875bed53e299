"""The private names of torch that npu-emulator uses, each looked up whenever it is used.

A release of torch may drop one. This module and the targets of patches are all that has to be read then; a test looks
each name up (tests/integration/test_private_names_of_torch.py).
"""

from __future__ import annotations

from patchcore.plugin import private_name_getter

#: Where each name is, by the name that this module has for it.
NAMES = {
    "C": "torch._C",
    "DeviceType": "torch._C._autograd:DeviceType",
    "Backend": "torch._C._distributed_c10d:Backend",
    "eval_frame": "torch._C._dynamo:eval_frame",
    "DispatchKey": "torch._C:DispatchKey",
    "DispatchKeySet": "torch._C:DispatchKeySet",
    "Event": "torch._C:Event",
    "Generator": "torch._C:Generator",
    "Stream": "torch._C:Stream",
    "ExcludeDispatchKeyGuard": "torch._C:_ExcludeDispatchKeyGuard",
    "acc": "torch._C:_acc",
    "accelerator_getStream": "torch._C:_accelerator_getStream",
    "accelerator_setStream": "torch._C:_accelerator_setStream",
    "dispatch_get_all_op_names": "torch._C:_dispatch_get_all_op_names",
    "dispatch_has_kernel_for_dispatch_key": "torch._C:_dispatch_has_kernel_for_dispatch_key",
    "distributed_c10d": "torch._C:_distributed_c10d",
    "from_dlpack": "torch._C:_from_dlpack",
    "get_privateuse1_backend_name": "torch._C:_get_privateuse1_backend_name",
    "is_multithreading_enabled": "torch._C:_is_multithreading_enabled",
    "remove_obj_from_tls": "torch._C:_remove_obj_from_tls",
    "set_multithreading_enabled": "torch._C:_set_multithreading_enabled",
    "should_allow_numbers_as_tensors": "torch._C:_should_allow_numbers_as_tensors",
    "stash_obj_in_tls": "torch._C:_stash_obj_in_tls",
    "to_dlpack": "torch._C:_to_dlpack",
    "DeviceInterface": "torch._dynamo.device_interface:DeviceInterface",
    "register_interface_for_device": "torch._dynamo.device_interface:register_interface_for_device",
    "DeviceOpOverrides": "torch._inductor.codegen.common:DeviceOpOverrides",
    "register_backend_for_device": "torch._inductor.codegen.common:register_backend_for_device",
    "register_device_op_overrides": "torch._inductor.codegen.common:register_device_op_overrides",
    "TorchCompileInductorWrapper": "torch:_TorchCompileInductorWrapper",
    "TorchDispatchMode": "torch.utils._python_dispatch:TorchDispatchMode",
    "OpOverload": "torch._ops:OpOverload",
    "OpOverloadPacket": "torch._ops:OpOverloadPacket",
    "dummy_type": "torch._utils:_dummy_type",
    "engine_run_backward": "torch.autograd.graph:_engine_run_backward",
    "is_compiled": "torch.cuda:_is_compiled",
    "allowed_methods": "torch.nn.parameter:UninitializedTensorMixin._allowed_methods",
    "KinetoProfile": "torch.profiler:_KinetoProfile",
    "LegacyStorage": "torch.storage:_LegacyStorage",
    "conj": "torch:_conj",
    "neg_view": "torch:_neg_view",
    "register_device_module": "torch:_register_device_module",
    "storage_classes": "torch:_storage_classes",
}

__getattr__ = private_name_getter(NAMES, "npu-emulator")
