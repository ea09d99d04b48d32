"""Estimators: kernel SVM, kernel support vector regression and the semi-supervised SVM."""
