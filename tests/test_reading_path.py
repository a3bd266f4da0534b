"""The reading path of the guide on data flow, from `train()` to the gradient: its files, and how long it is."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guides" / "data-flow.md"

# What one reads on the way, constructors included, in the order in which the data flows.
PATH = {
    "agents/scripts/train.py": ["train"],
    "agents/training/training_loop.py": ["training_loop"],
    "agents/training/learner.py": [
        "Learner.__init__",
        "Learner.begin_episodes",
        "Learner.iterate",
        "Learner._collect_and_learn",
        "Learner._learn",
    ],
    "agents/graph/simulation.py": ["simulate", "_loop"],
    "agents/ppo/ppo.py": [
        "PPO.__init__",
        "PPO.begin_rollout",
        "PPO.begin_episode",
        "PPO.perform",
        "PPO.train",
        "PPO._train",
        "PPO._experience",
    ],
    "agents/ppo/rollout_processor.py": [
        "RolloutProcessor.__init__",
        "RolloutProcessor.process",
        "RolloutProcessor._evaluate",
        "RolloutProcessor._to_elements",
    ],
    "agents/ppo/advantage_estimator.py": [
        "AdvantageEstimator.__init__",
        "AdvantageEstimator.estimate",
        "AdvantageEstimator._value_of",
    ],
    "agents/learning/returns.py": ["successor_values", "generalized_advantages", "standardize"],
    "agents/ppo/update.py": [
        "Update.__init__",
        "Update.run",
        "Update._task",
        "Update._run_all",
        "Update._run",
        "Update._compute",
        "Update.gradients",
        "Update._apply",
        "Update.apply",
    ],
    "agents/ppo/loss.py": [
        "Loss.__init__",
        "Loss.advantages",
        "Loss.compute",
        "Loss.policy_loss",
        "make_loss",
    ],
}


def functions(path):
    """Lines of each function in a file, by qualified name, docstrings included."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        methods = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for method in methods:
            if isinstance(method, ast.FunctionDef):
                first = min([method.lineno, *(one.lineno for one in method.decorator_list)])
                found[f"{prefix}{method.name}"] = method.end_lineno - first + 1
    return found


def test_the_guide_lists_the_files_of_the_path_in_order():
    text = GUIDE.read_text().partition("To follow one update")[2]
    table = text.partition("The functions on that path")[0]
    assert re.findall(r"\| \[(agents/[\w/]+\.py)\]", table) == list(PATH)


def test_following_an_update_takes_fewer_lines_than_the_guide_says():
    lines = {
        f"{file}: {name}": functions(ROOT / file)[name] for file in PATH for name in PATH[file]
    }
    claimed = re.search(
        r"constructors included, have fewer than (\d+)\s+lines in total",
        GUIDE.read_text(),
    )
    assert sum(lines.values()) < int(claimed[1]) <= 1000, lines
