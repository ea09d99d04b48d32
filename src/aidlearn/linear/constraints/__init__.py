"""Where coefficients may lie: bounds, inequalities and equations, and coordinates without equations."""
