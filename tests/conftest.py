"""For all tests: Ctrl-C works in what they start, also where they themselves run in the background of a shell."""

import signal

from hypothesis import HealthCheck, settings

# `make fuzz` takes the thorough one; tests that set a number of their own keep it.
_AT_EASE = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=100, **_AT_EASE)
settings.register_profile("thorough", max_examples=10_000, **_AT_EASE)
settings.load_profile("quick")

# A shell starts background jobs with SIGINT ignored, and programs inherit that; a handler of ours they do not inherit.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
