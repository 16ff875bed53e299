"""The private names of torch that npu-migrate uses, each looked up whenever it is used.

A release of torch may drop one. This module and the targets of patches are all that has to be read then; a test looks
each name up (tests/integration/test_private_names_of_torch.py).
"""

from __future__ import annotations

from patchcore.plugin import private_name_getter

#: Where each name is, by the name that this module has for it.
NAMES = {
    "DispatchKey": "torch._C:DispatchKey",
    "DispatchKeySet": "torch._C:DispatchKeySet",
    "dispatch_has_kernel_for_dispatch_key": "torch._C:_dispatch_has_kernel_for_dispatch_key",
    "get_privateuse1_backend_name": "torch._C:_get_privateuse1_backend_name",
    "OpOverload": "torch._ops:OpOverload",
    "FakeTensor": "torch._subclasses.fake_tensor:FakeTensor",
    "TorchDispatchMode": "torch.utils._python_dispatch:TorchDispatchMode",
}

__getattr__ = private_name_getter(NAMES, "npu-migrate")
