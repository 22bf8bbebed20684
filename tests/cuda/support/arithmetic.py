"""Instructions that compute: each builder turns one PTX instruction into a function on the active lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cuda.support import rounding
from tests.cuda.support.faults import Unsupported
from tests.cuda.support.lanes import DTYPES, Active, Lanes, view
from tests.cuda.support.ptx import BYTES, Instruction
from tests.cuda.support.registers import Registers, Step, step

Builder = Callable[[Registers, Instruction], Step]
BUILDERS: dict[str, Builder] = {}

ROUNDINGS = ("rn", "rz", "rm", "rp")
_FLOATS = ("f32", "f64")


def builds(*opcodes: str) -> Callable[[Builder], Builder]:
    """Register the builder of some opcodes."""

    def register(builder: Builder) -> Builder:
        BUILDERS.update(dict.fromkeys(opcodes, builder))
        return builder

    return register


def _rounding(instruction: Instruction) -> str:
    return next((m for m in instruction.modifiers if m in ROUNDINGS), "rn")


def _ufunc(
    registers: Registers, instruction: Instruction, ufunc: Any, kind: str | None = None, result: str | None = None
) -> Step:
    """A NumPy ufunc of all operands, written straight into the destination."""
    kind = kind or instruction.type
    operands = registers.sources(instruction, kind)
    out, after = registers.target(instruction.operands[0], result or kind)
    return step(lambda active: ufunc(*operands, out=out, where=active.where), after)


def _function(
    registers: Registers, instruction: Instruction, function: Callable[..., Any], kind: str, result: str | None = None
) -> Step:
    """Any function of the operands' arrays, over all lanes, kept where active."""
    operands = registers.sources(instruction, kind)
    out, after = registers.target(instruction.operands[0], result or kind)

    def compute(active: Active) -> None:
        np.copyto(out, function(*operands), where=active.where, casting="unsafe")

    return step(compute, after)


def _whole(values: Any, lanes: int) -> Lanes:
    return np.full(lanes, values) if np.ndim(values) == 0 else values


# -- integers ---------------------------------------------------------------------------------------------

_INTEGER = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_LOGICAL = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
_REAL = {"add": np.add, "sub": np.subtract, "min": np.fmin, "max": np.fmax}


@builds("add", "sub", "min", "max", "and", "or", "xor")
def _binary(registers: Registers, instruction: Instruction) -> Step:
    if instruction.type in _FLOATS:
        return _float_binary(registers, instruction)
    if "cc" in instruction.modifiers:
        return _with_carry(registers, instruction)
    table = _LOGICAL if instruction.type == "pred" else _INTEGER
    return _ufunc(registers, instruction, table[instruction.opcode])


@builds("addc", "subc")
def _with_carry(registers: Registers, instruction: Instruction) -> Step:
    """Additions that set or use the carry flag, 32 or 64 bits at a time."""
    a, b = registers.sources(instruction)
    out, after = registers.target(instruction.operands[0], instruction.type)
    bits = 8 * BYTES[instruction.type]
    uses, sets = instruction.opcode.endswith("c"), "cc" in instruction.modifiers
    subtract = instruction.opcode.startswith("sub")
    if bits != 32:
        raise Unsupported(instruction.text)

    def compute(active: Active) -> None:
        x, y = np.asarray(a).astype(np.uint32).astype(np.int64), np.asarray(b).astype(np.uint32).astype(np.int64)
        carried = registers.carry.astype(np.int64) if uses else 0
        total = x - y - carried if subtract else x + y + carried
        np.copyto(out, (total & 0xFFFFFFFF).astype(np.uint32).view(out.dtype), where=active.where)
        if sets:
            np.copyto(registers.carry, (total >> 32) != 0, where=active.where)

    return step(compute, after)


@builds("mul", "mad", "madc")
def _multiply(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    if kind in _FLOATS:
        return _fma(registers, instruction) if instruction.opcode != "mul" else _float_binary(registers, instruction)
    if instruction.opcode == "madc" or "cc" in instruction.modifiers:
        return _multiply_with_carry(registers, instruction)
    wide = f"{kind[0]}{16 * BYTES[kind]}"
    result = wide if "wide" in instruction.modifiers else kind
    a, b = registers.source(instruction.operands[1], kind), registers.source(instruction.operands[2], kind)
    out, after = registers.target(instruction.operands[0], result)
    product = _product(instruction, a, b, DTYPES[wide] if BYTES[kind] < 8 else None)
    if instruction.opcode == "mul":
        if "hi" not in instruction.modifiers:
            return step(lambda active: np.multiply(a, b, out=out, where=active.where, dtype=out.dtype), after)
        return step(lambda active: np.copyto(out, product(), where=active.where, casting="unsafe"), after)
    c = registers.source(instruction.operands[3], result)
    return step(lambda active: np.copyto(out, product() + c, where=active.where, casting="unsafe"), after)


def _product(instruction: Instruction, a: Any, b: Any, wide: Any) -> Callable[[], Any]:
    """The part of the product that the instruction keeps."""
    if "hi" in instruction.modifiers:
        return lambda: high_product(np.asarray(a), np.asarray(b))
    if "wide" in instruction.modifiers:
        return lambda: np.multiply(a, b, dtype=wide)
    return lambda: np.multiply(a, b)


def high_product(a: Lanes, b: Lanes) -> Lanes:
    """The upper half of an integer product."""
    signed = a.dtype.kind == "i"
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{a.dtype.itemsize * 2}")
        return (np.multiply(a, b, dtype=wide) >> bits).astype(a.dtype)
    x, y = a.astype(np.uint64), b.astype(np.uint64)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + ((x0 * y0) >> half)
    other = x0 * y1 + (middle & low)
    high = x1 * y1 + (middle >> half) + (other >> half)
    if signed:
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return high.astype(a.dtype) if not signed else high.view(np.int64)


def _multiply_with_carry(registers: Registers, instruction: Instruction) -> Step:
    a, b, c = registers.sources(instruction, "u32")
    out, after = registers.target(instruction.operands[0], "u32")
    uses, sets = instruction.opcode == "madc", "cc" in instruction.modifiers
    if BYTES[instruction.type] != 4:
        raise Unsupported(instruction.text)

    def compute(active: Active) -> None:
        product = np.multiply(a, b, dtype=np.uint64)
        part = product >> np.uint64(32) if "hi" in instruction.modifiers else product & np.uint64(0xFFFFFFFF)
        total = part + np.asarray(c).astype(np.uint64) + (registers.carry.astype(np.uint64) if uses else np.uint64(0))
        np.copyto(out, (total & np.uint64(0xFFFFFFFF)).astype(np.uint32), where=active.where)
        if sets:
            np.copyto(registers.carry, (total >> np.uint64(32)) != 0, where=active.where)

    return step(compute, after)


@builds("div", "rem")
def _divide(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    if kind in _FLOATS:
        return _float_binary(registers, instruction)

    def divide(a: Any, b: Any) -> Any:
        rest = np.fmod(a, b)  # the sign of the dividend, as in C
        return rest if instruction.opcode == "rem" else (a - rest) // np.where(b == 0, b + b.dtype.type(1), b)

    return _function(registers, instruction, divide, kind)


@builds("shl", "shr")
def _shift(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    bits = 8 * BYTES[kind]
    value, amount = registers.source(instruction.operands[1], kind), registers.source(instruction.operands[2], "u32")
    out, after = registers.target(instruction.operands[0], kind)
    ufunc = np.left_shift if instruction.opcode == "shl" else np.right_shift
    if np.ndim(amount) == 0 and amount < bits:
        fixed = out.dtype.type(amount)
        return step(lambda active: ufunc(value, fixed, out=out, where=active.where), after)

    def compute(active: Active) -> None:
        within = np.minimum(amount, np.uint32(bits - 1)).astype(out.dtype)
        shifted = ufunc(value, within)
        gone = np.asarray(value) < 0 if kind[0] == "s" else np.False_
        beyond = np.where(gone, out.dtype.type(-1), out.dtype.type(0)) if kind[0] == "s" else out.dtype.type(0)
        np.copyto(out, np.where(amount >= bits, beyond, shifted), where=active.where, casting="unsafe")

    return step(compute, after)


@builds("not")
def _not(registers: Registers, instruction: Instruction) -> Step:
    return _ufunc(registers, instruction, np.logical_not if instruction.type == "pred" else np.bitwise_not)


@builds("neg", "abs")
def _sign(registers: Registers, instruction: Instruction) -> Step:
    ufunc = np.negative if instruction.opcode == "neg" else np.abs
    if instruction.type in _FLOATS:
        return _flushed(registers, instruction, lambda a: ufunc(a))
    return _ufunc(registers, instruction, ufunc)


@builds("popc")
def _population_count(registers: Registers, instruction: Instruction) -> Step:
    return _function(registers, instruction, lambda a: np.bitwise_count(a), instruction.type, "u32")


@builds("clz")
def _leading_zeros(registers: Registers, instruction: Instruction) -> Step:
    bits = 8 * BYTES[instruction.type]
    return _function(registers, instruction, lambda a: bits - 1 - _highest_bit(a), instruction.type, "u32")


@builds("bfind")
def _find_highest(registers: Registers, instruction: Instruction) -> Step:
    bits = 8 * BYTES[instruction.type]

    def find(a: Any) -> Any:
        value = np.where(a < 0, ~a, a) if instruction.type[0] == "s" else a
        position = _highest_bit(value)
        if "shiftamt" in instruction.modifiers:
            return np.where(position < 0, 0xFFFFFFFF, bits - 1 - position)
        return np.where(position < 0, 0xFFFFFFFF, position)

    return _function(registers, instruction, find, instruction.type, "u32")


def _highest_bit(values: Any) -> Lanes:
    """Position of the highest set bit, −1 for none."""
    x = np.asarray(values).astype(np.uint64)
    for shift in (1, 2, 4, 8, 16, 32):
        x = x | x >> np.uint64(shift)
    return np.bitwise_count(x).astype(np.int64) - 1


@builds("brev")
def _reverse_bits(registers: Registers, instruction: Instruction) -> Step:
    size = BYTES[instruction.type]

    def reverse(a: Any) -> Any:
        octets = np.ascontiguousarray(np.asarray(a)).reshape(-1).view(np.uint8).reshape(-1, size)
        bits = np.unpackbits(octets[:, ::-1], axis=1)[:, ::-1]
        return np.packbits(bits, axis=1)[:, ::-1].copy().view(f"u{size}").ravel()

    return _function(registers, instruction, reverse, instruction.type)


@builds("bfe")
def _extract_bits(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    value = registers.source(instruction.operands[1], kind)
    position, length = (registers.source(operand, "u32") for operand in instruction.operands[2:4])
    out, after = registers.target(instruction.operands[0], kind)
    bits = 8 * BYTES[kind]

    def compute(active: Active) -> None:
        at = np.minimum(np.asarray(position) & np.uint32(255), bits).astype(np.int64)
        wide = np.minimum(np.asarray(length) & np.uint32(255), bits).astype(np.int64)
        wide = np.minimum(wide, bits - at)
        left = np.clip(bits - at - wide, 0, bits - 1).astype(out.dtype)
        right = np.clip(bits - wide, 0, bits - 1).astype(out.dtype)
        field = np.right_shift(np.left_shift(value, left), right)
        np.copyto(out, np.where(wide == 0, out.dtype.type(0), field), where=active.where, casting="unsafe")

    return step(compute, after)


@builds("bfi")
def _insert_bits(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    piece, base = (registers.source(operand, kind) for operand in instruction.operands[1:3])
    position, length = (registers.source(operand, "u32") for operand in instruction.operands[3:5])
    out, after = registers.target(instruction.operands[0], kind)
    bits = 8 * BYTES[kind]

    def compute(active: Active) -> None:
        at = (np.asarray(position) & np.uint32(255)).astype(np.uint64)
        wide = np.minimum(np.asarray(length) & np.uint32(255), bits).astype(np.uint64)
        ones = np.where(wide >= 64, ~np.uint64(0), (np.uint64(1) << np.minimum(wide, np.uint64(63))) - np.uint64(1))
        mask = np.where(at >= bits, np.uint64(0), ones << np.minimum(at, np.uint64(63)))
        moved = np.asarray(piece).astype(np.uint64) << np.minimum(at, np.uint64(63))
        merged = (moved & mask) | (np.asarray(base).astype(np.uint64) & ~mask)
        np.copyto(out, merged, where=active.where, casting="unsafe")

    return step(compute, after)


@builds("prmt")
def _permute_bytes(registers: Registers, instruction: Instruction) -> Step:
    if instruction.modifiers != ("b32",):
        raise Unsupported(instruction.text)

    def permute(a: Any, b: Any, selector: Any) -> Any:
        both = np.asarray(a).astype(np.uint64) | np.asarray(b).astype(np.uint64) << np.uint64(32)
        result = np.uint32(0)
        for place in range(4):
            choice = np.asarray(selector) >> np.uint32(4 * place)
            octet = (both >> ((choice & np.uint32(7)) * np.uint32(8)).astype(np.uint64)) & np.uint64(255)
            sign = np.where(octet & np.uint64(128), np.uint64(255), np.uint64(0))
            octet = np.where(choice & np.uint32(8), sign, octet)
            result = result | (octet << np.uint64(8 * place)).astype(np.uint32)
        return result

    return _function(registers, instruction, permute, "b32")


@builds("shf")
def _funnel_shift(registers: Registers, instruction: Instruction) -> Step:
    left, wrap = "l" in instruction.modifiers, "wrap" in instruction.modifiers

    def funnel(low: Any, high: Any, amount: Any) -> Any:
        both = np.asarray(low).astype(np.uint64) | np.asarray(high).astype(np.uint64) << np.uint64(32)
        by = np.asarray(amount) & np.uint32(31) if wrap else np.minimum(amount, np.uint32(32))
        by = by.astype(np.uint64)
        return both << by >> np.uint64(32) if left else both >> by

    return _function(registers, instruction, funnel, "b32")


@builds("lop3")
def _lookup_logic(registers: Registers, instruction: Instruction) -> Step:
    table = int(str(instruction.operands[4]), 0)
    a, b, c = (registers.source(operand, "b32") for operand in instruction.operands[1:4])
    out, after = registers.target(instruction.operands[0], "b32")

    def compute(active: Active) -> None:
        result = np.zeros(len(out), np.uint32)
        for entry in range(8):
            if table >> entry & 1:
                term = (a if entry & 4 else np.bitwise_not(a)) & (b if entry & 2 else np.bitwise_not(b))
                result |= term & (c if entry & 1 else np.bitwise_not(c))
        np.copyto(out, result, where=active.where)

    return step(compute, after)


# -- floating point ---------------------------------------------------------------------------------------


def _flushed(registers: Registers, instruction: Instruction, function: Callable[..., Any]) -> Step:
    """A function in floating point, its float32 result flushed if the instruction says so."""
    kind = instruction.type
    operands = registers.sources(instruction, kind)
    out, after = registers.target(instruction.operands[0], kind)
    flush = "ftz" in instruction.modifiers and kind == "f32"
    saturate = "sat" in instruction.modifiers

    def compute(active: Active) -> None:
        result = function(*operands)
        if saturate:
            result = np.where(np.isnan(result), 0, np.clip(result, 0, 1))
        np.copyto(out, result, where=active.where, casting="unsafe")
        if flush:
            rounding.flush(out, active.where)

    return step(compute, after)


def _float_binary(registers: Registers, instruction: Instruction) -> Step:
    kind, mode, opcode = instruction.type, _rounding(instruction), instruction.opcode
    if mode != "rn" and opcode in ("add", "sub", "mul"):
        if kind != "f32":
            raise Unsupported(instruction.text)
        return _flushed(registers, instruction, lambda a, b: _directed_binary(opcode, a, b, mode))
    ufunc = {**_REAL, "mul": np.multiply, "div": np.divide}[opcode]
    if "NaN" in instruction.modifiers:
        ufunc = {"min": np.minimum, "max": np.maximum}[opcode]
    if "sat" in instruction.modifiers or mode != "rn":
        return _flushed(registers, instruction, ufunc)
    a, b = registers.sources(instruction)
    out, after = registers.target(instruction.operands[0], kind)
    if "ftz" not in instruction.modifiers or kind == "f64":
        return step(lambda active: ufunc(a, b, out=out, where=active.where), after)

    def compute(active: Active) -> None:
        ufunc(a, b, out=out, where=active.where)
        rounding.flush(out, active.where)

    return step(compute, after)


def _directed_binary(opcode: str, a: Any, b: Any, mode: str) -> Lanes:
    x, y = np.atleast_1d(a).astype(np.float64), np.atleast_1d(b).astype(np.float64)
    if opcode == "mul":
        return rounding.directed(x * y, 0.0, mode)
    return rounding.single_sum(x, -y if opcode == "sub" else y, mode)


@builds("fma")
def _fma(registers: Registers, instruction: Instruction) -> Step:
    mode, lanes = _rounding(instruction), registers.count
    if instruction.type == "f32":
        return _flushed(registers, instruction, lambda a, b, c: rounding.fma32(*_arrays(lanes, a, b, c), mode))
    if mode != "rn":
        raise Unsupported(instruction.text)
    a, b, c = registers.sources(instruction)
    out, after = registers.target(instruction.operands[0], "f64")

    def compute(active: Active) -> None:
        if len(active.lanes) * 2 > lanes:
            np.copyto(out, rounding.fma64(*_arrays(lanes, a, b, c)), where=active.where)
        else:  # costly: worth gathering the few lanes that need it
            active.put(out, rounding.fma64(active.pick(a), active.pick(b), active.pick(c)))

    return step(compute, after)


def _arrays(lanes: int, *values: Any) -> tuple[Lanes, ...]:
    return tuple(_whole(value, lanes) for value in values)


_UNARY: dict[str, Callable[[Any], Any]] = {
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcp": lambda x: 1 / x,
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


@builds(*_UNARY)
def _unary(registers: Registers, instruction: Instruction) -> Step:
    """Functions of one number; float32 goes through float64 and is rounded once."""
    function = _UNARY[instruction.opcode]
    if instruction.type == "f32":
        return _flushed(registers, instruction, lambda a: function(np.asarray(a).astype(np.float64)).astype(np.float32))
    if "approx" in instruction.modifiers and "ftz" in instruction.modifiers:
        return _flushed(registers, instruction, lambda a: _upper_word(function(_upper_word(a))))
    return _flushed(registers, instruction, function)


def _upper_word(values: Any) -> Lanes:
    """Only the upper 32 bits of a float64: all that its approximate instructions look at and give."""
    bits = np.atleast_1d(values).astype(np.float64).view(np.uint64)
    return (bits & np.uint64(0xFFFFFFFF00000000)).view(np.float64)


@builds("copysign")
def _copy_sign(registers: Registers, instruction: Instruction) -> Step:
    return _function(registers, instruction, lambda sign, value: np.copysign(value, sign), instruction.type)


@builds("testp")
def _test(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    tiny = np.finfo(DTYPES[kind]).tiny
    tests: dict[str, Callable[[Any], Any]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= tiny),
        "subnormal": lambda x: (x != 0) & (np.abs(x) < tiny),
    }
    return _function(registers, instruction, tests[instruction.modifiers[0]], kind, "pred")


# -- comparisons, selection, conversion -------------------------------------------------------------------

_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater}
_COMPARE |= {"ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}


def _comparison(name: str, floating: bool) -> Callable[[Any, Any], Any]:
    """The comparison of that name; ordered ones are false and unordered ones true when a NaN takes part."""
    if not floating:
        return _COMPARE[name]
    if name in ("num", "nan"):
        missing = lambda a, b: np.isnan(a) | np.isnan(b)  # noqa: E731
        return missing if name == "nan" else lambda a, b: ~missing(a, b)
    if name.endswith("u") and name[:-1] in _COMPARE:
        plain = _COMPARE[name[:-1]]
        return lambda a, b: plain(a, b) | np.isnan(a) | np.isnan(b)
    if name == "ne":
        return lambda a, b: (a < b) | (a > b)
    return _COMPARE[name]


@builds("setp")
def _set_predicate(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    compare = _comparison(instruction.modifiers[0], kind in _FLOATS)
    a, b = (registers.source(operand, kind) for operand in instruction.operands[1:3])
    targets = [registers.target(name, "pred")[0] for name in str(instruction.operands[0]).split("|")]
    combine = next((_LOGICAL[m] for m in instruction.modifiers[1:] if m in _LOGICAL), None)
    if combine is None and len(targets) == 1 and isinstance(compare, np.ufunc):
        out = targets[0]
        return lambda active: compare(a, b, out=out, where=active.where)
    extra, negated = _predicate(registers, instruction, 3) if combine is not None else (np.True_, False)

    def compute(active: Active) -> None:
        found = compare(a, b)
        third = np.logical_not(extra) if negated else extra
        for target, value in zip(targets, (found, np.logical_not(found)), strict=False):
            np.copyto(target, value if combine is None else combine(value, third), where=active.where)

    return compute


def _predicate(registers: Registers, instruction: Instruction, index: int) -> tuple[Any, bool]:
    """A predicate operand and whether it is negated."""
    name = str(instruction.operands[index])
    return registers.source(name.lstrip("!"), "pred"), name.startswith("!")


@builds("selp")
def _select(registers: Registers, instruction: Instruction) -> Step:
    kind = instruction.type
    a, b = (registers.source(operand, kind) for operand in instruction.operands[1:3])
    choice, negated = _predicate(registers, instruction, 3)
    out, after = registers.target(instruction.operands[0], kind)
    if negated:
        a, b = b, a
    return step(lambda active: np.copyto(out, np.where(choice, a, b), where=active.where), after)


@builds("mov")
def _move(registers: Registers, instruction: Instruction) -> Step:
    target, value = instruction.operands
    if isinstance(target, tuple):
        return _unpack(registers, instruction, target)
    if isinstance(value, tuple):
        return _pack(registers, instruction, value)
    kind = instruction.type
    if kind == "pred":
        return _function(registers, instruction, lambda a: a, "pred")
    source = registers.source(value, kind)
    out, after = registers.target(target, kind)
    return step(lambda active: np.copyto(out, source, where=active.where), after)


def _unpack(registers: Registers, instruction: Instruction, names: tuple[str, ...]) -> Step:
    size = BYTES[instruction.type] // len(names)
    whole = registers.source(instruction.operands[1], f"u{8 * BYTES[instruction.type]}")
    parts = [(i, registers.target(name, f"b{8 * size}")[0]) for i, name in enumerate(names) if name != "_"]

    def compute(active: Active) -> None:
        before = np.array(whole)  # a part may be the very register that is taken apart
        for index, out in parts:
            np.copyto(out, before >> before.dtype.type(8 * size * index), where=active.where, casting="unsafe")

    return compute


def _pack(registers: Registers, instruction: Instruction, names: tuple[str, ...]) -> Step:
    size = BYTES[instruction.type] // len(names)
    parts = [registers.source(name, f"b{8 * size}") for name in names]
    out, after = registers.target(instruction.operands[0], f"u{8 * BYTES[instruction.type]}")

    def compute(active: Active) -> None:
        whole = out.dtype.type(0)
        for index, part in enumerate(parts):
            whole = whole | np.asarray(part).astype(out.dtype) << out.dtype.type(8 * size * index)
        np.copyto(out, whole, where=active.where)

    return step(compute, after)


@builds("cvt")
def _convert(registers: Registers, instruction: Instruction) -> Step:
    to, of = instruction.types
    source = registers.source(instruction.operands[1], of)
    out, after = registers.target(instruction.operands[0], to)
    convert = _conversion(instruction, to, of)

    def compute(active: Active) -> None:
        np.copyto(out, convert(source), where=active.where, casting="unsafe")
        if to == "f32" and "ftz" in instruction.modifiers:
            rounding.flush(out, active.where)

    return step(compute, after)


def _conversion(instruction: Instruction, to: str, of: str) -> Callable[[Any], Any]:
    integral = next((m for m in instruction.modifiers if m in ("rzi", "rni", "rmi", "rpi")), None)
    dtype = DTYPES[to]
    if to in _FLOATS and of in _FLOATS:
        if integral:
            whole = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}[integral]
            return lambda a: whole(a).astype(dtype)
        if "sat" in instruction.modifiers:
            return lambda a: np.where(np.isnan(a), 0, np.clip(a, 0, 1)).astype(dtype)
        mode = _rounding(instruction)
        if to == "f32" and of == "f64" and mode != "rn":
            return lambda a: rounding.directed(np.atleast_1d(a), 0.0, mode)
        return lambda a: np.asarray(a).astype(dtype)
    if of in _FLOATS:
        return lambda a: rounding.to_integer(np.atleast_1d(a), integral or "rzi", dtype)
    if "sat" in instruction.modifiers:
        limits = np.iinfo(dtype)
        return lambda a: np.clip(np.asarray(a).astype(object), limits.min, limits.max).astype(dtype)
    if to in _FLOATS and _rounding(instruction) != "rn":
        raise Unsupported(instruction.text)
    return lambda a: np.asarray(a).astype(dtype)


@builds("cvta")
def _convert_address(registers: Registers, instruction: Instruction) -> Step:
    """Between the addresses of a state space and generic ones; global addresses are both."""
    from tests.cuda.support.memory import LOCAL, OFFSET, SHARED

    number = {"shared": SHARED, "local": LOCAL}.get(next(m for m in instruction.modifiers if m not in ("to",)), 0)
    if "to" in instruction.modifiers and number:
        return _function(registers, instruction, lambda a: a & OFFSET, "u64")
    return _function(registers, instruction, lambda a: a | np.uint64(number << 40), "u64")


__all__ = ["BUILDERS", "view"]
