"""Stands on PYTHONPATH under ``patchcore run``; the sitecustomize that would be there without it is imported next."""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _start():  # type: () -> None
    try:
        import patchcore_startup
    except ImportError:  # patchcore is not installed for this Python; the import that needs it says so
        package = os.path.dirname(_HERE)
        sys.path.insert(0, os.path.dirname(package))
        try:
            import patchcore_startup
        finally:
            del sys.path[0]
    patchcore_startup.start(site_is_complete=True)


sys.path[:] = [entry for entry in sys.path if entry != _HERE]
if sys.version_info >= (3, 9):
    try:
        _start()
    except Exception as error:  # a process is never worse off for being started from a run
        sys.stderr.write("patchcore: this process is not patched: %s: %s\n" % (type(error).__name__, error))

if sys.modules.get(__name__) is not None:
    del sys.modules[__name__]
import sitecustomize  # noqa: E402, F401  # the next on the path; site takes it well if there is none
