"""How kernels are compiled, and the rules that they keep.

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

import logging
import platform
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

_Function = TypeVar("_Function", bound="Callable[..., object]")


_watchers: list[Callable[[bool], None]] = []


def watch_compiling(watcher: Callable[[bool], None]) -> None:
    """Call *watcher* with True when the compiler starts on a kernel, and with False when it is done.

    Not called for kernels that are in the cache. Only kernels of modules that are imported later count.
    """
    _watchers.append(watcher)


def kernel(function: _Function) -> _Function:
    """Compile *function* at its first call; the machine code runs without the GIL, and is kept on disk where it can."""
    return _compiled(function, allocates=False)


def allocating_kernel(function: _Function) -> _Function:
    """As `kernel`, for a function that makes arrays: it must not be called once a row, nor give arrays to kernels."""
    return _compiled(function, allocates=True)


def _compiled(function: _Function, *, allocates: bool) -> _Function:
    # Not at the top: it takes a third of a second, and who only handles bytes (or looks for Spark sources) needs none.
    import numba

    njit: Callable[..., Callable[[object], object]] = numba.njit  # its types do not know of `_nrt`
    try:
        compiled = njit(cache=True, nogil=True, _nrt=allocates)(function)
    except RuntimeError as error:  # the compiler has no class of its own for it
        if "no locator available" not in str(error):
            raise
        compiled = njit(nogil=True, _nrt=allocates)(function)
        if not _NotKept.is_watching:
            _watchers.append(_NotKept())
    if _watchers:
        _register(_watchers)
    return cast("_Function", compiled)


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
    """Whether kernels may use instructions of x86 processors: the names of LLVM, `sse4.2`.

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
