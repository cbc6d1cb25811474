#!/usr/bin/env python3
"""Kills the server of a mount in the middle of its work, again and again on one image, which is
then as a power cut leaves it. What a program was told to be durable must be there.

usage: kills.py FLASHKIT [--seed S] [--rounds N] [--chip NAME]

Threads write, cut, link, rename and remove files, each in a directory of its own. Each keeps what
its files and names were, and what of that is durable at least: by fsync, a rename, or
`flashkit sync`. After so many operations as the seed says the server gets SIGKILL. Then `fsck -n`
must find nothing, and on a mount anew each page of a file is what it was at one of these moments,
and the names are those of one moment. Directories of earlier rounds are as they were. In two of
three runs the chip is nearly full. Exit status 1: something was not as it must be.
"""

import argparse
import errno
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

PAGE = 2048
OPTIONS = ["", "commit=0", "commit=1", "no_writeback_cache", "sync", "errors=continue", "relatime"]
ENDS = (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO)


class Past:
    """What something was, one state after the other, and from which on it may be found."""

    def __init__(self, state):
        self.states, self.sure = [state], 0

    def now(self):
        return self.states[-1]

    def durable(self, at):
        self.sure = max(self.sure, at)

    def may(self):
        return self.states[self.sure:]


class Worker(threading.Thread):
    """Writes in a directory until the mount ends."""

    def __init__(self, path, seed, options, count):
        super().__init__()
        self.path, self.random, self.count = path, random.Random(seed), count
        self.sync = options == "sync"
        self.names, self.serial, self.wrong, self.begun = Past({}), 0, None, False

    def run(self):
        try:
            os.mkdir(self.path)
            self.begun = True
            while True:
                self.step()
                self.count.append(1)
        except OSError as error:
            if error.errno not in ENDS:
                self.wrong = error

    def step(self):
        work = self.random.choices(
            [self.create, self.write, self.cut, self.fsync, self.fsync_names, self.remove,
             self.link, self.replace, self.pause], [6, 12, 3, 5, 3, 4, 2, 5, 1])[0]
        try:
            work()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise

    def at(self, name):
        return os.path.join(self.path, name)

    def new_name(self):
        self.serial += 1
        return f"{self.serial}-{'x' * self.random.choice([0, 5, 80])}"

    def rename(self, changes, call, durable):
        """Makes a change of names; one that is refused has made none."""
        before = self.names.now()
        after = {n: f for n, f in {**before, **changes}.items() if f is not None}
        self.names.states.append(after)
        try:
            call()
        except OSError as error:
            if error.errno not in ENDS:
                self.names.states.append(before)
            raise
        if durable or self.sync:
            self.names.durable(len(self.names.states) - 1)

    def change(self, past, contents, call):
        """Makes a change of contents: what it told is what it did, so much and no more."""
        before = past.now()
        past.states.append(contents(None))
        try:
            told = call()
            if told is not None:
                past.states.append(contents(told))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            past.states.append(before)
            # What was to be written over may be so in part.
            past.states.append(self.seen(past))
        if self.sync:
            past.durable(len(past.states) - 1)

    def seen(self, past):
        name = next(n for n, f in self.names.now().items() if f is past)
        with open(self.at(name), "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return file.read()

    def data(self):
        longest = self.random.choice([300, 300, 5000, 5000, 60_000, 400_000])
        return self.random.randbytes(self.random.randrange(1, longest))

    def pick(self):
        names = self.names.now()
        if not names:
            self.create()
            names = self.names.now()
        name = self.random.choice(list(names)[-12:])
        return name, names[name]

    def create(self):
        name, past = self.new_name(), Past(b"")
        made = lambda: os.close(os.open(self.at(name), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644))
        self.rename({name: past}, made, False)
        self.write_to(name, past)

    def write(self):
        self.write_to(*self.pick())

    def write_to(self, name, past):
        old, data = past.now(), self.data()
        offset = self.random.choice([len(old), self.random.randrange(len(old) + 1)])
        behind = lambda told: data if told is None else data[:told]
        contents = lambda told: old[:offset] + behind(told) + old[offset + len(behind(told)):]
        flags = self.random.choice([0, 0, 0, os.O_DSYNC])
        fd = os.open(self.at(name), os.O_RDWR | flags)
        try:
            self.change(past, contents, lambda: os.pwrite(fd, data, offset))
            if flags:
                self.sync_file(name, past, fd)
        finally:
            os.close(fd)

    def cut(self):
        name, past = self.pick()
        old = past.now()
        size = self.random.choice([0, self.random.randrange(len(old) + 5000)])
        cut = old[:size].ljust(size, b"\0")
        self.change(past, lambda _: cut, lambda: os.truncate(self.at(name), size))

    def sync_file(self, name, past, fd):
        at, names = len(past.states) - 1, self.names.states
        os.fsync(fd)
        past.durable(at)
        first = len(names) - 1
        while first > 0 and names[first - 1].get(name) is past:
            first -= 1
        self.names.durable(first)

    def fsync(self):
        name, past = self.pick()
        fd = os.open(self.at(name), os.O_RDWR)
        try:
            self.sync_file(name, past, fd)
        finally:
            os.close(fd)

    def fsync_names(self):
        fd = os.open(self.path, os.O_RDONLY)
        try:
            at = len(self.names.states) - 1
            os.fsync(fd)
            self.names.durable(at)
        finally:
            os.close(fd)

    def remove(self):
        name, _ = self.pick()
        self.rename({name: None}, lambda: os.unlink(self.at(name)), False)

    def link(self):
        (name, past), to = self.pick(), self.new_name()
        self.rename({to: past}, lambda: os.link(self.at(name), self.at(to)), False)

    def replace(self):
        """Renames a file, mostly over another, which has its contents before then."""
        (name, past), (to, over) = self.pick(), self.pick()
        if past is over or self.random.random() < 0.2:
            to, over = self.new_name(), None
        if self.random.random() < 0.5:
            fd = os.open(self.at(name), os.O_RDWR)
            try:
                self.sync_file(name, past, fd)
            finally:
                os.close(fd)
        at = len(past.states) - 1
        self.rename({name: None, to: past}, lambda: os.rename(self.at(name), self.at(to)), True)
        if over is not None:
            past.durable(at)

    def pause(self):
        time.sleep(self.random.choice([0.01, 0.1, 0.3]))

    def found(self):
        """What is wrong with what is found of all this."""
        if self.wrong is not None:
            return f"{self.path}: {self.wrong}"
        if not os.path.isdir(self.path):
            return f"{self.path} is missing" if self.begun else None
        there = {name: contents(self.at(name)) for name in os.listdir(self.path)}
        fit = [names for names in self.names.may() if names.keys() == there.keys()]
        if not fit:
            return f"{self.path}: {sorted(there)} are the names of no moment"
        wrong = ""
        for names in fit:
            bad = [name for name in names if not is_of(there[name], names[name].may())]
            if not bad:
                return None
            wrong = f"{self.at(bad[0])}: {len(there[bad[0]])} bytes that never were"
        return wrong


def contents(path):
    with open(path, "rb") as file:
        return file.read()


def is_of(found, states):
    """Whether each page is that of one of these states, and the size one between theirs."""
    sizes = [len(state) for state in states]
    if not min(sizes) <= len(found) <= max(sizes):
        return False
    for at in range(0, len(found), PAGE):
        page = found[at:at + PAGE]
        cut = any(at < size < at + len(page) for size in sizes)
        same = lambda state: state[at:at + PAGE].ljust(len(page), b"\0")[:len(page)] == page
        if not cut and not any(map(same, states)):
            return False
    return True


def snapshot(top):
    """A digest of each file."""
    walked = ((at, name) for at, _, names in os.walk(top) for name in names)
    paths = [os.path.join(at, name) for at, name in walked]
    return {path: hashlib.sha256(contents(path)).hexdigest() for path in paths}


class Run:
    """One image and its mounts."""

    def __init__(self, args, work):
        self.args, self.random = args, random.Random(args.seed)
        self.image, self.point = os.path.join(work, "kills.img"), os.path.join(work, "mount")
        os.mkdir(self.point)
        self.flashkit("mkfs", "--chip", args.chip, self.image)
        self.before = {}

    def flashkit(self, *words):
        done = subprocess.run([self.args.flashkit, *words], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"kills: {' '.join(words)}: {done.stdout}{done.stderr}"
                     f"seed {self.args.seed}; the image: {self.kept()}")

    def kept(self):
        kept = os.path.abspath(f"kills-{self.args.seed}.img")
        shutil.copy(self.image, kept)
        return kept

    def mount(self, options):
        words = ["mount", "-f"] + (["-o", options] if options else []) + [self.image, self.point]
        server = subprocess.Popen([self.args.flashkit, *words], stdout=subprocess.PIPE, text=True)
        if "is mounted" not in server.stdout.readline():
            sys.exit(f"kills: no mount; seed {self.args.seed}; the image: {self.kept()}")
        return server

    def unmount(self, server):
        self.flashkit("umount", self.point)
        server.stdout.read()
        if server.wait() != 0:
            sys.exit(f"kills: the mount ended with {server.returncode}")

    def work(self, number):
        """Threads on a mount, and its end."""
        options, count = self.random.choice(OPTIONS), []
        server = self.mount(options)
        threads = [Worker(os.path.join(self.point, f"{number}-{i}"),
                          self.args.seed * 1000 + number * 10 + i, options, count)
                   for i in range(3)]
        for thread in threads:
            thread.start()
        enough = self.random.randrange(5, 400)
        while len(count) < enough and any(thread.is_alive() for thread in threads):
            time.sleep(0.002)
        server.send_signal(signal.SIGKILL)
        server.wait()
        for thread in threads:
            thread.join()
        subprocess.run(["umount", self.point], check=True)
        return threads

    def fill(self, mebibytes):
        server = self.mount("")
        with open(os.path.join(self.point, "filler"), "wb") as file:
            for _ in range(mebibytes):
                file.write(self.random.randbytes(1 << 20))
        self.unmount(server)

    def round(self, number):
        threads = self.work(number)
        self.flashkit("fsck", "-n", self.image)
        image = self.kept()
        server = self.mount("")
        wrong = [found for found in (thread.found() for thread in threads) if found]
        now = snapshot(self.point)
        wrong += [path for path, was in self.before.items() if now.get(path) != was]
        # Room for the next round.
        for name in os.listdir(self.point):
            if name != "filler" and self.random.random() < 0.6:
                shutil.rmtree(os.path.join(self.point, name))
        self.before = snapshot(self.point)
        self.unmount(server)
        if wrong:
            sys.exit(f"kills: {wrong[0]}; seed {self.args.seed}, round {number}; "
                     f"the image after the kill: {image}")
        os.unlink(image)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("flashkit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--chip", default="micron-20m")
    args = parser.parse_args()
    work = tempfile.mkdtemp(prefix="kills.")
    run = Run(args, work)
    try:
        run.fill([0, 12, 14][args.seed % 3])
        for number in range(args.rounds):
            run.round(number)
    finally:
        if os.path.ismount(run.point):
            subprocess.run(["umount", "-l", run.point], check=False)
        shutil.rmtree(work)
    print(f"seed {args.seed}: killed {args.rounds} times; all that was durable is there")


if __name__ == "__main__":
    main()
