"""Who writes: the lines of a program that write to namespaces of modules and classes, and to functions.

Two ways, neither of which needs a compiler. From Python 3.12 on, ``PyDict_Watch`` of the C interface, called through
:mod:`ctypes`, calls back for each write to the dictionary of a module or class. ``type.__setattr__`` writes to that of
the class, which the garbage collector leads to: ``__dict__`` shows a read-only view. ``PyType_Watch`` has no name, and
is silent after a first write. An audit hook sees writes to ``__code__`` and ``__defaults__`` of functions (event
``object.__setattr__``). Python 3.11 and earlier have no way to watch namespaces without compiled code.
"""

from __future__ import annotations

import atexit
import gc
import sys
from types import FrameType, MappingProxyType
from typing import Any, Callable, NamedTuple, Optional

from patchcore.builtin.audit.copies import DATA, code_or_data
from patchcore.objects.modules import ABSENT

__all__ = ["Frame", "Write", "Writes", "can_watch_namespaces"]

#: Frames of these are between the line that writes and the watch.
_OWN = ("<frozen importlib", "<frozen runpy>")
_MOST_FRAMES = 16
#: How many writes a process remembers; later ones are counted only.
_MOST_WRITES = 50_000
_ATTRIBUTES = frozenset({"__code__", "__defaults__", "__kwdefaults__"})

#: Py_TPFLAGS_HEAPTYPE in CPython's Include/object.h: classes that can be written.
_HEAP_TYPE = 1 << 9
_FLAGS: Any = type.__dict__["__flags__"]  # `type.__flags__` is the number of `type` itself

# enum PyDict_WatchEvent in CPython's Include/cpython/dictobject.h
_ADDED, _MODIFIED, _DELETED = 0, 1, 2


class Frame(NamedTuple):
    """A line of a running program.

    Args:
        module: name of the module, empty if it has none.
        file, line: of the source.
        function: name of the function.
    """

    module: str
    file: str
    line: int
    function: str


class Write(NamedTuple):
    """A write to a name of a module or class, or to the body of a function.

    Args:
        owner: the module, class or function.
        name: the name that was written, or the attribute of the function.
        before, now: code, or ``DATA``; ``ABSENT`` if there was or is none.
        frames: the line that wrote, and its callers, the innermost first.
        during: the module whose body ran, or had run last.
    """

    owner: Any
    name: str
    before: Any
    now: Any
    frames: tuple[Frame, ...]
    during: str


def can_watch_namespaces() -> bool:
    """True if this Python can call back for writes to dictionaries (CPython 3.12 and later)."""
    if sys.implementation.name != "cpython" or sys.version_info < (3, 12):
        return False
    try:
        import ctypes
    except ImportError:
        return False
    return hasattr(ctypes.pythonapi, "PyDict_AddWatcher")


class Writes:
    """The writes of this process.

    Args:
        during: returns the module whose body runs, or has run last.
    """

    def __init__(self, during: Callable[[], str]) -> None:
        self._during = during
        self.found: list[Write] = []
        self.left_out = 0
        self._active = False
        self._watcher: Optional[_DictWatcher] = None

    @property
    def watches_namespaces(self) -> bool:
        """True if writes to modules and classes are seen."""
        return self._watcher is not None

    def start(self) -> None:
        """See writes from now on. The audit hook stays in the process: Python cannot remove one."""
        self._active = True
        sys.addaudithook(self._audit)
        if can_watch_namespaces():
            self._watcher = _DictWatcher(self._written)

    def stop(self) -> None:
        """See no more writes."""
        self._active = False
        if self._watcher is not None:
            self._watcher.stop()
            self._watcher = None

    def watch(self, owner: Any, namespace: Any) -> None:
        """See writes to the dictionary of a module, or of a class that Python code has defined."""
        if self._watcher is None:
            return
        if type(namespace) is MappingProxyType and _FLAGS.__get__(owner) & _HEAP_TYPE:
            namespace = next((space for space in gc.get_referents(namespace) if type(space) is dict), None)
        if type(namespace) is dict:
            self._watcher.watch(owner, namespace)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "object.__setattr__" and self._active and arguments[1] in _ATTRIBUTES:
            function, name = arguments[:2]
            self._add(function, name, getattr(function, name, ABSENT), arguments[2], sys._getframe(1))

    def _written(self, owner: Any, name: Any, before: Any, now: Any, frame: Optional[FrameType]) -> None:
        if type(name) is not str or before is now:
            return
        before = before if before is ABSENT else code_or_data(before)
        now = now if now is ABSENT else code_or_data(now)
        if {id(before), id(now)} <= {id(DATA), id(ABSENT)}:
            return
        self._add(owner, name, before, now, frame)

    def _add(self, owner: Any, name: str, before: Any, now: Any, frame: Optional[FrameType]) -> None:
        if len(self.found) >= _MOST_WRITES:
            self.left_out += 1
            return
        self.found.append(Write(owner, name, before, now, tuple(_frames(frame)), self._during()))


def _frames(frame: Optional[FrameType]) -> list[Frame]:
    found: list[Frame] = []
    while frame is not None and len(found) < _MOST_FRAMES:
        file = frame.f_code.co_filename
        if not file.startswith(_OWN):
            module = frame.f_globals.get("__name__")
            name = module if isinstance(module, str) else ""
            found.append(Frame(name, file, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found


class _DictWatcher:
    """A watcher of dictionaries of the C interface (PEP 699 is its use by CPython itself; ``PyDict_Watch``, 3.12).

    Args:
        callback: called before each write with the owner of the dictionary, the key, the value before and after
            (``ABSENT`` for none), and the frame that writes. An exception is dropped.
    """

    def __init__(self, callback: Callable[[Any, Any, Any, Any, Optional[FrameType]], None]) -> None:
        import ctypes

        self._callback = callback
        self._owners: dict[int, tuple[Any, Any]] = {}  # by address of the dictionary: the owner and the dictionary
        interface: Any = ctypes.pythonapi
        number, pointer = ctypes.c_int, ctypes.c_void_p
        prototype = ctypes.PYFUNCTYPE(number, number, pointer, pointer, pointer)
        self._object: Callable[[int], Any] = lambda address: ctypes.cast(address, ctypes.py_object).value
        self._function = prototype(self._called)  # kept: the interpreter has its address
        interface.PyDict_AddWatcher.argtypes = [prototype]
        interface.PyDict_Watch.argtypes = [number, ctypes.py_object]
        interface.PyDict_Unwatch.argtypes = [number, ctypes.py_object]
        self._interface = interface
        self._number = interface.PyDict_AddWatcher(self._function)
        # Modules are cleared after Python has freed ctypes: a callback then ends the process with a segmentation fault.
        atexit.register(self.stop)

    def watch(self, owner: Any, dictionary: dict[str, Any]) -> None:
        if self._number >= 0 and id(dictionary) not in self._owners:
            self._owners[id(dictionary)] = owner, dictionary
            self._interface.PyDict_Watch(self._number, dictionary)

    def stop(self) -> None:
        atexit.unregister(self.stop)
        if self._number >= 0:
            number, self._number = self._number, -1
            self._interface.PyDict_ClearWatcher(number)

    def _called(self, event: int, dictionary: int, key: Optional[int], value: Optional[int]) -> int:
        try:
            found = self._owners.get(dictionary)
            if found is None or event > _DELETED or key is None:
                return 0
            owner, space = found
            name = self._object(key)
            before = ABSENT if event == _ADDED else space.get(name, ABSENT)
            now = ABSENT if value is None or event == _DELETED else self._object(value)
            self._callback(owner, name, before, now, sys._getframe(1))
        except Exception:  # the write is the program's, and it must not fail
            pass
        return 0
