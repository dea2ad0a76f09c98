# SPDX-License-Identifier: Apache-2.0
"""growth.py KIND MIB: objects of Python that grow to about MIB. Prints the peak."""
import array
import io
import os
import pickle
import sys
import threading

from program import put_result, scaled, start_engine_if_asked

KIND, SIZE = sys.argv[1], int(sys.argv[2]) << 20
CHUNK = b"z" * (1 << 20)


def by_bytearray():
    data = bytearray()
    for _ in range(SIZE >> 20):
        data += CHUNK
    return data


def by_list():
    data, piece = [], scaled([None], 16 * [None])
    for _ in range(SIZE // 8 // len(piece)):
        data += piece
    return data


def by_str():
    text = ""
    piece = "z" * (1 << 20)
    for _ in range(SIZE >> 20):
        text += piece
    return text


def by_array():
    data, piece = array.array("d"), array.array("d", bytes(8 << 10))
    while len(data) * 8 < SIZE:
        data.extend(piece)
    return data


def by_dict():
    return {key: None for key in range(SIZE // 110)}


def by_set():
    found = set()
    for key in range(SIZE // 100):
        found.add(key)
    return found


def by_bytesio():
    file = io.BytesIO()
    for _ in range(SIZE >> 20):
        file.write(CHUNK)
    return file


def by_stringio():
    file = io.StringIO()
    for _ in range(SIZE >> 22):
        file.write("z" * (1 << 20))
    return file.getvalue()


def by_pipe():
    """file.read() of a pipe does not know the length, so its buffer grows."""
    reader, writer = os.pipe()

    def write():
        with open(writer, "wb") as file:
            for _ in range(SIZE >> 20):
                file.write(CHUNK)
    thread = threading.Thread(target=write)
    thread.start()
    with open(reader, "rb") as file:
        data = file.read()
    thread.join()
    return data


def by_recv():
    """As asyncio and http.client: pieces are joined."""
    return b"".join([CHUNK + b"%d" % number for number in range(SIZE >> 21)])


def by_pickle():
    data = []
    for number in range(4):
        data += [b"%d" % key for key in range(SIZE // 500)]
        pickle.loads(pickle.dumps(data))
    return data


def by_numpy():
    import numpy
    data = numpy.zeros(0)
    while data.nbytes < SIZE // 2:
        data = numpy.concatenate([data, numpy.ones(1 << scaled(18, 19))])
    return data


def by_numpy_append():
    import numpy
    columns = {name: numpy.zeros(0) for name in "abcd"}
    while columns["d"].nbytes < SIZE // 8:
        for name in columns:
            columns[name] = numpy.append(columns[name], numpy.ones(1 << 17))
    return columns


def by_arrays():
    """One array is alive; the lengths grow."""
    steps = scaled(20, 8)
    for number in range(1, steps + 1):
        data = bytearray(SIZE // steps * number)
        data[::4096] = b"1" * len(data[::4096])
        del data


def by_pairs():
    """Two arrays of varying size are alive, as in a worker whose memory a supervisor watches."""
    import numpy
    for number in range(scaled(14, 7)):
        first = numpy.ones((SIZE >> 2) + (number * 37 % 80) * (SIZE // 320), numpy.uint8)
        second = first + 1
        del first, second


start_engine_if_asked()
data = globals()["by_" + KIND]()
put_result()
