"""The private names of torch that fake-cann uses, each looked up whenever it is used.

A release of torch may drop one. This module and the targets of patches are all that has to be read then; a test looks
each name up (tests/integration/test_private_names_of_torch.py).
"""

from __future__ import annotations

from patchcore.plugin import private_name_getter

#: Where each name is, by the name that this module has for it.
NAMES = {
    "all_schemas": "torch:_C._jit_get_all_schemas",
    "register_backend_for_device": "torch._inductor.codegen.common:register_backend_for_device",
    "op_db": "torch.testing._internal.common_methods_invocations:op_db",
}

__getattr__ = private_name_getter(NAMES, "fake-cann")
