"""Kernels ready to run: calls expanded in place, targets numbered, shared and local memory laid out."""

from __future__ import annotations

from tests.cuda.support.faults import Unsupported
from tests.cuda.support.ptx import Address, Function, Instruction, Kernel, Label, Operand, Variable
from tests.cuda.support.ptx_reader import Reader


def parse(text: str) -> dict[str, Kernel]:
    """All kernels of a PTX module, by name."""
    functions, variables = Reader(text).module()
    table = {function.name: function for function in functions}
    return {name: _flatten(function, table, variables) for name, function in table.items() if function.is_kernel}


def _flatten(kernel: Function, table: dict[str, Function], module: list[Variable]) -> Kernel:
    """Expand calls, number the targets and lay out shared and local memory."""
    registers: dict[str, str] = dict(kernel.registers)
    variables = [*module, *kernel.variables]
    instructions: list[Instruction] = []
    targets: dict[str, int] = {}
    _expand(kernel, table, "", {}, instructions, targets, registers, variables)
    shared, shared_bytes = _layout(variables, "shared")
    local, local_bytes = _layout(variables, "local")
    local_bytes = -(-local_bytes // 8) * 8
    parameters, parameter_bytes = _layout(variables, "param")
    local |= {name: local_bytes + offset for name, offset in parameters.items()}  # per thread, as local memory is
    return Kernel(
        kernel.name,
        tuple(kernel.parameters),
        registers,
        shared,
        shared_bytes,
        frozenset(v.name for v in module if v.space == "shared" and v.size == 0),
        local,
        local_bytes + parameter_bytes,
        tuple(v for v in module if v.space in ("global", "const")),
        tuple(instructions),
        targets,
        kernel.max_threads,
    )


def _layout(variables: list[Variable], space: str) -> tuple[dict[str, int], int]:
    offsets, at = {}, 0
    for variable in variables:
        if variable.space == space and (variable.size or space != "shared"):
            at = -(-at // variable.align) * variable.align
            offsets[variable.name] = at
            at += variable.size
    return offsets, at


def _expand(
    function: Function,
    table: dict[str, Function],
    prefix: str,
    passed: dict[str, str],
    instructions: list[Instruction],
    targets: dict[str, int],
    registers: dict[str, str],
    variables: list[Variable],
    depth: int = 0,
) -> None:
    """Append the body of `function`, its names prefixed and its parameters replaced by what was passed."""
    if depth > 8:
        raise Unsupported(f"{function.name}: calls nested too deeply (recursion?)")
    own = {name: f"{prefix}{name}" for name in function.registers}
    own |= {v.name: f"{prefix}{v.name}" for v in function.variables if v.space in ("param", "local")} | passed

    def renamed(operand: Operand) -> Operand:
        if isinstance(operand, Address):
            return Address(own.get(operand.base, operand.base), operand.offset)
        if isinstance(operand, tuple):
            return tuple(own.get(part, part) for part in operand)
        return "|".join(own.get(part, part) for part in operand.split("|"))

    if depth:
        registers |= {own[name]: kind for name, kind in function.registers.items()}
        variables += [
            Variable(own.get(v.name, v.name), v.space, v.size, v.align) for v in function.variables if v.size or v.space
        ]
    end = f"{prefix}$end"
    for item in function.body:
        if isinstance(item, Label):
            targets[prefix + item.name] = len(instructions)
            continue
        operands = tuple(renamed(operand) for operand in item.operands)
        guard = own.get(item.guard, item.guard) if item.guard else None
        if item.opcode == "call":
            callee, arguments, results = _call(item, operands, table)
            given = {p.name: a for p, a in zip(callee.parameters, arguments, strict=True)}
            given |= {p.name: r for p, r in zip(callee.results, results, strict=True)}
            name = f"{prefix}{callee.name}@{len(instructions)}:"
            _expand(callee, table, name, given, instructions, targets, registers, variables, depth + 1)
            continue
        opcode = item.opcode
        if opcode == "bra":
            operands = (prefix + str(operands[0]),)
        elif opcode == "ret" and depth:
            opcode, operands = "bra", (end,)
        instructions.append(Instruction(opcode, item.modifiers, operands, guard, item.negated, item.line, item.text))
    targets[end] = len(instructions)


def _call(
    item: Instruction, operands: tuple[Operand, ...], table: dict[str, Function]
) -> tuple[Function, tuple[str, ...], tuple[str, ...]]:
    """The function that a call names, its arguments and its results."""
    if item.guard is not None:
        raise Unsupported(f"a guarded call is not supported: {item.text}")
    results: tuple[str, ...] = operands[0] if isinstance(operands[0], tuple) else ()
    rest = operands[1:] if isinstance(operands[0], tuple) else operands
    name = str(rest[0])
    if name not in table:
        raise Unsupported(f"a call to a function outside of the module: {item.text}")
    arguments = rest[1] if len(rest) > 1 and isinstance(rest[1], tuple) else ()
    return table[name], arguments, results
