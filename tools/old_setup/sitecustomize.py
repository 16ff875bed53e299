"""Let setup.py files of the OpenMMLab libraries run on Python 3.13.

They run ``exec(code)`` inside a function and look the version up in ``locals()`` afterwards. Since Python 3.13 (PEP
667) a later ``locals()`` has none of the names that ``exec`` assigned there: ``KeyError: '__version__'``. It does have
what was written to ``frame.f_locals``, so ``exec`` without namespaces writes there.

Python imports this module at its start where its folder is on ``PYTHONPATH``: ``mmcv_wheel.setup_environment`` puts it
there for the time of a build.
"""

import builtins
import sys


def exec_in_frame(source, /, globals=None, locals=None, *, closure=None):
    """Run code as ``exec`` does; without namespaces, in those of the calling frame."""
    if globals is None and locals is None:
        frame = sys._getframe(1)
        globals, locals = frame.f_globals, frame.f_locals
    run(source, globals, locals, closure=closure)


if sys.version_info >= (3, 13):
    run, builtins.exec = builtins.exec, exec_in_frame
