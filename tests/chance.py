"""How much tests try, and what they leave to chance: `examples`, `seed`, `some`; two profiles of Hypothesis decide it.

`fixed` (what `pytest` and `make test` take) tries the same inputs in every run. `random` (`make fuzz`, `make test-all`,
`pytest --hypothesis-profile=random`) tries other ones each time, and more of them; what it finds goes into the test as
a fixed case (`@example`).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

_SHARE_OF = 100


def register_profiles() -> None:
    """Make the profiles known to Hypothesis, and take `fixed`."""
    # Kernels are compiled at their first call: the first example of a test may take a second.
    settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=16)
    settings.register_profile("random", deadline=None, max_examples=200, print_blob=True)
    settings.load_profile("fixed")


def examples(weight: int) -> int:
    """Inputs that a test tries, where it needs more or fewer than others.

    Args:
        weight: Per cent of what the profile has for all others.
    """
    return max(settings().max_examples * weight // _SHARE_OF, 1)


def seed() -> int:
    """Decides what a test draws by itself: the same in every run of `fixed`."""
    return 1 if settings().derandomize else random.randrange(2**32)


def some(cases: Sequence[T], one_of: int) -> Sequence[T]:
    """Every *one_of*-th case; all of them where the profile is `random`."""
    return cases[:: stride(one_of)]


def stride(one_of: int) -> int:
    """From one case to the next that is tried, where cases are not known beforehand."""
    return one_of if settings().derandomize else 1
