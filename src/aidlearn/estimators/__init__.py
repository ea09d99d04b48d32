"""Estimators with the conventions of scikit-learn; ``registry`` declares each of them once."""
