import copy
import pickle

import cloudpickle
import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies

from agents.attr_dict import AttrDict


@pytest.mark.parametrize("make", [lambda: AttrDict(a=1, b=2), lambda: AttrDict({"a": 1, "b": 2})])
def test_entries_are_items_and_attributes(make):
    obj = make()
    assert (obj.a, obj["b"], obj) == (1, 2, {"a": 1, "b": 2})
    assert isinstance(obj, dict)


class TestUnknownNames:
    def test_message_names_the_nearest(self):
        with pytest.raises(AttributeError, match="no entry 'rewrad'; did you mean 'reward'"):
            AttrDict(observ=0, reward=1).rewrad  # noqa: B018

    def test_message_lists_the_names_when_none_is_near(self):
        with pytest.raises(AttributeError, match="there are: observ, reward"):
            AttrDict(observ=0, reward=1).xyz  # noqa: B018

    def test_getattr_and_hasattr(self):
        assert getattr(AttrDict(a=1), "b", 5) == 5
        assert not hasattr(AttrDict(a=1), "b")

    def test_item_raises_key_error(self):
        with pytest.raises(KeyError):
            AttrDict(a=1)["b"]

    def test_keys_with_a_leading_underscore_are_not_attributes(self):
        obj = AttrDict({"_a": 1})
        assert obj["_a"] == 1
        with pytest.raises(AttributeError, match="has no attribute '_a'"):
            obj._a  # noqa: B018


class TestLock:
    def assert_locked(self, obj):
        before = dict(obj)
        with pytest.raises(AttributeError, match="'a'.*locked"):
            obj.a = 0
        with pytest.raises(AttributeError, match="'new'.*locked"):
            obj.new = 0
        with pytest.raises(AttributeError, match="'a'.*locked"):
            del obj.a
        assert dict(obj) == before

    def test_attributes_are_locked_but_items_are_not(self):
        obj = AttrDict(a=1)
        self.assert_locked(obj)
        obj["a"] = 2
        assert obj.a == 2

    def test_unlocked(self):
        obj = AttrDict(a=1, b=2)
        with obj.unlocked as same:
            assert same is obj
            obj.a = 5
            obj.new = 6
            del obj.b
        assert obj == {"a": 5, "new": 6}
        self.assert_locked(obj)

    def test_nested(self):
        obj = AttrDict(a=1)
        with obj.unlocked:
            with obj.unlocked:
                obj.a = 2
            obj.a = 3
        assert obj.a == 3
        self.assert_locked(obj)

    def test_restored_after_an_exception(self):
        obj = AttrDict(a=1)
        with pytest.raises(ZeroDivisionError), obj.unlocked:
            raise ZeroDivisionError
        self.assert_locked(obj)

    def test_other_dictionaries_stay_locked(self):
        outer, other = AttrDict(a=AttrDict(a=1)), AttrDict(a=1)
        with outer.unlocked:
            self.assert_locked(other)
            self.assert_locked(outer.a)

    @pytest.mark.parametrize("name", ["items", "keys", "unlocked", "copy", "_private"])
    def test_names_that_cannot_be_attributes_are_refused(self, name):
        obj = AttrDict()
        with obj.unlocked, pytest.raises(AttributeError, match=f"'{name}' can't be an attribute"):
            setattr(obj, name, 1)
        assert not obj

    def test_deleting_an_unknown_name(self):
        obj = AttrDict(reward=1)
        with obj.unlocked, pytest.raises(AttributeError, match="did you mean 'reward'"):
            del obj.rewrad

    @pytest.mark.parametrize(
        "duplicate",
        [
            copy.copy,
            copy.deepcopy,
            AttrDict.copy,
            lambda obj: cloudpickle.loads(cloudpickle.dumps(obj)),
        ]
        + [
            lambda obj, p=p: pickle.loads(pickle.dumps(obj, p))
            for p in range(pickle.HIGHEST_PROTOCOL + 1)
        ],
    )
    def test_copies_are_equal_independent_and_locked(self, duplicate):
        obj = AttrDict(a=1, b=AttrDict(c=[2]))
        with obj.unlocked:
            result = duplicate(obj)
        assert type(result) is type(result.b) is AttrDict
        assert result == obj
        self.assert_locked(result)
        result["a"] = 9
        assert obj.a == 1


def test_a_deep_copy_copies_nested_values_but_a_shallow_one_does_not():
    obj = AttrDict(b=[2])
    assert copy.copy(obj).b is obj.b
    assert copy.deepcopy(obj).b is not obj.b
    obj["me"] = obj
    result = copy.deepcopy(obj)
    assert result.me is result


@hypothesis.given(
    strategies.dictionaries(
        strategies.text(max_size=6) | strategies.sampled_from(dir(dict)), strategies.integers()
    )
)
def test_dictionary_methods_work_with_any_keys(entries):
    obj = AttrDict(entries)
    assert list(obj.items()) == list(entries.items())
    assert obj.get("missing key", 3) == entries.get("missing key", 3)
    obj.update(entries, extra=1)
    assert obj.pop("extra") == 1
    assert pickle.loads(pickle.dumps(obj)) == obj == copy.copy(obj) == entries
    assert {**obj} == dict(obj) == entries
    assert eval(repr(obj), {"AttrDict": AttrDict}) == entries


def test_names_can_be_completed():
    assert {"reward", "items"} <= set(dir(AttrDict({"reward": 1, 3: 4})))


class TestTensorFlow:
    def test_map_structure(self):
        result = tf.nest.map_structure(lambda x: x + 1, AttrDict(b=1, a=AttrDict(c=(2, 3))))
        assert type(result) is type(result.a) is AttrDict
        assert result == {"b": 2, "a": {"c": (3, 4)}}

    def test_flatten_and_pack(self):
        structure = AttrDict(b=1, a=AttrDict(c=(2, 3)))
        flat = tf.nest.flatten(structure)
        assert flat == [2, 3, 1]
        packed = tf.nest.pack_sequence_as(structure, flat)
        assert type(packed) is type(packed.a) is AttrDict
        assert packed == structure

    def test_a_tf_function_accepts_and_returns_it(self):
        traces = []

        @tf.function
        def double(obj):
            traces.append(type(obj))
            return AttrDict(twice=AttrDict(value=obj.value * 2), other=obj.other)

        for value in (1.0, 2.0):
            result = double(AttrDict(value=tf.constant(value), other=tf.constant(1)))
            assert type(result) is type(result.twice) is AttrDict
            assert result.twice.value.numpy() == 2 * value
        assert traces == [AttrDict]

    def test_a_while_loop_carries_it(self):
        def body(step, state):
            assert type(state) is AttrDict
            return step + 1, AttrDict(
                total=state.total + tf.cast(step, tf.float32), inner=AttrDict(last=step)
            )

        @tf.function
        def run():
            state = AttrDict(total=tf.zeros([]), inner=AttrDict(last=tf.constant(-1)))
            return tf.while_loop(lambda step, _: step < 5, body, (0, state))[1]

        result = run()
        assert type(result) is type(result.inner) is AttrDict
        np.testing.assert_array_equal([result.total, result.inner.last], [10, 4])

    def test_an_autograph_loop_carries_it(self):
        @tf.function
        def run():
            state = AttrDict(total=0)
            for step in tf.range(4):
                state = AttrDict(total=state.total + step)
            return state

        assert run().total.numpy() == 6
