"""Reports: nothing runs on a wrong parameter, nothing secret lands, all or nothing"""
import json, os, re, signal, subprocess, sys, threading, time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from sci_rag.core import ParameterError, SciRagError, sha256
from sci_rag.report import (ablate, check_parameters, cleaner, find_secrets, find_text, parse_parameters, read_parameters, read_report, report_table, to_html,
                            write_index)

root = Path(__file__).parent.parent
PASSWORD, KEY = 'corr3ct"horse<bättery>', "sk-0123456789abcdef"
PARAMETERS = "label = 'toy'  # what it is called\nn: int|None = None\nmode = 'good'\ndatabase_url: str|None = None\nmarker = ''\nout_dir = ''"
BODY = """import json, os, sys, time
open(marker, 'w').write('ran') if marker else None
print('connecting to', database_url or os.environ.get('SCI_RAG_DATABASE_URL'))
print('key', os.environ.get('MY_SERVICE_API_KEY'), file=sys.stderr)
from IPython.display import HTML, display
display(HTML(f"<p>{os.environ.get('MY_SERVICE_API_KEY')}</p>"))
if mode == 'fail': raise ConnectionError(f"cannot reach {os.environ.get('SCI_RAG_DATABASE_URL')} with {os.environ.get('MY_SERVICE_API_KEY')}")
for f in ('evaluation.json', 'rows.jsonl', 'qrels.trec', 'run-a.trec'): open(f'{out_dir}/{f}', 'w').write('{}' if f.endswith('json') else '')
open(f'{out_dir}/summary.csv', 'w').write('strategy,metric,mean,ci_low,ci_high,queries,unanswered,degraded\\na,nDCG@10,0.5,0.4,0.6,10,0,2\\n')
if mode == 'leak': json.dump({'password': os.environ['PGPASSWORD']}, open(f'{out_dir}/notes.json', 'w'))
if mode == 'incomplete': os.remove(f'{out_dir}/rows.jsonl')
if mode == 'slow': print('sleeping', flush=True); time.sleep(60)
if mode == 'die': os._exit(1)"""


@pytest.fixture
def toy(tmp_path):
    cells = [new_markdown_cell("# Toy\n\nA report."), new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}), new_markdown_cell("## Work"), new_code_cell(BODY)]
    nbformat.write(new_notebook(cells=cells), tmp_path / "toy.ipynb")
    return tmp_path / "toy.ipynb"


@pytest.fixture
def secrets(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("MY_SERVICE_API_KEY", KEY)
    monkeypatch.setenv("SCI_RAG_DATABASE_URL", "postgresql://ann:hunter2-in-url@db.example.org/x")
    return [PASSWORD, KEY, "hunter2-in-url"]


def visible(out): return sorted(p.name for p in out.iterdir() if not p.name.startswith("."))
def hidden(out): return [p.name for p in out.iterdir() if p.name.startswith(".")]
def everything(out): return {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()}


def assert_clean(out, values):
    for name, data in everything(out).items():
        for v in values:
            for spelling in (v, json.dumps(v)[1:-1], json.dumps(v, ensure_ascii=False)[1:-1]):
                assert spelling.encode() not in data, f"{name} holds a secret"


# ---- parameters

@pytest.mark.parametrize("given, message", [
    ({"lable": "x"}, "unknown parameter 'lable': Did you mean label"), ({"n": "5"}, r"n must be int \| None, got '5'"), ({"n": True}, "n must be int"),
    ({"n": 2.5}, "n must be int"), ({"label": None}, "label must be str"), ({"zzz": 1, "n": "x"}, "unknown parameter 'zzz'.*; n must be"), ({"out_dir": "x"}, "out_dir is chosen by the run")])
def test_a_wrong_parameter_stops_before_anything_runs(toy, tmp_path, given, message):
    marker, out = tmp_path / "marker", tmp_path / "runs"
    with pytest.raises(ParameterError, match=message): ablate(toy, {"marker": str(marker), **given}, out=out, name="toy")
    assert not marker.exists() and (not out.exists() or visible(out) == [])


def test_values_from_a_command_line(toy):
    assert check_parameters(toy, parse_parameters(["n=5", "label=5"], toy)) == {"n": 5, "label": "5"}
    assert parse_parameters(["n=none"], toy) == {"n": None}


@pytest.mark.parametrize("cell", ["import os", "x = os.sep", "x: Path = 1", "x = (", "x = y = 1", "x: int", "x, y = 1, 2", "print(1)"])
def test_a_parameters_cell_holds_constants_only(tmp_path, cell):
    nbformat.write(new_notebook(cells=[new_code_cell(cell, metadata={"tags": ["parameters"]})]), tmp_path / "x.ipynb")
    with pytest.raises(ParameterError): read_parameters(tmp_path / "x.ipynb")


@pytest.mark.parametrize("cells", [[], [new_code_cell("a = 1", metadata={"tags": ["parameters"]}), new_code_cell("b = 1", metadata={"tags": ["parameters"]})]])
def test_exactly_one_parameters_cell(tmp_path, cells):
    nbformat.write(new_notebook(cells=cells), tmp_path / "x.ipynb")
    with pytest.raises(ParameterError, match="cells are tagged"): read_parameters(tmp_path / "x.ipynb")


def test_the_projects_ablation_notebooks_declare_their_parameters():
    for nb in (root / "nbs/ablations").glob("*.ipynb"):
        params = read_parameters(nb)
        assert "out_dir" in params and all(p.help for p in params.values()), nb
        assert all(not c.get("outputs") for c in nbformat.read(nb, 4).cells), f"{nb} is an input and is kept without outputs"


# ---- secrets

def test_a_good_report_holds_no_secret(toy, tmp_path, secrets):
    folder = ablate(toy, {}, out=tmp_path / "runs", name="toy")
    assert_clean(tmp_path / "runs", secrets)
    text = (folder / "report.ipynb").read_text()
    assert "ann:***@db.example.org" in text and "<p>***</p>" in text and str(tmp_path) not in text


def test_a_password_given_as_a_parameter_is_hidden_too(toy, tmp_path):
    url = "postgresql://ann:given-as-parameter@db.example.org/x"
    folder = ablate(toy, {"database_url": url}, out=tmp_path / "runs", name="toy")
    assert_clean(tmp_path / "runs", ["given-as-parameter"])
    assert read_report(folder)[0]["parameters"]["database_url"] == "postgresql://ann:***@db.example.org/x"


def test_a_failed_run_leaves_a_log_without_secrets_and_the_good_report_alone(toy, tmp_path, secrets, capfd):
    out = tmp_path / "runs"
    good = ablate(toy, {}, out=out, name="toy")
    before = {k: v for k, v in everything(out).items()}
    with pytest.raises(SciRagError) as e: ablate(toy, {"mode": "fail"}, out=out, name="toy")
    log = Path(re.search(r"the log is (\S+)", str(e.value))[1])
    assert log.is_file() and "ConnectionError" in log.read_text() and "ConnectionError" in str(e.value)
    assert e.value.__suppress_context__ and e.value.__cause__ is None       # papermill's uncleaned exception is not shown with it
    shown = subprocess.run([sys.executable, "-c", "import sys; from sci_rag.report import ablate; ablate(sys.argv[1], {'mode': 'fail'}, out=sys.argv[2], name='toy')", toy, out],
                           capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)})
    assert shown.returncode == 1 and "ConnectionError" in shown.stderr
    for v in secrets: assert v not in shown.stderr + shown.stdout + str(e.value) + repr(e.value)
    assert_clean(out, secrets)
    assert {k: v for k, v in everything(out).items() if k in before} == before and visible(out) == ["README.md", "toy-1", "toy-failed-1.log", "toy-failed-2.log"]
    assert hidden(out) == [] and good.is_dir()


def test_a_file_with_a_secret_in_it_does_not_land(toy, tmp_path, secrets):
    with pytest.raises(SciRagError, match="a secret stands in notes.json"): ablate(toy, {"mode": "leak"}, out=tmp_path / "runs", name="toy")
    assert visible(tmp_path / "runs") == ["toy-failed-1.log"] and hidden(tmp_path / "runs") == []
    assert_clean(tmp_path / "runs", secrets)


def test_secrets_are_found_in_other_spellings(tmp_path):
    import html, urllib.parse
    for i, s in enumerate([PASSWORD, json.dumps(PASSWORD), json.dumps(json.dumps(PASSWORD)), html.escape(PASSWORD), urllib.parse.quote(PASSWORD, safe="")]): (tmp_path / str(i)).write_text(s)
    (tmp_path / "none").write_text("nothing here")
    assert find_secrets(tmp_path, {"password": PASSWORD}) == list("01234")


def test_paths_of_this_machine_are_taken_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path); monkeypatch.setenv("HOME", "/home/ann")
    clean = cleaner()
    assert clean(f"{tmp_path}/data/x.csv {tmp_path} {tmp_path}-2 /home/ann/y /home/annette") == f"data/x.csv . {tmp_path}-2 ~/y /home/annette"


# ---- all or nothing

@pytest.mark.parametrize("mode, message", [("incomplete", "did not write rows.jsonl"), ("die", "cell 4 under 'Work': DeadKernelError"), ("fail", "ConnectionError")])
def test_nothing_lands_unless_all_does(toy, tmp_path, mode, message):
    with pytest.raises(SciRagError, match=message): ablate(toy, {"mode": mode}, out=tmp_path / "runs", name="toy")
    assert visible(tmp_path / "runs") == ["toy-failed-1.log"] and hidden(tmp_path / "runs") == []


def test_two_at_once_take_two_numbers(toy, tmp_path):
    done = []
    threads = [threading.Thread(target=lambda: done.append(ablate(toy, {}, out=tmp_path / "runs", name="toy"))) for _ in range(2)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert sorted(p.name for p in done) == ["toy-1", "toy-2"] and hidden(tmp_path / "runs") == []
    assert (tmp_path / "runs/README.md").read_text().count("report.html") == 2


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_leaves_nothing_to_be_seen(toy, tmp_path, kill):
    out = tmp_path / "runs"
    ablate(toy, {}, out=out, name="toy"); before = everything(out)
    code = "import sys; from sci_rag.report import ablate; ablate(sys.argv[1], {'mode': 'slow', 'marker': sys.argv[3]}, out=sys.argv[2], name='toy')"
    p = subprocess.Popen([sys.executable, "-c", code, toy, out, tmp_path / "started"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)}, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, start_new_session=True)
    for _ in range(300):
        if (tmp_path / "started").exists(): break
        time.sleep(.1)
    time.sleep(.3); p.send_signal(kill); p.wait(30)
    try: os.killpg(p.pid, signal.SIGKILL)       # the kernel of a killed parent
    except ProcessLookupError: pass
    assert visible(out) == ["README.md", "toy-1"]
    assert {k: v for k, v in everything(out).items() if not str(k).startswith(".tmp")} == before
    if kill == signal.SIGINT: assert hidden(out) == []
    assert ablate(toy, {}, out=out, name="toy").name == "toy-2"


def test_the_next_number_never_reuses_a_gap(toy, tmp_path):
    (tmp_path / "runs/toy-7").mkdir(parents=True)
    assert ablate(toy, {}, out=tmp_path / "runs", name="toy").name == "toy-8"


def test_the_manifest_lists_what_is_there(toy, tmp_path):
    folder = ablate(toy, {"n": 3}, out=tmp_path / "runs", name="toy")
    m, summary = read_report(folder)
    assert m["parameters"] == {"label": "toy", "n": 3, "mode": "good", "database_url": None, "marker": ""} and len(summary) == 1
    assert {f: d["sha256"] for f, d in m["files"].items()} == {p.name: sha256(p.read_bytes()) for p in folder.iterdir() if p.name not in ("manifest.json", "report.html")}
    assert m["notebook_sha256"] == sha256(toy.read_bytes()) and {"cpu", "cores"} <= set(m["machine"]) and "numpy" in m["packages"]
    assert report_table(folder).index.tolist() == ["a (2 degraded)"]
    assert (folder.stat().st_mode & 0o777) == 0o755


def test_the_index_follows_the_folders(toy, tmp_path):
    import shutil
    a, b = (ablate(toy, {}, out=tmp_path / "runs", name=n) for n in ("toy", "other"))
    text = (tmp_path / "runs/README.md").read_text()
    assert "toy-1" in text and "other-1" in text and "0.500 \\[0.400, 0.600\\]" in text
    shutil.rmtree(a)
    assert "toy-1" not in write_index(tmp_path / "runs").read_text()


# ---- the page

def test_the_page_hides_the_machinery_and_loads_nothing(toy, tmp_path):
    page = (ablate(toy, {"label": "<b>bold</b>"}, out=tmp_path / "runs", name="toy") / "report.html").read_text()
    assert "papermill" not in page and "# Parameters" not in page and "out_dir = " not in page
    assert not re.findall(r"""(?:src|href)=["']https?:|@import|url\(http""", page) and "<script" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page and page.count("<h1>") == 1 and '<details class="code">' in page


def test_titles_and_parameters_cannot_inject():
    nb = new_notebook(cells=[new_markdown_cell("# <script>alert(1)</script>")])
    page = to_html(nb, {"parameters": {"<img src=x>": "</dd><script>"}, "notebook": "<script>x.ipynb", "evaluation": {"dataset": "<script>"}})
    assert "<script>" not in page and "<img src=x>" not in page


def test_the_page_fits_a_narrow_and_a_wide_window(toy, tmp_path, chromium):
    playwright = pytest.importorskip("playwright.sync_api")
    page_file = ablate(toy, {}, out=tmp_path / "runs", name="toy") / "report.html"
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"])
        problems = []
        for width in (390, 1200):
            page = browser.new_page(viewport={"width": width, "height": 800})
            page.on("console", lambda m: problems.append(m.text)); page.on("request", lambda r: problems.append(r.url) if not r.url.startswith(("file:", "data:")) else None)
            page.goto(page_file.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert not page.locator("details.code .highlight").first.is_visible()
            page.locator("details.code summary").first.click()
            assert page.locator("details.code .highlight").first.is_visible()
        browser.close()
    assert problems == []


# ---- text that may not be redistributed

def test_quotations_are_found(tmp_path):
    (tmp_path / "report.ipynb").write_text(json.dumps({"x": 'The mill burns "rice straw & husk, with <b>silica</b> that fuses" at 900. Ash, too.'}))
    texts = {"d1": "Rice straw & husk, with silica that fuses", "d2": "Nothing of this text is quoted anywhere in there", "d3": "the mill burns rice", "d4": "Ash"}
    assert find_text(tmp_path, texts, n=4) == [("report.ipynb", "d1"), ("report.ipynb", "d3")]      # one common word is not a quotation
    assert find_text(tmp_path, texts, n=6) == [("report.ipynb", "d3")]       # tags stand between the words of d1; d3 has only four and counts as a whole
    (tmp_path / "report.ipynb").write_text("straw & husk, with silica that")
    assert find_text(tmp_path, texts, n=5) == [("report.ipynb", "d1")]


def test_committed_scifact_reports_quote_nothing():
    from conftest import find_data
    from sci_rag.datasets import load_scifact
    reports = [p.parent for p in (root / "eval_runs").glob("scifact*/manifest.json")]
    if not reports: pytest.skip("no SciFact report in eval_runs")
    data = find_data("scifact/claims_dev.jsonl") or pytest.skip("no scifact on SCI_RAG_TEST_DATA")
    d = load_scifact(data.parent)
    texts = {f"claim {q}": t for q, t in d.queries.items()} | {f"abstract {r['id']}": r["text"] for r in d.documents.rows()} | {f"title {r['id']}": r["title"] for r in d.documents.rows()}
    for r in reports: assert find_text(r, texts, n=6) == []
