"""PTX as data: instructions, functions, kernels."""

from __future__ import annotations

from dataclasses import dataclass, field

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
