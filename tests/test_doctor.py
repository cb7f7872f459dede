"The doctor: every fault is a row with a command that mends it, and nothing is a traceback"
import json, re, shlex

import psycopg, pytest

from sci_rag.cli import app
from sci_rag.corpus import Corpus, _checks, check, connect, doctor
from sci_rag.db import list_corpora, open_database
from sci_rag.embed import HashingEmbedder
from sci_rag.ingest import DocumentInput
from typer.testing import CliRunner

TEXT = "Straw lot {i} held {n} percent ash in the autumn survey, and each lot was burnt at 550 degrees for four hours."


def docs(n, **kw): return [DocumentInput(id=f"d{i}", title=f"Report {i}", text=TEXT.format(i=i, n=10 + i), license="CC BY 4.0", **kw) for i in range(n)]


@pytest.fixture
def corpus(corpus_name):
    with connect(name=corpus_name, embedder="hashing") as c:
        c.ingest(docs(3), show_progress=False)
        yield c


def rows(c): return {r.check: r for r in c.doctor().itertuples()}


def run(line):
    "Exit status and output of a command line the doctor named"
    words = shlex.split(line)
    assert words[0] == "sci-rag"
    r = CliRunner().invoke(app, words[1:])
    assert r.exception is None or isinstance(r.exception, SystemExit), r.exception
    return r.exit_code, r.output


def test_a_healthy_corpus(corpus):
    df = corpus.doctor()
    assert list(df.columns) == ["check", "status", "detail", "remedy"] and set(df.status) <= {"ok", "warn", "fail"}
    assert {"database", "pgvector", "schema", "encoder", "bound encoder", "formats", "pdf", "docling", "coreference", "documents", "manifest", "vectors",
            "indexes", "words", "rights", "retractions", "duplicates", "orphans"} <= set(df.check)
    assert not len(df[(df.status != "ok") & ~df.check.isin(["pdf", "docling", "coreference"])]), df[df.status != "ok"]


faults = {
    "vectors": ("warn", "UPDATE passages SET embedding = NULL, embedding_version = NULL WHERE document_id = 'd1'"),
    "vectors of another model": ("fail", "UPDATE passages SET embedding_version = 'other' WHERE document_id = 'd1'"),
    "indexes": ("warn", "DROP INDEX passages_hnsw_chunk"),
    "words": ("warn", "DELETE FROM bm25_units WHERE document_id = 'd1'"),
    "duplicates": ("warn", "DELETE FROM document_signatures WHERE document_id = 'd1'"),
    "orphans": ("warn", "INSERT INTO bm25_postings VALUES ('passage', 'ghost', 999999, 1, 1)"),
    "orphans in the graph": ("warn", "INSERT INTO kg_communities (title, members) VALUES ('ghosts', '{77}')"),
    "bound encoder": ("fail", "UPDATE corpus_meta SET value = '\"another:64\"' WHERE key = 'embedding_version'"),
}


@pytest.mark.parametrize("fault", faults)
def test_each_fault_is_seen_and_mended_by_the_command_it_names(corpus, fault):
    status, statement = faults[fault]
    name = fault.split(" of ")[0].split(" in ")[0]
    assert rows(corpus)[name].status == "ok"
    corpus.db.execute(statement)
    seen = rows(corpus)[name]
    assert seen.status == status and seen.detail and seen.remedy.startswith("sci-rag "), seen
    assert run(f"sci-rag doctor --corpus {corpus.name} --embedder hashing")[0] == (status == "fail")
    assert run(seen.remedy.split(",")[0])[0] == 0
    assert rows(corpus)[name].status == "ok", rows(corpus)[name]


def test_a_broken_off_reindex_is_told(corpus):
    from sci_rag.reindex import _encode_batch
    corpus.db.execute("UPDATE passages SET embedding = NULL WHERE document_id IN ('d1', 'd2')")
    _encode_batch(corpus.db, corpus.embedder, ["chunk"], 1)
    assert "broken off with 1 vectors ready" in rows(corpus)["vectors"].detail


def test_empty_corpus_and_rights(corpus_name, tmp_path):
    with connect(name=corpus_name, embedder="hashing") as c:
        row = rows(c)["documents"]
        assert row.status == "warn" and row.remedy.startswith("sci-rag ingest FOLDER")
        (tmp_path / "a.md").write_text("# Ash\n\n" + TEXT.format(i=1, n=2))
        (tmp_path / "manifest.jsonl").write_text('{"path": "a.md", "license": "ask the author"}\n')
        run(row.remedy.replace("FOLDER", shlex.quote(str(tmp_path))))
        seen = rows(c)
        assert seen["documents"].status == "ok" and seen["rights"].status == "warn"
        assert seen["manifest"].status == "warn" and "1 warning" in seen["manifest"].detail
        assert run(seen["manifest"].remedy)[0] == 0
        (tmp_path / "manifest.jsonl").write_text('{"path": "a.md", "license": "CC BY 4.0"}\n')
        assert run(seen["rights"].remedy.split("then: ")[1])[0] == 0
        seen = rows(c)
        assert seen["rights"].status == "ok" and seen["manifest"].status == "ok"
        (tmp_path / "manifest.jsonl").write_text('{"path": "b.md"}\nnot json\n')
        seen = rows(c)["manifest"]
        assert seen.status == "fail" and "2 errors" in seen.detail and run(seen.remedy)[0] == 1
        (tmp_path / "manifest.jsonl").unlink()
        assert rows(c)["manifest"].status == "warn"


def test_retractions_and_versions_are_told(corpus):
    corpus.ingest(docs(3, meta={"is_retracted": True})[:1], show_progress=False)
    row = rows(corpus)["retractions"]
    assert row.status == "warn" and "1 retracted document" == row.detail
    code, out = run(row.remedy.replace("QUESTION", "'straw lot ash' --strategy bm25"))
    assert code == 0 and "Report 1" in out and "Report 0" not in out
    long = " ".join(TEXT.format(i="of straw", n="many").replace("lot", w) for w in ("lot", "bale", "swath", "field"))
    corpus.ingest([DocumentInput(id=i, title="Ash of straw from four hundred farms", text=long + end, license="CC BY 4.0") for i, end in (("p", ""), ("q", " Published."))], show_progress=False)
    row = rows(corpus)["duplicates"]
    assert row.status == "warn" and "1 work in 2 versions" in row.detail
    code, out = run(row.remedy)
    assert code == 0 and "1 works in 2 versions" in out


@pytest.mark.parametrize("break_it", ["DROP TABLE kg_communities", "DROP TABLE passages CASCADE", "DROP TABLE documents CASCADE", "DROP TABLE corpus_meta",
                                      "ALTER TABLE passages DROP COLUMN embedding", "DROP TABLE document_signatures", "DROP TABLE schema_version",
                                      "ALTER TABLE documents RENAME COLUMN license_class TO rights"])
def test_a_broken_database_gives_rows(corpus, break_it):
    "Whatever is gone: rows, at least one of them fail, and exit status 1; the machine is still looked at"
    corpus.db.execute(break_it)
    df = corpus.doctor()
    assert (df.status == "fail").any() and {"encoder", "formats", "pdf"} <= set(df[df.status == "ok"].check) | {"pdf"}
    opened = doctor(name=corpus.name, embedder="hashing")
    assert len(opened) and (opened.status == "fail").any() and "Traceback" not in opened.to_string()
    code, out = run(f"sci-rag doctor --corpus {corpus.name} --embedder hashing --json")
    assert code == 1 and {r["status"] for r in json.loads(out)} >= {"fail"}
    corpus.db.execute(f"DROP SCHEMA {corpus.db.schema} CASCADE")      # list_corpora may not know it any more


def test_no_corpus_no_database(corpus_name):
    df = doctor(name=corpus_name, embedder="hashing")
    assert df.status[0] == "warn" and df.remedy[0] == f"sci-rag ingest FOLDER --corpus {corpus_name}" and corpus_name not in list_corpora()
    df = doctor("postgresql://me:verysecret@127.0.0.1:9/x", embedder="hashing")
    assert df.status[0] == "fail" and "verysecret" not in df.to_string() and "formats" in set(df.check)
    assert run("sci-rag doctor --url postgresql://me:verysecret@127.0.0.1:9/x --embedder hashing")[0] == 1
    assert doctor("mysql://x", embedder="hashing").status[0] == "fail"


def test_an_encoder_that_is_not_there(corpus):
    df = doctor(name=corpus.name, embedder="/no/such/folder").set_index("check")
    assert df.status["encoder"] == "fail" and df.status["bound encoder"] == "fail" and df.status["words"] == "ok"
    class Liar(HashingEmbedder):
        def encode_queries(self, texts, **kw): return super().encode_queries(texts, **kw)[:, :8]
    df = doctor(name=corpus.name, embedder=Liar()).set_index("check")
    assert df.status["encoder"] == "fail" and "8 dimensions" in df.detail["encoder"]


def test_formats_are_tried(monkeypatch):
    "A parser that breaks is named with its suffix"
    from sci_rag import parse as parsing
    from sci_rag.corpus import _formats
    assert {s for s, p in _formats().items() if isinstance(p, Exception)} == set()
    monkeypatch.setitem(parsing.PARSERS, "text", lambda path: 1/0)
    assert [s for s, p in _formats().items() if isinstance(p, Exception)] == [".txt"]


def test_a_check_of_ones_own(corpus, monkeypatch):
    monkeypatch.setattr("sci_rag.corpus._checks", dict(_checks))
    check("mine")(lambda c: ("warn", "postgresql://a:secretword@h/x", "nothing"))
    check("broken")(lambda c: 1/0)
    df = corpus.doctor().set_index("check")
    assert df.status["mine"] == "warn" and "secretword" not in df.detail["mine"]
    assert df.status["broken"] == "fail" and "ZeroDivisionError" in df.detail["broken"]
