"""Identifiers that sort by the time of their making."""

import os
import time
from uuid import UUID

_VERSION_7 = 0x7 << 76
_VARIANT = 0b10 << 62


def new_attempt_id() -> UUID:
    """Make a UUIDv7 (RFC 9562, section 5.7): 48 bits of Unix milliseconds, then 74 random bits.

    Python has its own from 3.14 on (`uuid.uuid7`).
    """
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10))
    rand_a, rand_b = random >> 68, random & ((1 << 62) - 1)
    return UUID(int=(milliseconds & ((1 << 48) - 1)) << 80 | _VERSION_7 | rand_a << 64 | _VARIANT | rand_b)
