#!/usr/bin/env python3
"""How large the file system is: the C library, linked with nothing but all its functions.

usage: size.py LIBRARY [ELF...]

Fails if it is larger than it may be, or if a panic can be reached in it or in one of the images.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Code and constants of everything, the C interface included.
CODE_MAX = 7620
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
        symbols = output("arm-none-eabi-nm", "-S", elf)
        for image in [elf, *images]:
            found = re.findall(r"\S*panic\S*", output("arm-none-eabi-nm", image))
            if found:
                sys.exit(f"{image}: a panic can be reached: {found}")
    interface = sum(int(size, 16) for size, name in re.findall(r" (\w+) T (nanofs_\w+)", symbols))
    print(f"{len(functions)} functions: {code} bytes of code and constants, of which {interface} are"
          f" the C interface; {data + bss} of static data")
    if code > CODE_MAX or data + bss:
        sys.exit(f"more than {CODE_MAX}")


if __name__ == "__main__":
    main()
