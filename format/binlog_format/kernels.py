"""How kernels are compiled, and the rules that they keep.

A kernel is one loop over NumPy arrays, compiled by Numba and kept in its file cache. Rules:

* Byte buffers are C-contiguous, writable ``uint8`` arrays (Numba compiles read-only arrays a second time), made by
  `empty_bytes` and filled in place.
* Tables are structured arrays; a kernel takes its columns by name (``start = events["start"]``), which means the same
  with and without the compiler (``NUMBA_DISABLE_JIT=1``).
* A kernel checks every bound itself and never reads past its input. It raises nothing: it returns an error code and
  the place, and the Python function around it names the error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]

_Function = TypeVar("_Function", bound="Callable[..., object]")


def kernel(function: _Function) -> _Function:
    """Compile *function* at its first call; the machine code is cached on disk and runs without the GIL."""
    # Not at the top: it takes a third of a second, and who only handles bytes (or looks for Spark sources) needs none.
    import numba

    return cast("_Function", numba.njit(cache=True, nogil=True)(function))


def empty_bytes(size: int) -> Bytes:
    """A byte buffer fit for kernels; its content is undefined."""
    return np.empty(size, dtype=np.uint8)


def as_bytes(data: bytes | bytearray | memoryview) -> Bytes:
    """A copy of *data* fit for kernels."""
    return np.frombuffer(data, dtype=np.uint8).copy()
