from turnout.cli.local.backoff import HEALTHY_AFTER_S, LONGEST_DELAY_S, Backoff


def test_early_deaths_wait_longer_and_longer_up_to_a_bound() -> None:
    backoff = Backoff()
    delays = [backoff.delay_after(0.1) for _ in range(8)]
    assert delays == [1, 2, 4, 8, 16, LONGEST_DELAY_S, LONGEST_DELAY_S, LONGEST_DELAY_S]


def test_a_long_life_is_forgiven() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.delay_after(0.1)
    assert backoff.delay_after(HEALTHY_AFTER_S) == 1
