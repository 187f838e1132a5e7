"""Where the longest bar is: the plane of its cycle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class RingPlane:
    """The plane of a cycle in a cloud of n points in d dimensions.

    `cycle` has the points of the cycle in order, `places` (n, 2) the points' coordinates in the plane,
    `axes` (2, d) the plane's orthonormal directions and `origin` (d,) the circle's centre. `angles` (n,) are
    in radians, `radius` is in the points' unit. `share` is the plane's share of the cloud's variance, and
    `noise` the root mean squared distance of the points from the circle, in radii, all d dimensions counted.
    """

    cycle: np.ndarray
    places: np.ndarray
    axes: np.ndarray
    origin: np.ndarray
    angles: np.ndarray
    radius: float
    share: float
    noise: float


def plane_of(points: np.ndarray, cycle: np.ndarray) -> RingPlane:
    """Return the plane of the two leading principal components of a cycle, and the circle in it.

    Every point of the cycle weighs half the length of its two edges, so many points on one side do not count
    more. Without a cycle, it is the plane of the whole cloud.

    >>> angles = np.arange(12) * np.pi / 6
    >>> circle = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(12)])
    >>> plane = plane_of(circle, np.arange(12))
    >>> round(plane.radius, 6), round(plane.share, 6), round(plane.noise, 6)
    (1.0, 1.0, 0.0)
    """
    ring = points[cycle] if len(cycle) else points
    if len(cycle):
        edges = np.linalg.norm(ring - np.roll(ring, -1, axis=0), axis=1)
        weights = (edges + np.roll(edges, 1)) / 2.0
    else:
        weights = np.ones(len(ring))
    weights = weights / weights.sum()
    origin = weights @ ring
    _, _, axes = np.linalg.svd(np.sqrt(weights)[:, None] * (ring - origin), full_matrices=False)
    axes = np.vstack([axes, np.zeros((2, points.shape[1]))])[:2]
    places = (points - origin) @ axes.T
    on_ring = np.linalg.norm((ring - origin) @ axes.T, axis=1)
    radius = float(weights @ on_ring)
    centred = points - points.mean(axis=0)
    total = float((centred**2).sum())
    share = float(((centred @ axes.T) ** 2).sum()) / total if total else 0.0
    within = np.linalg.norm(places, axis=1)
    outside = np.maximum(((points - origin) ** 2).sum(axis=1) - within**2, 0.0)
    away = float(np.sqrt(((within - radius) ** 2 + outside).mean()))
    angles = np.arctan2(places[:, 1], places[:, 0])
    return RingPlane(cycle, places, axes, origin, angles, radius, share, away / radius if radius else np.inf)
