import pytest

from benchmarks import training


def test_graph_calls_are_counted_and_none_raises():
    import tensorflow as tf

    graph = tf.function(lambda number: tf.sin(number) + 1)
    number = tf.constant(1.0)
    graph(number)
    assert training.count_graph_calls(lambda: graph(number)) == 1
    assert training.count_graph_calls(lambda: graph(graph(number))) == 2
    with pytest.raises(RuntimeError, match="No graph call was seen among 1 operations"):
        training.count_graph_calls(lambda: tf.sin(number))
