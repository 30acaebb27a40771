"""What a call costs, from the price list that comes with genai-prices. It asks no server."""

from __future__ import annotations

import threading
from collections.abc import Callable

from coterie.teammates.model import Usage

__all__ = ["Prices"]


class Prices:
    """Prices in dollars. `report` is told once of each model whose price is not known."""

    def __init__(self, report: Callable[[str], None] | None = None) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._said: set[str] = set()

    def of(self, model: str, usage: Usage) -> float | None:
        """Dollars for one call, cache reads and writes (of five minutes) included; None if the price is not known.

        Whole millionths, so that sums of them are exact when they are rounded to as many digits.
        The list is as old as the installed package, and discounts of a contract are not in it: an estimate.
        """
        from genai_prices import Usage as Listed
        from genai_prices import calc_price

        # genai-prices counts cached tokens as input too, the Messages API beside it
        listed = Listed(
            input_tokens=usage.input_tokens + usage.cache_read + usage.cache_write,
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
            output_tokens=usage.output_tokens,
        )
        try:
            return round(float(calc_price(listed, model, provider_id="anthropic").total_price), 6)
        except LookupError:
            self._say(model)
            return None

    def _say(self, model: str) -> None:
        with self._lock:
            if model in self._said:
                return
            self._said.add(model)
        if self._report is not None:
            self._report(f"The price of the model {model!r} is not known: its calls count tokens, but no money.")
