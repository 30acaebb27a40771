from __future__ import annotations

import pytest

from coterie.teammates.model import Usage
from coterie.teammates.prices import Prices

MODEL = "claude-sonnet-4-5"  # 3 and 15 dollars per million tokens; cache reads 0.1, cache writes 1.25 times the input


def test_a_call_costs_its_input_and_output() -> None:
    assert Prices().of(MODEL, Usage(input_tokens=1000, output_tokens=100)) == pytest.approx(0.003 + 0.0015)


def test_tokens_read_from_and_written_to_the_cache_have_their_own_prices() -> None:
    usage = Usage(input_tokens=1000, cache_read=200, cache_write=300)
    assert Prices().of(MODEL, usage) == pytest.approx((1000 * 3 + 200 * 0.3 + 300 * 3.75) / 1e6)


def test_more_tokens_from_the_cache_than_fresh_ones_are_no_error() -> None:
    assert Prices().of(MODEL, Usage(input_tokens=1, cache_read=10_000)) == pytest.approx((3 + 3000) / 1e6)


def test_a_price_that_is_not_known_is_none_and_said_once_per_model() -> None:
    said: list[str] = []
    prices = Prices(said.append)
    assert prices.of("local-llm", Usage(input_tokens=5)) is None
    assert prices.of("local-llm", Usage(input_tokens=5)) is None
    assert prices.of("other-llm", Usage(input_tokens=5)) is None
    assert len(said) == 2
    assert "'local-llm'" in said[0]


def test_no_tokens_cost_nothing() -> None:
    assert Prices().of(MODEL, Usage()) == 0
