"""Toy environments for tests that fail or break rules in chosen ways; see `tests/toys.py`."""

import os
import signal
import sys
import time

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv


def commit(fault):
    """Lets this process `hang`, `nap` for half a second, `exit`, `die`, or `fork_and_die`."""
    if fault in ("hang", "nap"):
        time.sleep({"hang": 600, "nap": 0.5}[fault])
    elif fault == "exit":
        sys.exit(3)
    elif fault == "fork_and_die" and os.fork() == 0:
        time.sleep(5)  # The child keeps the files of its parent open.
        os._exit(0)
    else:
        os.kill(os.getpid(), signal.SIGKILL)


class CommandedEnv(gymnasium.Env):
    """Does what its action says; observes its steps in total and those of the episode.

    Rewards are a quarter of the steps of the episode. A reset whose options have `raise` with its
    name raises KeyError.

    Attributes:
      name: Its name.
      actions: All actions it was given.
      seeds: Seeds of all resets.
    """

    END, RAISE, HANG, NAP, EXIT, DIE, FORK_AND_DIE = range(1, 8)
    metadata = {"render_modes": ["ansi"]}
    observation_space = spaces.Box(-1, 1e6, (2,), np.float64)
    action_space = spaces.Discrete(102, start=-2)
    faults = {HANG: "hang", NAP: "nap", EXIT: "exit", DIE: "die", FORK_AND_DIE: "fork_and_die"}

    def __init__(self, name="one", log=None):
        """Initializes the environment; if closed, it appends a line to the file `log`."""
        self.name, self.actions, self.seeds = name, [], []
        self._log, self._total, self._secret = log, 0, "hidden"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        if options and options.get("raise") == self.name:
            raise KeyError(self.name)
        self._steps = 0
        # Gymnasium can't batch seeds of which some are None.
        seeded = {} if seed is None else {"seed": seed}
        return self._observ(), {"options": options, "name": self.name, **seeded}

    def step(self, action):
        self.actions.append(action)
        if action == self.RAISE:
            raise ValueError(f"{self.name} failed")
        if action in self.faults:
            commit(self.faults[action])
        self._total, self._steps = self._total + 1, self._steps + 1
        reward = self._steps / 4
        return self._observ(), reward, bool(action == self.END), False, {"action": action}

    def render(self):
        return f"picture of {self.name}"

    def close(self):
        if self._log:
            with open(self._log, "a") as file:
                file.write(f"{self.name} closed\n")

    # Methods for remote calls.

    def add(self, one, two=0):
        return one + two

    def complain(self):
        raise LookupError("nothing there")

    def generator(self):
        return (index for index in range(3))

    def large(self, size):
        return bytes(size)

    def nap(self, seconds, result):
        time.sleep(seconds)
        return result

    @property
    def broken(self):
        raise ValueError("broken property")

    def _observ(self):
        return np.array([self._total, self._steps], np.float64)


class FaultyEnv(gymnasium.Wrapper):
    """Fails in a chosen way in a chosen call.

    Attributes:
      fault: What happens: an exception that is raised; `{"observ": x}` or `{"reward": x}` for a
        number x in place of the reward, or of the last number of a Box observation; or a fault
        of the process, see `commit`.
      countdown: Calls until then, that one included; 0 for never.
    """

    def __init__(self, env, fault=None, countdown=0, method="step"):
        """Wraps an environment; `method` is `step` or `reset`, whose calls are counted."""
        super().__init__(env)
        self.fault, self.countdown, self._method = fault, countdown, method

    def reset(self, **kwargs):
        self._fail_if_due("reset")
        return self.env.reset(**kwargs)

    def step(self, action):
        changed = self._fail_if_due("step")
        observ, reward, *others = self.env.step(action)
        if "observ" in changed:
            observ = np.copy(observ)
            observ.flat[-1] = changed["observ"]
        return observ, changed.get("reward", reward), *others

    def _fail_if_due(self, method):
        """Fails if it is time to; returns the values to change."""
        self.countdown -= method == self._method
        if method != self._method or self.countdown != 0:
            return {}
        if isinstance(self.fault, BaseException):
            raise self.fault
        if isinstance(self.fault, dict):
            return self.fault
        commit(self.fault)
        return {}


class CountingVectorEnv(VectorEnv):
    """A vector environment that observes step counts and may break rules in a chosen way.

    All its calls return the same arrays; rewards are the counts.
    """

    single_observation_space = observation_space = spaces.Box(0, 1e6, (16,), np.float32)
    single_action_space = action_space = spaces.Discrete(2)

    def __init__(
        self,
        durations=(3,),
        mode=AutoresetMode.SAME_STEP,
        without_final_obs=False,
        masked_reset="rows",
        allocate=np.zeros,
    ):
        """Initializes the environments.

        Args:
          durations: Length of the episodes of each environment, which terminate.
          mode: When it says it resets them; it does so in the same step only.
          without_final_obs: Whether infos lack the final observations.
          masked_reset: How it resets with a mask: resets those `rows`, `all` regardless of the
            mask, or returns a `part` only, the rows of the mask.
          allocate: Function of shape and type that returns the arrays.
        """
        self.num_envs, self.metadata = len(durations), {"autoreset_mode": mode}
        self._durations, self._mode = np.array(durations), mode
        self._without_final_obs, self._masked_reset = without_final_obs, masked_reset
        self._observ, self._final_observ = (
            allocate((self.num_envs, 16), np.float32) for _ in range(2)
        )
        self._reward = allocate((self.num_envs,), np.float32)
        self._terminated, self._truncated = (allocate((self.num_envs,), bool) for _ in range(2))

    def reset(self, *, seed=None, options=None):
        assert seed is None or isinstance(seed, int), "there is one generator for all"
        super().reset(seed=seed)
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        self._observ[mask if self._masked_reset == "rows" else ...] = 0
        return self._observ[mask] if self._masked_reset == "part" else self._observ, {}

    def step(self, actions):
        self._observ += 1
        self._reward[:] = self._observ[:, 0]
        self._terminated[:] = self._observ[:, 0] == self._durations
        infos = {}
        if self._mode == AutoresetMode.SAME_STEP:
            self._final_observ[:] = self._observ
            self._observ[self._terminated] = 0
            infos = {"final_obs": self._final_observ, "_final_obs": self._terminated}
        if self._without_final_obs:
            infos = {}
        return self._observ, self._reward, self._terminated, self._truncated, infos
