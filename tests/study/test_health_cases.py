"""What the log of a run says of its state: what is broken, what asks for a look, and what is none of both."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from toposcope.rules.registry import assess, place, rules


def health(metrics, **given):
    return list(assess(metrics, **{"noticed": False} | given))


def law(n=400, seed=0, noise=0.01, floor=1.6):
    step = np.arange(1, n + 1)
    shaken = np.exp(noise * np.random.default_rng(seed).standard_normal(n))
    return (floor + 3 * (step * 400 / n) ** -0.5) * shaken


def said(loss, **columns):
    table = pd.DataFrame({"step": np.arange(1, len(loss) + 1) * 10, "loss": loss, **columns})
    return health(table)


def kinds(loss, **columns):
    return [one.kind for one in said(loss, **columns)]


def grave(loss, **columns):
    return any(one.useless_on for one in said(loss, **columns))


# -- a floor near zero


def solved(n=300, low=3e-7):
    loss = 4.0 * np.exp(-np.arange(n) / 10) + low
    return loss * np.exp(0.1 * np.random.default_rng(1).standard_normal(n))


def test_a_solved_task_whose_loss_jitters_near_zero_is_healthy():
    loss = solved()
    loss[270:] = np.geomspace(3e-7, 1e-4, 30)
    assert kinds(loss) == []
    loss[285:] = np.geomspace(1e-4, 3e-6, 15)
    assert kinds(loss) == []
    wandering = np.random.default_rng(2).normal(0, 1.0, 300).cumsum() / 4
    assert kinds(solved() * np.exp(wandering)) == []


def test_a_solved_task_that_is_lost_is_diverging():
    loss = solved()
    loss[270:] = np.linspace(0.1, 2.0, 30)
    assert kinds(loss)[0] == "diverging"


def test_a_solved_task_is_on_no_plateau():
    assert kinds(np.r_[np.full(20, 4.0), np.full(300, 1e-5)]) == []


def test_losses_of_exactly_zero_count():
    loss = solved(low=0.0)
    loss[200:] = 0.0
    assert kinds(loss) == []
    loss[280:] = 3.0
    assert kinds(loss) == ["diverging"]


def test_odd_logs_are_read():
    assert kinds(np.zeros(100)) == kinds(np.full(3, np.inf)) == kinds(np.array([])) == []
    assert kinds(law(), val_loss=["none"] * 400, lr=["?"] * 400) == []
    assert kinds(np.r_[law(), np.full(40, 1e300)]) == ["diverging"]


# -- the learning rate


def restarted(at=360, gain=0.2):
    loss = law()
    loss[:at] *= 1 - 0.1 * (np.arange(at) / at) ** 4
    loss[at:] = loss[at - 10 : at].mean() * (1 + gain * (1 - np.exp(-np.arange(400 - at) / 10)))
    rate = np.r_[np.linspace(1, 0.01, at), np.ones(400 - at)]
    return loss, rate


@pytest.mark.parametrize("name", ["lr", "learning_rate", "lr_scale", "train/lr"])
def test_a_warm_restart_is_to_be_looked_at_by_any_name_of_the_rate(name):
    loss, rate = restarted()
    (found,) = said(loss, **{name: 3e-4 * rate})
    assert (found.kind, found.level) == ("rate raised", "look")
    assert "after the learning rate went back up from 3e-06 to 0.0003" in found.sentence
    assert found.remedy.startswith("look again after")


def test_a_rise_is_no_restart_when_the_rate_did_not_go_back_up():
    loss, rate = restarted(gain=0.6)
    steady = np.full(400, 3e-4)
    warming = np.linspace(1e-6, 3e-3, 400)
    assert kinds(loss, lr=steady) == kinds(loss, lr=warming) == ["diverging"]
    long_ago = np.r_[np.linspace(1, 0.1, 100), np.ones(300)]
    assert kinds(loss, lr=long_ago) == ["diverging"]
    assert kinds(loss, lr=rate) == ["rate raised"]


def test_a_restart_that_takes_most_back_is_diverging():
    loss, rate = restarted()
    loss[360:] = np.linspace(2.0, 5.0, 40)
    assert kinds(loss, lr=rate) == ["diverging"]


def test_a_rate_that_goes_up_and_down_is_healthy():
    place = np.arange(400)
    rate = 0.1 + 0.9 * np.abs((place / 100) % 1 * 2 - 1)
    for end in range(100, 401, 20):
        assert kinds((law() * (1 + 0.04 * rate))[:end], lr=rate[:end]) in ([], ["rate raised"])


# -- rises that turn, or stand


def test_a_switch_of_data_whose_jump_falls_again_is_to_be_looked_at():
    loss = law()
    loss[300:] *= 1 + 0.5 * np.exp(-np.arange(100) / 80)
    (found,) = said(loss)
    assert (found.kind, found.level) == ("falling again", "look")
    assert " is back at " in found.sentence


def test_a_level_ten_percent_higher_for_good_is_to_be_looked_at():
    loss = law()
    loss[320:] *= 1.1
    (found,) = said(loss)
    assert (found.kind, found.level) == ("higher level", "look")
    assert 3180 <= found.step <= 3200
    assert "has stopped rising" in found.sentence


def test_a_level_twice_as_high_for_good_is_diverging():
    loss = law()
    loss[320:] *= 2
    assert kinds(loss) == ["diverging"]


@pytest.mark.parametrize("left", [0.8, 0.5, 0.3])
def test_a_spike_on_its_way_back_is_to_be_looked_at(left):
    loss = law()
    loss[380:] *= 1 + 2.0 * np.linspace(1, left, 20)
    (found,) = said(loss)
    assert (found.kind, found.level) == ("falling again", "look")


def test_a_climb_that_turned_and_falls_is_to_be_looked_at_without_a_rate():
    loss = law()
    loss[300:350] *= np.linspace(1, 2, 50)
    loss[350:] *= np.linspace(2, 1.5, 50)
    assert kinds(loss) == ["falling again"]


def test_a_jump_that_came_half_back_and_stands_is_diverging():
    loss = law()
    loss[250:] = loss[240:250].mean() * (1.5 + 0.5 * np.exp(-np.arange(150) / 5))
    assert kinds(loss) == ["diverging"]


def test_a_rise_as_high_and_long_as_one_that_passed_is_to_be_looked_at():
    loss = law(noise=0.003)
    for first in (150, 250):
        loss[first : first + 20] *= np.r_[np.linspace(1, 1.6, 10), np.linspace(1.6, 1, 10)]
    loss[390:] *= np.linspace(1, 1.4, 10)
    assert kinds(loss) == ["rose before"]
    loss[390:] *= 1.5
    assert kinds(loss) == ["diverging"]


def test_two_losses_make_no_turn():
    loss = law(60)
    loss[57:] *= [2.0, 2.2, 1.9]
    assert kinds(loss) == ["diverging"]


# -- an accuracy


@pytest.mark.parametrize("scale", [1, 100])
def test_an_accuracy_given_as_a_loss_is_told_by_its_direction(scale):
    value = 0.1 + 0.8 * (1 - np.exp(-np.arange(200) / 40))
    (found,) = said(scale * value)
    assert (found.kind, found.level) == ("accuracy", "look")
    assert f"this looks like an accuracy: it rises from {scale * value[:20].mean():.3g}" in found.sentence


def test_a_loss_that_diverges_within_a_hundred_is_no_accuracy():
    assert kinds(np.geomspace(2, 90, 200)) == ["diverging"]
    fell = np.r_[0.7 * np.exp(-np.arange(100) / 30) + 0.1, np.linspace(0.1, 0.95, 40)]
    assert kinds(fell) == ["diverging"]


# -- outliers


def outlying():
    loss = law(60, noise=0.005)
    loss[[20, 31, 45]] *= [1.2, 1.66, 1.4]
    return pd.DataFrame({"step": np.arange(1, 61) * 100, "loss": loss})


def test_single_outliers_are_counted_and_raise_no_alarm():
    assert health(outlying()) == []
    noticed = health(outlying(), noticed=True)
    assert [(one.kind, one.level, one.step) for one in noticed] == [
        ("loss spike", "noticed", step) for step in (2100, 3200, 4600)
    ]
    assert noticed[1].sentence.startswith("loss spike at step 3,200 (loss is 2.994 where 1.811")
    assert noticed[1].sentence.endswith(" is around it), back to normal by step 3,300")


def test_single_outliers_do_not_hide_spikes_that_last():
    loss = law(noise=0.005)
    for at in (250, 300, 350):
        loss[at] *= 2.0
    assert kinds(loss) == []
    for at in (250, 300, 350):
        loss[at : at + 3] *= 2.0
    assert kinds(loss) == ["spikes"]


# -- held-out loss


@pytest.mark.parametrize("name", ["val_loss", "heldout_loss", "eval/loss"])
def test_a_held_out_loss_that_rises_while_training_goes_on_is_overfitting(name):
    loss, held = law(), law() + 0.1
    held[200:] = held[190:200].mean() * np.linspace(1, 1.3, 200)
    (found,) = said(loss, **{name: np.where(np.arange(400) % 20 == 0, held, np.nan)})
    assert (found.kind, found.level) == ("overfitting", "look")
    assert 1800 <= found.step <= 2100
    assert "while the training loss fell from" in found.sentence


def test_a_held_out_loss_that_is_read_itself_is_overfitting_where_training_falls():
    held = law() + 0.1
    held[200:] = held[190:200].mean() * np.linspace(1, 1.3, 200)
    table = pd.DataFrame({"step": np.arange(400), "loss": law(seed=3), "heldout_loss": held})
    assert [one.kind for one in health(table, column="heldout_loss")] == ["overfitting"]
    alone = table.drop(columns="loss")
    assert [one.kind for one in health(alone, column="heldout_loss")] == ["diverging"]


def test_both_losses_rising_is_diverging_and_both_falling_is_nothing():
    loss = law()
    assert kinds(loss, val_loss=law(seed=1) + 0.1) == []
    loss[300:] = np.linspace(1.8, 4, 100)
    assert kinds(loss, val_loss=loss + 0.1) == ["diverging"]


# -- swings and short logs


def test_swings_that_grow_are_diverging():
    place = np.arange(400)
    grounds = []
    for phase in range(6):
        swings = np.geomspace(1e-3, 0.4, 400) * np.sin(place / 3 + phase)
        (found,) = [one for one in said(law() * (1 + swings)) if one.kind == "diverging"]
        grounds.append(found.sentence)
    assert sum(ground.startswith("the loss has swung wider and wider since step") for ground in grounds) >= 2
    assert kinds(law() * (1 + 0.1 * np.sin(place / 3))) == []


def test_ten_percent_over_the_last_fifth_of_sixty_losses_is_diverging():
    found = 0
    for seed in range(20):
        loss = law(60, seed, floor=0.5)
        loss[48:] *= np.linspace(1, 1.1, 13)[1:]
        found += kinds(loss) == ["diverging"]
    assert found >= 18  # by medians of seven 3 were found
    assert sum(grave(law(60, seed, noise=0.02)) for seed in range(100)) == 0


@pytest.mark.parametrize("last", [2, 3])
def test_five_times_the_loss_in_the_last_of_sixty_is_diverging(last):
    loss = law(60)
    loss[60 - last :] *= 5
    assert kinds(loss) == ["diverging"]


@pytest.mark.parametrize("count", [12, 60, 400])
@pytest.mark.parametrize("factor", [3, 5, 50])
def test_one_wrong_last_loss_is_never_grave_and_a_second_one_confirms_it(count, factor):
    loss = law(count)
    loss[-1] *= factor
    assert kinds(loss) in ([], ["higher level"])
    loss[-2] *= factor
    if count >= 60:
        assert kinds(loss) == ["diverging"]


def test_a_last_loss_that_stands_out_as_single_ones_do_is_nothing():
    for factor in (1.2, 1.66):
        loss = law(60)
        loss[-1] *= factor
        assert kinds(loss) == []


# -- every kind


def test_every_kind_belongs_to_one_rule():
    kinds = [kind for rule in rules() for kind in dict.fromkeys(rule.speaks_of())]
    assert len(set(kinds)) == len(kinds)
    assert [place(kind) for kind in ("not finite", "loss not finite", "of nobody")] == [0, 0, len(rules())]


def test_healthy_language_models_are_healthy(shared_data):
    path = shared_data / "curves" / "parameter_golf" / "curves.csv.gz"
    if not path.is_file():
        pytest.skip(f"{path} is absent")
    table = pd.read_csv(path)
    for run in table["run"].unique()[1::40]:
        log = table[table["run"] == run]
        for part in (0.3, 0.6, 1.0):
            seen = log[log["step"] <= part * log["step"].max()]
            if seen["train_loss"].notna().sum() > 5:
                assert health(seen, column="train_loss") == [], run


def test_a_scale_of_the_rate_reaches_the_forecasts_reading_of_a_log(tmp_path, capsys):
    from toposcope.cli.main import main

    loss, rate = restarted()
    table = pd.DataFrame({"step": np.arange(1, 401) * 10, "train_loss": loss, "lr_scale": rate})
    table.to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(SystemExit) as ended:
        main(["forecast", str(tmp_path / "log.csv"), "--horizon", "8000"])
    assert ended.value.code == 1
    assert capsys.readouterr().out.startswith("look: log: rate raised: the loss rose from")


@pytest.mark.parametrize("seed", range(3))
def test_a_jump_that_falls_again_slowly_is_looked_at_and_one_that_stands_diverges(seed):
    random = np.random.default_rng(seed)
    since = np.arange(14)
    loss = (1.8 + 6 * (1 + np.arange(214) / 20) ** -0.5) * np.exp(0.002 * random.standard_normal(214))
    falls, stands = loss.copy(), loss.copy()
    falls[200:] *= 1 + 0.6 * np.exp(-since / 150)  # 9% of the jump are won back in 14 losses
    stands[200:] *= 1.6
    assert [[one.kind for one in said(log)] for log in (falls, stands)] == [["falling again"], ["diverging"]]
