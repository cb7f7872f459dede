"""Write README.md, and the picture it shows, from nbs/index.ipynb and the report it cites. Edit the notebook, never the README."""
import base64, json, re
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter

root = Path(__file__).parent.parent


def first_picture(report):
    "PNG bytes of the first picture of an executed report"
    for cell in json.loads(report.read_text(encoding="utf-8"))["cells"]:
        for out in cell.get("outputs", []):
            if png := out.get("data", {}).get("image/png"): return base64.b64decode("".join(png))
    raise SystemExit(f"no picture in {report}")


def plain(nb):
    "Cells marked `echo: false` without their code; of rich outputs the plain text, which reads well on a page"
    for cell in nb.cells:
        if cell.cell_type != "code": continue
        if "#| echo: false" in cell.source: cell.source = ""
        for out in cell.outputs:
            if "text/markdown" not in out.get("data", {}): out.get("data", {}).pop("text/html", None)
    return nb


if __name__ == "__main__":
    nb = plain(nbformat.read(root / "nbs/index.ipynb", 4))
    nb.metadata["language_info"] = {"name": "python"}                    # for the fences, whether or not the notebook was cleaned
    body, resources = MarkdownExporter().from_notebook_node(nb)
    body = re.sub(r"```python\s*```\n*", "", body)                       # what is left of hidden cells
    body = re.sub(r"\]\((?!https?:|#|/|\.\./)", "](nbs/", body)          # links relative to nbs/ -> relative to the root
    body = re.sub(r"\]\(\.\./", "](", body)
    body = re.sub(r"\n{3,}", "\n\n", body)
    if resources["outputs"]: raise SystemExit("index.ipynb must link its pictures, not embed them")
    report = re.search(r"eval_runs/[\w.-]+/", body)[0]
    (root / "nbs/images").mkdir(exist_ok=True)
    (root / "nbs/images/scifact.png").write_bytes(first_picture(root / report / "report.ipynb"))
    (root / "README.md").write_text("<!-- Generated from nbs/index.ipynb by tools/readme.py: edit that. -->\n\n" + body.strip() + "\n", encoding="utf-8")
