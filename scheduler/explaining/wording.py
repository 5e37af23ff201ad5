"""How a list of reasons becomes one sentence."""

from collections.abc import Sequence

from turnout.metadata.listings.explanations import Reason

_SAID = 2


def waits_for(reasons: Sequence[Reason]) -> str:
    """Say in one line what is waited for."""
    blocking = [reason for reason in reasons if reason.is_blocking]
    said = "; ".join(as_clause(reason.message) for reason in blocking[:_SAID])
    more = len(blocking) - _SAID
    return f"{said}; and {more} more" if more > 0 else said


def as_clause(sentence: str) -> str:
    """Take the capital and the full stop off a sentence, so that it can stand in another one."""
    is_word = len(sentence) > 1 and sentence[1].islower()
    return (sentence[0].lower() + sentence[1:] if is_word else sentence).removesuffix(".")
