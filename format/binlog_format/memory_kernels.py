"""Loads and copies for kernels: `load_u8`, `load_u16`, `load_u32`, `load_u64`, `copy_bytes`; `prefetch`, `read_file`.

Each compiles to one machine instruction or one `memmove`; a loop over single bytes, or a slice assignment, runs at a
tenth of that speed. They check no bounds and accept no negative index: the kernel that calls them has done so.
Without the compiler (``NUMBA_DISABLE_JIT=1``) plain functions take their place. These do check, and so do all of them
with ``NUMBA_BOUNDSCHECK=1`` (give that a cache folder of its own, ``NUMBA_CACHE_DIR``: the cache does not tell them
apart): a kernel that reads past its input then ends in an `IndexError`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit
from numba.core import cgutils, config, types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.kernels import Bytes


def _is_byte_buffer(array: Any) -> bool:
    return isinstance(array, types.Array) and array.dtype == types.uint8 and array.ndim == 1 and array.layout == "C"


def _are_buffer_and_index(array: Any, index: Any) -> bool:
    return _is_byte_buffer(array) and isinstance(index, types.Integer)


def _pointer_to(context: Any, builder: Any, signature: Any, values: Any, argument: int = 0) -> Any:
    # To the byte of the buffer that is that argument, at the index that is the next one.
    index = context.cast(builder, values[argument + 1], signature.args[argument + 1], types.int64)
    make_proxy: Any = cgutils.create_struct_proxy
    return builder.gep(make_proxy(signature.args[argument])(context, builder, values[argument]).data, [index])


def _compiled_load(word_type: Any, result_type: Any) -> Callable[[Bytes, int], int]:
    def typed(_typing: Any, data: Any, index: Any) -> Any:
        if not _are_buffer_and_index(data, index):
            return None

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            pointer = _pointer_to(context, builder, signature, values)
            word = builder.bitcast(pointer, context.get_value_type(word_type).as_pointer())
            loaded = builder.load(word, align=1)
            return context.cast(builder, loaded, word_type, result_type)

        return result_type(data, index), generate

    return cast("Callable[[Bytes, int], int]", intrinsic(typed))


def _compiled_copy(_typing: Any, target: Any, to: Any, source: Any, at: Any, size: Any) -> Any:
    if not (_is_byte_buffer(target) and _is_byte_buffer(source)):
        return None

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        target_pointer = _pointer_to(context, builder, signature, values)
        source_pointer = _pointer_to(context, builder, signature, values, 2)
        size_64 = context.cast(builder, values[4], signature.args[4], types.int64)
        memmove: Any = cgutils.raw_memmove
        memmove(builder, target_pointer, source_pointer, size_64, context.get_constant(types.int64, 1))
        return context.get_dummy_value()

    return types.none(target, to, source, at, size), generate


def _compiled_prefetch(_typing: Any, data: Any, index: Any) -> Any:
    if not _are_buffer_and_index(data, index):
        return None

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = _pointer_to(context, builder, signature, values)
        word = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        insert: Any = cgutils.get_or_insert_function
        function = insert(builder.module, function_type, "llvm.prefetch.p0")
        to_read, into_all_caches, of_data = word(0), word(3), word(1)
        builder.call(function, [pointer, to_read, into_all_caches, of_data])
        return context.get_dummy_value()

    return types.none(data, index), generate


def _compiled_read(_typing: Any, file: Any, at: Any, target: Any, to: Any, size: Any) -> Any:
    if not _is_byte_buffer(target):
        return None

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = _pointer_to(context, builder, signature, values, 2)
        descriptor, offset, count = (
            context.cast(builder, values[number], signature.args[number], wanted)
            for number, wanted in ((0, types.int32), (1, types.int64), (4, types.int64))
        )
        word = ir.IntType(64)
        insert: Any = cgutils.get_or_insert_function
        function = insert(builder.module, ir.FunctionType(word, [ir.IntType(32), pointer.type, word, word]), "pread")
        return builder.call(function, [descriptor, pointer, count, offset])

    return types.int64(file, at, target, to, size), generate


def _plain_load(size: int) -> Callable[[Bytes, int], int]:
    def load(data: Bytes, index: int) -> int:
        if index < 0 or index + size > len(data):
            raise IndexError(f"{size} bytes at {index} of {len(data)}")
        return int.from_bytes(data[index : index + size].tobytes(), "little")

    return load


def _plain_copy(target: Bytes, to: int, source: Bytes, at: int, size: int) -> None:
    if min(to, at, size) < 0 or to + size > len(target) or at + size > len(source):
        raise IndexError(f"{size} bytes from {at} of {len(source)} to {to} of {len(target)}")
    target[to : to + size] = source[at : at + size]


def _plain_read(file: int, at: int, target: Bytes, to: int, size: int) -> int:
    if min(to, size) < 0 or to + size > len(target):
        raise IndexError(f"{size} bytes to {to} of {len(target)}")
    try:
        return os.preadv(file, [target.data[to : to + size]], at)
    except OSError:
        return -1


def _plain_prefetch(data: Bytes, index: int) -> None:
    """Nothing: only the processor has caches."""


def _checked_load(load: Callable[[Bytes, int], int], size: int) -> Callable[[Bytes, int], int]:
    """*load*, compiled, with a check of its bounds."""

    def checked(data: Bytes, index: int) -> int:
        if index < 0 or index + size > len(data):
            raise IndexError("a kernel loads bytes that are not there")
        return load(data, index)

    return cast("Callable[[Bytes, int], int]", njit(checked))


def _checked_copy(copy: Callable[[Bytes, int, Bytes, int, int], None]) -> Callable[[Bytes, int, Bytes, int, int], None]:
    """*copy*, compiled, with a check of its bounds."""

    def checked(target: Bytes, to: int, source: Bytes, at: int, size: int) -> None:
        if min(to, at, size) < 0 or to + size > len(target) or at + size > len(source):
            raise IndexError("a kernel copies bytes that are not there")
        copy(target, to, source, at, size)

    return cast("Callable[[Bytes, int, Bytes, int, int], None]", njit(checked))


def _checked_read(read: Callable[[int, int, Bytes, int, int], int]) -> Callable[[int, int, Bytes, int, int], int]:
    """*read*, compiled, with a check of its bounds."""

    def checked(file: int, at: int, target: Bytes, to: int, size: int) -> int:
        if min(to, size) < 0 or to + size > len(target):
            raise IndexError("a kernel reads to where nothing is")
        return read(file, at, target, to, size)

    return cast("Callable[[int, int, Bytes, int, int], int]", njit(checked))


load_u8: Callable[[Bytes, int], int]
"""The byte at an index; an int64 in kernels (a plain index gives a uint8, whose sums wrap without the compiler)."""
load_u16: Callable[[Bytes, int], int]
"""The little-endian number of 2 bytes at an index; an int64 in kernels."""
load_u32: Callable[[Bytes, int], int]
"""The little-endian number of 4 bytes at an index; an int64 in kernels."""
load_u64: Callable[[Bytes, int], int]
"""The little-endian number of 8 bytes at an index; a uint64 in kernels."""
copy_bytes: Callable[[Bytes, int, Bytes, int, int], None]
"""Copy from one buffer to another: target, index there, source, index there, size."""
prefetch: Callable[[Bytes, int], None]
"""Ask for the cache line of the byte at an index, which is soon to be loaded. A hint: any index will do."""
read_file: Callable[[int, int, Bytes, int, int], int]
"""`pread`: an open file's descriptor, offset there, target, index there, size; how many bytes there were, or -1."""

_config: Any = config
if _config.DISABLE_JIT:
    load_u8, load_u16, load_u32, load_u64 = (_plain_load(size) for size in (1, 2, 4, 8))
    copy_bytes = _plain_copy
    prefetch = _plain_prefetch
    read_file = _plain_read
else:
    load_u8 = _compiled_load(types.uint8, types.int64)
    load_u16 = _compiled_load(types.uint16, types.int64)
    load_u32 = _compiled_load(types.uint32, types.int64)
    load_u64 = _compiled_load(types.uint64, types.uint64)
    copy_bytes = cast("Callable[[Bytes, int, Bytes, int, int], None]", intrinsic(_compiled_copy))
    prefetch = cast("Callable[[Bytes, int], None]", intrinsic(_compiled_prefetch))
    read_file = cast("Callable[[int, int, Bytes, int, int], int]", intrinsic(_compiled_read))
    if _config.BOUNDSCHECK:
        load_u8, load_u16 = _checked_load(load_u8, 1), _checked_load(load_u16, 2)
        load_u32, load_u64 = _checked_load(load_u32, 4), _checked_load(load_u64, 8)
        copy_bytes = _checked_copy(copy_bytes)
        read_file = _checked_read(read_file)
