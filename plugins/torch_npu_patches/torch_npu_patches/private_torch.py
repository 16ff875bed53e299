"""The private names of torch that torch-npu-patches uses, each looked up whenever it is used.

A release of torch may drop one. This module and the targets of patches are all that has to be read then; a test looks
each name up (tests/integration/test_private_names_of_torch.py).
"""

from __future__ import annotations

from patchcore.plugin import private_name_getter

#: Where each name is, by the name that this module has for it.
NAMES = {
    "DispatchKey": "torch._C:DispatchKey",
    "DispatchKeySet": "torch._C:DispatchKeySet",
    "Generator": "torch._C:Generator",
    "dispatch_keyset_full_after": "torch._C:_dispatch_keyset_full_after",
    "dispatch_has_kernel_for_dispatch_key": "torch._C:_dispatch_has_kernel_for_dispatch_key",
    "get_privateuse1_backend_name": "torch._C:_get_privateuse1_backend_name",
    "VariableTracker": "torch._dynamo.variables.base:VariableTracker",
    "OpOverload": "torch._ops:OpOverload",
    "FakeTensor": "torch._subclasses.fake_tensor:FakeTensor",
    "get_available_device_type": "torch._utils:_get_available_device_type",
    "is_dynamo_compiling": "torch.compiler:is_dynamo_compiling",
    "make_source_context": "torch._sources:make_source_context",
    "builtins": "torch.jit._builtins",
    "scoped_library": "torch.library:_scoped_library",
    "TorchDispatchMode": "torch.utils._python_dispatch:TorchDispatchMode",
    "device": "torch.utils._device",
}

__getattr__ = private_name_getter(NAMES, "torch-npu-patches")
