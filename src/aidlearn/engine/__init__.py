"""The AID loop, and the components that a problem supplies to it."""

from aidlearn.engine.clusters import Clusters
from aidlearn.engine.loop import aid
from aidlearn.engine.problem import Accuracy, Evaluation, Incumbent, Problem, Solution, Start, Trial
from aidlearn.engine.progress import Limits
from aidlearn.engine.result import Iteration, Result, StartStep, Status
from aidlearn.engine.sums import Assignment

__all__ = [
    "Accuracy",
    "Assignment",
    "Clusters",
    "Evaluation",
    "Incumbent",
    "Iteration",
    "Limits",
    "Problem",
    "Result",
    "Solution",
    "Start",
    "StartStep",
    "Status",
    "Trial",
    "aid",
]
