"""Modular addition: a task whose solution has a known shape, trained like any other run.

Power et al. 2022 (arXiv:2201.02177) trained small transformers on tables such as (a + b) mod p, of which
a part is held out: training loss falls at once, held-out loss much later ("grokking"). Nanda et al. 2023
(arXiv:2301.05217) found that the embedding then puts the residues on circles, one per key frequency k, in
the plane spanned by cos(2 pi k a / p) and sin(2 pi k a / p): each plane has one long H1 bar.
"""

from __future__ import annotations

import hashlib

import numpy as np

from toposcope.core.errors import InputError
from toposcope.core.seeding import rng
from toposcope.core.wording import option
from toposcope.recipes import TrainingRecipe
from toposcope.training.tokens import TokenData


def modular_addition(recipe: TrainingRecipe) -> TokenData:
    """Return the table of all (a, b, (a + b) mod p) in two parts, int64, (rows, 3); p is the vocabulary.

    Which rows are held out depends only on p and the fraction, not on the seed of a run.

    Raises
    ------
    InputError
        When the context is not 2 or one part would be empty.
    """
    modulus = recipe.vocabulary
    if recipe.context != 2:
        raise InputError(
            f"the context is {recipe.context}; modular addition reads two numbers: {option('set')} context=2"
        )
    a, b = np.divmod(np.arange(modulus * modulus), modulus)
    table = np.stack([a, b, (a + b) % modulus], axis=1)
    table = table[rng(name="modular-addition", modulus=modulus).permutation(len(table))]
    cut = len(table) - round(len(table) * recipe.heldout_fraction)
    if not 0 < cut < len(table):
        raise InputError(
            f"the heldout_fraction is {recipe.heldout_fraction}; of {len(table):,} sums, none would be left "
            "to train on or to hold out; give a share in between"
        )
    digest = hashlib.sha256(np.ascontiguousarray(table).astype("<i8").tobytes() + str(cut).encode())
    return TokenData(f"addition modulo {modulus}", digest.hexdigest(), table[:cut], table[cut:])


def fourier_plane(embedding: np.ndarray, frequency: int) -> np.ndarray:
    """Return the residues' coordinates in the plane of one frequency, (p, 2), float64.

    The plane is spanned by the cosine and the sine transform of the centred `embedding` (p, width); its
    coordinates are orthonormal, so distances are those of the embedding within the plane.
    """
    centred = embedding.astype(np.float64) - embedding.mean(axis=0, dtype=np.float64)
    angles = 2.0 * np.pi * frequency * np.arange(len(embedding)) / len(embedding)
    directions = np.stack([np.cos(angles), np.sin(angles)]) @ centred
    basis, _ = np.linalg.qr(directions.T)
    return centred @ basis


def frequency_power(embedding: np.ndarray) -> np.ndarray:
    """Return the share of the centred embedding's variance at every frequency 1 .. p // 2, float64.

    >>> angles = np.arange(7) * 2 * (2 * np.pi / 7)
    >>> circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    >>> frequency_power(circle).round(6).tolist()
    [0.0, 1.0, 0.0]
    """
    spectrum = np.fft.rfft(embedding.astype(np.float64), axis=0)[1:]
    power = (np.abs(spectrum) ** 2).sum(axis=1)
    return power / power.sum()
