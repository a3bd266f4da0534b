import copy
import pickle

import cloudpickle
import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies

from agents.attr_dict import AttrDict


def test_entries_are_items_and_attributes():
    for obj in (AttrDict(a=1, b=2), AttrDict({"a": 1, "b": 2})):
        assert (obj.a, obj["b"], obj) == (1, 2, {"a": 1, "b": 2})
        assert getattr(obj, "c", 5) == 5 and not hasattr(obj, "c")
    assert {"reward", "items"} <= set(dir(AttrDict({"reward": 1, 3: 4})))  # For completion.


def test_unknown_and_impossible_names_raise():
    obj = AttrDict({"_a": 1, "observ": 0, "reward": 1})
    for name, message in [
        ("rewrad", "no entry 'rewrad'; did you mean 'reward'"),
        ("xyz", "there are: _a, observ, reward"),
        ("_a", "has no attribute '_a'"),
    ]:
        with pytest.raises(AttributeError, match=message):
            getattr(obj, name)
    for name in ("items", "keys", "unlocked", "copy", "_private"):
        with obj.unlocked, pytest.raises(AttributeError, match=f"'{name}' can't be an attribute"):
            setattr(obj, name, 1)
    with obj.unlocked, pytest.raises(AttributeError, match="did you mean 'reward'"):
        del obj.rewrad
    assert dict(obj) == {"_a": 1, "observ": 0, "reward": 1}


def assert_locked(obj):
    before = dict(obj)
    with pytest.raises(AttributeError, match="'a'.*locked"):
        obj.a = 0
    with pytest.raises(AttributeError, match="'new'.*locked"):
        obj.new = 0
    with pytest.raises(AttributeError, match="'a'.*locked"):
        del obj.a
    assert dict(obj) == before


def test_attributes_are_locked_outside_of_unlocked():
    obj, other = AttrDict(a=1, b=2, inner=AttrDict(a=1)), AttrDict(a=1)
    assert_locked(obj)
    obj["a"] = 2  # Items are not.
    with pytest.raises(ZeroDivisionError), obj.unlocked as same:
        assert same is obj
        obj.a = 5
        with obj.unlocked:
            obj.new = 6
        del obj.b
        assert_locked(other)
        assert_locked(obj.inner)
        raise ZeroDivisionError
    assert obj == {"a": 5, "new": 6, "inner": {"a": 1}}
    assert_locked(obj)


@pytest.mark.parametrize("duplicate", [
    copy.copy, AttrDict.copy, copy.deepcopy,
    lambda obj: cloudpickle.loads(cloudpickle.dumps(obj)),
    lambda obj: pickle.loads(pickle.dumps(obj, 0)),
    lambda obj: pickle.loads(pickle.dumps(obj)),
])  # fmt: skip
def test_copies_are_equal_independent_and_locked(duplicate):
    obj = AttrDict(a=1, b=AttrDict(c=[2]))
    with obj.unlocked:
        result = duplicate(obj)
    assert type(result) is type(result.b) is AttrDict
    assert result == obj
    assert_locked(result)
    result["a"] = 9
    assert obj.a == 1
    assert (result.b is obj.b) == (duplicate in (copy.copy, AttrDict.copy))


@hypothesis.given(
    strategies.dictionaries(
        strategies.text(max_size=6) | strategies.sampled_from(dir(dict)), strategies.integers()
    )
)
@hypothesis.settings(deadline=None, max_examples=40)
def test_dictionary_methods_work_with_any_keys(entries):
    obj = AttrDict(entries)
    assert list(obj.items()) == list(entries.items())
    assert pickle.loads(pickle.dumps(obj)) == obj == copy.copy(obj) == {**obj} == entries
    assert eval(repr(obj), {"AttrDict": AttrDict}) == entries
    obj["me"] = obj
    result = copy.deepcopy(obj)
    assert result.me is result


def test_functions_and_loops_of_graphs_take_and_return_them():
    traces = []

    @tf.function
    def run(obj):
        traces.append(type(obj))

        def body(step, state):
            assert type(state) is AttrDict
            return step + 1, AttrDict(total=state.total + step, inner=AttrDict(last=step))

        state = AttrDict(total=obj.start, inner=AttrDict(last=tf.constant(-1)))
        state = tf.while_loop(lambda step, _: step < 5, body, (0, state))[1]
        for _ in tf.range(3):  # AutoGraph's loop.
            state = AttrDict(total=state.total + 1, inner=state.inner)
        return state

    for start in (0, 100):
        result = run(AttrDict(start=tf.constant(start)))
        assert type(result) is type(result.inner) is AttrDict
        assert (result.total.numpy(), result.inner.last.numpy()) == (start + 13, 4)
    assert traces == [AttrDict]
    assert tf.nest.flatten(AttrDict(b=1, a=AttrDict(c=(2, 3)))) == [2, 3, 1]
