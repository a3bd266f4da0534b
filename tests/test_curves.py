from agents.runs.curves import draw_curves


def test_curves_of_what_there_is(tmp_path):
    rows = [{"step": 1, "episode/return": 2.0}, {"step": 2, "losses/value": float("nan")}]
    for number in range(3):
        draw_curves(rows[:number], tmp_path / f"{number}.png", "title")
        assert (tmp_path / f"{number}.png").read_bytes().startswith(b"\x89PNG")
