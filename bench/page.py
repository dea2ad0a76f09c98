#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens a page of `gpufeed report --html` in headless Chromium: bench/page.py PAGE [--pictures FOLDER].

Prints as JSON how long the browser takes to draw the page, the errors of its script, and its requests. With
--pictures, writes a picture of each section, light and dark. Chromium is driven through a pipe, so only the standard
library is needed."""

import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, SCALE = 1000, 0.75

# The sections with a heading, and where they are; a section without text has no height.
SECTIONS = """JSON.stringify([...document.querySelectorAll("main > section")].map(one => {
  const box = one.getBoundingClientRect();
  return [one.id, box.x, box.y + scrollY, box.width, box.height];
}))"""


def browser():
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


class Chromium:
    """A browser with one page. Messages are JSON texts that end with a zero byte, on the browser's descriptors 3 and
    4."""

    def __init__(self, folder):
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        def place():
            read, write = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(read, 3)
            os.dup2(write, 4)
        self.process = subprocess.Popen(  # pylint: disable=subprocess-popen-preexec-fn
            [browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-dev-shm-usage",
             f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=place)
        os.close(theirs_in)
        os.close(theirs_out)
        self.input, self.output = os.fdopen(ours_in, "rb"), ours_out
        self.rest, self.number, self.session, self.events = b"", 0, None, []
        target = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def read(self):
        while b"\0" not in self.rest:
            part = os.read(self.input.fileno(), 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.output, data):]
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.read())

    def value(self, expression):
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"])
        return found["result"].get("value")

    def close(self):
        self.process.kill()
        self.process.wait()
        self.input.close()
        os.close(self.output)


def errors_of(events):
    found = [event["params"]["exceptionDetails"].get("text", "") for event in events if event.get("method") == "Runtime.exceptionThrown"]
    found += [event["params"]["type"] for event in events if event.get("method") == "Runtime.consoleAPICalled"]
    return found + [event["params"]["entry"]["text"] for event in events if event.get("method") == "Log.entryAdded"]


def take_pictures(chromium, folder, theme):
    chromium.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    chromium.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    for name, x, y, width, height in json.loads(chromium.value(SECTIONS)):
        if height < 1:
            continue
        clip = {"x": max(x - 8, 0), "y": y - 4, "width": width + 16, "height": min(height + 12, 2000), "scale": SCALE}
        data = chromium.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
        (folder / f"{name}-{theme}.png").write_bytes(base64.b64decode(data))


def look(page, pictures=None, script=None, width=WIDTH):
    """Opens a page, and returns what the browser found. If `script` is given, the page evaluates it, and the member
    "value" has the result."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # its processes may write until they end
        chromium = Chromium(folder)
        try:
            chromium.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
            url = pathlib.Path(page).resolve().as_uri()
            begun = time.monotonic()
            chromium.call("Page.navigate", url=url)
            chromium.wait("Page.loadEventFired")
            chromium.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            drawn = time.monotonic() - begun
            value = chromium.value(script) if script else None
            if pictures:
                pictures.mkdir(parents=True, exist_ok=True)
                for theme in ("light", "dark"):
                    take_pictures(chromium, pictures, theme)
            requests = [event["params"]["request"]["url"] for event in chromium.events if event.get("method") == "Network.requestWillBeSent"]
            return {"draw_s": round(drawn, 3), "bytes": os.path.getsize(page), "errors": errors_of(chromium.events),
                    "requests": [one for one in requests if one != url], "value": value}
        finally:
            chromium.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--pictures", type=pathlib.Path)
    words = parser.parse_args()
    if not browser():
        sys.exit("bench/page.py: no Chromium was found (apt install chromium)")
    print(json.dumps(look(words.page, words.pictures), indent=2))


if __name__ == "__main__":
    main()
