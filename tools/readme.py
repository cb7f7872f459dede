"""Write README.md from nbs/index.ipynb. Run by the gate: edit the notebook, never the README."""
import re
from pathlib import Path

from nbconvert import MarkdownExporter

root = Path(__file__).parent.parent
body, resources = MarkdownExporter(exclude_input_prompt=True, exclude_output_prompt=True).from_filename(str(root / "nbs/index.ipynb"))
body = re.sub(r"(\]\(|src=\")(?!https?:|#|/|\.\./)", r"\1nbs/", body)   # relative to nbs/ -> relative to the root
body = re.sub(r"(\]\(|src=\")\.\./", r"\1", body)
assert not resources["outputs"], "index.ipynb must link its pictures from nbs/images, not embed them"
(root / "README.md").write_text("<!-- Generated from nbs/index.ipynb by tools/readme.py. Do not edit. -->\n\n" + body.strip() + "\n", encoding="utf-8")
