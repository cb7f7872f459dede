"""The demo corpus: manifest, questions, PDFs and the domain profile are well formed and agree with each other"""
import json, re, subprocess, sys
from collections import Counter
from pathlib import Path

import pytest

root = Path(__file__).parent.parent
seeds = root / "seeds"
demo = seeds / "demo"
FIELDS = set("path title authors year doi journal url license license_source source meta".split())
TAGS = dict(numeric=12, table=12, synonym=10, overview=4, unanswerable=6, scoped=1)
TAGS["multi-hop"] = 6


def read_jsonl(path): return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


manifest = read_jsonl(demo / "manifest.jsonl")
questions = read_jsonl(seeds / "questions.jsonl")
answerable = [q for q in questions if "unanswerable" not in q["tags"]]


def pdf_text(path):
    from pypdf import PdfReader
    return " ".join("\n".join(p.extract_text() for p in PdfReader(path).pages).split())


@pytest.fixture(scope="module")
def texts():
    "path -> text; of PDFs with single spaces in place of line ends"
    return {m["path"]: pdf_text(demo / m["path"]) if m["path"].endswith(".pdf") else (demo / m["path"]).read_text(encoding="utf-8") for m in manifest}


def rights(text):
    "A small classifier of our own, for the spellings used here"
    t = re.sub(r"[-_ ]+", "-", (text or "").lower())
    if re.search(r"cc0|public-domain|publicdomain", t): return "public"
    if "-nc" in t: return "open_noncommercial"
    if re.search(r"cc-by|licenses/by/|creative-commons-attribution", t): return "open_commercial"
    return "restricted" if "all-rights-reserved" in t else "unknown"


def test_manifest():
    paths = [m["path"] for m in manifest]
    assert len(paths) == len(set(paths)) >= 20
    assert set(paths) == {p.name for p in demo.iterdir() if not p.name.startswith(".")} - {"manifest.jsonl"}
    for m in manifest:
        assert set(m) <= FIELDS and m["title"] and m["source"], m["path"]
        assert isinstance(m["authors"], list) and isinstance(m["year"], int) and isinstance(m["meta"], dict)
        assert m.get("doi", "10.5555/").startswith("10.5555/") and m["url"].startswith("https://example.org/")
    dois = [m["doi"] for m in manifest if "doi" in m]
    assert len(dois) == len(set(dois))
    assert Counter(Path(p).suffix for p in paths)[".txt"] >= 3 and Counter(Path(p).suffix for p in paths)[".pdf"] >= 2


def test_every_licence_class():
    assert set(rights(m.get("license")) for m in manifest) == {"public", "open_commercial", "open_noncommercial", "restricted", "unknown"}


def test_project_classifies_alike():
    pytest.importorskip("sci_rag.rights")
    from sci_rag.rights import classify_license
    for m in manifest: assert classify_license(m.get("license")).license_class == rights(m.get("license")), m["path"]


def test_retracted_and_versions():
    assert [m["path"] for m in manifest if m["meta"].get("is_retracted")] == ["bagasse-steam-explosion-kinetics.md"]
    pair = [m for m in manifest if m["meta"].get("version") in ("preprint", "published")]
    assert len(pair) == 2 and pair[0]["title"] == pair[1]["title"] and pair[0]["doi"] != pair[1]["doi"]


def test_no_absolute_paths():
    for path in [*demo.glob("*.md"), *demo.glob("*.txt"), *demo.glob("*.jsonl"), *seeds.glob("*.*"), root / "ontology.yaml"]:
        assert not re.search(r"(?<![\w.:/])/(work|home|tmp|usr|root|Users)\b|[A-Z]:\\", path.read_text(encoding="utf-8")), path.name
    for m in manifest: assert not Path(m["path"]).is_absolute() and ".." not in m["path"]


def test_documents_have_substance(texts):
    for path, text in texts.items():
        words = [w for w in text.split() if re.search(r"\w", w)]
        assert 600 <= len(words) <= 1800, (path, len(words))
    for path in demo.glob("*.pdf"): assert path.stat().st_size < 60_000


def test_tables_are_rectangular():
    for path in demo.glob("*.md"):
        for block in re.findall(r"(?:^\|.*\|\n)+", path.read_text(encoding="utf-8"), flags=re.M):
            widths = {row.count("|") for row in block.strip().split("\n")}
            assert len(widths) == 1, (path.name, block[:80])


def test_questions():
    ids = [q["id"] for q in questions]
    assert len(ids) == len(set(ids)) >= 48 and all(re.fullmatch(r"q\d\d", i) for i in ids)
    assert len({q["question"] for q in questions}) == len(questions)
    known = {m["path"] for m in manifest}
    for q in questions:
        assert set(q) - {"why", "scope"} == {"id", "question", "answer", "documents", "evidence", "tags"}, q["id"]
        assert q["question"].endswith("?") and q["tags"] and set(q["tags"]) <= set(TAGS), q["id"]
        assert set(q["documents"]) <= known and len(set(q["documents"])) == len(q["documents"]), q["id"]
        assert ("scope" in q) == ("scoped" in q["tags"]), q["id"]
        if "unanswerable" in q["tags"]: assert q["answer"] is None and q["why"] and not q["documents"] and not q["evidence"], q["id"]
        else: assert q["answer"] and q["documents"] and q["evidence"] and "why" not in q, q["id"]
        if "multi-hop" in q["tags"]: assert len(q["documents"]) == 2, q["id"]
        if "overview" in q["tags"]: assert len(q["documents"]) >= 3, q["id"]
        if "numeric" in q["tags"]: assert re.search(r"\d", q["answer"]), q["id"]


def test_tag_counts():
    counts = Counter(t for q in questions for t in q["tags"])
    for tag, least in TAGS.items(): assert counts[tag] >= least, tag
    assert sum({"numeric", "table"} <= set(q["tags"]) for q in questions) >= 12
    readme = (seeds / "README.md").read_text(encoding="utf-8")
    for tag, n in counts.items(): assert f"| {tag} | {n} |" in readme, tag


@pytest.mark.parametrize("q", answerable, ids=lambda q: q["id"])
def test_evidence_is_verbatim(q, texts):
    for phrase in q["evidence"]: assert any(phrase in texts[d] for d in q["documents"]), phrase
    for d in q["documents"]: assert any(phrase in texts[d] for phrase in q["evidence"]), f"no evidence from {d}"


def test_every_document_is_asked_for():
    assert {d for q in questions for d in q["documents"]} == {m["path"] for m in manifest}


def test_near_duplicates_differ_in_numbers(texts):
    a, b = texts["dilute-acid-stover-preprint.md"], texts["dilute-acid-stover-article.md"]
    assert "84.1" in a and "| 81.6 |" in b and "| 81.6 |" not in a
    words = lambda t: Counter(t.split())
    assert sum((words(a) & words(b)).values()) / sum(words(a).values()) > 0.85


def test_project_loads_questions():
    datasets = pytest.importorskip("sci_rag.datasets")
    data = datasets.load_demo(seeds)
    assert len(data.queries) == len(questions) and len(data.qrels) == len(answerable)


def test_pdfs_are_reproducible(tmp_path):
    pytest.importorskip("fpdf")
    for name in "ab":
        (tmp_path / name).mkdir()
        subprocess.run([sys.executable, str(seeds / "make_pdfs.py"), str(tmp_path / name)], check=True)
    for pdf in sorted(demo.glob("*.pdf")):
        assert (tmp_path / "a" / pdf.name).read_bytes() == (tmp_path / "b" / pdf.name).read_bytes()
        assert pdf_text(tmp_path / "a" / pdf.name) == pdf_text(pdf), f"{pdf.name} is not what make_pdfs.py writes: run it and commit"


def test_ontology():
    yaml = pytest.importorskip("yaml")
    profile = yaml.safe_load((root / "ontology.yaml").read_text(encoding="utf-8"))
    assert {"version", "domain", "description", "entity_types", "relation_types", "lexicon", "query_classes", "graph"} <= set(profile)
    types = set(profile["entity_types"])
    assert {"Feedstock", "Process", "Product", "Property", "Place", "Organisation", "Pollutant"} <= types
    for name, entity in profile["entity_types"].items(): assert entity["description"] and entity["key"] in ("name", "name+type"), name
    for name, relation in profile["relation_types"].items():
        assert relation["description"] and set(relation["domain"]) <= types and set(relation["range"]) <= types, name
    assert types == {t for r in profile["relation_types"].values() for t in r["domain"] + r["range"]}
    words = [w for group in profile["lexicon"]["synonyms"] for w in group]
    assert all(isinstance(w, str) for w in words) and len(words) == len(set(words))
    assert all(isinstance(k, str) for k in profile["lexicon"]["abbreviations"])
    assert {"numeric_lookup", "comparison", "overview", "procedure"} <= set(profile["query_classes"])
    assert profile["graph"]["max_hops"] >= 1 and 0 <= profile["graph"]["min_confidence"] <= 1 and profile["graph"]["excluded_terms"]
