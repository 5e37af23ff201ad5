"""Secrets that tasks know: `mask_secret` keeps them out of logs."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from turnout.config.masking import SHORTEST, Masker

logger = logging.getLogger("turnout.task")

#: What this process masks. It runs one attempt at a time, and a file's secrets are named when it is imported: once.
process_masker = Masker()


def mask_secret(value: Any) -> None:
    """Mask a value as `***` in everything that this task says from now on, and in the error that is kept of it.

    Args:
        value: the secret; of a mapping all values, of another collection all members are.
    """
    match value:
        case str():
            _mask(value)
        case bytes():
            _mask(value.decode(errors="replace"))
        case Mapping():
            mask_secret(list(value.values()))
        case Iterable():
            for member in value:
                mask_secret(member)
        case None:
            return
        case _:
            _mask(str(value))


def _mask(secret: str) -> None:
    if 0 < len(secret) < SHORTEST:
        logger.warning("A secret of fewer than %d characters is not masked: it would be found everywhere.", SHORTEST)
    process_masker.add(secret)
