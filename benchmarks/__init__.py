"""Benchmarks: aidlearn against the programs people use today, on the same data and the same machine."""
