"""A project: every file of it converted, each by itself, in several processes where there are many."""

from __future__ import annotations

import difflib
import multiprocessing
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

from npu_migrate.migrate import extensions, other_files
from npu_migrate.migrate.facts import Owners, merge, owners
from npu_migrate.migrate.files import Source, decode, encode
from npu_migrate.migrate.findings import Finding
from npu_migrate.migrate.kernels import NO_KERNELS, ProjectKernels, compiled_by, kernel_users
from npu_migrate.migrate.rules import RuleTable

__all__ = ["Job", "Outcome", "convert_files", "default_jobs"]

#: From how many files on other processes are worth starting: each imports libcst first.
MANY = 64
#: How many files a process is given at a time.
_CHUNK = 4
#: The limits for an expression that nests deeply: bytes of address space, and calls of Python.
_STACK, _DEPTH = 512 * 2**20, 20_000

Progress = Callable[[], None]


class Job(NamedTuple):
    """The settings and facts that all files of a project share.

    Args:
        table: the rules.
        distributed: make scripts for one card scripts for several.
        owned: the names that classes of the project define, see :mod:`.facts`.
        with_cuda: whether the project has CUDA sources.
        kernels: facts about compiled operators that its modules share.
    """

    table: RuleTable
    distributed: bool = False
    owned: Owners = {}
    with_cuda: bool = False
    kernels: ProjectKernels = NO_KERNELS


class Outcome(NamedTuple):
    """The outcome of one file.

    Args:
        path: the file, and its name in findings.
        name: its path below the folder that is converted.
        content: its new content, ``None`` where it stays.
        diff: from the old to the new one, as lines of a unified diff.
        findings: in the order of the source.
    """

    path: Path
    name: str
    content: Optional[bytes]
    diff: str
    findings: tuple[Finding, ...]


def default_jobs() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def convert_files(
    files: Sequence[tuple[Path, str]], job: Job, *, jobs: int = 1, progress: Progress = lambda: None
) -> Iterator[Outcome]:
    """Convert files and yield the result of each, in their order, whatever the number of processes.

    A file that cannot be read or parsed becomes a finding; the others are converted.

    Args:
        files: paths, as findings show them, and their paths below the folder that is converted.
        job: the facts that are the same for all; ``owned``, ``with_cuda`` and ``kernels`` are completed here.
        jobs: how many processes to use where there are many files.
        progress: called once for each file.
    """
    python = [(path, name) for path, name in files if path.suffix in (".py", ".pyw")]
    members = job.table.names_of("method") | job.table.names_of("member")
    with _mapping(len(python), jobs) as apply:
        owned = merge([job.owned, *apply(_owners, [(path, members) for path, _ in python])])
        with_cuda = job.with_cuda or any(path.suffix in (".cu", ".cuh") for path, _ in files)
        compiled = job.kernels.compiled.union(*map(_compiled, (path for path, _ in python if path.name == "setup.py")))
        kernels = job.kernels._replace(compiled=compiled, modules=frozenset(path.stem for path, _ in python))
        users = kernels.users.union(*apply(_users, [(path, job.table, kernels) for path, _ in python]))
        whole = job._replace(owned=owned, with_cuda=with_cuda, kernels=kernels._replace(users=users))
        for outcome in apply(_convert, [(path, name, whole) for path, name in files]):
            progress()
            yield outcome


Apply = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]


@contextmanager
def _mapping(files: int, jobs: int) -> Iterator[Apply]:
    if jobs < 2 or files < MANY:
        yield map
        return
    # spawned: the progress bar of this process is a thread, and forking beside threads is not safe
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        try:
            yield lambda function, items: pool.map(function, items, chunksize=_CHUNK)
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _owners(task: tuple[Path, frozenset[str]]) -> dict[str, frozenset[str]]:
    path, members = task
    try:
        return owners(decode(path.read_bytes()).text, members)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return {}  # said when it is converted


def _compiled(path: Path) -> frozenset[str]:
    try:
        return compiled_by(decode(path.read_bytes()).text)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return frozenset()


def _users(task: tuple[Path, RuleTable, ProjectKernels]) -> frozenset[str]:
    path, table, kernels = task
    try:
        source = decode(path.read_bytes()).text
        found: frozenset[str] = _with_deep_stack(lambda: kernel_users(source, table, kernels))
        return found
    except Exception:  # said when it is converted
        return frozenset()


def _convert(task: tuple[Path, str, Job]) -> Outcome:
    path, name, job = task
    shown = path.as_posix()
    try:
        if path.suffix in (".py", ".pyw"):
            return _convert_python(path, name, job)
        return Outcome(path, name, None, "", tuple(_look_into(path, shown, job)))
    except RecursionError:
        return _failed(path, name, "nested too deeply to be read")
    except (OSError, UnicodeError) as error:
        return _failed(path, name, str(error))
    except Exception as error:  # one file is not to stop the others
        return _failed(
            path, name, f"{type(error).__name__}: {error}; this is a bug in patchcore migrate, please report it"
        )


def _convert_python(path: Path, name: str, job: Job) -> Outcome:
    from libcst import ParserSyntaxError

    from npu_migrate.migrate.convert import NotReproduced, convert

    shown = path.as_posix()
    try:
        source = decode(path.read_bytes())
    except (SyntaxError, UnicodeDecodeError) as error:
        hint = "declare its encoding in the first line: # -*- coding: latin-1 -*-"
        return _failed(path, name, f"not read as Python: {error}; {hint}")
    try:
        made = _with_deep_stack(
            lambda: convert(source.text, job.table, shown, job.owned, distributed=job.distributed, kernels=job.kernels)
        )
    except NotReproduced as error:
        return _failed(path, name, str(error))
    except ParserSyntaxError as error:
        return _failed(path, name, f"not Python 3: {error.message}", error.raw_line, error.raw_column + 1)
    if made.source == source.text:
        return Outcome(path, name, None, "", made.findings)
    content = encode(Source(made.source, source.encoding))
    return Outcome(path, name, content, _diff(source.text, made.source, shown.lstrip("/")), made.findings)


def _with_deep_stack(function: Callable[[], Any]) -> Any:
    """Call a function in a thread with a stack on which expressions may nest deeply.

    The parser of libcst is native and recursive: on an ordinary stack some thousand brackets end the process.
    """
    done: list[Any] = []

    def run() -> None:
        try:
            done.append((function(), None))
        except BaseException as error:
            done.append((None, error))

    limit, size = sys.getrecursionlimit(), threading.stack_size(_STACK)
    sys.setrecursionlimit(max(limit, _DEPTH))
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    result, error = done[0]
    if error is not None:
        raise error
    return result


def _look_into(path: Path, name: str, job: Job) -> Iterator[Finding]:
    is_cpp, is_notebook = path.suffix in extensions.SUFFIXES, path.suffix == ".ipynb"
    if not is_cpp and not is_notebook and not other_files.has_rules(path.name, job.table):
        return
    source = path.read_text(encoding="utf-8", errors="replace")
    if is_cpp:
        yield from extensions.operators(source, job.table, name, with_cuda=job.with_cuda)
    elif is_notebook:
        yield from other_files.notebook(source, job.table, name)
    else:
        yield from other_files.lines(source, job.table, name)


def _failed(path: Path, name: str, message: str, line: int = 1, column: int = 1) -> Outcome:
    return Outcome(path, name, None, "", (Finding(path.as_posix(), line, column, "file", "error", name, "", message),))


def _diff(old: str, new: str, name: str) -> str:
    """A unified diff; where the end of the last line is missing, that is said as patch expects it."""
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
