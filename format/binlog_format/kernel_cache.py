"""Machine code of kernels on disk: `KernelCache`.

The machine code of a kernel holds that of the kernels it calls and the constants it uses, whatever modules they are of.
Numba keeps it for as long as the kernel's own file is the same: after an update that changed another file, it would run
the old code of that one, and pip leaves what Numba kept where it is. Here it is kept by `stamp_of` the kernel.
"""

from __future__ import annotations

import glob
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numba.core import types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.runtime.nrt import rtsys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OWN_PREFIX = "binlog_"
"""Packages whose functions are followed. Of Numba its version counts, and NumPy's functions are an interface."""
_DIGEST_SIZE = 16


class KernelCache(FunctionCache):
    """Numba's cache of the code of one function, which is of what that function is compiled from now.

    Args:
        allocates: Whether it makes arrays, for which it needs Numba's runtime.
    """

    def __init__(self, function: Callable[..., object], *, allocates: bool) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._allocates = allocates
        # The stamp is in the names of the files: Numba writes the index before the code, and a process that is killed
        # between the two would leave an index of this stamp with the code of another one.
        stamp = stamp_of(function)
        self._kept_name = f"{self._impl.filename_base}.{stamp}"
        self._cache_file = IndexDataCacheFile(self._cache_path, self._kept_name, stamp)  # type: ignore[no-untyped-call]

    def load_overload(self, sig: object, target_context: object) -> object:
        """See Numba, which loads all that its compiler knows first, a sixth of a second: kept code needs none."""
        if self._allocates:
            rtsys.initialize(target_context)
        try:
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except (AttributeError, ImportError):
            # Another version of this program kept it, with a class of an argument that has another name now.
            self.flush()  # type: ignore[no-untyped-call]
            return None

    def save_overload(self, sig: object, data: object) -> None:
        """See Numba; what was kept of the function as it was before goes."""
        super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        for file in Path(self._cache_path).glob(f"{glob.escape(self._impl.filename_base)}.*nb[ci]"):
            if not file.name.startswith(self._kept_name):
                with suppress(OSError):  # a user who may not remove it leaves it
                    file.unlink()

    def _index_key(self, sig: tuple[object, ...], codegen: object) -> tuple[object, ...]:
        # A class with named fields in another order, of the same types, is the same type to Numba.
        key: tuple[object, ...] = super()._index_key(sig, codegen)  # type: ignore[no-untyped-call]
        return (*key, tuple(map(_field_names, sig)))


def _field_names(argument: object) -> tuple[object, ...]:
    # Of the tuples in the type of an argument.
    made: Any = argument
    inner = tuple(map(_field_names, made.types)) if isinstance(argument, types.BaseTuple) else ()
    return (made.fields, inner) if isinstance(argument, types.BaseNamedTuple) else inner


def stamp_of(function: Callable[..., object]) -> str:
    """A digest of the code of *function*, of all that it calls, and of their constants.

    Raises:
        TypeError: It uses a global value of a kind that is not known here.
    """
    assert isinstance(function, FunctionType)
    reached = {function}
    waiting = [function]
    while waiting:
        for called in _own_part(waiting.pop())[1]:
            if called not in reached:
                reached.add(called)
                waiting.append(called)
    parts = sorted(_own_part(function)[0] for function in reached)
    return blake2b(b"".join(parts), digest_size=_DIGEST_SIZE).hexdigest()


@cache
def _own_part(function: FunctionType) -> tuple[bytes, tuple[FunctionType, ...]]:
    """The digest of a function without what it calls, and the functions that it calls."""
    digest = blake2b(repr((function.__module__, function.__defaults__)).encode(), digest_size=_DIGEST_SIZE)
    called: list[FunctionType] = []
    for code in _with_inner(function.__code__):
        plain = [constant for constant in code.co_consts if not isinstance(constant, CodeType)]
        digest.update(repr((code.co_code, code.co_names, code.co_varnames, plain)).encode())
        for name in (*code.co_names, *(constant for constant in plain if isinstance(constant, str))):
            digest.update(_content_of(name))
        for name in code.co_names:
            if name in function.__globals__:
                _take(function.__globals__[name], digest, called)
    for cell in function.__closure__ or ():
        _take(cell.cell_contents, digest, called)
    return digest.digest(), tuple(called)


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)


@cache
def _content_of(name: str) -> bytes:
    # Of a module that a function imports by itself, mostly one that loads Numba; empty for all other names and texts.
    if not name.startswith(_OWN_PREFIX) or not all(map(str.isidentifier, name.split("."))):
        return b""
    spec = find_spec(name)
    # By its loader: the package may be in an archive.
    return b"" if spec is None or spec.origin is None else cast("bytes", cast("Any", spec.loader).get_data(spec.origin))


def _take(value: object, digest: blake2b, called: list[FunctionType]) -> None:
    # Adds a value that a function uses to its own digest, or to the functions that it calls.
    functions = [part for part in _parts(value) if isinstance(part, FunctionType)]
    if functions:
        called += [function for function in functions if function.__module__.startswith(_OWN_PREFIX)]
    elif isinstance(value, np.ndarray):
        digest.update(repr((value.dtype, value.shape)).encode() + value.tobytes())
    elif isinstance(value, type):
        digest.update(repr((value, getattr(value, "_fields", None))).encode())
    elif isinstance(value, bool | int | float | str | bytes | tuple | np.generic | None):
        digest.update(repr(value).encode())
    elif isinstance(value, ModuleType):
        digest.update(value.__name__.encode())
    else:
        raise TypeError(f"a kernel uses a {type(value)}, of which it is not known what it is compiled to")


def _parts(value: object) -> tuple[object, ...]:
    # A kernel and an intrinsic of Numba wrap their function; where another stands for it, something makes that one.
    return value, getattr(value, "__wrapped__", None), getattr(value, "make", None)
