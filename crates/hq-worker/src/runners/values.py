# Files of values: a pickle and its buffers, which a reader maps and so need not copy. Their format is described in
# docs/reference/runner-protocol.md. Comes before the runner itself, as one text; needs Python 3.8 and nothing else.


def _hq_value_files():
    import mmap
    import os
    import pickle
    import struct

    MAGIC = b"HQVALUE1"
    HEAD = struct.Struct("<8s16sII")
    SECTION = struct.Struct("<QQ")
    ALIGNED = 64
    # What the system takes in one call, and leaves room for padding.
    PIECES_MAX = 512

    def dump(dumps, value, in_band_max):
        # The pickle, and the buffers that are not in it: those that are larger than so much.
        buffers = []

        def is_small(buffer):
            view = buffer.raw()
            if view.nbytes <= in_band_max:
                return True
            buffers.append(view)
            return False

        return dumps(value, protocol=5, buffer_callback=is_small), buffers

    def write(path, pickled, buffers):
        # The size of the file, and what tells it from others. What is not whole does not stay.
        sections = [memoryview(pickled)] + buffers
        nonce = os.urandom(16)
        at, rows, chunks = HEAD.size + SECTION.size * len(sections), [], []
        for section in sections:
            gap = -at % ALIGNED
            rows.append(SECTION.pack(at + gap, section.nbytes))
            chunks += [bytes(gap), section]
            at += gap + section.nbytes
        head = HEAD.pack(MAGIC, nonce, len(buffers), 0) + b"".join(rows)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(path, flags, 0o600)
        try:
            # Whatever the function has made of the umask.
            os.fchmod(file, 0o600)
            write_all(file, [head] + chunks)
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(file)
        return at, nonce

    def write_all(file, chunks):
        # Straight from where they are.
        waiting = [memoryview(chunk) for chunk in reversed(chunks) if len(chunk)]
        while waiting:
            batch = waiting[: -PIECES_MAX - 1 : -1]
            written = os.writev(file, batch)
            for chunk in batch:
                if written < chunk.nbytes:
                    waiting[-1] = chunk[written:]
                    break
                written -= chunk.nbytes
                waiting.pop()

    def load(path):
        # The value. What is written to it changes no file, and the mapping goes with it.
        path = os.fsdecode(path)
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(file).st_size
            if size < HEAD.size + SECTION.size:
                raise ValueError(f"its file {path} has only {size} bytes")
            mapping = mmap.mmap(file, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        finally:
            os.close(file)
        whole = memoryview(mapping)
        magic, _, count, _ = HEAD.unpack_from(whole)
        begin = HEAD.size + SECTION.size * (1 + count)
        if magic != MAGIC or begin > size:
            raise ValueError(f"its file {path} does not hold a value")
        sections = []
        for offset, length in SECTION.iter_unpack(whole[HEAD.size : begin]):
            if offset % ALIGNED or offset < begin or offset > size or length > size - offset:
                raise ValueError(f"its file {path} is cut or damaged: it has {size} bytes")
            sections.append(whole[offset : offset + length])
        return pickle.loads(sections[0], buffers=sections[1:])

    return dump, write, load


