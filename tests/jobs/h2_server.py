# SPDX-License-Identifier: Apache-2.0
"""Healthy: an inference server, a thread per request. Few requests come, so the GPU is idle by nature."""
import http.server
import sys
import threading
import time

from minicuda import Gpu

SECONDS = 22
gpu = Gpu()
turn = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        size = int(self.headers.get("Content-Length", "0"))
        prompt = self.rfile.read(size)
        gpu.attach()
        with turn:
            for _ in range(20):
                gpu.launch(4_000)
            gpu.synchronize()
        answer = prompt[::-1]
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    timer = threading.Timer(SECONDS, server.shutdown)
    timer.start()
    server.serve_forever()


main()
