import json

from benchmarks import processes


def test_the_parts_of_the_training_command_are_measured():
    arguments = ["--config=pendulum", "--env-backend=tf"]
    process = processes.run(["-m", "benchmarks.startup", "parts", *arguments])
    parts = json.loads(process.output)
    names = ["imports", "environments", "TensorFlow", "building", "first iteration", "total"]
    assert list(parts) == names
    assert 0 < sum(parts[name] for name in names[:-1]) <= parts["total"]
