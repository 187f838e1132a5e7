"""From tables to judgements: what a series of features adds to the loss.

Every function takes and returns pandas DataFrames, one row per result, with a `status` ("ok" or why
not) and a `reason` in words; a number that cannot be computed is NaN in a row that says so.

The wide series table (`series_table`, `from_frame`; class `SeriesTable`)
    `values`: one row per run and step: `run`, `step`, `tokens`, then targets, then features. A feature's
    column key joins with "/" what it is: probe, filtration (when it has one), where, feature:
    "neural_persistence/seed004/neural_persistence" (a value of the whole model whose name is "model"),
    "rips/euclidean/pooled/h0_total" (another value of the whole model, by name),
    "neural_persistence/seed004/role=attention/neural_persistence" (mean over the matrices of a role),
    "rips/euclidean/layers.0.attn.qkv.weight/h0_total" (one matrix).
    Draws are averaged; `spread` has their standard deviations under the same keys.
    `catalogue`: `column`, `probe`, `filtration`, `scope` (model, role, matrix, head, layer,
    null, quality, noise), `name`, `role`, `layer`, `feature`, `draws`, `status`, and from what the probes
    declare: `label`, `unit`, `kind`, `null_of` (a column), `primary` (the confirmatory family), `about` (what
    it is measured on), `leads` (where it represents its study: use -> place). Targets: `loss` (minibatch loss
    at the checkpoint), `heldout_loss`, `loss_smooth`, `gap` (held-out minus smoothed training loss),
    `efficiency` (-dL/dlog tokens), `efficiency_flop` (-dL per FLOP, 6 N per token); `log_perplexity` and
    `probe_accuracy` from a store of representations; those of `read_targets`, a file of scores; control:
    `weight_norm`.

`family_table`: one row per target and feature (`column`) over all runs, which carries the verdict
    `runs`, `n`, `r` (of innovations), `r_low`, `r_high`, `p`, `departure_rho` (rank correlation of the
    departures from the smooth trend), `p_holm` (over the `family_size` confirmatory rows of the target), `q`
    (false discovery rate over the exploratory rows), `confirmatory`, `detectable_r` (found with 80% power),
    `verdict` ("adds", "trend only", "cannot tell"), `reason`.

`trend_table`: one row per run, target and feature: the same columns for each run alone
    and `spearman`, `naive_p`, `block_low`, `block_high`; with `every`, what else is usually reported:
    `pearson`, `naive_bonferroni`, `naive_low`, `naive_high`, `effective_n`, `effective_p`, `block_length`,
    `partial_step`, `partial_step_p`, `partial_norm` (given log-step and weight norm), `partial_norm_p`,
    `walk_p`, `ar_p`.

`lag_table`: one row per run, target, feature: `lag` (checkpoints by which the feature leads), `lag_steps`,
    `lag_r`, `lag_p` (against the maximum over all lags under the null).

`replicate_table` (across training replicates): `family`, `target`, `column`, `seeds`, `mean_rho`, `low`,
    `high`, `pairing_p`, `smallest_p`.

`segment_table`: `run`, `column`, `segment`, `start_step`, `end_step`, `slope` (per unit log step),
    `slope_low`, `slope_high`, `start_low`, `start_high` (interval of the bend), `kind`, `direction`,
    `spectral_label`, `embedding_label`, `false_alarm_rate`, `boundary_p` (of having any boundary),
    `boundary_holm` (over a run's columns).

`saturation_table`: `run`, `column`, `form`, `start`, `asymptote`, `rate`, `knee_step`, each with `_low`
    and `_high`, `r2`.

`scaling_table` (last values against model size): `quantity`, `exponent`, `low`, `high`, `r2`, `n`
    (sizes), `runs`, `seed_sd` (spread within a size), ...
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # the names stand in __init__.pyi
