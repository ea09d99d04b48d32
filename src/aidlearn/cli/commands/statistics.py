"""Standard errors on the command line: ``fit --se``, ``inspect`` and ``aidlearn compare``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from aidlearn.cli.errors import CliError, reported, tell
from aidlearn.cli.models import open_model
from aidlearn.cli.options import Debug, Json, option
from aidlearn.cli.outputs import write_json
from aidlearn.cli.words import console

if TYPE_CHECKING:
    from aidlearn.data.tables.files import FileSource
    from aidlearn.inference.hypotheses import HypothesisTest
    from aidlearn.inference.summary import Summary

SE_OPTIONS = {
    "se": option(
        str | None,
        None,
        "--se",
        help="Standard errors, kept in the model: iid, nid, kernel, cluster, bootstrap or rank.",
        complete=("iid", "nid", "kernel", "cluster", "bootstrap", "rank"),
    ),
    "clusters": option(
        str | None, None, "--clusters", help="Column of clusters, for --se cluster; leave it out of --columns."
    ),
}
"""Options of the quantile regressions."""
MOST_KEPT = 200
"""Maximum number of coefficients for which the model file keeps the matrices that tests between models need."""


def check_standard_errors(options: dict[str, Any]) -> None:
    """Refuse before the fit what ``summary`` would refuse after it."""
    if options.get("se") is None:
        if options.get("clusters") is not None:
            raise CliError("--clusters requires --se cluster or --se bootstrap.")
        return
    from aidlearn.estimators.linear.standard_errors import Request

    Request(se=options["se"], clusters=options["clusters"]).check()


def with_summary(
    run: Callable[[], Any], estimator: Any, source: FileSource, options: dict[str, Any], facts: dict[str, Any]
) -> Callable[[], Any]:
    """The fit followed by its summaries, which are saved among the facts of the model."""
    if options.get("se") is None:
        return run

    def both() -> None:
        run()
        clusters = options["clusters"]
        column = int(clusters) if clusters is not None and clusters.isdigit() and not source.named else clusters
        try:
            found = estimator.summary(source, se=options["se"], clusters=column, random_state=estimator.random_state)
        except ValueError as error:
            tell(f"Standard errors could not be computed. {error}", "Warning")  # the fit is saved all the same
            return
        facts["summaries"] = [kept(summary) for summary in (found if isinstance(found, list) else [found])]

    return both


def kept(summary: Summary) -> dict[str, Any]:
    """A summary for a model file, without its matrices if they would be larger than the model."""
    content = summary.to_dict()
    if len(summary.names) > MOST_KEPT:
        content |= {"covariance": None, "bread": None, "gram": None, "replicates": None}
    return content


def summaries_of(model: Any) -> list[Summary]:
    """The summaries that were saved with a model."""
    from aidlearn.inference.summary import Summary

    training = getattr(model, "training_", None) or {}
    return [Summary.from_dict(content) for content in training.get("summaries", [])]


def show_summaries(summaries: list[Summary]) -> None:
    screen = console()
    for summary in summaries:
        screen.print(Text(f"\n{summary}"), soft_wrap=True)


@reported
def compare(
    first: Annotated[str, typer.Argument(metavar="MODEL", show_default=False, help="A model fitted with --se.")],
    second: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", show_default=False, help="A second model of the same rows.")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Test models of the same rows: slopes at several quantiles, or a model against one with more columns."""
    files = [first] if second is None else [first, second]
    found = [(file, summaries_of(open_model(file))) for file in files]
    for file, summaries in found:
        if not summaries:
            raise CliError(f"{file} has no standard errors: fit it with --se nid (or --se iid to compare columns).")
    everything = [summary for _, summaries in found for summary in summaries]
    if len(everything) < 2:
        raise CliError("There is only one fit: name a second model, or a model of several quantiles.")
    tests = tests_between(everything)
    if json:
        write_json({"models": files, "tests": [vars(test) for test in tests]})
        return
    show_summaries(everything)
    for test in tests:
        console().print(Text(f"\n{test}"))


def tests_between(summaries: list[Summary]) -> list[HypothesisTest]:
    """The tests that a set of summaries allows; an error explains why there is none."""
    from aidlearn.inference.hypotheses import equal_slopes, likelihood_ratio_test

    if all(summary.names == summaries[0].names for summary in summaries):
        return [equal_slopes(summaries)]
    if len(summaries) == 2:
        restricted, full = sorted(summaries, key=lambda summary: len(summary.names))
        return [likelihood_ratio_test(restricted, full)]
    raise CliError("Models with different columns are compared two at a time, at one quantile.")
