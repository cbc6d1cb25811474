#!/usr/bin/env python3
"""Code size and stack of the programs that `measure` has built, and whether they have grown.

usage: figures.py DIRECTORY    where whole, everyday, boot and spi_nand are

Code: what is linked of .text, .rodata and .ARM.exidx, the measuring program's own among it.
Stack: along the deepest path of calls in the linked program, from the frame of each function and
its direct calls. Of functions that call each other each counts once. Calls through pointers count
as nothing: they are a caller's closures. What the driver needs comes besides; and of a mount, which
is everything under Volume::bring_back, the volume itself, some 1,800 bytes.

Both depend on the compiler. A figure more than one part in a hundred above its bound fails: whoever
means it to grow changes the bound here.
"""

import re
import subprocess
import sys

sys.setrecursionlimit(10_000)

# Of each program: what it is, bytes of code, and of stack under these functions.
PROGRAMS = {
    "whole": ("FlashLight, the whole API", 169_040, {"FlashLight::format_with": 4_528}),
    "everyday": ("FlashLight, the everyday calls", 133_592, {
        "Volume::bring_back": 3_936,
        "FlashLight::write": 3_816,
        "FlashLight::unlink": 3_752,
    }),
    "boot": ("the boot reader of FlashLight", 24_688, {
        "Boot::load": 1_440,
        "Boot::follow": 2_560,
        "Boot::read": 1_288,
    }),
    "spi_nand": ("the driver of SPI NAND, with the parts of Winbond", 8_110, {}),
}
SLACK = 1.01


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def code_of(elf):
    sections = output("arm-none-eabi-size", "-A", elf)
    return sum(int(m[1]) for m in re.finditer(r"(?m)^\.(?:text|rodata|ARM\.exidx)\S* +(\d+)", sections))


def registers(listed):
    count = 0
    for one in listed.strip("{}").split(","):
        first, _, last = one.strip().partition("-")
        count += int(last[1:]) - int(first[1:]) + 1 if last else 1
    return count


class Program:
    """The functions of an ELF file: their names, frames and calls."""

    def __init__(self, elf):
        self.names, self.frames, self.calls, self.depths = {}, {}, {}, {}
        here = None
        for line in output("arm-none-eabi-objdump", "-d", "--no-show-raw-insn", "--demangle",
                           elf).splitlines():
            if found := re.match(r"([0-9a-f]+) <(.*)>:$", line):
                here = int(found[1], 16)
                self.names[here], self.frames[here], self.calls[here] = found[2], 0, set()
            elif found := re.match(r"\s+[0-9a-f]+:\s+(\S+)\s*(.*)", line):
                self.instruction(here, *found.groups())
        self.measure()

    def instruction(self, here, operation, operands):
        if operation.startswith("push"):
            self.frames[here] += 4 * registers(operands)
        elif operation.startswith("stmdb") and operands.startswith("sp!"):
            self.frames[here] += 4 * registers(operands.split(", ", 1)[1])
        elif operation.startswith("sub") and operands.startswith("sp, "):
            if constant := re.search(r"#(\d+)", operands):
                self.frames[here] += int(constant[1])
        elif operation.startswith("b"):
            # A call, or a jump to the beginning of another function as its last.
            if target := re.search(r"([0-9a-f]+) <[^+]*>$", operands):
                self.calls[here].add(int(target[1], 16))

    def circles(self):
        """The functions in groups of those that call each other, callees first (Tarjan)."""
        order, low, waiting, groups = {}, {}, [], []

        def visit(function):
            order[function] = low[function] = len(order)
            waiting.append(function)
            for called in self.calls[function] & self.frames.keys():
                if called not in order:
                    visit(called)
                if called in waiting:
                    low[function] = min(low[function], low[called])
            if low[function] == order[function]:
                at = waiting.index(function)
                groups.append(waiting[at:])
                del waiting[at:]

        for function in self.frames:
            if function not in order:
                visit(function)
        return groups

    def measure(self):
        for group in self.circles():
            below = {called for function in group for called in self.calls[function]} - set(group)
            depth = sum(self.frames[function] for function in group)
            depth += max((self.depths.get(called, 0) for called in below), default=0)
            self.depths.update(dict.fromkeys(group, depth))

    def stack(self, name):
        kind, method = name.split("::")
        return max(
            (self.depths[at] for at, full in self.names.items()
             if full.endswith(">::" + method) and f"::{kind}<" in full),
            default=None,
        )


def check(what, figure, bound):
    print(f"{what}: {figure} bytes")
    if figure > bound * SLACK:
        sys.exit(f"{what}: more than {bound} and one part in a hundred")


def main():
    directory = sys.argv[1]
    for name, (what, code, stacks) in PROGRAMS.items():
        elf = f"{directory}/{name}"
        check(f"{what}: code and constants", code_of(elf), code)
        program = Program(elf)
        for function, most in stacks.items():
            stack = program.stack(function)
            if stack is None:
                sys.exit(f"{name} has no function {function}")
            check(f"{what}: stack of {function}", stack, most)
    for name in ("boot", "spi_nand"):
        if any("panic" in function for function in Program(f"{directory}/{name}").names.values()):
            sys.exit(f"{PROGRAMS[name][0]} can panic")


if __name__ == "__main__":
    main()
