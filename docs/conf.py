"""How the site is built: `make docs`. It reads nothing from a network, and a warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent / "src")]

import shown_plots

import toposcope

project = "toposcope"
author = "the toposcope authors"
release = version = toposcope.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "matplotlib.sphinxext.plot_directive",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "cost",
    "offline_math",
    "outside",
    "searched",
]
templates_path = ["_templates"]
exclude_patterns = [
    "_ext",
    "_static",
    "_templates",
    "schema",
    "methods/pictures",
    "gallery",
    "sg_execution_times.rst",
]
nitpicky = True
default_role = "code"
# Types of other packages: their pages are elsewhere, and the build reads nothing from a network.
OTHERS = r"(numpy|np|pandas|pd|pathlib|collections|enum|abc|matplotlib|torch)\..*|Axes|Figure|Path"
# Own types that a signature names and no page describes: what a caller gives or gets is said in words.
INNER = (
    r"toposcope\.(core|store|study|statistics|files|logs|rules|runs|sources|subjects|topology|forecasting|sweep)\..*"
    r"|(collections\.abc\.)?(tuple|Mapping)\[.*"
    r"|Advices|Curve|Finding|Findings|Forecast|Forecaster|Given|Ground|Group|Judgement|LanguageModel|Logged"
    r"|ModelLoader|Problem|Schedule|Source|Symptom|Where|AuditFinding|SavedStates|Execution|TextRequest|WeightOptions"
    r"|RepresentationOptions|LandscapeOptions|SensitivityOptions|TrainingRecipe|Callback|Trained"
    r"|AdapterState|Check|Coverage|Difference|LogOfRun|Odd|OfStore|Remark|Resumption|RunComparison|SeriesParting|Side"
)
nitpick_ignore_regex = [("py:class", OTHERS), ("py:class", INNER)]

html_theme = "furo"
html_title = "toposcope"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(DOCS / "_ext" / "scorer.js")
html_math_renderer = "offline"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
highlight_language = "none"  # a block without a language is output

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

plot_formats = [("svg", 100)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_rcparams = shown_plots.SETTINGS | {"savefig.facecolor": "white", "figure.figsize": (7.0, 3.0)}

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "min_reported_time": 0,
    "show_memory": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_",),  # a table is shown as one; axes are a picture
    "image_scrapers": ("matplotlib", "shown_plots"),
    "reset_modules": ("matplotlib", "shown_plots.house_style"),
    "parallel": False,
}
