"""Passes over the rows of a linear model, in NumPy and compiled; ``records`` says what they return."""
