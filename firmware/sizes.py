#!/usr/bin/env python3
"""How much code, and stack, each C library of this project takes in a program for a Cortex-M3 that
keeps every function of its header, and file systems of others beside them, as a table.

usage: sizes.py DIRECTORY    where the archives are made

Code: .text and .rodata of what is linked, the parts of newlib-nano and libgcc among it. Stack:
along the deepest path of direct calls, for each function named (flashlight-size/figures.py); what a
driver needs comes besides. Of the others it is not told: they call much through pointers.

Needs what `build` needs. littlefs is the copy of the crate littlefs2-sys, which `cargo fetch` gets;
YAFFS2 that of U-Boot, which lab/rivals/yaffs2/fetch.sh gets from Debian. They are compiled by
arm-none-eabi-gcc -Os, littlefs without malloc, assertions and logs. What is not there is left out,
in one line that says so.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.append(str(HERE / "flashlight-size"))
from figures import Program, code_of  # noqa: E402

CPU = ["-mcpu=cortex-m3", "-mthumb"]
GCC = ["arm-none-eabi-gcc", *CPU, "-Os", "-ffunction-sections", "-fdata-sections", "-w"]

# Of each library of ours: its name, and calls whose stack is told.
OURS = {
    "flashlight": ["flashlight_mount", "flashlight_write"],
    "flashlight-boot": ["flashlight_boot_open", "flashlight_boot_read"],
    "jftl": ["jftl_mount", "jftl_write"],
    "nanofs": ["nanofs_open", "nanofs_write"],
}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def link(elf, objects, functions, *more):
    keep = [f"-Wl,-u,{name}" for name in functions]
    subprocess.run(
        ["arm-none-eabi-gcc", *CPU, "-nostdlib", "-Wl,--gc-sections,-z,noexecstack",
         f"-Wl,-e,{functions[0]}", *keep, *more, *map(str, objects), "-lc_nano", "-lgcc",
         "-o", str(elf)],
        check=True)


def row(what, elf, stacks=()):
    program = Program(elf)
    at = {name: address for address, name in program.names.items()}
    told = ", ".join(f"`{name}` {program.depths[at[name]]:,}" for name in stacks)
    print(f"| {what} | {code_of(elf):,} | {told} |", flush=True)


def ours(out):
    for name, stacks in OURS.items():
        library = name.replace("-", "_")
        header = HERE / f"../device/{name}-c/include/{library}.h"
        subprocess.run([HERE / "archive", name, out], check=True)
        functions = sorted(set(re.findall(rf"\b({library}_\w+)\(", header.read_text())))
        elf = out / f"size-{name}.elf"
        link(elf, [out / f"lib{library}.a"], functions)
        row(name, elf, stacks)


def compiled(out, sources, flags):
    objects = []
    for source in sources:
        objects.append(out / f"size-{source.stem}.o")
        subprocess.run([*GCC, *flags, "-c", source, "-o", objects[-1]], check=True)
    return objects


def littlefs(out):
    found = json.loads(output("cargo", "metadata", "--format-version", "1", "--all-features",
                              "--locked", "--manifest-path", str(HERE / "../Cargo.toml")))
    packages = [p for p in found["packages"] if p["name"] == "littlefs2-sys"]
    source = Path(packages[0]["manifest_path"]).parent / "littlefs"
    off = [f"-DLFS_NO_{what}" for what in ("MALLOC", "ASSERT", "DEBUG", "WARN", "ERROR")]
    objects = compiled(out, [source / "lfs.c", source / "lfs_util.c"], off)
    functions = re.findall(r" T (lfs_\w+)", output("arm-none-eabi-nm", str(objects[0])))
    elf = out / "size-littlefs.elf"
    link(elf, objects, functions)
    version = re.search(r"LFS_VERSION 0x0*(\w+?)0*(\w+)\s", (source / "lfs.h").read_text())
    row(f"littlefs {version[1]}.{int(version[2], 16)}", elf)


def yaffs2(out):
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("FLASHKIT_YAFFS2") or cache / "flashkit/yaffs2")
    rivals = HERE / "../lab/rivals"
    if not (folder / "version").exists():
        print("left out: YAFFS2, whose sources lab/rivals/yaffs2/fetch.sh gets", file=sys.stderr)
        return
    build = (rivals / "build.rs").read_text()
    listed = {}
    for name in ("FILES", "HEADERS", "OPTIONS"):
        values = re.search(rf"const {name}[^=]*= \[(.*?)\]", build, re.S)[1]
        listed[name] = re.findall(r'"([^"]+)"', values)
    for name in listed["HEADERS"]:
        path = out / "size-include" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    source = folder / "source"
    # As on Linux: it takes `unsigned` for `uint32_t`, and has a type of glibc's.
    flags = ["-U__UINT32_TYPE__", "-D__UINT32_TYPE__=unsigned int", "-Dloff_t=int64_t",
             *[f"-D{option}" for option in listed["OPTIONS"]], "-fno-strict-aliasing",
             "-include", rivals / "yaffs2/uboot.h", "-I", out / "size-include", "-I", source]
    files = [source / f"yaffs_{name}.c" for name in listed["FILES"]]
    objects = compiled(out, [*files, source / "yaffsfs.c"], flags)
    functions = re.findall(r" T (yaffs_\w+)", output("arm-none-eabi-nm", str(objects[-1])))
    elf = out / "size-yaffs2.elf"
    # Memory and messages are what a port brings.
    link(elf, objects, functions, "-Wl,--unresolved-symbols=ignore-all")
    version = (folder / "version").read_text().split()[-1]
    row(f"YAFFS2 of U-Boot {version.split('+')[0]}", elf)


def main():
    out = Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    print("| every function of | code and constants, bytes | stack, bytes |\n| --- | --- | --- |")
    ours(out)
    littlefs(out)
    yaffs2(out)


main()
