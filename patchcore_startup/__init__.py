"""What a Python process started under ``patchcore run`` does first: next to nothing.

``patchcore run`` describes the run in one environment variable, which every child inherits. Some launchers pass it on
without quoting it, so it has no quotes, spaces or commas. Two doors lead here, and the
first that opens counts: ``patchcore_startup.pth`` in site-packages, which also works with ``python -E`` and ``-I``, and
``site/sitecustomize.py`` on ``PYTHONPATH``, for where patchcore is on the path without being installed there.

The program itself is patched at once. A child that imports only the standard library has nothing to patch, so there
patchcore is only imported at the first import of something else (or of a part of the standard library that a patch is
for): :class:`ActivationFinder`. That is why this is a package of its own: ``import patchcore`` takes longer than such a
process may. It uses nothing that the interpreter has not loaded by itself.
"""

from __future__ import annotations

import _imp
import os
import sys
from _thread import allocate_lock, get_ident

TYPE_CHECKING = False  # typing takes longer to import than all else here
if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Optional

__all__ = [
    "SESSION",
    "SITE",
    "STRICT",
    "WORD",
    "ActivationFinder",
    "activate",
    "decode_session",
    "encode_session",
    "finder",
    "is_strict",
    "start",
]

#: Environment variable that describes the run; nothing happens in a process without it. It has fields with colons
#: between them: the version of the format, after it :data:`STRICT` if failures raise; the triggers, which activate the
#: run (the process id of the program, the top-level modules of patches, and texts that make a script one which a patch
#: edits); and the description, which is JSON in zlib in base64.
SESSION = "PATCHCORE_SESSION"
#: What follows the version of a description under the policy ``raise``, for readers to whom the rest means nothing.
STRICT = "s"
#: What such a text begins with among the triggers.
WORD = "word:"

#: What the triggers begin with that are in hexadecimal digits in the variable: texts of scripts, and names of modules
#: that are not ASCII.
_HEX_WORD, _HEX_NAME = "=", "~"
#: The folder that goes on PYTHONPATH.
SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")

#: Environment variable with the folder of the program, for the processes it starts.
_FOLDER = "PATCHCORE_FOLDER"

#: Seconds that a thread which imports waits for another one that activates the run; both may wait for each other.
_PATIENCE = 5.0

#: Looked up while the site is set up; only after the first of them sys.path is complete.
_SITE_MODULES = ("sitecustomize", "usercustomize")

#: The finder of this process, after :func:`start`.
finder: Optional[ActivationFinder] = None


def start(site_is_complete: bool = False) -> None:
    """Let this process take part in the run that its environment describes; once, and only if there is one.

    Args:
        site_is_complete: whether ``sys.path`` has all that ``site`` adds, so that plugins can be found.
    """
    global finder
    if finder is None and os.environ.get(SESSION):
        sys.path[:] = [entry for entry in sys.path if entry != SITE]  # it has done its duty
        triggers = tuple(_decode_triggers(os.environ[SESSION].split(":")[1:-1]))
        finder = ActivationFinder(triggers)
        sys.meta_path = [finder, *sys.meta_path]
        words = [trigger[len(WORD) :].encode() for trigger in triggers if trigger.startswith(WORD)]
        if words:
            sys.path_hooks.append(ScriptHook(finder, words))
    if finder is not None and site_is_complete:
        finder.complete_site()


def activate() -> bool:
    """Apply the patches of the run in this process now; return whether it is part of one.

    Raises:
        Exception: a patch failed, under the policy to raise.
    """
    start(site_is_complete=True)
    if finder is not None:
        finder.activate()
    return finder is not None


def is_strict(text: str) -> bool:
    """Return whether a description of a run, which may be damaged, says that failures raise."""
    return text.partition(":")[0].endswith(STRICT)


def encode_session(version: str, triggers: Iterable[str], description: dict[str, Any]) -> str:
    """Return the value of :data:`SESSION`: ASCII, without quotes, spaces, commas and anything else that a shell reads.

    Args:
        version: of the description, with :data:`STRICT` after it under the policy ``raise``.
        triggers: see :class:`ActivationFinder`; texts of scripts after :data:`WORD`.
        description: as JSON can have it; other values become texts.
    """
    import json
    import zlib
    from binascii import b2a_base64

    data = b2a_base64(zlib.compress(json.dumps(description, default=str).encode(), 9), newline=False)
    payload = data.decode().translate({ord("+"): "-", ord("/"): "_", ord("="): None})
    return ":".join([version, *map(_encode_trigger, triggers), payload])


def decode_session(text: str) -> Any:
    """Return the description that :func:`encode_session` wrote.

    Raises:
        ValueError: the text is something else.
    """
    import json
    import zlib
    from binascii import a2b_base64

    payload = text.rpartition(":")[2].translate({ord("-"): "+", ord("_"): "/"})
    try:
        return json.loads(zlib.decompress(a2b_base64(f"{payload}==")))
    except zlib.error as error:
        raise ValueError(str(error)) from error


def _encode_trigger(trigger: str) -> str:
    if trigger.startswith(WORD):
        return _HEX_WORD + trigger[len(WORD) :].encode().hex()
    return trigger if trigger.isascii() else _HEX_NAME + trigger.encode().hex()


def _decode_triggers(fields: Iterable[str]) -> Iterable[str]:
    for field in fields:
        try:
            if field.startswith(_HEX_WORD):
                yield WORD + bytes.fromhex(field[1:]).decode()
            else:
                yield bytes.fromhex(field[1:]).decode() if field.startswith(_HEX_NAME) else field
        except ValueError:  # somebody has changed it; the description is checked later
            continue


class ActivationFinder:
    """A meta path finder that activates the run at the first import that may concern a patch.

    After that it stays only for libraries that patches are for and that could not be found yet: programs add to
    ``sys.path``.

    Args:
        triggers: top-level modules whose import activates the run, in addition to all that is not of the standard
            library; and process ids of programs that activate it at their start.
    """

    def __init__(self, triggers: Iterable[str]) -> None:
        self._triggers = frozenset(triggers)
        names = getattr(sys, "stdlib_module_names", sys.builtin_module_names)  # the former since Python 3.10
        # patchcore is not for patching itself
        ours = ("patchcore", "patchcore_startup", "pluggy", "packaging", "__main__", "__mp_main__")
        self._ignored = frozenset(names).union(ours, _SITE_MODULES) - self._triggers
        self._ready = False  # sys.path is complete
        self._activated = False
        self._error: Optional[Exception] = None  # what the activation raised, under the policy to raise
        self._lock = allocate_lock()
        self._activating: Optional[int] = None  # the thread that does
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def complete_site(self) -> None:
        """Note that ``sys.path`` is complete; activate if this is the program, or a trigger is loaded."""
        if self._ready:
            return
        self._ready = True
        if str(os.getpid()) in self._triggers or any(name in sys.modules for name in self._triggers):
            try:
                self._activate_before_the_program()
            except KeyboardInterrupt:  # ends the process as it does a program
                from signal import SIG_DFL, SIGINT, signal

                signal(SIGINT, SIG_DFL)
                os.kill(os.getpid(), SIGINT)
            except BaseException as error:  # site would go on after some, and complain about others
                _say(str(error) or type(error).__name__)
                os._exit(1)

    def _activate_before_the_program(self) -> None:
        """Activate the run with the program's folder on ``sys.path``, where it is going to be."""
        self._activating = get_ident()  # whatever is imported here
        try:
            import patchcore.builtin.run.activation  # noqa: F401  # it is not to find the program's modules for its own
        except ImportError:
            pass  # is said at the right time
        finally:
            self._activating = None
        folders = [folder for folder in _program_folders() if folder not in sys.path]
        sys.path[:0] = folders
        try:
            self.activate()
        finally:
            sys.path[:] = [entry for entry in sys.path if entry not in folders]

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        """Activate the run if ``name`` is found and may concern a patch; return what the other finders then find."""
        if name in _SITE_MODULES:
            self.complete_site()
        root = name.partition(".")[0]
        if root not in self._triggers if self._activated else root in self._ignored:
            return None
        if not self._ready or self._activating == get_ident():
            return None
        spec = self._ask_others(name, path, target)
        is_expected = not self._activated and root in self._triggers  # a plugin may make it when it is loaded
        if not is_expected and (spec is None or self._is_of_the_library(spec)):
            return None  # copy and pickle try to import Jython's classes, and so on
        was_there = name in sys.modules
        self.activate(again=True)
        if name in sys.modules and not was_there and _is_imported():
            return _already_loaded(sys.modules[name])
        return self._ask_others(name, path, target)

    def activate(self, *, again: bool = False) -> None:
        """Apply the patches of the run, once; raise again what that raised.

        Args:
            again: if this was done before, apply those whose libraries could not be found then.
        """
        if self._activating == get_ident() or (self._activated and not again):
            return
        # importlib asks finders while it holds the lock that every import of every thread needs, and fork
        held = _release_import_lock()
        try:
            if self._lock.acquire(timeout=_PATIENCE):
                try:
                    if self._error is None and (again or not self._activated):
                        self._activate()
                finally:
                    self._lock.release()
        finally:
            for _ in range(held):
                _imp.acquire_lock()
        if self._error is not None:
            raise self._error.with_traceback(None)

    def _activate(self) -> None:
        self._activating = get_ident()
        try:
            self._triggers = frozenset(_look_again() if self._activated else _activate_run())
            self._activated = True
        except Exception as error:
            self._error = error  # and stay: nothing goes on unpatched
        finally:
            self._activating = None
        if not self._triggers and self._error is None:
            self._go()

    def _go(self) -> None:
        sys.meta_path = [finder for finder in sys.meta_path if finder is not self]

    def _forked(self) -> None:
        """In the child of a fork: what another thread of the parent had begun is never ended here."""
        self._lock = allocate_lock()
        if self._activating not in (None, get_ident()):
            self._activating = None
            error = RuntimeError(
                "this process is not patched: it was forked while another thread was applying the patches"
            )
            if _policy() == "raise":
                self._error = error
            else:
                self._go()
                _say(str(error))

    def _ask_others(self, name: str, path: Any, target: Any) -> Optional[ModuleSpec]:
        for finder in list(sys.meta_path):
            if finder is not self and hasattr(finder, "find_spec"):
                spec: Optional[ModuleSpec] = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None

    def _is_of_the_library(self, spec: ModuleSpec) -> bool:
        """Tell whether a module is of the standard library, on a Python that has no list of it."""
        if self._activated or hasattr(sys, "stdlib_module_names"):
            return False
        origin = spec.origin or ""
        folders = os.path.dirname(origin).split(os.sep)
        return origin in ("built-in", "frozen") or (
            origin.startswith(os.path.dirname(os.__file__) + os.sep)
            and "site-packages" not in folders
            and "dist-packages" not in folders
        )


class ScriptHook:
    """A path hook that has a patch edit the script of the program before it is compiled.

    Python asks the path hooks whether a script is an archive, and runs the ``__main__`` of the finder that they return.
    The same is true of ``runpy.run_path``, which runs the script again in processes of multiprocessing.

    Args:
        finder: activates the run.
        words: texts, encoded; a script without one of them is left to Python.
    """

    def __init__(self, finder: ActivationFinder, words: Iterable[bytes]) -> None:
        self._finder = finder
        self._words = tuple(words)

    def __call__(self, path: str) -> Any:
        """Return the finder for the script ``path``; raise ``ImportError`` for everything else."""
        if type(path) is not str or path.endswith(".pyc") or not os.path.isfile(path):
            raise ImportError(path)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise ImportError(path) from error
        if not any(word in data for word in self._words):
            raise ImportError(path)
        self._finder.activate()
        from patchcore.builtin.rewrite.scripts import find_script

        return find_script(path)


class _Loaded:
    """Stands in for the loader of a module that the activation has imported: nothing is left to do."""

    def __init__(self, module: ModuleType, loader: Any) -> None:
        self._module = module
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        spec = getattr(self._module, "__spec__", None)
        if spec is not None:
            spec.loader = self._loader


def _is_imported() -> bool:
    """Tell whether a finder is asked for an import; others want to know only, like ``importlib.util.find_spec``."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "_find_spec":  # of importlib._bootstrap
        frame = frame.f_back
    return frame is None or frame.f_back is None or frame.f_back.f_code.co_name == "_find_and_load_unlocked"


def _already_loaded(module: ModuleType) -> Optional[ModuleSpec]:
    """Return a spec that makes the import under way end with the module that is there, not execute it again."""
    # importlib takes it, whatever a finder returns, when the module is there
    spec: Optional[ModuleSpec] = getattr(module, "__spec__", None)
    if spec is not None and not isinstance(spec.loader, _Loaded):
        loader: Any = _Loaded(module, spec.loader)
        spec.loader = loader
    return spec


def _release_import_lock() -> int:
    """Release importlib's global lock if this thread holds it; return how often it has to be acquired again."""
    held = 0
    while _imp.lock_held():
        try:
            _imp.release_lock()
        except RuntimeError:  # another thread holds it
            break
        held += 1
    return held


def _program_folders() -> list[str]:
    """Return what will be put on ``sys.path`` for the program, and what was for the one that started it."""
    name = sys.argv[0] if getattr(sys, "argv", None) else ""
    if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
        own = ""
    elif name in ("", "-", "-c", "-m"):
        try:
            own = os.getcwd()
        except OSError:  # it was deleted
            own = ""
    elif os.path.isfile(name) and not _is_archive(name):
        own = os.path.dirname(os.path.realpath(name))
    else:
        own = os.path.abspath(name)
    folders = [own, os.environ.get(_FOLDER, "")]
    if name != "-c":  # a child of multiprocessing gets the path of the program that started it
        os.environ[_FOLDER] = own
    return [folder for folder in folders if folder]


def _is_archive(path: str) -> bool:
    if path.endswith(".py"):
        return False
    from zipimport import ZipImportError, zipimporter

    try:
        zipimporter(path)
    except ZipImportError:
        return False
    return True


def _activate_run() -> Iterable[str]:
    """Apply the patches of the run; return the libraries that cannot be found yet."""
    try:
        from patchcore.builtin.run.activation import activate
    except ImportError as error:
        _give_up(error)
        return ()
    return activate(os.environ[SESSION])


def _look_again() -> Iterable[str]:
    from patchcore.builtin.run.activation import look_again

    return look_again()


def _give_up(error: ImportError) -> None:
    """Say that this Python has no patchcore, or raise, as the run's policy has it."""
    text = (
        f"this process is not patched: {sys.executable} cannot import patchcore ({error}); install it, and the "
        f"plugins, for that Python: {sys.executable} -m pip install {_install_arguments()}"
    )
    policy = _policy()
    if policy == "raise":
        raise RuntimeError(text)
    if policy == "warn":
        _say(text)


def _install_arguments() -> str:
    """Return what pip has to install for this Python.

    The Python that started the run finds it out, because its distributions may come from folders. It is started only
    here, as few runs need this. If it cannot be started, the names are returned.
    """
    import subprocess

    try:
        plugins = decode_session(os.environ[SESSION])["plugins"]
        names = ["patchcore", *(distribution for _, distribution, _ in plugins if distribution)]
    except (KeyError, TypeError, ValueError):
        names = ["patchcore"]
    environ = {name: value for name, value in os.environ.items() if name != SESSION}
    code = (
        "import sys; sys.path[:] = filter(None, sys.path)\n"  # without the folder of the program
        "from patchcore.builtin.install.command import install_arguments\n"
        "print(install_arguments(*sys.argv[1:]))"
    )
    try:
        command = [_session("python"), "-c", code, *names]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30)
    except (OSError, ValueError, subprocess.SubprocessError):
        return " ".join(names)
    return done.stdout.strip() if done.returncode == 0 else " ".join(names)


def _policy() -> str:
    """Return the run's policy about failures, for where patchcore itself cannot be asked."""
    return _session("settings", "on_failure") or ("raise" if is_strict(os.environ.get(SESSION, "")) else "warn")


def _session(*keys: str) -> str:
    """Return a text of the description of the run, empty if it has none."""
    try:
        found = decode_session(os.environ[SESSION])
        for key in keys:
            found = found[key]
    except (KeyError, TypeError, ValueError):
        return ""
    return str(found)


def _say(text: str) -> None:
    """Write a line to stderr, if there is one; a process does not fail for what it has to say."""
    text = "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)
    try:
        sys.stderr.write(f"patchcore: {text}\n")
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        pass
