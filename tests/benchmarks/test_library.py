import time

from benchmarks.library import Stopwatch


def test_a_stopwatch_subtracts_watched_calls_from_their_callers(monkeypatch):
    clock = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: clock)

    class Work:
        def whole(self):
            self.pass_time(1.0)
            self.part()
            self.part()

        def part(self):
            self.pass_time(2.0)

        def pass_time(self, seconds):
            nonlocal clock
            clock += seconds

    watch, calls = Stopwatch(), []
    watch.watch(Work, "whole", "the rest")
    watch.watch(Work, "part", then=lambda: calls.append(clock))
    Work().whole()
    Work().part()
    assert watch.seconds == {"the rest": [1.0], "part": [2.0, 2.0, 2.0]}
    assert calls == [3.0, 5.0, 7.0]
