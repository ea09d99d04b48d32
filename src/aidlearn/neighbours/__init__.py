"""Many neighbouring problems in shared passes: quantiles, folds, penalties and bootstrap replicates."""
