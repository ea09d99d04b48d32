"""Estimators that are linear in the features, their inference and the template of their fit."""
