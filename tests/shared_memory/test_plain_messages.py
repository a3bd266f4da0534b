import collections
import enum
import os
import pickle
import struct

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from agents.shared_memory.plain_messages import (
    MAX_REPR_LENGTH,
    NotPlainError,
    as_plain,
    dumps,
    loads,
)

PLAIN = [
    None,
    [True, -(2**70), 1.5, 2 + 1j, "text \ud800", b"bytes", bytearray(b"more")],
    {"nested": ({1, 2}, frozenset({"x"}), {(1, "key"): [()]})},
    np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::2],
    np.asfortranarray(np.arange(6, dtype=">i8").reshape(2, 3)),
    np.zeros((0, 3)),
    np.array(7, np.uint8),
    np.array([True, False]),
    np.array(["a", "bcd"]),
    np.array([b"a", b"bcd"]),
    np.array(["2026-01-01"], "datetime64[D]"),
    [np.float64(1.5), np.bool_(True), np.int8(-3), np.complex64(1j), np.str_("text")],
]

KINDS = enum.IntEnum("KINDS", ["ONE"])
Point = collections.namedtuple("Point", "x y")
DEEP = []
for _ in range(60):
    DEEP = [DEEP]
NOT_PLAIN = {
    "function": len,
    "object": object(),
    "generator": (index for index in range(3)),
    "Point": Point(1, 2),
    "KINDS": KINDS.ONE,
    "OrderedDict": collections.OrderedDict(a=1),
    "Generator": np.random.default_rng(0),
    "ndarray of dtype object": np.array([object()]),
    "MaskedArray": np.ma.masked_array([1]),
    "nested more than 50 deep": DEEP,
}


@pytest.mark.parametrize("value", PLAIN, ids=range(len(PLAIN)))
def test_plain_values_arrive_with_their_types(value):
    received = loads(dumps(value))
    assert type(received) is type(value)
    np.testing.assert_equal(received, value)
    if isinstance(value, np.ndarray):
        assert received.dtype == value.dtype and received.flags.writeable
    if isinstance(value, list):
        assert list(map(type, received)) == list(map(type, value))


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_other_values_are_refused_by_the_name_of_their_type(name):
    with pytest.raises(NotPlainError, match=f"{name}.* cannot be sent.*; expected None, numbers"):
        dumps({"results": [1, (NOT_PLAIN[name],)]})


def test_other_values_become_strings_where_asked_for():
    class Broken:
        def __repr__(self):
            raise ValueError

    long = collections.OrderedDict(key="x" * 1000)
    value = {"a": [1, Point(1, 2)], Point: (long, Broken()), "array": PLAIN[3]}
    result = as_plain(value)
    assert result["array"] is PLAIN[3] and result["a"] == [1, "Point(x=1, y=2)"]
    assert result[repr(Point)][0] == repr(long)[:MAX_REPR_LENGTH]
    assert "Broken" in result[repr(Point)][1]
    loads(dumps(result))
    loads(dumps(as_plain(DEEP)))


class Command:
    """Pickled, it calls a function when it is loaded."""

    def __init__(self, function, *arguments):
        self._call = function, arguments

    def __reduce__(self):
        return self._call


@pytest.mark.parametrize(
    "command",
    [
        Command(os.system, "touch {path}"),
        Command(eval, "open('{path}', 'w')"),
        Command(exec, "open('{path}', 'w')"),
        Command(getattr, Command(__import__, "os"), "system"),
        Command(open, "{path}", "w"),
        Command(np.load, "{path}"),
        collections.OrderedDict(a=1),
        np.dtype("O"),
        np.array([object()]),
    ],
)
def test_messages_that_execute_something_are_refused(command, tmp_path):
    path = tmp_path / "executed"
    data = pickle.dumps(command, 0).replace(b"{path}", str(path).encode())
    with pytest.raises(NotPlainError):
        loads(data)
    assert not path.exists()
    pickle.loads(pickle.dumps(Command(len, "abc")))  # Such commands are executed elsewhere.


@pytest.mark.parametrize(
    "arguments",
    [("O", (1,), bytes(8)), ("V8", (1,), bytes(8)), ("f8", (10**9,), b""), ("f8", (-1,), b"")],
)
def test_arrays_that_their_bytes_do_not_fill_are_refused(arguments):
    name = b"\x8c\x24agents.shared_memory.plain_messages\x8c\x0b_make_array\x93"
    name = name.replace(b"\x24", struct.pack("B", len("agents.shared_memory.plain_messages")))
    data = b"\x80\x04" + name + pickle.dumps(arguments, 4)[2:-1] + b"R."
    with pytest.raises(NotPlainError):
        loads(data)
    valid = b"\x80\x04" + name + pickle.dumps(("<f8", (1,), bytes(8)), 4)[2:-1] + b"R."
    assert loads(valid) == np.zeros(1)


@hypothesis.given(strategies.integers(0, 10**6), strategies.binary(max_size=8))
@hypothesis.settings(deadline=None, max_examples=300)
def test_damaged_messages_are_values_or_typed_errors(place, replacement):
    data = bytearray(dumps(PLAIN[:6]))
    place %= len(data)
    data[place : place + len(replacement)] = replacement
    try:
        loads(bytes(data))
    except NotPlainError:
        pass


def test_a_message_that_names_itself_is_bounded():
    value = []
    value.append(value)
    with pytest.raises(NotPlainError, match="nested more than"):
        dumps(value)
