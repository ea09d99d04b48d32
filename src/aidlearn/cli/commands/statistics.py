"""Standard errors on the command line: ``fit --se``, ``inspect`` and ``aidlearn compare``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from aidlearn.cli.errors import CliError, reported, tell
from aidlearn.cli.inputs import clusters_column, open_model, training_of
from aidlearn.cli.options import Debug, Json, argument, text
from aidlearn.cli.output import console, write_json
from aidlearn.cli.run import PreparedFit

if TYPE_CHECKING:
    from aidlearn.data.tables.files import FileSource
    from aidlearn.inference.hypotheses import HypothesisTest
    from aidlearn.inference.summary import Summary

SE_OPTIONS = {
    "se": text(
        "--se",
        help="Standard errors, kept in the model: iid, nid, kernel, cluster, bootstrap or rank.",
        complete=("iid", "nid", "kernel", "cluster", "bootstrap", "rank"),
    ),
    "clusters": text("--clusters", help="Column of clusters, for --se cluster; leave it out of --columns."),
}
"""Options of quantile regressions."""
MOST_KEPT = 200
"""Maximum number of coefficients for which the model file keeps the matrices of tests between models."""


def check_standard_errors(options: dict[str, Any]) -> None:
    """Refuse before the fit what ``summary`` would refuse after it."""
    if options.get("se") is None:
        if options.get("clusters") is not None:
            raise CliError("--clusters requires --se cluster or --se bootstrap.")
        return
    from aidlearn.estimators.linear.standard_errors import Request

    Request(se=options["se"], clusters=options["clusters"]).check()


def with_summary(fit: PreparedFit, source: FileSource, options: dict[str, Any]) -> Callable[[], Any]:
    """Return a function that runs the fit and adds its summaries to the facts saved with the model."""

    def both() -> None:
        from aidlearn.engine.result import Status
        from aidlearn.estimators.fits import fits_of

        fit.run()
        if any(one.status is Status.interrupted for one in fits_of(fit.estimator)):
            tell("The fit was stopped: it is saved without standard errors.", "Warning")
            return
        clusters = None if options["clusters"] is None else clusters_column(options["clusters"], source)
        seed = fit.estimator.random_state
        try:
            found = fit.estimator.summary(source, se=options["se"], clusters=clusters, random_state=seed)
        except ValueError as error:
            tell(f"Standard errors could not be computed. {error}", "Warning")  # the fit is saved anyway
            return
        except KeyboardInterrupt:
            tell("Standard errors were interrupted: the fit is saved without them.", "Warning")
            return
        fit.facts["summaries"] = [_kept(summary) for summary in (found if isinstance(found, list) else [found])]

    return both


def _kept(summary: Summary) -> dict[str, Any]:
    """Return a summary for a model file, without its matrices if they would be larger than the model."""
    content = summary.to_dict()
    if len(summary.names) > MOST_KEPT:
        content |= {"covariance": None, "bread": None, "gram": None, "replicates": None}
    return content


def show_summaries(facts: Mapping[str, Any]) -> None:
    """Print the summaries among the facts of a model."""
    from aidlearn.report.inference import summaries_in

    for summary in summaries_in(facts):
        console().print(Text(f"\n{summary}"), soft_wrap=True)


@reported
def compare(
    first: Annotated[str, argument("MODEL", "A model fitted with --se.")],
    second: Annotated[str | None, argument("[MODEL]", "A second model of the same rows.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Test models of the same rows: slopes at several quantiles, or a model against one with more columns."""
    from aidlearn.report.inference import summaries_in

    files = [first] if second is None else [first, second]
    facts = [training_of(open_model(file)) for file in files]
    for file, known in zip(files, facts, strict=True):
        if not known.get("summaries"):
            raise CliError(f"{file} has no standard errors: fit it with --se nid (or --se iid to compare columns).")
    summaries = [summary for known in facts for summary in summaries_in(known)]
    if len(summaries) < 2:
        raise CliError("There is only one fit: name a second model, or a model of several quantiles.")
    tests = _tests_between(summaries)
    if json:
        write_json({"models": files, "tests": [vars(test) for test in tests]})
        return
    for known in facts:
        show_summaries(known)
    for test in tests:
        console().print(Text(f"\n{test}"))


def _tests_between(summaries: list[Summary]) -> list[HypothesisTest]:
    """Return the tests that a set of summaries allows, or raise an error that explains why there are none."""
    from aidlearn.inference.hypotheses import equal_slopes, likelihood_ratio_test

    if all(summary.names == summaries[0].names for summary in summaries):
        return [equal_slopes(summaries)]
    if len(summaries) == 2:
        restricted, full = sorted(summaries, key=lambda summary: len(summary.names))
        return [likelihood_ratio_test(restricted, full)]
    raise CliError("Models with different columns are compared two at a time, at one quantile.")
