from agents.training.curves import draw_curves


def test_draws_the_tags_that_occur(tmp_path):
    rows = [{"step": 1, "episode/return": 2.0}, {"step": 2, "losses/value": float("nan")}]
    for num_rows in range(3):
        draw_curves(rows[:num_rows], tmp_path / f"{num_rows}.png", "title")
        assert (tmp_path / f"{num_rows}.png").read_bytes().startswith(b"\x89PNG")
