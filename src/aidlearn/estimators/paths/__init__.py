"""Cross-validated estimators: paths of penalties over folds."""
