import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agents.seeds import Seeds

SEED = st.integers(0, 2**31 - 1)


@given(SEED, st.text(max_size=5), st.integers(1, 50), st.integers(0, 10**15))
def test_seeds_are_functions_of_seed_name_and_counter(seed, name, num_seeds, counter):
    seeds = Seeds(seed).many(name, num_seeds, counter)
    assert seeds.dtype == np.int64
    assert seeds.shape == (num_seeds,)
    assert np.all((seeds >= 0) & (seeds < 2**31))
    np.testing.assert_array_equal(seeds, Seeds(seed).many(name, num_seeds, counter))
    np.testing.assert_array_equal(seeds, Seeds(seed).many(name, num_seeds + 5, counter)[:num_seeds])
    assert Seeds(seed).one(name, counter) == seeds[0]


def test_seeds_of_different_runs_names_and_counters_differ():
    drawn = [
        tuple(Seeds(seed).many(name, 3, counter))
        for seed in range(20)
        for name in ("algorithm", "weights", "evaluation", "episodes")
        for counter in (0, 1, 2048)
    ]
    assert len(set(drawn)) == len(drawn)
    assert len({seed for three in drawn for seed in three}) == 3 * len(drawn)


def test_seeds_stay_what_they_were_in_earlier_versions():
    assert Seeds(7).many("episodes", 2, counter=600).tolist() == [1088261956, 1396283876]
