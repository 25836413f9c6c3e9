"""CRC-32 of event bytes (zlib's polynomial), for kernels: `crc32`.

Where the processor multiplies polynomials (x86: PCLMULQDQ), two such products fold sixteen bytes, and eight that do not
wait for each other sixty-four; elsewhere tables take sixteen bytes a step. Most events are small, 30 to 400 bytes: what
is done once an event counts as much as what is done for each byte, and only the number of rounds depends on the size.

Bit 0 of the first byte is the highest power of x, as in every reflected CRC; what is here of polynomials is in that
order. Source of the method: V. Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
Instruction", Intel, 2009.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit
from numba.core import cgutils, config, types
from numba.extending import intrinsic

from binlog_format.kernels import kernel, may_use
from binlog_format.memory_kernels import load_u64

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

    Crc32 = Callable[[Bytes, int, int], np.uint64]
    _Body = Callable[[Any, list[Any]], list[Any]]

_POLYNOMIAL = np.uint32(0xEDB88320)
_DEGREE = 32
_SLICES = 16

# --- with tables ---------------------------------------------------------------------------------------------


def _tables() -> NDArray[np.uint32]:
    # Row k: what a byte contributes to the checksum when k more bytes follow it.
    rows = np.zeros((_SLICES, 256), dtype=np.uint32)
    value = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        value = np.where(value & 1, (value >> 1) ^ _POLYNOMIAL, value >> 1).astype(np.uint32)
    rows[0] = value
    for k in range(1, _SLICES):
        rows[k] = (rows[k - 1] >> 8) ^ rows[0][rows[k - 1] & 0xFF]
    return rows.reshape(-1)


# One row after the other; 16 KiB, which stays in the processor's first cache.
_TABLE = _tables()

_U = np.uint64
_BYTE = np.uint64(0xFF)
_ONES = np.uint64(0xFFFFFFFF)


@kernel
def _look_up(word: np.uint64, row: np.uint64) -> np.uint64:
    # The eight bytes of a word, of which the last is followed by `row / 256` more bytes of the step.
    return (
        _U(_TABLE[row + _U(1792) + (word & _BYTE)])
        ^ _U(_TABLE[row + _U(1536) + ((word >> _U(8)) & _BYTE)])
        ^ _U(_TABLE[row + _U(1280) + ((word >> _U(16)) & _BYTE)])
        ^ _U(_TABLE[row + _U(1024) + ((word >> _U(24)) & _BYTE)])
        ^ _U(_TABLE[row + _U(768) + ((word >> _U(32)) & _BYTE)])
        ^ _U(_TABLE[row + _U(512) + ((word >> _U(40)) & _BYTE)])
        ^ _U(_TABLE[row + _U(256) + ((word >> _U(48)) & _BYTE)])
        ^ _U(_TABLE[row + (word >> _U(56))])
    )


@kernel
def crc32_by_tables(data: Bytes, start: int, end: int) -> np.uint64:
    """`crc32` on any processor."""
    crc = _ONES
    p = start
    while p + 16 <= end:
        crc = _look_up(_U(load_u64(data, p)) ^ crc, _U(2048)) ^ _look_up(_U(load_u64(data, p + 8)), _U(0))
        p += 16
    if p + 8 <= end:
        crc = _look_up(_U(load_u64(data, p)) ^ crc, _U(0))
        p += 8
    while p < end:
        crc = _U(_TABLE[(crc ^ _U(data[p])) & _BYTE]) ^ (crc >> _U(8))
        p += 1
    return crc ^ _ONES


# --- with products of polynomials ----------------------------------------------------------------------------

_BLOCK = 16
"""Bytes of the processor's registers that are used here."""
_LANES = 4
"""Blocks that are folded side by side: a product takes about four cycles, and one can begin in each."""
_LANES_SIZE = _LANES * _BLOCK

_INT_32, _INT_64, _INT_8 = ir.IntType(32), ir.IntType(64), ir.IntType(8)
_WORDS = ir.VectorType(_INT_64, 2)
_WIDE_WORDS = ir.VectorType(_INT_64, 4)
_BYTES = ir.VectorType(_INT_8, _BLOCK)
_FEATURES = ("pclmul", "ssse3")
_WIDE_FEATURES = ("vpclmulqdq", "avx2")
"""Registers of 32 bytes: two products of two blocks by one instruction."""


def _power(exponent: int) -> int:
    """The remainder of x to *exponent*, as a factor: one bit lower, since a product of reflected numbers is that."""
    value = 1 << (_DEGREE - 1)
    for _ in range(exponent):
        value = (value >> 1) ^ (int(_POLYNOMIAL) if value & 1 else 0)
    return value << 1


def _reciprocal() -> int:
    """The quotient of x to 64 and the polynomial, 33 bits."""
    polynomial = int(f"{int(_POLYNOMIAL):032b}"[::-1], 2) | 1 << _DEGREE
    quotient, rest = 0, 1 << 2 * _DEGREE
    for bit in range(_DEGREE, -1, -1):
        if rest >> (bit + _DEGREE) & 1:
            quotient |= 1 << bit
            rest ^= polynomial << bit
    return int(f"{quotient:033b}"[::-1], 2)


def _fold_factors(distance: int) -> tuple[int, int]:
    """What the low and the high half of a block are multiplied with to stand *distance* bytes later."""
    return _power(8 * distance + _DEGREE), _power(8 * distance - _DEGREE)


def _words(low: int, high: int) -> Any:
    return ir.Constant(_WORDS, [low, high])


def _number(value: int) -> Any:
    return ir.Constant(_INT_64, value)


class _Code:
    # Writes the steps into a function of LLVM's language; registers are vectors of two 64-bit words.
    def __init__(self, builder: Any) -> None:
        self.builder = builder
        shuffle_type = ir.FunctionType(_BYTES, (_BYTES, _BYTES))
        insert: Any = cgutils.get_or_insert_function
        self._shuffle = insert(builder.module, shuffle_type, "llvm.x86.ssse3.pshuf.b.128")

    def load(self, pointer: Any, at: Any, register: Any = _WORDS) -> Any:
        place = self.builder.bitcast(self.builder.gep(pointer, [at]), register.as_pointer())
        return self.builder.load(place, align=1)

    def product(self, left: Any, right: Any, halves: int) -> Any:
        # Bit 0 of *halves*: the high half of *left*; bit 4: of *right*.
        register = left.type
        name = "llvm.x86.pclmulqdq" if register == _WORDS else "llvm.x86.pclmulqdq.256"
        insert: Any = cgutils.get_or_insert_function
        multiply = insert(self.builder.module, ir.FunctionType(register, (register, register, _INT_8)), name)
        return self.builder.call(multiply, [left, right, ir.Constant(_INT_8, halves)])

    def joined(self, left: Any, right: Any) -> Any:
        return self.builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(_INT_32, 4), [0, 1, 2, 3]))

    def halves(self, value: Any) -> list[Any]:
        orders = ([0, 1], [2, 3])
        order = ir.VectorType(_INT_32, 2)
        return [self.builder.shuffle_vector(value, value, ir.Constant(order, words)) for words in orders]

    def shuffled(self, value: Any, order: Any) -> Any:
        arguments = [self.builder.bitcast(one, _BYTES) for one in (value, order)]
        return self.builder.bitcast(self.builder.call(self._shuffle, arguments), _WORDS)

    def folded(self, state: Any, factors: Any, after: Any) -> Any:
        products = self.builder.xor(self.product(state, factors, 0x00), self.product(state, factors, 0x11))
        return self.builder.xor(products, after)

    def low(self, value: Any) -> Any:
        return self.builder.and_(value, _words(0xFFFFFFFF, 0))

    def down(self, value: Any, size: int) -> Any:
        as_bytes = self.builder.bitcast(value, _BYTES)
        zeros = ir.Constant(_BYTES, [0] * _BLOCK)
        order = ir.Constant(ir.VectorType(_INT_32, _BLOCK), list(range(size, size + _BLOCK)))
        return self.builder.bitcast(self.builder.shuffle_vector(as_bytes, zeros, order), _WORDS)

    def reduced(self, state: Any) -> Any:
        # 128 bits to 96, to 64, then by the reciprocal (Barrett) to the remainder of 32.
        _, high_factor = _fold_factors(_BLOCK)
        value = self.builder.xor(self.product(state, _words(high_factor, 0), 0x00), self.down(state, 8))
        value = self.builder.xor(self.product(self.low(value), _words(_power(64), 0), 0x00), self.down(value, 4))
        modulus = int(_POLYNOMIAL) << 1 | 1
        quotient = self.low(self.product(self.low(value), _words(_reciprocal(), 0), 0x00))
        value = self.builder.xor(self.product(quotient, _words(modulus, 0), 0x00), value)
        word = self.builder.extract_element(value, ir.Constant(_INT_32, 0))
        return self.builder.lshr(word, _number(_DEGREE))

    def repeated(self, at: Any, end: Any, step: int, states: list[Any], body: _Body) -> tuple[Any, list[Any]]:
        """*body* as long as *step* bytes lie between *at* and *end*; the place after it, and the last states."""
        builder = self.builder
        before = builder.block
        test, work, after = (builder.append_basic_block(name) for name in ("test", "work", "after"))
        builder.branch(test)
        builder.position_at_end(test)
        place = builder.phi(_INT_64)
        now = [builder.phi(state.type) for state in states]
        following = builder.add(place, _number(step))
        builder.cbranch(builder.icmp_signed("<=", following, end), work, after)
        builder.position_at_end(work)
        made = body(place, now)
        for phi, first, again in zip([place, *now], [at, *states], [following, *made], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(again, builder.block)
        builder.branch(test)
        builder.position_at_end(after)
        return place, now


def _write_function(function: Any) -> None:
    """The code of a function of the first byte's address and the size, which is 16 at least."""
    pointer, size = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    code = _Code(builder)
    at, state = _write_start(code, pointer, size)
    entry = builder.block
    many, few = (builder.append_basic_block(name) for name in ("many", "few"))
    builder.cbranch(builder.icmp_signed(">=", size, _number(2 * _LANES_SIZE)), many, few)
    builder.position_at_end(many)
    lanes_at, joined = _write_lanes(code, pointer, size, at, state)
    many_end = builder.block
    builder.branch(few)
    builder.position_at_end(few)
    few_at, few_state = builder.phi(_INT_64), builder.phi(_WORDS)
    for phi, without, with_lanes in ((few_at, at, lanes_at), (few_state, state, joined)):
        phi.add_incoming(without, entry)
        phi.add_incoming(with_lanes, many_end)
    factors = _words(*_fold_factors(_BLOCK))
    _, [state] = code.repeated(
        few_at, size, _BLOCK, [few_state], lambda at, now: [code.folded(now[0], factors, code.load(pointer, at))]
    )
    builder.ret(builder.xor(code.reduced(state), _number(int(_ONES))))


def _write_start(code: _Code, pointer: Any, size: Any) -> tuple[Any, Any]:
    """Fold the first bytes so that a multiple of 16 remains; where that begins, and the state.

    Zeros before the first byte change nothing: as many as make the size a multiple of 16. The ones that the first four
    bytes are inverted with may then lie in the first block and in the second.
    """
    builder = code.builder
    rest = builder.and_(size, _number(_BLOCK - 1))
    insert_constant: Any = cgutils.global_constant
    orders = insert_constant(
        builder.module, f"{builder.function.name}.orders", ir.Constant(ir.ArrayType(_INT_8, 3 * _BLOCK), _orders())
    )
    orders = builder.bitcast(orders, _INT_8.as_pointer())
    ones = _words(int(_ONES), 0)
    first = code.shuffled(builder.xor(code.load(pointer, _number(0)), ones), code.load(orders, rest))
    following = builder.add(rest, _number(_BLOCK))
    second = builder.xor(code.load(pointer, rest), code.shuffled(ones, code.load(orders, following)))
    return following, code.folded(first, _words(*_fold_factors(_BLOCK)), second)


def _write_lanes(code: _Code, pointer: Any, size: Any, at: Any, state: Any) -> tuple[Any, Any]:
    """Fold 64 bytes a round, and the lanes into one; the place after it, and the state."""
    builder = code.builder
    lanes = [state, *(code.load(pointer, builder.add(at, _number(lane * _BLOCK))) for lane in range(_LANES - 1))]
    factors = _words(*_fold_factors(_LANES_SIZE))
    register_size = _BLOCK
    if may_use(*_WIDE_FEATURES):
        lanes = [code.joined(left, right) for left, right in zip(lanes[::2], lanes[1::2], strict=True)]
        factors = ir.Constant(_WIDE_WORDS, 2 * list(_fold_factors(_LANES_SIZE)))
        register_size = 2 * _BLOCK

    def fold(place: Any, now: list[Any]) -> list[Any]:
        places = [builder.add(place, _number(lane * register_size)) for lane in range(len(now))]
        loaded = [code.load(pointer, one, factors.type) for one in places]
        return [code.folded(one, factors, after) for one, after in zip(now, loaded, strict=True)]

    after, lanes = code.repeated(builder.add(at, _number(_LANES_SIZE - _BLOCK)), size, _LANES_SIZE, lanes, fold)
    if register_size > _BLOCK:
        lanes = [half for lane in lanes for half in code.halves(lane)]
    joined = lanes[0]
    for lane in lanes[1:]:
        joined = code.folded(joined, _words(*_fold_factors(_BLOCK)), lane)
    return after, joined


def _orders() -> list[int]:
    """Orders for the shuffle, from three starts: bytes moved up, with zeros below; all in place; down, zeros above."""
    return [0x80] * _BLOCK + list(range(_BLOCK)) + [0x80] * _BLOCK


def _by_products(_typing: Any, data: Any, start: Any, size: Any) -> Any:
    is_buffer = isinstance(data, types.Array) and data.dtype == types.uint8 and data.ndim == 1 and data.layout == "C"
    if not (is_buffer and isinstance(start, types.Integer) and isinstance(size, types.Integer)):
        return None

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        start_64, size_64 = (context.cast(builder, values[i], signature.args[i], types.int64) for i in (1, 2))
        make_proxy: Any = cgutils.create_struct_proxy
        pointer = builder.gep(make_proxy(signature.args[0])(context, builder, values[0]).data, [start_64])
        name = "binlog_format.crc32_by_products"
        function = builder.module.globals.get(name)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(_INT_64, (_INT_8.as_pointer(), _INT_64)), name)
            function.linkage = "internal"
            _write_function(function)
        return builder.call(function, [pointer, size_64])

    return types.uint64(data, start, size), generate


_crc32_by_products = cast("Crc32", intrinsic(_by_products))


@kernel
def crc32_by_products(data: Bytes, start: int, end: int) -> np.uint64:
    """`crc32` on processors that multiply polynomials."""
    if end - start < _BLOCK:
        return crc32_by_tables(data, start, end)
    return _crc32_by_products(data, start, end - start)


# --- which one -----------------------------------------------------------------------------------------------


def has_products() -> bool:
    """Whether `crc32_by_products` can run here."""
    return may_use(*_FEATURES)


def _plain_crc32(data: Bytes, start: int, end: int) -> np.uint64:
    if start < 0 or start > end or end > len(data):
        raise IndexError(f"bytes {start} to {end} of {len(data)}")
    return np.uint64(zlib.crc32(data[start:end].tobytes()))


def _checked(compute: Crc32) -> Crc32:
    """*compute*, compiled, with a check of its bounds."""

    def checked(data: Bytes, start: int, end: int) -> np.uint64:
        if start < 0 or start > end or end > len(data):
            raise IndexError("a kernel computes the checksum of bytes that are not there")
        return compute(data, start, end)

    return cast("Crc32", njit(checked))


def _chosen() -> Crc32:
    settings: Any = config
    if settings.DISABLE_JIT:
        return _plain_crc32
    best = crc32_by_products if has_products() else crc32_by_tables
    return _checked(best) if settings.BOUNDSCHECK else best


crc32: Crc32 = _chosen()
"""CRC-32 of `data[start:end]`, the value that `zlib.crc32` gives; the caller has checked the bounds."""
