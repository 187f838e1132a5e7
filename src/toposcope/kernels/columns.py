"""Tools for reducing a coboundary matrix: a heap of keys modulo 2, growing lists, a table of pivots."""

from __future__ import annotations

import numpy as np

from toposcope.core.compiling import inner_kernel


def table_for(columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an empty open table (keys, owners) with room for as many pivots."""
    slots = 4
    while slots < 2 * columns:
        slots *= 2
    return np.full(slots, -1, np.int64), np.empty(slots, np.int64)


@inner_kernel
def next_odd(heap: np.ndarray, size: int) -> tuple[int, int]:
    """Pop the smallest key that occurs an odd number of times; -1 if there is none."""
    while size > 0:
        key = heap[0]
        size = pop(heap, size)
        odd = True
        while size > 0 and heap[0] == key:
            size = pop(heap, size)
            odd = not odd
        if odd:
            return key, size
    return -1, size


@inner_kernel
def push(heap: np.ndarray, size: int, key: int) -> np.ndarray:
    """Add a key to a heap of `size` keys; return the heap, longer if it was full."""
    if size == len(heap):
        longer = np.empty(2 * size + 1, np.int64)
        for i in range(size):  # element by element: a slice compiles for a second
            longer[i] = heap[i]
        heap = longer
    i = size
    while i > 0:
        above = (i - 1) >> 1
        if heap[above] <= key:
            break
        heap[i] = heap[above]
        i = above
    heap[i] = key
    return heap


@inner_kernel
def pop(heap: np.ndarray, size: int) -> int:
    """Remove the smallest key; return the new size."""
    size -= 1
    key = heap[size]
    i = 0
    while 2 * i + 1 < size:
        below = 2 * i + 1
        if below + 1 < size and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= key:
            break
        heap[i] = heap[below]
        i = below
    heap[i] = key
    return size


@inner_kernel
def append(items: np.ndarray, length: int, item: int) -> tuple[np.ndarray, int]:
    """Add an item to a list of `length` items; return the list, longer if it was full, and its length."""
    if length == len(items):
        longer = np.empty(2 * length + 1, items.dtype)
        for i in range(length):
            longer[i] = items[i]
        items = longer
    items[length] = item
    return items, length + 1


@inner_kernel
def owner_of(keys: np.ndarray, owners: np.ndarray, key: int) -> int:
    """Return the column whose pivot is `key`, or -1."""
    if key < 0:
        return -1
    slot = slot_of(keys, key)
    return owners[slot] if keys[slot] == key else -1


@inner_kernel
def slot_of(keys: np.ndarray, key: int) -> int:
    """Return where `key` is or would be in an open table whose length is a power of two."""
    mask = len(keys) - 1
    at = ((key * 0x9E3779B97F4A7C1) >> 20) & mask
    while keys[at] >= 0 and keys[at] != key:
        at = (at + 1) & mask
    return at
