import dataclasses
import time
from pathlib import Path

from benchmarks import runner
from benchmarks.peers import installation
from benchmarks.runner import run_case


def test_contestants_take_turns_after_a_warm_up_round(make_case, tmp_path):
    log = tmp_path / "log"
    settings = {
        name: ("succeeds", {"log": str(log), "name": name, "value": value})
        for name, value in zip("ab", (3, 5), strict=True)
    }
    outcome = run_case(make_case(ours=settings["a"], Peer=settings["b"], cores=1))
    assert outcome.figures == {"ours": [3, 3], "Peer": [5, 5]}
    assert outcome.notes == {"ours": "a on 1", "Peer": "b on 1"}
    assert outcome.left_out == {}
    lines = log.read_text().splitlines()
    assert lines[:6] == ["b 0", "a 0", "a 0.5", "b 0.5", "b 0.5", "a 0.5"]
    assert sorted(lines[6:]) == ["a closed", "b closed"]


def test_contestants_that_fail_are_left_out_with_their_reasons(make_case, tmp_path):
    succeeds = ("succeeds", {"log": str(tmp_path / "log"), "name": "a"})
    failing = ("not_installed", "raises_later", "dies", "dies_with_a_fork_that_holds_the_pipe")
    logged = []
    outcome = run_case(
        make_case(ours=succeeds, **{name: name for name in failing}, last=succeeds), logged.append
    )
    reasons = outcome.left_out
    assert outcome.figures == {"ours": [1, 1], "last": [1, 1]}
    assert reasons["not_installed"] == "ModuleNotFoundError: No module named 'no_such_package'"
    assert reasons["raises_later"].startswith("ZeroDivisionError: ")
    assert reasons["dies"] == "exited with code 11: Segmentation fault, more or less"
    assert reasons["dies_with_a_fork_that_holds_the_pipe"].startswith("exited with code 5")
    assert set(reasons) == set(failing)
    assert len(logged) == len(failing) and "no_such_package" in logged[0] + logged[1]


def test_peers_that_are_not_installed_are_left_out(make_case, tmp_path, monkeypatch):
    monkeypatch.setenv(installation.VARIABLE, str(tmp_path))
    logged = []
    case = with_peers(make_case(ours="has_parts", Peer="has_parts"), "cleanrl")
    outcome = run_case(case, logged.append)
    assert list(outcome.figures) == ["ours"]
    command = "`python -m benchmarks.peers cleanrl --source=CHECKOUT`"
    assert outcome.left_out == {"Peer": f"not installed; {command} installs it"}
    assert logged == [f"  left out: Peer: not installed; {command} installs it"]


def with_peers(case, peer):
    """Returns a case whose contestants, but for ours, run in the environment of a peer."""
    ours, *others = case.contestants
    others = [dataclasses.replace(each, peer=peer, threads=3) for each in others]
    return dataclasses.replace(case, contestants=(ours, *others))


def test_a_contestant_that_hangs_is_left_out(make_case, monkeypatch):
    monkeypatch.setattr(runner, "TIMEOUT", 1.0)
    monkeypatch.setattr(runner, "PATIENCE", 0.0)
    assert "no answer within 1 seconds" in run_case(make_case(ours="hangs")).left_out["ours"]


def test_child_processes_of_a_contestant_are_killed(make_case, tmp_path):
    path = tmp_path / "pid"
    assert run_case(make_case(ours=("leaves_a_process", {"path": str(path)}))).figures
    deadline = time.monotonic() + 10
    while running(int(path.read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not running(int(path.read_text()))


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
