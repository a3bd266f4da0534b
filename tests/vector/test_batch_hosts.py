import contextlib

import gymnasium
import pytest
from gymnasium import spaces

from agents.errors import UnsupportedSpaceError, UsageError
from agents.vector.batch_hosts import check_compatible, make_hosts
from agents.workers.description import describe
from agents.workers.external_process import ExternalProcess
from agents.workers.host import LocalHost
from tests.faulty_toys import CommandedEnv


def test_every_kind_of_environment_has_its_host():
    local = LocalHost(CommandedEnv)
    with contextlib.closing(ExternalProcess(CommandedEnv)) as process:
        hosts = make_hosts([CommandedEnv("mine"), local, process], True, restarts=False)
        assert hosts[0][0].name == "mine"
        assert hosts[1:] == [local, process.host]


@pytest.mark.parametrize(
    ("envs", "blocking", "restarts", "message"),
    [
        ([], True, False, "at least one environment, got none"),
        ([CommandedEnv()], False, False, "can't be stepped in parallel: pass blocking=True"),
        ([CommandedEnv()], True, True, "restarted with their constructors: pass LocalHost"),
    ],
)
def test_what_can_t_be_hosted_is_refused(envs, blocking, restarts, message):
    with pytest.raises(ValueError, match=message):
        make_hosts(envs, blocking, restarts)


@pytest.mark.parametrize(
    ("wait_for", "blocking", "message"),
    [
        (0.0, True, "wait_for must be above 0 and at most 1, got 0.0"),
        (1.5, True, "wait_for must be above 0 and at most 1, got 1.5"),
        (0.5, True, "Only environments in processes.*got wait_for 0.5"),
        (0.5, False, "Only environments in processes.*got wait_for 0.5"),
    ],
)
def test_environments_that_can_t_be_ahead_of_others(wait_for, blocking, message):
    local = LocalHost(CommandedEnv)
    with contextlib.closing(ExternalProcess(CommandedEnv)) as process:
        with pytest.raises(ValueError, match=message):
            make_hosts([process, local], blocking, False, wait_for)
        make_hosts([process], False, False, 0.5)


def test_environments_of_a_batch_have_equal_spaces_and_no_autoreset():
    one, other = describe(CommandedEnv()), describe(CommandedEnv())
    check_compatible([one, other])
    for name in ("observation_space", "action_space"):
        changed = other._replace(**{name: spaces.Discrete(2)})
        with pytest.raises(UsageError, match=f"the {name} of environment 1 is Discrete"):
            check_compatible([one, changed])
    automatic = describe(gymnasium.wrappers.Autoreset(CommandedEnv()))
    with pytest.raises(UsageError, match="Environment 1 has Autoreset"):
        check_compatible([one, automatic])
    texts = [one._replace(observation_space=spaces.Text(length)) for length in (5, 6)]
    with pytest.raises(UnsupportedSpaceError, match="Text"):
        check_compatible(texts)
