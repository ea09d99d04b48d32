"""The aggregated problem: weighted hinges, the interior point that solves them, and the certificate of its bound.

``hinge_rows`` states the problem, ``certificate`` proves the lower bound, ``solvers`` lists the solvers by name. This
package knows nothing about entries, clusters or models.
"""
