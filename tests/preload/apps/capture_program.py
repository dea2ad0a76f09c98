# SPDX-License-Identifier: Apache-2.0
"""Creates and ends Python frames on 8 threads while apps/capture.c reads them: capture_program.py LIBRARY COUNT.

Each thread makes cycles, unfinished generators, coroutines, exceptions with deep tracebacks,
classes with finalizers, and code that is compiled, run and freed. At certain lines it asks the
probe for the frames, and compares the answer with sys._getframe. It ends COUNT captures after its
start, which makes captures itself, and prints the numbers of captures, stacks, questions and right answers."""
import ctypes
import gc
import random
import sys
import threading
import weakref

THREADS = 8
library = ctypes.PyDLL(sys.argv[1])
released = ctypes.CDLL(sys.argv[1])  # releases the GIL during the call
for one in library, released:
    one.probed_file.restype = one.probed_function.restype = ctypes.c_char_p
    one.captures.restype = one.captured_stacks.restype = ctypes.c_long
wanted = library.captures() + int(sys.argv[2])
frame = sys._getframe
lock = threading.Lock()
asked, right, wrong = 0, 0, []


def name_of(code):
    return getattr(code, "co_qualname", code.co_name)


def judge(line, probe, caller):
    """Compares the probe's answer with `caller`, the frame that called the probe."""
    global asked, right
    seen = (line, probe.probed_file().decode(), probe.probed_function().decode())
    truth = (caller.f_lineno, caller.f_code.co_filename, name_of(caller.f_code))
    with lock:
        asked += 1
        if seen == truth:
            right += 1
        elif len(wrong) < 5:
            wrong.append((seen, truth))


class Knot:
    def __init__(self, depth):
        self.knot = [self, {depth: str(depth)}, bytearray(depth)]

    def __del__(self):
        judge(library.probe(), library, frame())


def generator(n):
    for i in range(n):
        judge(library.probe(), library, frame())
        yield [i] * 3


def deep(n):
    if n == 0:
        judge(released.probe(), released, frame())
        raise ValueError("deep")
    try:
        return deep(n - 1) + 1
    finally:
        str(n) * 3


async def coroutine(n):
    if n:
        await coroutine(n - 1)
    (
        judge(library.probe(),
              library, frame())
    )


def drive(one):
    try:
        one.send(None)
    except StopIteration:
        pass


def generated(chance):
    """Returns code of many lines, some of them far apart, that queries the probe once."""
    count = chance.randrange(3, 200)
    at = chance.randrange(count)
    lines = ["def made(x):"]
    for i in range(count):
        lines.append("\n" * (chance.random() < 0.1) * chance.randrange(200) + f"    x = [x, {i}][1]")
        if i == at:
            lines.append("    (x,\n\n     judge(library.probe(), library, frame()))")
    scope = {"judge": judge, "library": library, "frame": frame}
    exec(compile("\n".join(lines), f"made-{count}.py", "exec"), scope)
    scope["made"](1)


def work(seed):
    chance = random.Random(seed)
    while library.captures() < wanted:
        for i in range(20):
            Knot(i)
        half = generator(5)
        next(half)
        list(generator(3))
        del half
        try:
            deep(chance.randrange(60))
        except ValueError as error:
            error.__traceback__.tb_frame.clear
        drive(coroutine(chance.randrange(8)))
        generated(chance)
        watched = Knot(1)
        weakref.finalize(watched, str, 1)
        del watched
        [judge(library.probe(), library, frame()) for _ in range(2)]
        gc.collect(chance.randrange(3))


def main():
    sys.setswitchinterval(0.0005)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(library.captures(), library.captured_stacks(), asked, right)
    for seen, truth in wrong:
        print("seen", seen, "in truth", truth)


main()
