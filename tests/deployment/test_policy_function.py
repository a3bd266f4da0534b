from gymnasium import spaces

from agents.deployment.policy_function import name_leaves


def test_leaves_are_named_by_their_path():
    space = spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Tuple([spaces.Discrete(3)] * 2)})
    assert [name for name, _ in name_leaves(spaces.Discrete(2), "action")] == ["action"]
    named = name_leaves(space, "observ")
    assert [name for name, _ in named] == ["observ_a_0", "observ_a_1", "observ_b"]
    assert [leaf.n for _, leaf in named] == [3, 3, 2]


def test_names_are_unique_identifiers():
    keys = ["a b", "a_b", "a/b", "A_B", "ä", "1", "", "observ", "observ_1"]
    named = name_leaves(spaces.Dict({key: spaces.Discrete(2) for key in keys}), "observ")
    names = [name for name, _ in named]
    assert len({name.lower() for name in names}) == len(keys)
    assert all(name.isidentifier() for name in names)


def test_a_first_key_that_equals_the_prefix_is_not_repeated():
    market = spaces.Dict(stock=spaces.Discrete(2), observ=spaces.Discrete(2))
    named = name_leaves(spaces.Dict(observ=market, action_mask=spaces.MultiBinary(2)), "observ")
    assert [name for name, _ in named] == ["observ_action_mask", "observ_observ", "observ_stock"]
    named = name_leaves(spaces.Dict(observ=market), "action")
    assert [name for name, _ in named] == ["action_observ_observ", "action_observ_stock"]
