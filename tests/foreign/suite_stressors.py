# SPDX-License-Identifier: Apache-2.0
"""stress-ng's stressors with --verify."""

from setting import need

SECONDS = 2
# Stressors of memory, threads, processes and signals, which the library's hooks and the heap affect.
STRESSORS = """
    malloc mmap mmapfork mmapmany mmapfixed mmapaddr mremap munmap mprotect madvise mincore mlock msync brk bigheap
    vm vm-addr vm-segv vm-rw shm shm-sysv memfd userfaultfd remap memcpy memrate memthrash full
    pthread fork vfork vforkmany clone daemon exec spawn wait zombie session sigchld
    futex mutex sem membarrier rseq poll yield switch
    sigabrt sigfpe sigpipe sigq sigrt sigsegv sigsuspend sigtrap sigfd signal
    affinity sched schedpolicy set personality prctl ptrace seccomp get env nanosleep timer
    dup close open fd-race pipe sock dynlib stack stackmmap funccall context tree hsearch bsearch qsort str
    aio file-ioctl dir readahead splice tmpfs dev-shm numa secretmem procfs loop
""".split()
OPTIONS = {"malloc": ["--malloc-bytes", "128M", "--malloc-pthreads", "2"], "vm": ["--vm-bytes", "64M"],
           "bigheap": ["--bigheap-growth", "1M", "--oomable"], "brk": ["--oomable"], "stack": ["--oomable"],
           "mmap": ["--mmap-bytes", "64M"], "mremap": ["--mremap-bytes", "32M"], "shm": ["--shm-bytes", "16M"],
           "memfd": ["--memfd-bytes", "64M"], "userfaultfd": ["--userfaultfd-bytes", "16M"],
           "pthread": ["--pthread-max", "64"], "fork": ["--fork-max", "4", "--fork-vm"], "memthrash": ["--memthrash-method", "random"]}
CODES = {0: "passed", 3: "skipped: no resources", 4: "skipped: not implemented", 5: "passed"}


def run(setting, only):
    need("stress-ng")
    found = {}
    for name in STRESSORS:
        if only is not None and name not in only:
            continue
        done = setting.run("stress-ng", f"--{name}", 2, "--verify", "--timeout", SECONDS, *OPTIONS.get(name, []),
                           feeds=["stress-ng"], timeout=60)
        failures = sorted({line.split(name + ":", 1)[-1].strip() for line in done.stdout.splitlines() if " fail: " in line})
        found[name] = CODES.get(done.returncode, f"failed: exit {done.returncode}") if not failures \
            else "failed: " + "; ".join(failures)[:200]
    return found
