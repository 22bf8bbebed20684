"""Reads the PTX that NVIDIA's compiler emits into instructions that can be executed.

Scopes are resolved (a register declared inside ``{ }`` gets a name of its own) and calls are expanded in place,
so that a kernel comes out as one flat list of instructions with numbered targets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tests.cuda.support.faults import Unsupported

BYTES = {"pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4}
BYTES |= {"b64": 8, "u64": 8, "s64": 8, "f64": 8}


@dataclass(frozen=True)
class Address:
    """``[base + offset]``."""

    base: str
    offset: int


Operand = str | Address | tuple[str, ...]


@dataclass(frozen=True)
class Instruction:
    """One instruction; `line` says where in the kernel's source it came from, as ``file:number``."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str | None
    negated: bool
    line: str
    text: str

    @property
    def type(self) -> str:
        """The last type among the modifiers: the type the instruction works in."""
        for modifier in reversed(self.modifiers):
            if modifier in BYTES:
                return modifier
        raise Unsupported(f"no type in: {self.text}")

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(modifier for modifier in self.modifiers if modifier in BYTES)


@dataclass(frozen=True)
class Label:
    name: str


@dataclass(frozen=True)
class Parameter:
    name: str
    size: int
    pointer: bool


@dataclass(frozen=True)
class Variable:
    """A named piece of memory: `data` holds its initial bytes (module scope) or None."""

    name: str
    space: str
    size: int
    align: int
    data: bytes | None = None


@dataclass
class Function:
    """A kernel (`is_kernel`) or a device function, before its calls are expanded."""

    name: str
    is_kernel: bool
    parameters: list[Parameter] = field(default_factory=list)
    results: list[Parameter] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    body: list[Instruction | Label] = field(default_factory=list)
    max_threads: int = 1024


@dataclass(frozen=True)
class Kernel:
    """A kernel ready to run."""

    name: str
    parameters: tuple[Parameter, ...]
    registers: dict[str, str]
    shared: dict[str, int]
    shared_bytes: int
    dynamic: frozenset[str]
    local: dict[str, int]
    local_bytes: int
    tables: tuple[Variable, ...]
    instructions: tuple[Instruction, ...]
    targets: dict[str, int]
    max_threads: int


def parse(text: str) -> dict[str, Kernel]:
    """All kernels of a PTX module, by name."""
    functions, variables = _Reader(text).module()
    table = {function.name: function for function in functions}
    return {name: _flatten(function, table, variables) for name, function in table.items() if function.is_kernel}


_HEADER = re.compile(r"(?:\.visible\s+|\.weak\s+|\.extern\s+)*\.(entry|func)\b")
_VARIABLE = re.compile(
    r"(?P<extern>\.extern\s+)?(?:\.visible\s+|\.weak\s+)*\.(?P<space>global|const|shared|local)\s+(?:\.align\s+(?P<align>\d+)\s+)?"
    r"\.(?P<type>\w+)\s+(?P<name>[\w$]+)\s*(?P<shape>(?:\[\d*\])*)\s*(?:=\s*(?P<value>.*))?$",
    re.S,
)
_REGISTER = re.compile(r"\.reg\s+\.(\w+)\s+(.+)$", re.S)
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)(.*?)\s+([\w$]+)\s*(?:\[(\d+)\])?$", re.S)
_INSTRUCTION = re.compile(r"(?:@(!?)([%\w$]+)\s+)?([a-z][\w.:]*)\s*(.*)$", re.S)
_NAME = re.compile(r"[%\w$]+")


class _Reader:
    """Cuts the text into statements and keeps track of scopes."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        text = re.sub(r"//[^\n]*", "", text)
        text = re.sub(r"^\s*\.section\s.*?^\s*\}", "", text, flags=re.S | re.M)
        self.text = text
        self.scopes: list[dict[str, str]] = []
        self.scope_count = 0
        self.line = ""
        self.files = {
            number: path.rsplit("/", 1)[-1] for number, path in re.findall(r'\.file\s+(\d+)\s+"([^"]*)"', text)
        }

    def module(self) -> tuple[list[Function], list[Variable]]:
        functions: list[Function] = []
        variables: list[Variable] = []
        position = 0
        while (found := re.compile(r"\S").search(self.text, position)) is not None:
            position = found.start()
            if _HEADER.match(self.text, position):
                opening = self.text.index("{", position)
                end_of_prototype = self.text.find(";", position)
                if 0 <= end_of_prototype < opening:  # a declaration without a body
                    position = end_of_prototype + 1
                    continue
                closing = _matching(self.text, opening)
                functions.append(self.function(self.text[position:opening], self.text[opening + 1 : closing]))
                position = closing + 1
            elif self.text.startswith((".version", ".target", ".address_size", ".file", ".loc"), position):
                position = self.text.find("\n", position) % (len(self.text) + 1)
            else:
                end = self.text.index(";", position)
                variables.append(_variable(self.text[position:end]))
                position = end + 1
        return functions, variables

    def function(self, header: str, body: str) -> Function:
        found = re.search(r"\.(entry|func)\s*(?:\(([^)]*)\))?\s*([\w$]+)\s*(?:\((.*?)\))?(.*)$", header, re.S)
        if found is None:
            raise Unsupported(f"header not understood: {header}")
        kind, results, name, parameters, rest = found.groups()
        function = Function(name, kind == "entry", _parameters(parameters), _parameters(results))
        if limits := re.search(r"\.(?:maxntid|reqntid)\s+([\d\s,]+)", rest):
            function.max_threads = int(np.prod([int(value) for value in limits[1].split(",")]))
        self.scopes, self.line = [{}], ""
        for statement in _statements(body):
            self.statement(statement, function)
        return function

    def statement(self, text: str, function: Function) -> None:
        if text == "{":
            self.scope_count += 1
            self.scopes.append({})
        elif text == "}":
            self.scopes.pop()
        elif text.endswith(":"):
            function.body.append(Label(text[:-1].strip()))
        elif text.split(maxsplit=1)[0] == ".loc":
            _, file, line, *_ = text.split()
            self.line = f"{self.files.get(file, '?')}:{line}" if line != "0" else self.line
        elif text.startswith(".reg"):
            self.registers(text, function)
        elif text.startswith(".param"):
            parameter = _parameters(text)[0]
            function.variables.append(Variable(self.declare(parameter.name), "param", parameter.size, 8))
        elif text.startswith((".shared", ".local")):
            function.variables.append(_variable(text))
        elif text.startswith((".pragma", ".branchtargets", ".callprototype")):
            pass
        elif text.startswith("."):
            raise Unsupported(f"directive not understood: {text}")
        else:
            function.body.append(self.instruction(text))

    def registers(self, text: str, function: Function) -> None:
        found = _REGISTER.match(text)
        if found is None:
            raise Unsupported(f"registers not understood: {text}")
        for name in found[2].split(","):
            family = re.fullmatch(r"\s*([%\w$]+)<(\d+)>\s*", name)
            names = [f"{family[1]}{i}" for i in range(int(family[2]))] if family else [name.strip()]
            for register in names:
                function.registers[self.declare(register)] = found[1]

    def declare(self, name: str) -> str:
        """A name for the current scope; only inner scopes need one that differs."""
        if len(self.scopes) > 1:
            self.scopes[-1][name] = f"{name}'{self.scope_count}"
        return self.resolve(name)

    def resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def instruction(self, text: str) -> Instruction:
        found = _INSTRUCTION.match(text)
        if found is None:
            raise Unsupported(f"not understood: {text}")
        negation, guard, opcode, rest = found.groups()
        name, *modifiers = opcode.split(".")
        operands = tuple(self.operand(part) for part in _split(rest))
        return Instruction(
            name,
            tuple(part.removeprefix(":") for part in modifiers),
            operands,
            self.resolve(guard) if guard else None,
            negation == "!",
            self.line,
            " ".join(text.split()),
        )

    def operand(self, text: str) -> Operand:
        if text.startswith("["):
            base, _, offset = text[1:-1].replace(" ", "").partition("+")
            return Address(self.resolve(base), int(offset or 0))
        if text.startswith(("{", "(")):
            return tuple(self.resolve(part) for part in _split(text[1:-1]))
        return _NAME.sub(lambda found: self.resolve(found[0]), text)


def _matching(text: str, opening: int) -> int:
    depth = 0
    for found in re.compile(r"[{}]").finditer(text, opening):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return found.start()
    raise Unsupported("unbalanced braces")


def _statements(body: str) -> Iterator[str]:
    """Statements, labels and scope braces of a function body, in order."""
    position = 0
    pattern = re.compile(r"\s*(?:(\.loc\s[^\n]*)\n|([\w$]+:)(?!:)|([{}])|([^;]*?);)", re.S)
    while found := pattern.match(body, position):
        position = found.end()
        yield next(group for group in found.groups() if group is not None).strip()
    if body[position:].strip():
        raise Unsupported(f"not understood: {body[position:].strip()[:80]}")


def _split(text: str) -> list[str]:
    """Operands between commas outside of brackets."""
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "{[(") - (character in "}])")
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    if current.strip():
        parts.append(current.strip())
    return parts


def _parameters(text: str | None) -> list[Parameter]:
    parameters = []
    for part in _split(text or ""):
        found = _PARAMETER.match(part.strip())
        if found is None:
            raise Unsupported(f"parameter not understood: {part}")
        size = BYTES[found[1]] * int(found[4] or 1)
        parameters.append(Parameter(found[3], size, ".ptr" in found[2]))
    return parameters


def _variable(text: str) -> Variable:
    found = _VARIABLE.match(" ".join(text.split()))
    if found is None:
        raise Unsupported(f"variable not understood: {text[:80]}")
    item = BYTES[found["type"]]
    counts = [int(n) for n in re.findall(r"\[(\d+)\]", found["shape"])]
    size = 0 if found["extern"] else item * int(np.prod(counts, dtype=np.int64))
    data = None
    if found["space"] in ("global", "const"):
        values = [_literal(part, item) for part in _split((found["value"] or "").strip("{} "))]
        data = b"".join(values).ljust(size, b"\0")
    return Variable(found["name"], found["space"], size, int(found["align"] or item), data)


def _literal(text: str, item: int) -> bytes:
    if text.lower().startswith(("0f", "0d")):
        return int(text[2:], 16).to_bytes(item, "little")
    return (int(text, 0) % (1 << 8 * item)).to_bytes(item, "little")


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
