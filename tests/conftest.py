"""How hypothesis searches: the same examples everywhere, however busy the machine. Interrupts interrupt."""

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("aidlearn", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("aidlearn")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # What a shell starts in the background ignores Ctrl-C, which tests send to themselves and to what they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
