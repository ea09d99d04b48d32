"""The linear model: its loss, its design (the formulas of margins, rows and sums) and the leverage of its rows.

A new loss is a function in ``losses``. ``design`` is the one place that knows how entries become rows.
"""
