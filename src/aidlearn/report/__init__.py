"""HTML reports of fitted models, in one file that needs no network."""

from aidlearn.report.page import ReportError, write_report

__all__ = ["ReportError", "write_report"]
