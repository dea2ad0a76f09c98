# SPDX-License-Identifier: Apache-2.0
"""redis: snapshots and append-only files written by forked children, a replica, redis-benchmark, a crash, and the
digest of all data after each of them."""

import re
import subprocess
import time

from setting import free_port, need

FILL = "for i=1,20000 do redis.call('set','k'..i,string.rep('v',i%500)); redis.call('hset','h'..i%100,i,i*i); " \
       "redis.call('zadd','z',i%777,i); redis.call('rpush','l'..i%10,i); redis.call('xadd','x','1-'..i,'f',i) end return 'done'"
STEPS = {
    "fill": ["eval", FILL, 0],
    "size": ["dbsize"],
    "reload": ["debug", "reload"],
    "reload of the log": ["debug", "loadaof"],
    "expire": ["eval", "for i=1,5000 do redis.call('pexpire','k'..i,1) end return 1", 0],
    "large value": ["eval", "redis.call('set','big',string.rep('x',64*1024*1024)) return redis.call('strlen','big')", 0],
    "append": ["append", "big", "y" * 1000],
    "purge": ["memory", "purge"],
    "usage": ["exists", "big"],
    "unlink": ["unlink", "big"],
    "rename": ["rename", "z", "zz"],
    "sort": ["eval", "return redis.sha1hex(table.concat(redis.call('sort','l1','desc','limit',0,500),','))", 0],
}


def run(setting, only):
    need("redis-server", "redis-cli", "redis-benchmark")
    found, feeds = {}, ["redis-server", "redis-benchmark"]
    servers, port = [], free_port()

    def cli(server, *words):
        done = setting.run("redis-cli", "-s", setting.folder / server, *words)
        return done.stdout.strip()[-200:]

    def info(name):
        return setting.run("redis-cli", "-s", setting.folder / name, "info").stdout

    def start(name, *more):
        folder = setting.folder / f"{name}.d"
        folder.mkdir(exist_ok=True)
        log = (setting.folder / f"{name}.log").open("a")
        servers.append(subprocess.Popen(
            ["redis-server", "--bind", "127.0.0.1", "--unixsocket", str(setting.folder / name), "--dir", str(folder), "--save", "",
             "--appendonly", "yes", "--appendfsync", "no", "--enable-debug-command", "yes", "--io-threads", "2",
             "--io-threads-do-reads", "yes", *more], env=setting.env(*feeds), stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        for _ in range(200):
            if cli(name, "ping") == "PONG":
                return True
            time.sleep(0.05)
        return False

    def await_true(condition):
        for _ in range(400):
            if condition():
                return True
            time.sleep(0.05)
        return False

    def is_idle():
        return not re.search(r"(rdb_bgsave|aof_rewrite)_in_progress:1|aof_rewrite_scheduled:1", info("main"))

    main = ["--port", str(port)]
    found["start"] = str(start("main", *main))
    try:
        for name, words in STEPS.items():
            found[name] = cli("main", *words)
        time.sleep(0.1)
        cli("main", "debug", "sleep", "0.1")
        for name in ("bgsave", "bgrewriteaof"):
            cli("main", name)
            cli("main", "eval", "for i=10000,15000 do redis.call('append','k'..i,'more') end return 1", 0)
            await_true(is_idle)
            found[name] = ", ".join(re.findall(r"(?:rdb_last_bgsave|aof_last_bgrewrite)_status:\w+", info("main")))
        benchmark = setting.run("redis-benchmark", "-s", setting.folder / "main", "-n", 3000, "-c", 20, "-P", 4, "-r", 1000, "-d", 1000,
                                "-q", "--csv", "-t", "ping,set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100,mset", feeds=feeds)
        found["benchmark"] = f"exit {benchmark.returncode}: " + ", ".join(re.findall(r'^"([^"]+)"', benchmark.stdout, re.M))
        found["threads of the benchmark"] = "exit %d" % setting.run(
            "redis-benchmark", "-s", setting.folder / "main", "-n", 3000, "--threads", 2, "-q", "-t", "set,get", feeds=feeds).returncode
        for pattern in ("key:*", "mylist", "myset", "myhash", "myzset", "counter*"):
            cli("main", "eval", "for _, k in ipairs(redis.call('keys', ARGV[1])) do redis.call('del', k) end return 1", 0, pattern)
        digest = cli("main", "debug", "digest")
        found["data"] = digest
        found["replica"] = str(start("replica", "--port", "0", "--replicaof", "127.0.0.1", str(port)))
        found["data of the replica"] = str(await_true(lambda: cli("replica", "debug", "digest") == digest))
        cli("replica", "shutdown", "nosave")
        found["end of the replica"] = f"exit {servers.pop().wait(60)}"
        cli("main", "shutdown", "nosave")
        found["end"] = f"exit {servers[-1].wait(60)}"
        found["second start"] = str(start("main", *main))
        found["data after it"] = str(cli("main", "debug", "digest") == digest)
        cli("main", "debug", "segfault")
        found["end by a crash"] = f"exit {servers[-1].wait(60)}"
        found["start after a crash"] = str(start("main", *main))
        found["data after a crash"] = str(cli("main", "debug", "digest") == digest)
        cli("main", "shutdown", "nosave")
        found["last end"] = f"exit {servers[-1].wait(60)}"
    finally:
        for server in servers:
            if server.poll() is None:
                server.kill()
                server.wait()
    found["memory test"] = f"exit {setting.run('redis-server', '--test-memory', 8, feeds=feeds).returncode}"
    return found
