"""Small files that are worth to be joined: `to_be_joined`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    File = TypeVar("File")

SMALL_FILES_MIN = 16
"""Small files of about one size that are worth to be joined: a row is rewritten about once for every factor of 16."""

JOINED_MAX = 4
"""Most data joined at once, in wanted file sizes: a batch waits for it."""


def to_be_joined(files: Iterable[File], size: Callable[[File], int], *, file_size: int) -> list[File]:
    """Files far below *file_size* that are worth to be joined: many of about one size, and not too much at once.

    Args:
        files: Any.
        size: Of a file, in bytes.
        file_size: That files are to have.
    """
    tiers: dict[int, list[File]] = {}
    for file in files:
        if size(file) < file_size // 4:
            tiers.setdefault(round(math.log(max(size(file), 1), SMALL_FILES_MIN)), []).append(file)
    chosen: list[File] = []
    left = JOINED_MAX * file_size
    for _, tier in sorted(tiers.items()):
        if len(tier) < SMALL_FILES_MIN:
            continue
        for file in tier:
            left -= size(file)
            if left >= 0:
                chosen.append(file)
    return chosen
