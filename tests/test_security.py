"""What the code may not do: execute data, load what may execute something, or listen."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ["agents", "scripts", "benchmarks", "results", "examples"]
FORBIDDEN = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "os.system",
    "os.popen",
    "pickle.load",
    "pickle.loads",
    "pickle.Unpickler",
    "cloudpickle.load",
    "cloudpickle.loads",
    "dill.loads",
    "joblib.load",
    "marshal.load",
    "marshal.loads",
    "shelve.open",
    "yaml.load",
    "yaml.unsafe_load",
    "yaml.full_load",
    "keras.models.load_model",
    "keras.saving.load_model",
    "tf.saved_model.load",
    "pandas.read_pickle",
    "pd.read_pickle",
}
METHODS = {"listen", "bind", "create_server"}  # Of sockets, whatever their names are.

# File and call: reason.
EXCEPTIONS = {
    ("agents/distributed/ray_cluster.py", ".create_server("): "To find a free port of a node.",
    ("benchmarks/team.py", ".create_server("): "To find free ports of the loopback interface.",
    ("agents/workers/worker.py", "cloudpickle.loads"): "The parent's commands, in the worker.",
    (
        "agents/environments/registered_specs.py",
        "cloudpickle.loads",
    ): "What the parent has registered, in the worker.",
    ("agents/workers/host.py", "pickle.loads"): "Replies of a worker, in its parent.",
    ("agents/workers/worker.py", "pickle.loads"): "A reply of its own, to print it.",
    ("agents/graph/tensor_registration.py", ".bind("): "Of a function's signature, not a socket.",
}


def findings(source):
    """Yields forbidden names and calls of a file, also where they are only named."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in FORBIDDEN:
            yield ast.unparse(node)
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & FORBIDDEN
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            yield f".{node.func.attr}("
        for keyword in node.keywords:
            is_false = isinstance(keyword.value, ast.Constant) and not keyword.value.value
            if keyword.arg in ("shell", "allow_pickle") and not is_false:
                yield f"{keyword.arg}="
        if ast.unparse(node.func).endswith("YAML"):
            kinds = [ast.literal_eval(word.value) for word in node.keywords if word.arg == "typ"]
            if kinds not in (["safe"], ["rt"]):
                yield "YAML("


def test_nothing_executes_data_or_listens():
    found = {
        (str(path.relative_to(ROOT)), finding)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        for finding in findings(path.read_text())
    }
    assert found == set(EXCEPTIONS)


def test_the_worker_has_one_bootstrap():
    source = (ROOT / "agents/workers/worker.py").read_text()
    assert source.count("cloudpickle.loads") == 1


@pytest.mark.parametrize(
    "line",
    [
        "eval(text)",
        "run = exec",
        "from pickle import loads",
        "os.system('ls')",
        "subprocess.run(command, shell=True)",
        "subprocess.run(command, shell=flag)",
        "np.load(path, allow_pickle=True)",
        "server.listen()",
        "end.bind(('', 0))",
        "YAML(typ='unsafe')",
        "YAML()",
    ],
)
def test_forbidden_lines_are_found(line):
    assert list(findings(line))


def test_others_are_not():
    assert not list(
        findings("np.load(path, allow_pickle=False); YAML(typ='safe'); model.compile()")
    )
