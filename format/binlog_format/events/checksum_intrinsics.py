"""CRC-32 by products of polynomials, in LLVM's language: `crc32_by_products`, for `checksum_kernels`.

Two products fold sixteen bytes, and eight that do not wait for each other sixty-four. Bit 0 of the first byte is the
highest power of x, as in every reflected CRC; what is here of polynomials is in that order. Source of the method:
V. Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from binlog_format.kernels import may_use

if TYPE_CHECKING:
    from collections.abc import Callable

    _Body = Callable[[Any, list[Any]], list[Any]]

_POLYNOMIAL = 0xEDB88320
_DEGREE = 32
_ONES = 0xFFFFFFFF
_BLOCK = 16
"""Bytes of the processor's registers that are used here."""
_LANES = 4
"""Blocks that are folded side by side: a product takes about four cycles, and one can begin in each."""
_LANES_SIZE = _LANES * _BLOCK

_INT_32, _INT_64, _INT_8 = ir.IntType(32), ir.IntType(64), ir.IntType(8)
_WORDS = ir.VectorType(_INT_64, 2)
_WIDE_WORDS = ir.VectorType(_INT_64, 4)
_BYTES = ir.VectorType(_INT_8, _BLOCK)
_WIDE_FEATURES = ("vpclmulqdq", "avx2")
"""Registers of 32 bytes: two products of two blocks by one instruction."""


def _power(exponent: int) -> int:
    """The remainder of x to *exponent*, as a factor: one bit lower, since a product of reflected numbers is that."""
    value = 1 << (_DEGREE - 1)
    for _ in range(exponent):
        value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
    return value << 1


def _reciprocal() -> int:
    """The quotient of x to 64 and the polynomial, 33 bits."""
    polynomial = int(f"{_POLYNOMIAL:032b}"[::-1], 2) | 1 << _DEGREE
    quotient, rest = 0, 1 << 2 * _DEGREE
    for bit in range(_DEGREE, -1, -1):
        if rest >> (bit + _DEGREE) & 1:
            quotient |= 1 << bit
            rest ^= polynomial << bit
    return int(f"{quotient:033b}"[::-1], 2)


def _fold_factors(distance: int) -> tuple[int, int]:
    """Factors of a block's low and high half that move it *distance* bytes further."""
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
        modulus = _POLYNOMIAL << 1 | 1
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
    builder.ret(builder.xor(code.reduced(state), _number(_ONES)))


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
    ones = _words(_ONES, 0)
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


def crc32_by_products() -> object:
    """The intrinsic: of a buffer, the first byte and the size, which is 16 at least."""
    return intrinsic(_by_products)
