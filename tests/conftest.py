"""How hypothesis searches: the same examples everywhere, however busy the machine."""

from hypothesis import HealthCheck, settings

settings.register_profile("aidlearn", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("aidlearn")
