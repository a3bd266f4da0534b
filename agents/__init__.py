"""Batched reinforcement learning in TensorFlow: parallel environments inside the training graph.

The rooms (packages), the lowest first; each imports only from those listed before it:

  errors, seeds, spaces, stop_signals, ...  shared by all rooms
  settings       the settings of an experiment, and the command line
  environments   one Gymnasium environment: wrappers, families, rendering
  workers        processes that host environments, and their shared memory
  vector         batches of environments, also of other libraries
  distributions  action distributions
  learning       parts of algorithms: returns, normalizers, optimizers, schedules, replay
  policies       acting: inputs, networks, recurrent state
  graph          environments and the simulation loop as operations of the graph
  ppo            proximal policy optimization
  sac            soft actor-critic
  runs           a run's folder: checkpoints, metrics, TensorBoard; curves and comparisons of runs
  deployment     trained policies outside of training: loaded, exported, filmed
  distributed    several learners: processes of one machine, or of many
  training       the trainer: learner, evaluation, the training loop
  scripts        the commands

Settings, environments, workers, vector and runs do not import TensorFlow, or only inside of functions.
`agents.tools` lists the names that users of batch-ppo know, `agents.tensor_envs` those of environments
in TensorFlow, and `agents.presets` is a link to `configs/`.

Glossary. Letters in shapes, everywhere the same:

  B  environments in a batch        T  steps of a rollout       M  elements of a minibatch
  N  elements of any batch          L  steps of a sequence      K  numbers of noise a sample takes
  A  dimensions of an action        O  numbers observed         F  features of a network
  U  units of a recurrent state

Words, each with one meaning:

  observ         observation (Gymnasium's obs)
  final_observ   the last observation of an episode that ended (Gymnasium's final_obs)
  terminated     the episode ended in a terminal state
  truncated      the episode was cut, as by a time limit
  done           terminated or truncated
  is_first       whether a step is the first of an episode; recurrent states are zero there
  sample         an action as the policy's distribution has it
  action         an action as the environment takes it
  return         sum of the rewards of an episode
  value function  network that predicts the discounted rewards to come
  evaluation     whole episodes with deterministic actions, in environments of their own
  advantage      how much better an action was than its value function expected
  entropy        mean of -log(probability) of a policy's actions: how random they are
  KL             Kullback-Leibler divergence between two policies: how far an update moved
  nat            unit of entropies and divergences, which have natural logarithms
  GAE            generalized advantage estimation: averages advantages over many steps, see `gae_lambda`
  probability ratio  probability of a sample under the trained policy / under the policy that acted
  clip fraction  share of the probability ratios that are outside of PPO's clipping range
  explained variance  share of the value targets' variance that the value function predicts
  normalizer     running means and standard deviations that observations or rewards are scaled by
  preset         settings of an experiment under one name, for `--config`
  log point      a step at which metrics are written
  element        one part of a batch: a step, or a sequence for recurrent networks
  recurrent state  the state that a recurrent network carries from step to step
  value target   the target of the value function (advantage + value)
  rollout        T steps of all B environments
  turn           actions for the environments that are ready, and the wait for some to reply
  iteration      one rollout and the update that learns from it: one graph call
  update         epochs of minibatches, from a rollout to new weights
  epoch          one pass over a rollout
  minibatch      part of a shuffled rollout, which one gradient step learns from
  host           environments of a batch in a worker process, or in this process
  worker         a process that steps environments
  learner        a process that trains; one of several, the first of which is the chief
  policy         inputs, network and action distribution together; the setting `policy` chooses the
                 distribution
"""

from agents.settings import search_path as search_path

# isort: split
from typing import TYPE_CHECKING

from agents.lazy_import import lazy_names
from agents.settings.installation import check_package
from agents.settings.peer_names import attribute_hint
from agents.version import __version__ as __version__

check_package(__file__)

if TYPE_CHECKING:
    from agents.deployment.export import export_policy as export_policy
    from agents.deployment.trained_policy import load_policy as load_policy
    from agents.graph.algorithm import Algorithm as Algorithm
    from agents.graph.in_graph_batch_env import InGraphBatchEnv as InGraphBatchEnv
    from agents.graph.simulation import simulate as simulate
    from agents.ppo.ppo import PPO as PPO
    from agents.runs.curves import plot as plot
    from agents.sac.sac import SAC as SAC
    from agents.scripts.train import train as train
    from agents.scripts.visualize import visualize as visualize
    from agents.settings.config_file import load_config as load_config
    from agents.vector.batch_env import BatchEnv as BatchEnv
    from agents.vector.process_batch import make_batch_env as make_batch_env
    from agents.workers.external_process import ExternalProcess as ExternalProcess

HOMES = {
    "Algorithm": "agents.graph.algorithm",
    "BatchEnv": "agents.vector.batch_env",
    "ExternalProcess": "agents.workers.external_process",
    "InGraphBatchEnv": "agents.graph.in_graph_batch_env",
    "PPO": "agents.ppo.ppo",
    "SAC": "agents.sac.sac",
    "export_policy": "agents.deployment.export",
    "load_config": "agents.settings.config_file",
    "load_policy": "agents.deployment.trained_policy",
    "make_batch_env": "agents.vector.process_batch",
    "plot": "agents.runs.curves",
    "simulate": "agents.graph.simulation",
    "train": "agents.scripts.train",
    "visualize": "agents.scripts.visualize",
}
__all__ = list(HOMES)
__getattr__, __dir__ = lazy_names(__name__, HOMES, attribute_hint)
