"""Kernel machines and the semi-supervised SVM."""
