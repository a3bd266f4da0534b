from tensorboard.plugins.hparams import plugin_data_pb2

from agents.settings.config import Config
from agents.tracking.hyperparameters import write_hyperparameters
from tests.tracking.shown_events import plugin_contents


def contents(folder):
    """The messages for TensorBoard's plugin, by tag."""
    return {
        tag: plugin_data_pb2.HParamsPluginData.FromString(content)
        for tag, content in plugin_contents(folder, "hparams").items()
    }


def test_a_session_has_all_settings(tmp_path):
    run = tmp_path / "20261122T120000-pendulum"
    run.mkdir()
    settings = Config(learning_rate=1e-3, env_kwargs={"g": 9.81}).model_dump()
    write_hyperparameters(run, settings)
    messages = contents(run)
    session = messages["_hparams_/session_start_info"].session_start_info
    assert set(session.hparams) == set(settings)
    assert session.hparams["learning_rate"].number_value == 1e-3
    assert session.hparams["normalize_observ"].bool_value is True
    assert session.hparams["layers"].string_value == "[64, 64]"
    assert session.hparams["env_kwargs"].string_value == '{"g": 9.81}'
    assert set(messages) == {"_hparams_/session_start_info"}  # TensorBoard finds what differs.


def test_a_resumed_run_has_its_settings_once(tmp_path):
    for seed in (1, 2):
        write_hyperparameters(tmp_path, {"seed": seed})
    assert len(list(tmp_path.iterdir())) == 1
    session = contents(tmp_path)["_hparams_/session_start_info"].session_start_info
    assert session.hparams["seed"].number_value == 2
