# SPDX-License-Identifier: Apache-2.0
"""Stand-in for the object store: GET /shard/N returns N's bytes after a first-byte delay."""
import http.server
import os
import sys
import time

SHARD_BYTES = int(sys.argv[1])
BLOBS = [os.urandom(SHARD_BYTES) for _ in range(6)]


class Store(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.27)
        body = BLOBS[int(self.path.rsplit("/", 1)[1]) % len(BLOBS)]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
print(server.server_address[1], flush=True)
server.serve_forever()
