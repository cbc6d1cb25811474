#!/usr/bin/env python3
"""Runs the sensor firmware in QEMU and cuts its power at random; what was synced must be there.

usage: test.py ELF [--cuts N] [--seed S] [--image FILE] [--stack BYTES]

After each cut the firmware starts again on the same card, reads everything and says what it has
found. The RAM that it says it has used must be within bounds, too.
"""

import argparse
import random
import subprocess
import sys
import time

SENSORS = 8
RAM_MAX = 2560
CARD = 4 << 20


def run(elf, image, seconds):
    """Runs the firmware for some host seconds; gives the lines that it has printed."""
    qemu = subprocess.Popen(
        ["qemu-system-arm", "-M", "lm3s6965evb", "-display", "none", "-monitor", "none",
         "-serial", "stdio", "-semihosting", "-icount", "shift=3,sleep=off",
         "-drive", f"if=sd,file={image},format=raw", "-kernel", elf],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        out, _ = qemu.communicate(timeout=seconds)
        return out.decode().splitlines(), qemu.returncode
    except subprocess.TimeoutExpired:
        qemu.kill()
        out, _ = qemu.communicate()
        # A line may be torn.
        return out.decode().split("\n")[:-1], None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("elf")
    parser.add_argument("--cuts", type=int, default=12)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--image", default="card.img")
    parser.add_argument("--stack", type=int, default=512, help="bytes it may have")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with open(args.image, "wb") as card:
        card.truncate(CARD)

    def fail(what):
        sys.exit(f"{what}; test.py --seed {args.seed} --cuts {args.cuts}")

    synced = set()
    last = 0
    ram = stack = busiest = 0
    for cut in range(args.cuts + 1):
        # The first run has time to format; each later one is cut anywhere, its recovery included.
        lines, code = run(args.elf, args.image, 3 if cut == 0 else rng.uniform(0.2, 2.5))
        if code is not None:
            fail(f"run {cut} ended by itself: {lines[-3:]}")
        for line in lines:
            word, *numbers = line.split()
            numbers = [int(n) for n in numbers if n.isdecimal()]
            if word == "synced":
                synced.add(numbers[0])
                last = numbers[0]
            elif word == "found":
                if numbers[2] < last:
                    fail(f"run {cut}: sensor {numbers[0]} ends at {numbers[2]}, {last} was synced")
            elif word == "gap":
                lost = [s for s in range(numbers[1], numbers[2] + 1) if s in synced]
                if lost:
                    fail(f"run {cut}: sensor {numbers[0]} has lost {lost}")
            elif word == "files" and numbers[0] != SENSORS + 1:
                fail(f"run {cut}: {numbers[0]} files")
            elif word == "ram":
                ram = max(ram, numbers[0])
                stack = max(stack, numbers[1])
                busiest = max(busiest, numbers[2])
            elif word == "formatted" and cut > 0:
                fail(f"run {cut}: the volume was gone")
            elif word not in ("formatted", "space", "torn", "files", "mounted"):
                fail(f"run {cut}: {line}")
    if not ram:
        fail("no run was long enough to measure the RAM")
    print(f"{args.cuts} cuts, {len(synced)} seconds synced, none lost (seed {args.seed})")
    print(f"RAM {ram} bytes, stack {stack} bytes, the busiest second {busiest} us of instructions")
    if ram > RAM_MAX or stack > args.stack:
        fail("more RAM than allowed")


if __name__ == "__main__":
    main()
