#!/usr/bin/env python3
"""How large the file system is: the C library, linked with nothing but all its functions.

usage: size.py LIBRARY [ELF...]

Everything that is linked counts, the parts of the compiler's own library among it; the C interface
and the calls of C's device functions, which are no file system, are told apart. Fails if the file
system is larger than it may be, or if a panic can be reached in it or in one of the images.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Code and constants of the file system, and of what it is linked with.
CODE_MAX = 6144
# The same and its RAM, in the program in Rust.
ALL_MAX = 8192
HEADER = Path(__file__).parent / "../device/nanofs-c/include/nanofs.h"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    library, *images = sys.argv[1:]
    functions = sorted(set(re.findall(r"\b(nanofs_\w+)\(", HEADER.read_text())))
    with tempfile.TemporaryDirectory() as scratch:
        elf = f"{scratch}/nanofs.elf"
        wanted = [arg for name in functions for arg in ("-u", name)]
        output("arm-none-eabi-ld", "--gc-sections", "-e", "nanofs_init", *wanted, library,
               "-o", elf)
        code, data, bss = map(int, output("arm-none-eabi-size", elf).splitlines()[1].split()[:3])
        symbols = output("arm-none-eabi-nm", "-C", "-S", elf)
        for image in [elf, *images]:
            found = re.findall(r"\S*panic\S*", output("arm-none-eabi-nm", image))
            if found:
                sys.exit(f"{image}: a panic can be reached: {found}")

    def size(pattern):
        found = re.findall(rf"^\w+ (\w+) \w ({pattern})$", symbols, re.MULTILINE)
        return sum(int(size, 16) for size, *_ in found)

    interface = size(r"nanofs_\w+")
    device = size(r"<nanofs::Device as flashkit_block::BlockDevice>::\w+")
    compiler = size(r"compiler_builtins::.*|mem\w+|__aeabi_\w+")
    file_system = code - interface - device
    print(f"{len(functions)} functions: {file_system} bytes of code and constants, of which {compiler}"
          f" are the compiler's; {interface} of the C interface and {device} to call C's device;"
          f" {data + bss} of static data")
    if not (interface and device):
        sys.exit("the names in the image are not what this script expects")
    if file_system > CODE_MAX or data + bss:
        sys.exit(f"more than {CODE_MAX}")
    for image in images:
        found = re.search(r"^\w+ (\w+) b \S+::FS$", output("arm-none-eabi-nm", "-C", "-S", image),
                          re.MULTILINE)
        if found:
            ram = int(found[1], 16)
            print(f"with {ram} bytes of RAM: {file_system + ram}")
            if file_system + ram > ALL_MAX:
                sys.exit(f"more than {ALL_MAX}")
            break
    else:
        if images:
            sys.exit("no image tells how much RAM the volume takes")


if __name__ == "__main__":
    main()
