"""Random fits against independent oracles and laws: ``python -m benchmarks.fuzz --minutes 10``, or ``make fuzz``."""
