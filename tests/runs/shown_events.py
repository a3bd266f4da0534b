"""What TensorBoard shows of a folder of event files."""

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray


def events(folder):
    """Plugin and arrays by step that TensorBoard shows, by tag."""
    accumulator = EventAccumulator(str(folder), {"tensors": 0})
    accumulator.Reload()
    return {
        tag: (
            accumulator.SummaryMetadata(tag).plugin_data.plugin_name,
            [(event.step, make_ndarray(event.tensor_proto)) for event in accumulator.Tensors(tag)],
        )
        for tag in accumulator.Tags()["tensors"]
    }


def steps_of(folder, tag):
    return [step for step, _ in events(folder)[tag][1]]


def plugin_contents(folder, plugin):
    """What events hold for a plugin beside tensors, encoded, by tag."""
    accumulator = EventAccumulator(str(folder), {"tensors": 0})
    accumulator.Reload()
    return dict(accumulator.PluginTagToContent(plugin))
