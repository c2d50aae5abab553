# Runs behind values.py, in a directory of its own.
import os
import pickle
import struct

dump, write, load = _hq_value_files()
MAX = 16384


def check(value, buffers_meant):
    pickled, buffers = dump(pickle.dumps, value, MAX)
    assert len(buffers) == buffers_meant, len(buffers)
    size, nonce = write("value", pickled, buffers)
    with open("value", "rb") as file:
        data = file.read()
    assert size == len(data) and data[:24] == b"HQVALUE1" + nonce
    assert os.stat("value").st_mode & 0o777 == 0o600
    sections = struct.unpack_from("<%dQ" % (2 + 2 * buffers_meant), data, 32)
    assert all(offset % 64 == 0 for offset in sections[::2]), sections
    loaded = load("value")
    os.unlink("value")
    return loaded


def buffer(size):
    return pickle.PickleBuffer(bytearray(os.urandom(size)))


assert check({"a": [1, None]}, 0) == {"a": [1, None]}
os.umask(0o777)
# More than one call takes, small ones among them, and one of which the system writes a part only.
several = [buffer(MAX + 1 + place) for place in range(700)] + [buffer(0), buffer(MAX), buffer(5 << 20)]
loaded = check(several, 701)
assert [bytes(view) for view in loaded] == [bytes(view.raw()) for view in several]
loaded[0][0] ^= 1
readonly = check(pickle.PickleBuffer(b"x" * (MAX + 1)), 1)
assert bytes(readonly) == b"x" * (MAX + 1) and readonly.readonly

# A call of the system may take less than it is given.
writev, os.writev = os.writev, lambda file, chunks: writev(file, [chunks[0][:1000]])
assert [bytes(view) for view in check(several[:3], 3)] == [bytes(view.raw()) for view in several[:3]]
os.writev = writev

# What is not whole does not stay.
pickled, buffers = dump(pickle.dumps, several[0], MAX)
os.writev = lambda file, chunks: os.open("missing", os.O_RDONLY)
try:
    write("value", pickled, buffers)
    raise AssertionError("written")
except FileNotFoundError:
    assert not os.path.exists("value")
os.writev = writev

# Whatever is in a file, it is a value or it is not.
write("value", pickled, buffers)
with open("value", "rb") as file:
    data = file.read()
row = 32
damaged = [data[:cut] for cut in (0, 8, 47, 48, 63, 64, len(data) - 1)] + [b"X" + data[1:]]
damaged += [data[:24] + struct.pack("<I", count) + data[28:] for count in (1 << 16, (1 << 32) - 1)]
for offset, length in ((1, 5), (0, 5), (1 << 63, 5), (64, (1 << 64) - 1), (len(data) // 64 * 64 + 64, 0)):
    damaged.append(data[:row] + struct.pack("<QQ", offset, length) + data[row + 16 :])
for content in damaged:
    os.chmod("value", 0o600)
    with open("value", "wb") as file:
        file.write(content)
    try:
        load("value")
        raise AssertionError("loaded: %r" % content[:80])
    except ValueError as error:
        assert "value" in str(error), error
