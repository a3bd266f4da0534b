"""Random damage to files, the same for the same generator."""


def cut(data, draw):
    return data[: draw.randrange(len(data))]


def flip_bits(data, draw):
    damaged = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 8])):
        damaged[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def zero_range(data, draw):
    start = draw.randrange(len(data))
    length = min(draw.choice([1, 16, 512, 4096]), len(data) - start)
    return data[:start] + bytes(length) + data[start + length :]


def random_range(data, draw):
    start = draw.randrange(len(data))
    length = min(draw.choice([4, 64, 512]), len(data) - start)
    return data[:start] + draw.randbytes(length) + data[start + length :]


def repeat_block(data, draw):
    start = draw.randrange(len(data))
    return data[:start] + data[max(0, start - 512) : start] + data[start:]


def leave_out_block(data, draw):
    start = draw.randrange(len(data))
    return data[:start] + data[start + draw.choice([1, 8, 512]) :]


def append(data, draw):
    return data + draw.choice([b"\0", bytes(512), data, draw.randbytes(100)])


def empty(data, draw):
    return b""


def other_bytes(data, draw):
    return draw.randbytes(draw.choice([1, 22, 1000, len(data)]))


DAMAGES = [
    cut, flip_bits, zero_range, random_range, repeat_block, leave_out_block, append, empty, other_bytes,
]  # fmt: skip
