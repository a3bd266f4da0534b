import argparse
import collections
import dataclasses
import functools
import random
import sys
import threading
import types

import numpy as np
import pytest
from gymnasium import spaces

from agents.attr_dict import AttrDict
from agents.own_copy import own_copy


@dataclasses.dataclass(frozen=True)
class Settings:
    limits: dict


@dataclasses.dataclass(slots=True)
class Slots:
    limits: dict


class Own:
    def __init__(self, part):
        self.part = part


class OwnTuple(tuple):
    def __new__(cls, one, other):
        return super().__new__(cls, (one, other))

    def __getnewargs__(self):
        return tuple(self)


class Finalized(Own):
    def __del__(self):
        pass


class Callback(Own):
    def __call__(self):
        self.part.append(1)


Pair = collections.namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("value", "find"),
    [
        ({"a": {"b": [1]}}, lambda value: value["a"]["b"]),
        ([[1], 2], lambda value: value[0]),
        (({"a": [1]},), lambda value: value[0]["a"]),
        (Pair([1], 2), lambda value: value.left),
        (Settings({"a": [1]}), lambda value: value.limits["a"]),
        (types.SimpleNamespace(a=[1]), lambda value: value.a),
        (argparse.Namespace(a=[1]), lambda value: value.a),
        (AttrDict(a=[1]), lambda value: value.a),
        (collections.OrderedDict(a=[1]), lambda value: value["a"]),
        (collections.defaultdict(list, a=[1]), lambda value: value["a"]),
        (collections.deque([[1]], maxlen=3), lambda value: value[0]),
        (np.array([[1], None], object), lambda value: value[0]),
        (np.array([[[1], None], [2, 3]], object).T, lambda value: value[0, 0]),
        (np.array([([1],)], [("a", object)]), lambda value: value["a"][0]),
        (collections.UserDict(a=[1]), lambda value: value["a"]),
        (Slots({"a": [1]}), lambda value: value.limits["a"]),
        (OwnTuple([1], 2), lambda value: value[0]),
        (Own({"a": [1]}), lambda value: value.part["a"]),
        (Own(Own([1])), lambda value: value.part.part),
        (functools.partial(print, [1], a={}), lambda value: value.args[0]),
        (functools.partial(print, a={"b": [1]}), lambda value: value.keywords["a"]["b"]),
    ],
)
def test_data_are_copied_to_their_depth(value, find):
    copy = own_copy(value)
    assert type(copy) is type(value)
    assert find(copy) == find(value) == [1]
    find(copy).append(2)
    assert find(value) == [1]


@pytest.mark.parametrize(
    ("value", "draw"),
    [
        (np.random.default_rng(3), lambda value: value.random()),
        (random.Random(3), lambda value: value.random()),
        (spaces.Dict(a=spaces.Discrete(10**6), seed=3), lambda value: value.sample()["a"]),
        (iter([1, 2]), next),
    ],
)
def test_copies_draw_the_same_numbers(value, draw):
    copies = [own_copy([value])[0] for _ in range(2)]
    assert draw(copies[0]) == draw(copies[1]) == draw(value)


@pytest.mark.parametrize("value", [{1}, bytearray(b"1"), np.arange(3), np.array(1.5)])
def test_flat_data_are_copied(value):
    copy = own_copy({"value": value})["value"]
    assert copy is not value and type(copy) is type(value)
    np.testing.assert_array_equal(copy, value)


class Refusing(dict):
    def __copy__(self):
        raise TypeError("no copies")


def test_what_can_t_be_copied_is_passed_on_beside_copies(tmp_path):
    with (tmp_path / "file").open("wb") as file:
        file.write(bytes(8))
        file.flush()
        mapped = np.memmap(tmp_path / "file", np.uint8)
        callback, data = Callback([]), [1]
        objects = [file, threading.Lock(), sys, print, Refusing, Refusing(), mapped, Finalized([])]
        objects += [callback, callback.__call__, [].append, Own(threading.Lock())]
        copy = own_copy({"objects": objects, "data": data})
        assert all(one is other for one, other in zip(copy["objects"], objects, strict=True))
        assert copy["data"] is not data


def test_data_in_itself_and_data_nested_deeply_end():
    loop = {"number": [1]}
    loop["self"] = loop
    copy = own_copy(loop)
    assert copy["self"] is copy is not loop
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert own_copy(deep)[0][0] is not deep[0][0]


def test_parts_with_two_places_keep_both():
    part = [1]
    copy = own_copy({"one": part, "two": part})
    assert copy["one"] is copy["two"] is not part
