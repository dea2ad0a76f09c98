# SPDX-License-Identifier: Apache-2.0
"""nginx: requests while it reloads, replaces its binary and rotates its log, with threads and with sendfile."""

import concurrent.futures
import gzip
import hashlib
import http.client
import os
import pathlib
import random
import signal
import subprocess
import time

from setting import free_port, need

CONFIG = """
worker_processes 2; daemon on; pid {folder}/pid; error_log {folder}/error.log notice;
{user}
events {{ worker_connections 256; }}
http {{
  access_log {folder}/access.log; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  proxy_cache_path {folder}/cache keys_zone=kept:1m; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  gzip_types *; gzip_min_length 100;
  server {{ listen 127.0.0.1:{port}; root {folder}/www;
    location / {{ gzip on; }}
    location /sendfile/ {{ alias {folder}/www/; sendfile on; }}
    location /threads/ {{ alias {folder}/www/; {threads} output_buffers 2 64k; }}
    location /cached/ {{ proxy_pass http://127.0.0.1:{port}/; proxy_cache kept; proxy_cache_valid 200 1m; }}
    location /gone {{ return 410 "gone"; }}
  }}
}}
"""
SIZES = (0, 1, 1000, 100_000, 3_000_000)
REQUESTS = 40


def fetch(port, url, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", url, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.getheader("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        return f"{answer.status} {hashlib.md5(body).hexdigest()}"
    except (OSError, http.client.HTTPException) as error:
        return f"failed: {type(error).__name__}"
    finally:
        connection.close()


def await_true(condition):
    for _ in range(200):
        if condition():
            return True
        time.sleep(0.05)
    return False


def run(setting, only):
    need("nginx")
    folder = setting.folder
    (folder / "www").mkdir()
    for size in SIZES:
        (folder / "www" / str(size)).write_bytes(random.Random(size).randbytes(size // 2) + b"text " * (size // 10))
    config = folder / "nginx.conf"
    port = free_port()
    user = "" if os.geteuid() else "user root;"
    config.write_text(CONFIG.format(folder=folder, port=port, user=user, threads="aio threads;"))
    command = ["/usr/sbin/nginx", "-c", config, "-p", folder, "-e", folder / "error.log"]
    feeds, found = ["nginx"], {}
    if setting.run(*command, "-t").returncode:
        config.write_text(CONFIG.format(folder=folder, port=port, user=user, threads=""))
    found["configuration"] = f"exit {setting.run(*command, '-t', feeds=feeds).returncode}"
    # The output goes to a file, because the daemon keeps the descriptors open, and a pipe would not end.
    with (folder / "out").open("w") as out:
        started = subprocess.run([str(w) for w in command], env=setting.env(*feeds), stdout=out, stderr=out, check=False)
    found["start"] = f"exit {started.returncode}"
    pid = folder / "pid"

    def requests(name):
        urls = [f"{place}{size}" for place in ("/", "/sendfile/", "/threads/", "/cached/") for size in SIZES]
        urls += ["/gone", "/missing"]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            jobs = {url: [pool.submit(fetch, port, url, **({"Accept-Encoding": "gzip"} if n % 2 else {}))
                          for n in range(REQUESTS // 8)] for url in urls}
            for url, answers in jobs.items():
                found[f"{name} {url}"] = ", ".join(sorted({job.result() for job in answers}))

    def send(number):
        os.kill(int(pid.read_text()), number)

    try:
        requests("request")
        found["range"] = fetch(port, "/3000000", Range="bytes=1000-200000")
        with concurrent.futures.ThreadPoolExecutor(1) as reloads:
            job = reloads.submit(lambda: [(send(signal.SIGHUP), time.sleep(0.3)) for _ in range(5)])
            requests("request while it reloads")
            job.result()
        (folder / "access.log").rename(folder / "old.log")
        send(signal.SIGUSR1)
        found["log reopened"] = str(await_true((folder / "access.log").exists))
        old = int(pid.read_text())
        send(signal.SIGUSR2)
        found["binary replaced"] = str(await_true(lambda: (folder / "pid.oldbin").exists() and pid.exists()
                                                  and int(pid.read_text() or old) != old))
        os.kill(old, signal.SIGQUIT)
        found["old binary ended"] = str(await_true(lambda: not (folder / "pid.oldbin").exists()))
        requests("request after that")
    finally:
        last = int(pid.read_text())
        send(signal.SIGQUIT)
        found["end"] = str(await_true(lambda: not pathlib.Path(f"/proc/{last}").exists()))
    log = (folder / "error.log").read_text(errors="replace")
    found["serious messages"] = str(sum(word in line for line in log.splitlines()
                                        for word in ("[alert]", "[emerg]", "[crit]", "signal 11", "signal 6")))
    found["output"] = (folder / "out").read_text(errors="replace")[:200]
    return found
