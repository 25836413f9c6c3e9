"""Compilation of kernels, and the rules that kernels follow.

A kernel is one loop over NumPy arrays, compiled by Numba and kept in its file cache. Rules:

* Byte buffers are C-contiguous, writable ``uint8`` arrays (Numba compiles read-only arrays a second time), made by
  `empty_bytes` and filled in place.
* Tables are structured arrays; a kernel takes its columns by name (``start = events["start"]``), which means the same
  with and without the compiler (``NUMBA_DISABLE_JIT=1``).
* A kernel checks every bound itself and never reads past its input. It raises nothing: it returns an error code and
  the place, and the Python function around it names the error.
* A kernel makes no arrays: what it fills is given to it. Numba then counts no references, which it else does, with
  locked instructions, at each call of a small function: of cutting a log into events that was two thirds of the time.
  The few that need scratch space of their own declare it (`allocating_kernel`).
"""

from __future__ import annotations

import functools
import logging
import platform
import sys
import threading
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]
    Uint64s = NDArray[np.uint64]
    Mask = NDArray[np.bool_]
    Indices = Int64s
    """Numbers of rows."""

_Function = TypeVar("_Function", bound="Callable[..., object]")

_watchers: list[Callable[[bool], None]] = []
_lock = threading.RLock()
_is_interpreted: ContextVar[bool] = ContextVar("_is_interpreted", default=False)


def watch_compiling(watcher: Callable[[bool], None]) -> None:
    """Call *watcher* with True when the compiler starts on a kernel, and with False when it is done.

    Not called for kernels that are in the cache.
    """
    _watchers.append(watcher)


@contextmanager
def interpreted() -> Iterator[None]:
    """Run kernels as Python within this context, so that the compiler, a third of a second, is not loaded.

    For work on a few pages: a kernel takes a hundred times as long so.
    """
    token = _is_interpreted.set(True)
    try:
        yield
    finally:
        _is_interpreted.reset(token)


def is_interpreted() -> bool:
    """True if kernels run as Python here."""
    return _is_interpreted.get()


SMALL_WORK_MAX = 256 << 10
"""Bytes that kernels read as Python sooner than the compiler is loaded: a fifth of a second, at most."""
_WORK_SIZE_MIN, _ALL_WORK_MAX = 16 << 10, 1 << 20


class _SmallWork:
    # What this process has done as Python so far: where there is always more, the compiler is worth it.
    size = 0


@contextmanager
def interpreted_if_small(measure: Callable[[], int]) -> Iterator[None]:
    """`interpreted` for work on a few bytes, until the compiler is loaded, or would have been loaded sooner.

    Args:
        measure: Gives the bytes that are read at most; called only where it matters.
    """
    is_small = "numba" not in sys.modules and _SmallWork.size < _ALL_WORK_MAX and (size := measure()) <= SMALL_WORK_MAX
    if is_small:
        _SmallWork.size += max(size, _WORK_SIZE_MIN)
    with interpreted() if is_small else nullcontext():
        yield


@contextmanager
def compiled() -> Iterator[None]:
    """Compile kernels within this context, also within `interpreted`: for work that may be more than a few pages."""
    token = _is_interpreted.set(False)
    try:
        yield
    finally:
        _is_interpreted.reset(token)


def kernel(function: _Function) -> _Function:
    """Compile *function* at its first call; the machine code runs without the GIL, and is kept on disk where it can."""
    return cast("_Function", _Kernel(function, allocates=False))


def allocating_kernel(function: _Function) -> _Function:
    """Like `kernel`, for a function that makes arrays: do not call it once per row, or give its arrays to kernels."""
    return cast("_Function", _Kernel(function, allocates=True))


class _Decorator(Protocol):
    def __call__(self, function: _Function, /) -> _Function: ...


def compiled_as(make: Callable[[], object]) -> _Decorator:
    """Make a decorator: compiled kernels call the result of *make* in place of the function.

    *make* gives an intrinsic, a kernel or a compiled function, and is called when a kernel that uses the function is
    compiled. Python, and kernels without the compiler, call the function itself.
    """

    def substituted(function: _Function) -> _Function:
        return cast("_Function", _Substituted(function, make))

    return substituted


class _Kernel:
    # What Numba compiles, made at the first use: Numba takes a third of a second to load, and many a module that has
    # kernels is imported by commands that call none.
    def __init__(self, function: Callable[..., object], *, allocates: bool) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._name = function.__qualname__
        self._allocates = allocates
        self._compiled: Callable[..., object] | None = None

    def __call__(self, *arguments: object) -> object:
        run = self._compiled or (self._function if _is_interpreted.get() else self.prepared())
        return run(*arguments)

    def __reduce__(self) -> str:
        return self._name  # in its module, as functions are pickled

    @property
    def _numba_type_(self) -> object:
        # Numba asks for it where a kernel calls this one.
        prepared: Any = self._compiled or self.prepared()
        return prepared._numba_type_

    def prepared(self) -> Callable[..., object]:
        """The compiled form of the function; the function itself if the compiler is switched off."""
        with _lock:
            if self._compiled is None:
                self._compiled = _made(self._function, allocates=self._allocates)
            return self._compiled


def _made(function: Callable[..., object], *, allocates: bool) -> Callable[..., object]:
    import numba  # takes a third of a second, and who only handles bytes needs none

    from binlog_format.kernel_cache import KernelCache

    njit: Callable[..., Callable[[object], Any]] = numba.njit  # its types do not know of `_nrt`
    made = njit(nogil=True, _nrt=allocates)(function)
    try:
        if hasattr(made, "_cache"):  # the compiler is not switched off
            made._cache = KernelCache(function, allocates=allocates)
    except RuntimeError as error:  # the compiler has no class of its own for it
        if "no locator available" not in str(error):
            raise
        if not _NotKept.is_watching:
            _watchers.append(_NotKept())
    if _watchers:
        _register(_watchers)
    return cast("Callable[..., object]", made)


class _Substituted:
    # A function that stands for other code in kernels that are compiled.
    def __init__(self, function: Callable[..., object], make: Callable[[], object]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._name = function.__qualname__
        self.make = make
        self._substitute: object = None

    def __call__(self, *arguments: object) -> object:
        return self._function(*arguments)

    def __reduce__(self) -> str:
        return self._name

    @functools.cached_property
    def _numba_type_(self) -> object:
        from numba.core.registry import cpu_target  # loaded by then: Numba asks

        self._substitute, context = self.make(), cast("Any", cpu_target).typing_context  # its type holds it weakly
        context.refresh()  # an intrinsic that has just been made is not known before
        return context.resolve_value_type(self._substitute)


class _NotKept:
    # Where neither the folder of the package, nor that of the user, nor NUMBA_CACHE_DIR can be written.
    is_watching = False

    def __init__(self) -> None:
        _NotKept.is_watching = True
        self._is_told = False

    def __call__(self, starts: bool) -> None:
        if starts and not self._is_told:
            self._is_told = True
            logging.getLogger(__name__).warning(
                "What is compiled for this machine cannot be kept, and is compiled again by each process: "
                "set NUMBA_CACHE_DIR to a folder that can be written"
            )


def _register(watchers: list[Callable[[bool], None]]) -> None:
    from numba.core import event

    class Listener(event.Listener):
        def __init__(self, watcher: Callable[[bool], None]) -> None:
            self._watcher = watcher

        def on_start(self, _event: object) -> None:
            self._watcher(True)

        def on_end(self, _event: object) -> None:
            self._watcher(False)

    while watchers:
        event.register("numba:compile", Listener(watchers.pop()))  # type: ignore[no-untyped-call]


def may_use(*features: str) -> bool:
    """True if kernels may use these instructions of x86 processors, named as in LLVM: `sse4.2`.

    What kernels are compiled for counts: this processor, or the one that NUMBA_CPU_FEATURES describes. Only what has
    been tried is used: never without the compiler, and never on other processors.
    """
    from llvmlite import binding  # type: ignore[import-untyped]
    from numba.core import config

    settings = cast("Any", config)
    if platform.machine() not in ("x86_64", "AMD64") or settings.DISABLE_JIT:
        return False
    if settings.CPU_FEATURES is not None:
        return all(f"+{name}" in settings.CPU_FEATURES.split(",") for name in features)
    host = binding.get_host_cpu_features()
    return all(host.get(name, False) for name in features)


def empty_bytes(size: int) -> Bytes:
    """A byte buffer fit for kernels; its content is undefined."""
    return np.empty(size, dtype=np.uint8)


def as_bytes(data: bytes | bytearray | memoryview) -> Bytes:
    """A copy of *data* fit for kernels."""
    return np.frombuffer(data, dtype=np.uint8).copy()


def offsets_of(sizes: Int64s) -> Int64s:
    """Starts of things of these sizes, one after the other, and the end of the last one."""
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets
