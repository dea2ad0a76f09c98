# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL: a cluster of its own, pgbench with checks, parallel queries, a killed backend, recovery, a dump."""

import hashlib
import re

from setting import need

QUERIES = {
    "sort on disk": "set work_mem='64kB'; select md5(string_agg(x::text, ',' order by md5(x::text))) from generate_series(1, 50000) x",
    "hash join": "select count(*), sum(a.x + b.y) from (select x from generate_series(1, 100000) x) a join "
                 "(select y from generate_series(1, 100000, 3) y) b on a.x = b.y",
    "parallel scan": "set max_parallel_workers_per_gather=4; set parallel_setup_cost=0; set parallel_tuple_cost=0; "
                     "set min_parallel_table_scan_size=0; select count(*), sum(aid), min(aid) from pgbench_accounts",
    "large value": "select md5(repeat('gpufeed', 10000000))",
    "json": "select md5(jsonb_agg(jsonb_build_object('a', x, 'b', repeat('x', x % 100)))::text) from generate_series(1, 20000) x",
    "recursion": "with recursive t(n) as (select 1 union all select n + 1 from t where n < 50000) select sum(n) from t",
    "out of memory": "select repeat('x', 1073741823) || 'x'",
    "regular expressions": "select count(*) from generate_series(1, 30000) x where x::text ~ '^(1|2)+.*(3|4)$'",
    "index": "create index on pgbench_accounts (abalance); set enable_seqscan=off; "
             "select count(*) from pgbench_accounts where abalance = 0 and aid < 0",
}


def run(setting, only):
    need("initdb", "pg_ctl", "pgbench", "psql", "pg_dump")
    setting.as_user("postgres")
    data, found = setting.folder / "data", {}
    base = ["-h", setting.folder, "-U", "test"]

    def step(name, *command, keep=None, **more):
        """Runs one step. `keep` derives the outcome from the output."""
        done = setting.run(*command, feeds=["postgres", "psql", "pgbench"], **more)
        found[name] = f"exit {done.returncode}" + (f": {keep(done.stdout)}" if keep else "")
        return done

    def query(name, text):
        step(name, "psql", *base, "-XqAt", "-v", "VERBOSITY=terse", "bench", "-c", text, keep=lambda out: out.strip()[-200:])

    def start(name):
        step(name, "pg_ctl", "-D", data, "-w", "-l", setting.folder / "log", "-o",
             f"-c listen_addresses='' -c unix_socket_directories={setting.folder} -c shared_buffers=32MB -c fsync=off", "start")

    step("initdb", "initdb", "-D", data, "-U", "test", "-A", "trust", "-k", "-N")
    start("start")
    try:
        step("createdb", "createdb", *base, "bench")
        step("pgbench -i", "pgbench", *base, "-q", "-i", "-s", 2, "bench")
        step("pgbench", "pgbench", *base, "-n", "-c", 8, "-j", 2, "-t", 200, "-M", "prepared", "bench",
             keep=lambda out: re.search(r"actually processed: (\S+)", out)[1] + re.search(r"failed transactions: (\d+)", out)[1])
        query("pgbench's sums agree",
              "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history), "
              "(select sum(bbalance) from pgbench_branches) = (select sum(tbalance) from pgbench_tellers), "
              "(select count(*) from pgbench_history)")
        for name, text in QUERIES.items():
            query(name, text)
        query("a killed backend", "create table kept as select generate_series(1, 1000) x; checkpoint; insert into kept values (-1); "
                                  "copy (select 1) to program 'kill -9 $PPID'")
        for _ in range(50):  # waits while the postmaster restarts all backends
            if not setting.run("pg_isready", *base).returncode:
                break
            setting.run("sleep", 0.2)
        query("after recovery", "select count(*), sum(x) from kept")
        step("restart", "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
        start("start after a crash")
        query("after a crash", "select count(*), sum(x) from kept")
        step("dump", "pg_dump", *base, "-t", "kept", "-t", "pgbench_branches", "--column-inserts", "--schema-only", "bench",
             keep=lambda out: hashlib.md5(re.sub(r"\\\w*restrict \S+", "", out).encode()).hexdigest())
        step("vacuum", "vacuumdb", *base, "-q", "-f", "-z", "bench")
        step("amcheck", "pg_amcheck", *base, "--install-missing", "bench", keep=lambda out: out.strip()[-200:])
    finally:
        step("stop", "pg_ctl", "-D", data, "-w", "-m", "fast", "stop")
    step("checksums", "pg_checksums", "-D", data, keep=lambda out: re.search(r"Bad checksums: *(\d+)", out)[1])
    log = (setting.folder / "log").read_text(errors="replace")
    found["serious messages"] = str(len(re.findall(r"\b(PANIC|segfault|signal 11|signal 6)\b", log)))
    return found
