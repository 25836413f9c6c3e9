"""Compiled forms of `memory_kernels`: one machine instruction, one `memmove`, one system call.

With ``NUMBA_BOUNDSCHECK=1`` loads and copies check their bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit
from numba.core import cgutils, config, types
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.kernels import Bytes

_config: Any = config


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


def load_u8() -> object:
    """See `memory_kernels.load_u8`."""
    return _load(types.uint8, types.int64, 1)


def load_u16() -> object:
    """See `memory_kernels.load_u16`."""
    return _load(types.uint16, types.int64, 2)


def load_u32() -> object:
    """See `memory_kernels.load_u32`."""
    return _load(types.uint32, types.int64, 4)


def load_u64() -> object:
    """See `memory_kernels.load_u64`."""
    return _load(types.uint64, types.uint64, 8)


def _load(word_type: Any, result_type: Any, size: int) -> object:
    load = _compiled_load(word_type, result_type)
    return _checked_load(load, size) if _config.BOUNDSCHECK else load


def copy_bytes() -> object:
    """See `memory_kernels.copy_bytes`."""
    copy = cast("Callable[[Bytes, int, Bytes, int, int], None]", intrinsic(_compiled_copy))
    return _checked_copy(copy) if _config.BOUNDSCHECK else copy


def prefetch() -> object:
    """See `memory_kernels.prefetch`."""
    return intrinsic(_compiled_prefetch)


def read_file() -> object:
    """See `memory_kernels.read_file`."""
    read = cast("Callable[[int, int, Bytes, int, int], int]", intrinsic(_compiled_read))
    return _checked_read(read) if _config.BOUNDSCHECK else read
