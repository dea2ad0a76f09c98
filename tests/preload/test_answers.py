# SPDX-License-Identifier: Apache-2.0
"""Programs with one problem each: the summary names the cause of most idle time, its line, and a remedy only if it
would help. The expected answers were written before the programs first ran."""

import concurrent.futures
import dataclasses
import json
import os
import re
import textwrap

import pytest
from conftest import COMMAND, SOURCE, Runner
from test_python import DEBIAN

# A step submits a little work, as a training loop does, so that its thread becomes the feeding thread.
START = """
import ctypes, multiprocessing, os, queue, sys, threading, time
sys.path.insert(1, PRELOAD_TESTS)
sys.path.insert(1, os.path.join(os.path.dirname(__file__), "site-packages"))
import feeder
memory = ctypes.c_uint64()
def start():
    feeder.start()
    feeder.check(feeder.libcuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)))
def step():
    feeder.check(feeder.libcuda.cuMemsetD8_v2(memory, 0, ctypes.c_size_t(64)))
def steps(between):
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        step()
        between()
def thread(work):
    threading.Thread(target=work, daemon=True).start()
"""


@dataclasses.dataclass
class Case:
    """A program. The line of the answer has the comment `# here`."""
    causes: str    # the cause of most idle time; one of these
    remedy: str    # a part of the remedy; "" if the answer must have none, None if it depends on the machine
    program: str
    # Modules that the program imports, by path below a folder site-packages.
    packages: dict = dataclasses.field(default_factory=dict)
    # A thread that computes has no CPU for most of the time beside two busy processes on each CPU.
    computes: bool = False


def workers(body, count=2):
    return textwrap.dedent(body) + f"""
def load(queue, number):
    while True:
        queue.put(make(number))
if __name__ == "__main__":
    batches = multiprocessing.Queue(2)
    workers = [multiprocessing.Process(target=load, args=(batches, n), daemon=True) for n in range({count})]
    for worker in workers:
        worker.start()
    start()
    steps(batches.get)
    for worker in workers:
        worker.kill()
"""


# An optimizer that calls `launch` after each parameter. Its first 20 ms without a launch count as computing.
OPTIM = {"torch/__init__.py": "", "torch/optim/__init__.py": "", "torch/optim/adamw.py": """
    def step(launch):
        for parameter in range(80):
            sum(range(100000))
            launch()
"""}

# A GPU whose kernels take 200 us.
GPU = """
sys.path.insert(1, EXAMPLES)
import feed
device = feed.Device(4096, 200, False)
arguments = (ctypes.c_void_p * 1)(ctypes.addressof(device.nanoseconds))
def launch():
    device.cuda.cuLaunchKernel(device.spin, 1, 1, 1, 1, 1, 1, 0, device.stream, arguments, None)
end = time.monotonic() + float(sys.argv[1])
"""

CASES = {
    # The submitting thread.
    "nap": Case("sleep", "", """
        def nap():
            time.sleep(0.03)  # here
        start()
        steps(nap)
    """),
    "lock": Case("lock", "less time", """
        lock = threading.Lock()
        def hold():
            while True:
                with lock:
                    time.sleep(0.05)
        thread(hold)
        def between():
            with lock:  # here
                pass
        start()
        steps(between)
    """),
    "queue_in_c": Case("queue", "", """
        requests = queue.SimpleQueue()
        def ask():
            while True:
                time.sleep(0.05)
                requests.put(1)
        thread(ask)
        def between():
            requests.get()  # here
        start()
        steps(between)
    """),
    "lock_beside_a_queue": Case("lock", "less time", """
        lock = threading.Lock()
        requests = queue.SimpleQueue()
        def hold():
            while True:
                with lock:
                    requests.put(1)
                    time.sleep(0.05)
        thread(hold)
        def between():
            print(requests.get(), requests.qsize(), lock.acquire(), file=quiet)  # here
            lock.release()
        quiet = open(os.devnull, "w")
        start()
        steps(between)
    """),
    "lock_before_the_first_step": Case("lock", "", """
        lock = threading.Lock()
        lock.acquire()
        threading.Timer(float(sys.argv[1]), lock.release).start()
        start()
        step()
        with lock:  # here
            pass
        step()
    """),
    "native_lock": Case("waiting", "", """
        libc = ctypes.CDLL(None)
        mutex = ctypes.create_string_buffer(64)
        libc.pthread_mutex_lock(mutex)
        def wait():
            until = (ctypes.c_long * 2)(*divmod(time.time_ns() + 50000000, 1000000000))
            libc.pthread_mutex_timedlock(mutex, until)  # here
        start()
        steps(wait)
    """),
    "event": Case("thread", "", """
        event = threading.Event()
        def tick():
            while True:
                time.sleep(0.05)
                event.set()
        thread(tick)
        def wait():
            event.wait()  # here
            event.clear()
        start()
        steps(wait)
    """),
    "future": Case("thread", "", """
        import concurrent.futures
        pool = concurrent.futures.ThreadPoolExecutor(1)
        def wait():
            pool.submit(time.sleep, 0.05).result()  # here
        start()
        steps(wait)
    """),
    "requests": Case("queue", "", """
        requests = queue.Queue()
        def arrive():
            while True:
                time.sleep(0.05)
                requests.put(1)
        thread(arrive)
        def serve():
            requests.get()  # here
        start()
        steps(serve)
    """),
    "full_queue": Case("queue_full", "", """
        answers = queue.Queue(1)
        def send():
            while True:
                time.sleep(0.05)
                answers.get()
        thread(send)
        def answer():
            answers.put(1)  # here
        start()
        steps(answer)
    """),
    "full_pipe": Case("pipe_full", "write less", """
        import logging
        read, write = os.pipe()
        def drain():
            while True:
                time.sleep(0.02)
                os.read(read, 8192)
        thread(drain)
        logging.basicConfig(stream=open(write, "w"), level=logging.INFO)
        line = "x" * 4000
        def log():
            logging.info(line)  # here
        start()
        steps(log)
    """),
    "pipe": Case("pipe", "", """
        read, write = os.pipe()
        def fill():
            while True:
                time.sleep(0.05)
                os.write(write, b"x")
        thread(fill)
        def wait():
            os.read(read, 1)  # here
        start()
        steps(wait)
    """),
    "socket": Case("network", "", """
        import socket
        here, there = socket.socketpair()
        def answer():
            while there.recv(1):
                time.sleep(0.05)
                there.send(b"x")
        thread(answer)
        def ask():
            here.send(b"?")
            here.recv(1)  # here
        start()
        steps(ask)
    """),
    "download": Case("download", "fetch ahead", """
        import http.server, urllib.request
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                time.sleep(0.05)
                self.send_response(200)
                self.end_headers()
            def log_message(self, *_):
                pass
        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        thread(server.serve_forever)
        url = f"http://127.0.0.1:{server.server_port}/"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        def fetch():
            opener.open(url).read()  # here
        start()
        steps(fetch)
    """),
    "server": Case("input", "", """
        import asyncio
        async def serve():
            end = time.monotonic() + float(sys.argv[1])
            while time.monotonic() < end:
                step()
                await asyncio.sleep(0.05)
        start()
        asyncio.run(serve())  # here
    """),
    "child": Case("child", "", """
        import subprocess
        def convert():
            subprocess.run(["sleep", "0.1"])  # here
        start()
        steps(convert)
    """),
    "compute": Case("computing", "move that work", """
        def compute():
            sum(range(2000000))  # here
        start()
        steps(compute)
    """, computes=True),
    "collection": Case("gc", "gc.freeze", """
        import gc
        kept = [[i] for i in range(300000)]
        def collect():
            gc.collect()  # here
        start()
        steps(collect)
    """, computes=True),
    "compile": Case("compile", "TORCH_LOGS=recompiles", """
        import torch._dynamo.eval_frame
        def between():
            torch._dynamo.eval_frame.run(len)  # here
        start()
        steps(between)
    """, {"torch/__init__.py": "", "torch/_dynamo/__init__.py": "",
          "torch/_dynamo/eval_frame.py": """
              from torch._dynamo import convert_frame
              def run(function):
                  convert_frame.convert(function)
          """, "torch/_dynamo/convert_frame.py": """
              from torch._inductor import graph
              def convert(function):
                  graph.lower(9)
          """, "torch/_inductor/__init__.py": "", "torch/_inductor/graph.py": """
              def lower(depth):
                  for i in range(2):
                      lower(depth - 1) if depth else sum(range(1000))
          """}, computes=True),
    # A compiled function that runs has frames of torch._dynamo, too.
    "compiled": Case("sleep", "", """
        import torch._dynamo.eval_frame
        def nap():
            time.sleep(0.05)  # here
        start()
        steps(lambda: torch._dynamo.eval_frame.run(nap))
    """, {"torch/__init__.py": "", "torch/_dynamo/__init__.py": "",
          "torch/_dynamo/eval_frame.py": "def run(function):\n    function()\n"}),
    # TorchInductor writes files apart from packages. They prepare work for the GPU.
    "generated": Case("computing", "", """
        import torch._dynamo.eval_frame
        path = os.path.join(os.path.dirname(__file__), "c" + 17 * "a2z" + ".py")
        exec(compile("def call():\\n    sum(range(2000000))\\n", path, "exec"))
        def between():
            torch._dynamo.eval_frame.run(call)  # here
        start()
        steps(between)
    """, {"torch/__init__.py": "", "torch/_dynamo/__init__.py": "",
          "torch/_dynamo/eval_frame.py": "def run(function):\n    function()\n"}, computes=True),
    "model": Case("computing", "", """
        from torch.nn.modules import module
        def forward():
            sum(range(2000000))  # here
        start()
        steps(lambda: module.call(forward))
    """, {"torch/__init__.py": "", "torch/nn/__init__.py": "", "torch/nn/modules/__init__.py": "",
          "torch/nn/modules/module.py": "def call(forward):\n    forward()\n"}, computes=True),
    "loader": Case("loader", "num_workers", """
        from torch.utils.data._utils import fetch
        class Images:
            def __getitem__(self, i):
                return sum(range(2000000))  # here
        start()
        steps(lambda: fetch.fetch(Images()))
    """, {"torch/__init__.py": "", "torch/utils/__init__.py": "", "torch/utils/data/__init__.py": "",
          "torch/utils/data/_utils/__init__.py": "",
          "torch/utils/data/_utils/fetch.py": "def fetch(dataset):\n    return dataset[0]\n"}, computes=True),
    "optimizer": Case("optimizer", "keep the optimizer's parameters", """
        from torch.optim import adamw
        def update():
            adamw.step(lambda: None)  # here
        start()
        steps(update)
    """, OPTIM, computes=True),
    "optimizer_of_the_gpu": Case("computing", "", """
        from torch.optim import adamw
        def update():
            adamw.step(step)  # here
        start()
        steps(update)
    """, OPTIM, computes=True),
    # Each module imports the next one, so that more frames are open than are read at first.
    "imports": Case("import", "", """
        start()
        step()
        import a1  # here
        step()
    """, {f"a{i}.py": f"import a{i + 1}\n" for i in range(1, 36)} | {"a36.py": """
        import sys, time
        end = time.thread_time() + float(sys.argv[1])
        def simplify(depth):
            return simplify(depth - 1) + 1 if depth else 0
        while time.thread_time() < end:
            simplify(40)
    """}, computes=True),
    "checkpoint": Case("checkpoint", "save less often", """
        import torch.serialization
        def save():
            torch.serialization.save("checkpoint")  # here
        start()
        steps(save)
    """, {"torch/__init__.py": "", "torch/serialization.py": """
              import os, time
              data = bytes(1 << 24)
              def save(path):
                  with open(path, "wb") as file:
                      file.write(data)
                      os.fsync(file.fileno())
                  time.sleep(0.1)
    """}, computes=True),
    # The compiler's frames are many, and change while they are read.
    "deep_compile": Case("compile", None, """
        from torch._dynamo import convert_frame
        start()
        steps(lambda: convert_frame.convert(180))  # here
    """, {"torch/__init__.py": "", "torch/_dynamo/__init__.py": "", "torch/_dynamo/convert_frame.py": """
              import time
              def convert(depth):
                  if depth:
                      return convert(depth - 1) + simplify(depth)
                  end = time.thread_time() + 0.05
                  while time.thread_time() < end:
                      simplify(40)
                  return 0
              def simplify(depth):
                  return simplify(depth - 1) + 1 if depth else 0
    """}, computes=True),
    "barrier": Case("ranks", "", """
        import torch.distributed.distributed_c10d
        def between():
            torch.distributed.distributed_c10d.barrier()  # here
        start()
        steps(between)
    """, {"torch/__init__.py": "", "torch/distributed/__init__.py": "", "torch/distributed/distributed_c10d.py": """
              import ctypes
              poll = ctypes.CDLL(None).poll
              def barrier():
                  poll(None, 0, 50)
    """}),
    # Files of the program are no modules of Python.
    "own_queue": Case("sleep", "", """
        sys.path.insert(0, os.path.dirname(__file__))
        from mine.multiprocessing import queues
        start()
        steps(queues.get)
    """, {"../mine/multiprocessing/queues.py": """
              import time
              def get():
                  time.sleep(0.05)  # here
          """}),
    "item": Case("gpu_wait", "wait less often", GPU + """
while time.monotonic() < end:
    launch()
    device.cuda.cuStreamSynchronize(device.stream)  # here
    sum(range(10000))
""", computes=True),
    # The thread is inside a wait for a busy GPU only at another line.
    "items": Case("gpu_wait", "wait less often", GPU + """
feeder.init()
def read(at, count):
    feeder.libcuda.cuMemcpyDtoHAsync_v2(at, device.slots[0].memory, count, device.stream)  # here
    return device.cuda.cuStreamSynchronize(device.stream)  # here
while time.monotonic() < end:
    for kernel in range(40):
        launch()
    device.cuda.cuStreamSynchronize(device.stream)
    for number in range(2000):
        read(device.back, ctypes.c_size_t(4)) or sum(range(1000))  # here
""", computes=True),
    # Worker processes.
    "workers_sleep": Case("workers_sleep", "", workers("""
        def make(number):
            time.sleep(0.2)  # here
            return b"x" * 4096
    """)),
    "workers_lock": Case("workers_sleep", "", workers("""
        lock = multiprocessing.Lock()
        def make(number):
            with lock:
                if number == 1:
                    time.sleep(0.3)  # here
            return 1
    """)),
    "workers_lock_of_nobody": Case("workers_lock", "", workers("""
        lock = multiprocessing.Lock()
        lock.acquire()
        def make(number):
            lock.acquire(timeout=0.2)  # here
            return 1
    """)),
    "workers_compute": Case("few_workers transform worker_cpus", None, workers("""
        def make(number):
            end = time.thread_time() + 0.2
            while time.thread_time() < end:  # here
                pass  # here
            return 1
    """, 1)),
    # A child that serves one request at a time is no worker of which more would help.
    "child_that_answers": Case("pipe worker_cpus", None, """
        import subprocess
        child = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), "child.py")],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        def ask():
            child.stdin.write("text\\n")
            child.stdin.flush()
            child.stdout.readline()  # here
        start()
        steps(ask)
        child.kill()
    """, packages={"../child.py": """
        import sys, time
        for line in sys.stdin:
            end = time.thread_time() + 0.05
            while time.thread_time() < end:  # here
                pass  # here
            print("answer", flush=True)
    """}),
    # What helps in each step is no remedy for what happened once.
    "start_that_computes": Case("computing", "", """
        def build():
            end = time.thread_time() + 2 * float(sys.argv[1])
            while time.thread_time() < end:  # here
                pass  # here
        start()
        step()
        build()
        steps(lambda: time.sleep(0.02))
    """, computes=True),
    "thread_for_each_request": Case("input", "", """
        import socket
        server = socket.create_server(("127.0.0.1", 0))
        def ask():
            while True:
                time.sleep(0.05)
                socket.create_connection(server.getsockname()).close()
        def answer(client):
            feeder.context()
            step()
            client.close()
        start()
        thread(ask)
        end = time.monotonic() + float(sys.argv[1])
        while time.monotonic() < end:
            client, _ = server.accept()  # here
            worker = threading.Thread(target=answer, args=(client,))
            worker.start()
    """),
    "loader_hangs": Case("workers_sleep", "", workers("""
        lock = multiprocessing.Lock()
        made = []
        def make(number):
            lock.acquire()
            if number == 1 and len(made) == 3:
                time.sleep(1000)  # here
            made.append(1)
            lock.release()
            return bytes(1 << 20)
        def end_wait():
            time.sleep(float(sys.argv[1]) + 0.1)
            while True:
                batches.put(1)
    """).replace("    steps(", "    thread(end_wait)\n    steps(")),
}


# A program runs again, for longer, if its answer is wrong: on a busy machine, the first one has few samples.
SECONDS = [float(text) for text in os.environ.get("GF_ANSWER_SECONDS", "1.2 4 12").split()]


def answer(run, folder, case, seconds):
    """Runs a program. Returns its answer as (cause, line, remedy), and all that it printed. On a busy machine, each program
    lacks a CPU for a part of the time, which is not asked for here."""
    program, report = folder / "program.py", folder / "report.json"
    files = {"program.py": START.replace("PRELOAD_TESTS", repr(str(SOURCE / "tests" / "preload"))) + textwrap.dedent(
        case.program.replace("EXAMPLES", repr(str(SOURCE / "examples"))))}
    files |= {os.path.normpath(f"site-packages/{name}"): textwrap.dedent(text) for name, text in case.packages.items()}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    done = run(DEBIAN, program, seconds, sim=True, cwd=folder, GPUFEED_VERBOSE=1, GPUFEED_REPORT=report, PYTHONDONTWRITEBYTECODE=1)
    assert done.returncode == 0, done.stderr
    if not report.exists():  # without a CPU, the engine did not start in time
        return ("no report", None, ""), done.stderr
    marks = {f"{name.rsplit('/', 1)[-1]}:{number}" for name, text in files.items()
             for number, line in enumerate(text.splitlines(), 1) if line.endswith("# here")}
    lines = re.sub(r"\n(?!gpufeed:)", " ", done.stderr).splitlines()
    said = [line for line in lines if re.match(r"gpufeed:   \S+ % ", line)
            and "submitting thread had no CPU" not in line and "only copies ran" not in line]
    # What is mostly of the start is said last.
    largest = max(said, key=lambda line: float(line.split()[1]), default="")
    at, remedy = (re.search(pattern, largest) for pattern in (r" at (\S+:\d+) in ", r" \((.*)\)$"))
    causes = json.loads(report.read_text())["gpu_time"]["devices"][0]["causes"]
    helps = json.loads(run(COMMAND, "report", "--json", report, preload=False).stdout)["helps"]
    helped = {text.split(" (")[0]: text.split("): ")[-1] for text in helps if " of GPU time" in text}
    for line in said:  # `gpufeed report` names the same remedies
        line = re.sub(r", (?:(?:mostly )?in the first|most of it in|while another thread).*?(?= \(|$)", "", line)
        words, said_remedy = re.fullmatch(r"gpufeed:   \S+ % (.*?)(?: at \S+ in .*?)?(?: \((.*)\))?", line).groups()
        assert helped.get(words) == said_remedy, (line, helps)
    most = max(causes, key=lambda cause: causes[cause]["s"] if cause != "preempted" else 0)
    line = "here" if at and at[1] in marks else at and at[1]
    return (most, line, remedy[1] if remedy else ""), f"{causes}\n{done.stderr}"


def is_right(case, found):
    cause, line, remedy = found
    return cause in case.causes.split() and line == "here" and (
        case.remedy is None or (case.remedy in remedy if case.remedy else not remedy))


def best_answer(run, folder, case):
    for seconds in SECONDS:
        found, text = answer(run, folder, case, seconds)
        if is_right(case, found):
            break
    return found, text


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Programs that mostly wait run at the same time."""
    run = Runner()
    with concurrent.futures.ThreadPoolExecutor(6) as waiting, concurrent.futures.ThreadPoolExecutor(1) as computing:
        return {name: (computing if case.computes else waiting).submit(best_answer, run, tmp_path_factory.mktemp(name), case)
                for name, case in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_right(answers, name):
    found, text = answers[name].result()
    assert is_right(CASES[name], found), f"{found} instead of {CASES[name].causes}, {CASES[name].remedy}: {text}"
