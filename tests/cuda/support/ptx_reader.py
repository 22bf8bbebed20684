"""Reads the PTX that NVIDIA's compiler emits, function after function, with scopes resolved: a register declared inside
``{ }`` gets a name of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tests.cuda.support.faults import Unsupported
from tests.cuda.support.ptx import BYTES, Address, Function, Instruction, Label, Operand, Parameter, Variable

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


class Reader:
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
