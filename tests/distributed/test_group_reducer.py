"""Reductions in graphs: what learners in processes of their own get, their order, and errors."""

import numpy as np
import pytest
import tensorflow as tf

from agents.distributed.exchange import Exchange, join_flat
from agents.distributed.group_reducer import GroupReducer
from agents.errors import LearnerLostError
from agents.storage.checkpoint import fingerprint
from tests.distributed.learners import run_together

# Shapes of leaves by type, of what is gathered.
GATHERED = {
    "bool": [4, 2],
    "int32": [1, 2, 3],
    "int64": [2, 1],
    "float32": [3, 5],
    "float64": [1, 1],
    "uint8": [2, 3],
}
SHAPES = {"matrix": [3, 4], "scalar": [], "vector": [5], "nothing": [0]}


def numbers(rank, shape, dtype):
    """What a learner has: arrays of any type, among them numbers that are not finite."""
    random = np.random.default_rng(100 * rank + len(shape))
    values = random.normal(size=shape) * 1000
    if dtype == "bool":
        return values > 0
    array = np.abs(values).astype(dtype) if dtype == "uint8" else values.astype(dtype)
    if array.dtype.kind == "f" and rank:
        array[(0,) * len(shape)] = np.nan
    return array


def parts(rank, dtype):
    """What a learner sums, arrays by name."""
    return {name: numbers(0, shape, dtype) * (rank + 1) for name, shape in SHAPES.items()}


def variables(rank):
    """Variables of every type by name; those of two learners have nothing in common."""
    values = {dtype: numbers(rank, shape, dtype) for dtype, shape in GATHERED.items()}
    scalars = {
        "scalar/bool": np.bool_(rank == 0),
        "scalar/int64": np.int64(2**53 + 1 + rank),
        "scalar/float32": np.float32(0.1 + rank),
        "scalar/float64": np.float64(np.nan if rank else -np.inf),
        "uint32": np.array([2**32 - 1, rank], np.uint32),
    }
    return {name: tf.Variable(value) for name, value in {**values, **scalars}.items()}


def reduce_everything(group, config):
    """Checks the reductions of this learner; returns the fingerprint of what it got."""
    group.start()
    reducer, got = GroupReducer(group), {}
    count, rank = group.num_learners, group.rank
    assert (reducer.num_learners, reducer.rank, reducer.compiles) == (count, rank, False)
    for dtype in ("float32", "float64"):
        tensors = tf.nest.map_structure(tf.constant, parts(rank, dtype))
        total, mean, nothing = tf.function(
            lambda tensors=tensors: (
                reducer.sum(tensors), reducer.mean((tensors, [])), (reducer.mean({}), reducer.sum(()))
            ),
            autograph=False,
        )()  # fmt: skip
        assert nothing == ({}, ()) and mean[1] == []
        for name, part in parts(0, dtype).items():
            factor = sum(range(1, count + 1))
            np.testing.assert_allclose(total[name], factor * part, 1e-6, err_msg=name)
            np.testing.assert_allclose(mean[0][name], factor / count * part, 1e-6, err_msg=name)
            got[f"{dtype}/{name}"] = np.stack([total[name], mean[0][name]])
    for axis in (0, 1):
        own = {dtype: numbers(rank, shape, dtype) for dtype, shape in GATHERED.items()}
        for one in (tf.function(reducer.gather, autograph=False), reducer.gather):  # Eagerly, too.
            gathered = one(tf.nest.map_structure(tf.constant, own), axis)
            for dtype, shape in GATHERED.items():
                arrays = [numbers(other, shape, dtype) for other in range(count)]
                np.testing.assert_array_equal(gathered[dtype], np.concatenate(arrays, axis))
                assert gathered[dtype].dtype == dtype
                np.testing.assert_array_equal(reducer.own(gathered[dtype], axis), own[dtype])
    assert reducer.gather({"extras": {}}) == {"extras": {}}
    copied = variables(rank)
    reducer.copy_from_chief(copied)
    assert fingerprint(copied) == fingerprint(variables(0))
    return fingerprint(got)


@pytest.mark.parametrize("num_learners, shares_memory", [(2, True), (3, False)])
def test_learners_get_the_same_bits(num_learners, shares_memory):
    results = run_together(reduce_everything, num_learners, shares_memory=shares_memory)
    assert len(results) == num_learners and len(set(results)) == 1


# Graphs of one learner.


class Twins(Exchange):
    """Two learners that have the same; remembers the size of what they exchange.

    Attributes:
      sizes: Number of bytes of each call.
      error: What the next call raises, if not None.
    """

    def __init__(self):
        self.sizes, self.error = [], None

    def sum(self, arrays):
        flat = join_flat(arrays)
        self._note(flat)
        return 2 * flat

    def gather(self, data):
        self._note(data)
        return np.stack([data, data])

    def broadcast(self, data):
        self._note(data)
        return data

    def _note(self, data):
        self.sizes.append(data.nbytes)
        if self.error:
            raise self.error


class Group:
    """What a reducer needs of a group of two learners."""

    num_learners, rank = 2, 1

    def __init__(self, exchange):
        self.exchange = exchange


@pytest.fixture
def exchange():
    return Twins()


@pytest.fixture
def reducer(exchange):
    return GroupReducer(Group(exchange))


def test_a_reduction_waits_for_those_before_it(reducer, exchange):
    # They need nothing of each other: a loop, what follows it, and another graph.
    variable = tf.Variable(tf.zeros([3]))

    def one_turn(index):
        variable.assign_add(reducer.mean(tf.ones([3])))
        return (index + 1,)

    def run(tensor):
        tf.while_loop(lambda index: index < 20, one_turn, [tf.constant(0)])
        after = reducer.sum(tensor)
        return inner(tensor), after

    inner = tf.function(lambda tensor: reducer.gather((tensor, variable + 1)), autograph=False)
    run = tf.function(run, autograph=False)
    for _ in range(3):
        exchange.sizes.clear()
        run(tf.zeros([1]))
        assert exchange.sizes == [12] * 20 + [4, 16]


def test_a_structure_is_one_message(reducer, exchange):
    structure = {"one": tf.ones([2, 3]), "other": (tf.constant(2.0), tf.ones([4]))}
    reduce = tf.function(lambda: (reducer.mean(structure), reducer.gather(structure["other"][1])))
    mean, gathered = reduce()
    assert exchange.sizes == [4 * 11, 4 * 4]
    tf.nest.map_structure(np.testing.assert_array_equal, mean, structure)
    np.testing.assert_array_equal(gathered, np.ones(8))


@pytest.mark.parametrize("method", ["mean", "sum"])
@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ((np.float32(1), np.float64(1)), "floating point type, got float32, float64"),
        ((np.int32(1),), "floating point type, got int32"),
        ((np.float32(1), np.array([True])), "floating point type, got bool, float32"),
    ],
)
def test_only_one_floating_point_type_is_reduced(reducer, exchange, method, tensors, message):
    with pytest.raises(ValueError, match=message):
        getattr(reducer, method)(tf.nest.map_structure(tf.constant, tensors))
    assert not exchange.sizes  # The other learners are not asked.


@pytest.mark.parametrize("method", ["mean", "sum", "gather"])
@pytest.mark.parametrize(
    "error", [LearnerLostError(3, "10.0.0.4", "closed its connection"), KeyboardInterrupt("stop")]
)
def test_the_error_of_a_reduction_comes_out_of_the_graph(reducer, exchange, method, error):
    reduce = tf.function(lambda: getattr(reducer, method)(tf.ones([3])), autograph=False)
    exchange.error = error
    with pytest.raises(type(error)) as raised, reducer.raising():
        reduce()
    assert raised.value is error
    exchange.error = None
    with reducer.raising():
        reduce()  # Nothing is left of it.


def test_other_errors_pass(reducer, exchange):
    exchange.error = ValueError("earlier")
    with pytest.raises(tf.errors.OpError):
        tf.function(lambda: reducer.sum(tf.ones([3])), autograph=False)()
    with pytest.raises(tf.errors.InvalidArgumentError, match="mine"), reducer.raising():
        tf.debugging.assert_equal(1, 2, "mine")
    with pytest.raises(KeyError), reducer.raising():
        raise KeyError


def test_reductions_do_not_compile(reducer):
    with pytest.raises(tf.errors.OpError):
        tf.function(lambda: reducer.sum(tf.ones([3])), jit_compile=True, autograph=False)()
