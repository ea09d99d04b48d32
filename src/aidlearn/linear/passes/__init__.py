"""Passes over the rows of a linear model, in NumPy and compiled; ``protocol`` describes each of them."""
