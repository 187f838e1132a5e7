"""The two-sample test: its level is exact, it finds what differs, and it says what a plan needs."""

import math

import numpy as np
import pytest

from toposcope.core.errors import InputError
from toposcope.topology import bottleneck, rips, two_sample, wasserstein
from toposcope.topology.energy import label_energies, label_splits, swap_energies, swap_splits
from toposcope.topology.exchanged import dealt
from toposcope.topology.planning import label_planning, swap_planning


def group(generator, count, scale=1.0):
    return [np.column_stack([np.zeros(4), scale * generator.uniform(1, 2, 4)]) for _ in range(count)]


def mean_distance(first, second, distance, *, apart=False):
    return np.mean([
        distance(a, b) for i, a in enumerate(first) for j, b in enumerate(second) if not apart or i != j
    ])  # fmt: skip


@pytest.mark.parametrize(("name", "distance"), [("bottleneck", bottleneck), ("wasserstein", wasserstein)])
def test_the_statistic_is_the_energy_distance_of_the_groups(name, distance):
    generator = np.random.default_rng(1)
    first, second = group(generator, 3), group(generator, 4, 2.0)
    wanted = 2 * mean_distance(first, second, distance)
    wanted -= sum(mean_distance(one, one, distance, apart=True) for one in (first, second))
    found = two_sample(first, second, distance=name)
    assert found.statistic == pytest.approx(wanted)
    assert found.share == pytest.approx(wanted / 2 / mean_distance(first, second, distance))


def test_paired_distances_leave_out_those_within_a_pair():
    generator = np.random.default_rng(2)
    first, second = group(generator, 5), group(generator, 5, 2.0)
    wanted = 2 * mean_distance(first, second, wasserstein, apart=True)
    wanted -= sum(mean_distance(one, one, wasserstein, apart=True) for one in (first, second))
    assert two_sample(first, second, paired=True).statistic == pytest.approx(wanted)


def test_a_swap_exchanges_the_members_of_a_pair():
    """The energies of swaps are those of the groups with these pairs exchanged, computed from scratch."""
    points = np.random.default_rng(3).normal(size=(10, 2))
    between = np.hypot(*(points[:, None] - points[None]).T)
    kept = swap_splits(5, 999, 0).first
    energies = swap_energies(between, kept)
    for row, energy in zip(kept, energies, strict=True):
        order = np.concatenate([np.where(row, np.arange(5), np.arange(5, 10)),
                                np.where(row, np.arange(5, 10), np.arange(5))])  # fmt: skip
        fresh = swap_energies(between[np.ix_(order, order)], np.ones((1, 5), bool))[0]
        assert energy == pytest.approx(fresh)


def test_all_splits_are_counted_where_they_are_few():
    generator = np.random.default_rng(2)
    found = two_sample(group(generator, 4), group(generator, 4, 9.0))
    assert (found.splits, found.exhaustive) == (math.comb(8, 4), True)
    assert found.p == found.least_p == pytest.approx(2 / 70)  # as given, and with the groups' names exchanged
    pairs = two_sample(group(generator, 6), group(generator, 6, 9.0), paired=True)
    assert (pairs.splits, pairs.p, pairs.least_p) == (32, 1 / 32, 1 / 32)


def test_many_diagrams_are_split_at_random_and_the_same_way_each_time():
    generator = np.random.default_rng(3)
    first, second = group(generator, 12), group(generator, 12, 1.5)
    for paired in (False, True):
        found = two_sample(first, second, draws=199, paired=paired)
        assert (found.splits, found.exhaustive) == (200, False)
        assert repr(found) == repr(two_sample(first, second, draws=199, paired=paired))
        assert found.p <= 0.02


def test_blocks_of_two_clouds_see_the_shape_and_not_the_place():
    generator = np.random.default_rng(4)
    turned = np.linalg.qr(generator.normal(size=(3, 3)))[0]
    cloud = generator.normal(size=(64, 3)) * [3, 1, 1]
    moved = two_sample(cloud, 100 + cloud @ turned, paired=True)
    assert moved.p == 1.0
    assert abs(moved.statistic) < 1e-9
    assert (moved.unit, moved.rows, moved.sizes) == ("block", 8, (8, 8))
    wider = two_sample(cloud, 100 + 2 * cloud @ turned, paired=True)
    assert wider.p == 1 / 128
    assert two_sample(cloud, 2 * cloud, paired=True, rescale=True).p == 1.0


def test_points_see_the_place_of_a_cloud():
    generator = np.random.default_rng(5)
    first, second = generator.normal(size=(2, 20, 3))
    assert two_sample(first, second + 3, distance="points").p == 1 / 1000
    assert two_sample(first, second + 3, distance="points", paired=True).p == 1 / 1000
    assert two_sample(first, second + 3, distance="points").unit == "row"


def test_paired_blocks_hold_the_same_rows():
    rows = np.arange(20.0)[:, None]
    blocks = dealt(rows, -rows, 6, 0, paired=True)
    assert [len(one) for one in blocks] == [6] * 6  # two rows are left out
    assert all((a == -b).all() for a, b in zip(blocks[:3], blocks[3:], strict=True))
    assert len({float(x) for one in blocks[:3] for x in one[:, 0]}) == 18
    unpaired = dealt(rows, -rows, 6, 0, paired=False)
    assert not all((a == -b).all() for a, b in zip(unpaired[:3], unpaired[3:], strict=True))


def test_the_unit_follows_from_what_is_given():
    generator = np.random.default_rng(6)
    stack = generator.normal(size=(4, 10, 2))
    assert two_sample(stack, stack + 1).unit == "cloud"
    assert two_sample(list(generator.normal(size=(4, 10, 3))), stack).unit == "cloud"
    assert two_sample(list(stack), list(stack), kind="clouds").unit == "cloud"
    assert two_sample([[0.0, 1.0]] * 8, [[0.0, 1.0]] * 9).unit == "block"  # points of the plane
    diagrams = [rips(cloud)[1] for cloud in stack]
    assert two_sample(diagrams, diagrams, distance="landscape").unit == "diagram"
    assert two_sample([[], []], [[], []]).p == 1.0


def test_a_list_of_clouds_of_the_same_rows_is_compared_by_rtd_lite():
    generator = np.random.default_rng(7)
    items = generator.normal(size=(20, 4))
    first = [items + generator.normal(0, 0.1, items.shape) for _ in range(6)]
    second = [items * [4, 1, 1, 1] + generator.normal(0, 0.1, items.shape) for _ in range(6)]
    found = two_sample(first, second, distance="rtd-lite")
    assert found.p == found.least_p
    assert two_sample(first, second, distance="rtd-lite", paired=True).p == 1 / 32


def test_rows_of_one_pair_of_clouds_are_swapped_under_rtd_lite():
    generator = np.random.default_rng(8)
    items = generator.normal(size=(24, 3))
    found = two_sample(items, items, distance="rtd-lite", paired=True)
    assert (found.p, found.statistic, found.unit) == (1.0, 0.0, "row")
    assert math.isnan(found.needed())
    assert math.isnan(found.share)


def test_numbers_of_any_size_give_the_same_test():
    generator = np.random.default_rng(9)
    first, second = generator.normal(size=(2, 32, 2))
    for distance in ("wasserstein", "points"):
        usual = two_sample(first, second * 3, distance=distance, draws=99)
        for factor in (1e-150, 1e150):
            scaled = two_sample(first * factor, second * 3 * factor, distance=distance, draws=99)
            assert scaled.p == usual.p
            assert scaled.share == pytest.approx(usual.share)


def test_needed_and_power_agree_and_a_smaller_shift_needs_more():
    generator = np.random.default_rng(10)
    first, second = generator.normal(size=(2, 60, 2)) + np.array([0.0, 1.0])[:, None, None]
    for paired in (False, True):
        found = two_sample(first, second, distance="points", paired=paired)
        n = int(found.needed())
        assert found.power(n) >= 0.8 > found.power(n - 1)
        assert found.needed(0.25) > n > found.needed(1.0)
        low, high = found.needed_interval()
        assert low < n < high
        assert 0.0 < found.low < found.share < found.high < 1.0


def test_planning_knows_the_shift_and_the_spread():
    """Squared distances of normal points: the shift is 2^2 and the spread 1 in each of two axes."""
    generator = np.random.default_rng(11)
    first, second = generator.normal(size=(2, 300, 2)) + np.array([0.0, 2.0])[:, None, None] * [1, 0]
    joined = np.concatenate([first, second])
    between = ((joined[:, None] - joined[None]) ** 2).sum(axis=2)
    unpaired = label_planning(between, 300)
    assert unpaired.squared == pytest.approx(4.0, rel=0.15)
    assert np.sort(unpaired.spread) == pytest.approx([1.0, 1.0], rel=0.15)
    assert np.sort(swap_planning(between).spread) == pytest.approx([2.0, 2.0], rel=0.15)


@pytest.mark.parametrize("paired", [False, True])
def test_a_small_pilot_plans_as_a_large_one_in_many_dimensions(paired):
    """In 30 dimensions the eigenvalues of 12 members are far too unequal; the plan must not follow them."""
    generator = np.random.default_rng(14)

    def planned(n):
        first, second = (
            generator.normal(size=(2, n, 30)) + np.array([0.0, 1.0])[:, None, None] * np.eye(30)[0]
        )
        joined = np.concatenate([first, second])
        between = ((joined[:, None] - joined[None]) ** 2).sum(axis=2) / 100
        return swap_planning(between) if paired else label_planning(between, n)

    large = planned(400)
    small = [planned(12).scaled_to(large.squared) for _ in range(60)]
    assert np.median([one.needed() for one in small]) == pytest.approx(large.needed(), rel=0.12)


def test_what_could_have_been_missed_shrinks_with_the_groups():
    generator = np.random.default_rng(12)
    small, large = (two_sample(*generator.normal(size=(2, n, 2)), distance="points") for n in (10, 80))
    assert 0.0 < large.detectable() < small.detectable() < 1.0


@pytest.mark.calibration
def test_the_level_is_exact():
    """With 39 random splits p takes the values k/40 with equal probability: P(p <= 1/20) = 1/20."""
    generator = np.random.default_rng(4)
    for paired in (False, True):
        small = sum(
            two_sample(group(generator, 8), group(generator, 8), draws=39, seed=at, paired=paired).p <= 0.05
            for at in range(400)
        )
        low, high = 7, 36  # the central 99.9% of a binomial law of 400 at 1/20
        assert low <= small <= high


@pytest.mark.calibration
@pytest.mark.parametrize("paired", [False, True])
def test_the_stated_power_holds_on_fresh_data(paired):
    """Pilots state the members that half their shift needs; fresh samples of so many find it in 80%."""
    generator = np.random.default_rng(13)

    def sample(n):
        base = generator.normal(size=(n, 3))
        first, second = (base if paired else generator.normal(size=(n, 3)) for _ in range(2))
        noise = generator.normal(size=(2, n, 3))
        return first + noise[0], second + noise[1] + [1.5, 0, 0]

    def distances(first, second):
        joined = np.concatenate([first, second])
        return np.linalg.norm(joined[:, None] - joined[None], axis=2)

    def planned():
        between = distances(*sample(200))
        return swap_planning(between) if paired else label_planning(between, 200)

    n, found = round(np.mean([planned().needed() for _ in range(8)])), 0
    for at in range(300):
        first, second = sample(n)
        others = (second, first) if paired else sample(n)[::-1]
        wrong = generator.random((2, n)) < 0.25
        wrong[1] = wrong[0] if paired else wrong[1]
        first, second = (
            np.where(wrong[0][:, None], others[0], first), np.where(wrong[1][:, None], others[1], second),
        )  # fmt: skip
        between = distances(first, second)
        if paired:
            energies = swap_energies(between, swap_splits(n, 199, at).first)
        else:
            energies = label_energies(between, label_splits((n, n), 199, at).first)
        found += (energies >= energies[0]).mean() <= 0.05
    assert 0.73 <= found / 300 <= 0.87  # 80% and three standard errors


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"distance": "hausdorff"}, "hausdorff"),
        ({"distance": "points"}, "does not compare groups of diagrams"),
        ({"draws": 0}, "draws 0"),
        ({"first": [[[0.0, 1.0]]]}, "at least two"),
        ({"first": [[[0.0, np.inf]], [[0.0, 1.0]]]}, "essential"),
        ({"first": [[[0.0, np.nan]], [[0.0, 1.0]]]}, "diagram 0"),
        ({"first": [[[0.0, 1.0]]] * 3, "paired": True}, "3 diagrams and second 2"),
        ({"kind": "points"}, "kind is 'points'"),
        ({"first": np.zeros((9, 2))}, "first is one cloud and second several diagrams"),
        ({"first": [], "second": []}, "first is empty"),
        ({"first": "a.npy"}, "neither a cloud nor a list"),
        ({"block": 4}, "leave it out"),
        ({"rescale": True}, "leave it out"),
    ],
)
def test_bad_input_is_refused_in_one_line(change, word):
    given = {"first": [[[0.0, 1.0]], [[0.0, 2.0]]], "second": [[[0.0, 1.0]], [[0.0, 2.0]]], **change}
    with pytest.raises(InputError, match=word):
        two_sample(given.pop("first"), given.pop("second"), **given)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"first": np.zeros((9, 3)), "paired": True}, "9 rows and second 12"),
        ({"first": np.zeros((9, 3)), "distance": "points"}, "same coordinates"),
        ({"first": np.full((9, 2), np.nan)}, "not finite"),
        ({"first": np.zeros((3, 2))}, "blocks of 2 rows"),
        ({"block": 1}, "at least 2 rows"),
        ({"distance": "rtd-lite"}, "add `paired`"),
        ({"metric": "manhattan"}, "manhattan"),
    ],
)
def test_bad_clouds_are_refused_in_one_line(change, word):
    points = np.random.default_rng(0).normal(size=(12, 2))
    given = {"first": points, "second": points, **change}
    with pytest.raises(InputError, match=word):
        two_sample(given.pop("first"), given.pop("second"), **given)
