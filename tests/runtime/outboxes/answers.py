"""Answers of the outside world."""

from __future__ import annotations

from collections.abc import Callable

from flask_solid_objects.values import EffectContext

Answer = Callable[[EffectContext, int], str]


def raises(error: BaseException) -> Answer:
    """Every call raises."""

    def answer(context: EffectContext, amount: int) -> str:
        raise error

    return answer


def fails_until(attempt: int) -> Answer:
    """Calls raise before an attempt, and then succeed."""

    def answer(context: EffectContext, amount: int) -> str:
        if context.attempt < attempt:
            raise RuntimeError(f"attempt {context.attempt}")
        return f"paid {amount}"

    return answer
