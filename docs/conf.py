"""The site: `make docs` builds it into build/site, warnings are errors."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import aidlearn

HERE = Path(__file__).parent

project, author = "aidlearn", "the aidlearn authors"
release = version = aidlearn.__version__
project_copyright = "the aidlearn authors, BSD-3-Clause"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # pages need no network
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_templates", "gallery/**/*.ipynb", "**/GALLERY_HEADER.rst"]
templates_path, html_static_path, html_css_files = ["_templates"], ["_static"], ["site.css"]
nitpicky = False  # types in docstrings are words ("array of shape (n,)"), not names

# Markdown: pages are read on a code host, too, so they keep to plain Markdown where they can.
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3

# API reference
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Gallery: executed by every build
sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples" / "gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "matplotlib_animations": (True, "jshtml"),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 0,
    "reset_modules": ("matplotlib",),
    "image_srcset": ["2x"],
    "doc_module": ("aidlearn",),
    "reference_url": {"aidlearn": None},
    "backreferences_dir": None,
}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

html_theme = "pydata_sphinx_theme"
html_title = "aidlearn"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "aidlearn"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_depth": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "pygments_light_style": "a11y-light",
    "pygments_dark_style": "a11y-dark",
}
html_sidebars = {page: [] for page in ("index", "quickstart", "choosing", "changelog")}

warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def pages_without_a_place() -> list[str]:
    """Pages of docs/ that no table of contents names: the user guide lists them at its end."""
    listed = set()
    for page in HERE.glob("*.md"):
        for contents in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
            lines = (line.strip() for line in contents.splitlines())
            listed |= {line.rsplit("<", 1)[-1].rstrip(">") for line in lines if line and not line.startswith(":")}
    return sorted(page.stem for page in HERE.glob("*.md") if page.stem not in listed | {"index"})


def names_without_a_place() -> list[str]:
    """Public names that the API reference does not list yet: it has them at its end."""
    page = (HERE / "api.md").read_text(encoding="utf-8")
    return [name for name in aidlearn.__all__ if not re.search(rf"^ +{name}$", page, flags=re.MULTILINE)]


def write_more() -> bool:
    """A page of those names, written before Sphinx looks for pages; whether there is one."""
    more, names = HERE / "api" / "more.rst", names_without_a_place()
    if not names:
        more.unlink(missing_ok=True)
        return False
    more.parent.mkdir(exist_ok=True)
    listed = "".join(f"   {name}\n" for name in names)
    text = (
        f"More\n====\n\n.. currentmodule:: aidlearn\n\n.. autosummary::\n   :toctree: .\n   :nosignatures:\n\n{listed}"
    )
    if not more.exists() or more.read_text(encoding="utf-8") != text:
        more.write_text(text, encoding="utf-8")
    return True


HAS_MORE = write_more()


def place_the_rest(app: Any, name: str, source: list[str]) -> None:
    """What was added without a place of its own is found all the same."""
    if name == "guide":
        source[0] = source[0].replace("% pages without a place", "\n".join(pages_without_a_place()))
    if name == "api" and HAS_MORE:
        source[0] += "\n## More\n\n```{toctree}\napi/more\n```\n"


def not_ours(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Methods for metadata routing and parameters are scikit-learn's, and described there."""
    home = str(getattr(member, "__module__", "") or "")
    return True if home.startswith("sklearn") or name.endswith(("_request", "_routing")) else None


def setup(app: Any) -> None:
    app.connect("autodoc-skip-member", not_ours)
    app.connect("source-read", place_the_rest)
