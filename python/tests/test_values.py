"""Files of values: what is written is what is loaded, without a copy, and what is no such file is refused."""

import pickle
import struct
import tempfile

import numpy
import pytest

from headquarters import _limits, _pickling, _values

NONCE = bytes(range(16))


def written(value):
    packed, _ = _pickling.dumps_value(value)
    file = tempfile.TemporaryFile()
    packed.write(file.fileno(), NONCE)
    file.seek(0, 2)
    assert file.tell() == packed.size
    return packed, file


@pytest.mark.parametrize("size", [0, 1, 4096, 5000, _limits.MAPPED_FROM + 7])
def test_what_is_written_is_loaded(size):
    array = numpy.arange(size, dtype="u1")
    value = {"a": array, "same": array, "text": "x" * size, "empty": numpy.zeros((0, 3))}
    packed, file = written(value)
    assert _values.nonce_of(file.fileno()) == NONCE
    found = _values.load(file.fileno())
    assert found["a"] is found["same"] and (found["a"] == array).all() and found["text"] == value["text"]
    assert found["empty"].shape == (0, 3)
    assert len(packed.buffers) == (size > _limits.BESIDE_BYTES)


def test_the_form_of_the_file_is_the_one_that_is_agreed():
    array = numpy.arange(10_000, dtype="u1")
    packed, file = written([array, array[:5000].copy()])
    file.seek(0)
    whole = file.read()
    assert struct.unpack_from("<8s16sII", whole) == (b"HQVALUE1", NONCE, 2, 0)
    sections = [struct.unpack_from("<QQ", whole, 32 + 16 * at) for at in range(3)]
    assert all(offset % 64 == 0 for offset, _ in sections) and [length for _, length in sections[1:]] == [10_000, 5000]
    parts = [whole[offset : offset + length] for offset, length in sections]
    found = pickle.loads(parts[0], buffers=parts[1:])
    assert (found[0] == array).all() and parts[0] == packed.data


@pytest.mark.parametrize("size", [10_000, _limits.MAPPED_FROM])
def test_what_is_loaded_may_be_written_to_and_the_file_stays(size):
    _, file = written(numpy.zeros(size))
    first, second = _values.load(file.fileno()), _values.load(file.fileno())
    first[:] = 7
    assert second.max() == 0 and _values.load(file.fileno()).max() == 0
    fixed = _values.load(file.fileno(), writable=False)
    with pytest.raises(ValueError, match="read-only"):
        fixed[0] = 1


def test_mappings_beyond_a_number_are_read(monkeypatch):
    _, file = written(numpy.zeros(_limits.MAPPED_FROM))
    monkeypatch.setattr(_limits, "MAPPINGS_MAX", len(_values._MAPPED) + 1)
    kept = [_values.load(file.fileno()) for _ in range(3)]
    assert len(_values._MAPPED) == _limits.MAPPINGS_MAX
    kept[2][0] = 1
    assert kept[0][0] == 0


def test_arrays_of_any_layout():
    array = numpy.arange(40_000.0).reshape(200, 200)
    _, file = written((array.T, numpy.asfortranarray(array), array[::2, ::3]))
    found = _values.load(file.fileno())
    assert all((a == b).all() for a, b in zip(found, (array.T, array, array[::2, ::3])))


def test_what_is_cut_or_something_else_is_refused():
    _, file = written(numpy.zeros(10_000))
    file.seek(0)
    whole = file.read()
    head = bytearray(whole)
    struct.pack_into("<I", head, 24, 1 << 31)
    far = bytearray(whole)
    struct.pack_into("<QQ", far, 48, 1 << 63, 1 << 62)
    within = bytearray(whole)
    struct.pack_into("<QQ", within, 32, 0, 10)
    for wrong in (whole[:10], whole[:60], whole[:-1], b"x" * 100, bytes(head), bytes(far), bytes(within), b""):
        with tempfile.TemporaryFile() as file:
            file.write(wrong)
            file.flush()
            with pytest.raises(ValueError, match="the file of the value"):
                _values.load(file.fileno())
    with tempfile.TemporaryFile() as file:
        assert _values.nonce_of(file.fileno()) is None


def test_the_digest_is_that_of_the_content():
    digests = {_pickling.dumps_value(value)[0].digest() for value in (numpy.zeros(10_000), numpy.ones(10_000), "x")}
    assert len(digests) == 3 and _pickling.dumps_value(numpy.zeros(10_000))[0].digest() in digests


def test_what_cannot_be_pickled_is_named():
    from headquarters import ArgumentsNotPicklable

    with pytest.raises(ArgumentsNotPicklable) as error:
        _pickling.dumps_value({"a": [1, _a_lock()]})
    assert error.value.path == "the value['a'][1]"


def _a_lock():
    import threading

    return threading.Lock()
