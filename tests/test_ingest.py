"""Ingest: nothing twice, nothing by halves, nothing silent"""
import json, os, signal, subprocess, sys, textwrap, time

import pytest

from sci_rag.chunker import ChunkParams
from sci_rag.core import ModelMismatchError, SciRagError
from sci_rag.db import open_database
from sci_rag.embed import HashingEmbedder
from sci_rag.ingest import DocumentInput, ingest


@pytest.fixture
def db(corpus_name):
    with open_database(name=corpus_name) as db: yield db


@pytest.fixture
def embedder(): return HashingEmbedder()


def folder_of(tmp_path, n=3):
    folder = tmp_path / "papers"
    folder.mkdir(exist_ok=True)
    for i in range(n):
        (folder / f"d{i:03}.md").write_text(f"# Report {i}\n\nStraw lot {i} held {10 + i} percent ash in the autumn survey.\n\n## Method\n\nEach lot {i} was burnt at 550 degrees for four hours.\n")
    return folder


def test_nul_everywhere(db, embedder):
    "A NUL in text, title and metadata is removed from all of them, with one warning naming the document"
    docs = [DocumentInput(id="a", text="Hulls are fed to dairy cows in winter."), DocumentInput(id="c", text="Shells are burnt for heat in spring."),
            DocumentInput(id="b", text="The measured binding\x00 affinity was high in all samples.", title="Aff\x00inity", meta={"k\x00": ["v\x00"]})]
    report = ingest(db, embedder, docs)
    assert report.counts == {"added": 3}
    row = report.df.set_index("path").loc["b"]
    assert "removed" in row.reason
    title, text, meta = db.fetch("SELECT title, text, meta FROM documents WHERE id = 'b'")[0]
    assert title == "Affinity" and "binding affinity" in text and meta["k"] == ["v"]
    assert report.df.set_index("path").loc["a"].reason == ""


def test_rerun_is_a_no_op_and_an_edit_replaces(db, embedder, tmp_path):
    folder = folder_of(tmp_path)
    assert ingest(db, embedder, folder).counts == {"added": 3}
    before = db.fingerprint()
    assert ingest(db, embedder, folder).counts == {"unchanged": 3}
    assert db.fingerprint() == before
    (folder / "d001.md").write_text((folder / "d001.md").read_text().replace("autumn", "spring"))
    assert ingest(db, embedder, folder).counts == {"replaced": 1, "unchanged": 2}
    after = db.fingerprint()
    assert after["digest"] != before["digest"] and after["documents"] == 3 and after["passages"] == before["passages"]
    assert not db.fetch("SELECT 1 FROM passages WHERE document_id NOT IN (SELECT id FROM documents)")


def test_same_text_is_one_document(db, embedder, tmp_path):
    folder = folder_of(tmp_path, 1)
    (folder / "copy").mkdir()
    (folder / "copy" / "b.md").write_text((folder / "d000.md").read_text())
    assert ingest(db, embedder, folder).counts == {"added": 1, "duplicate": 1}
    assert ingest(db, embedder, folder).counts == {"unchanged": 1, "duplicate": 1}
    assert ingest(db, embedder, folder, params=ChunkParams(target=30, overlap=0)).counts == {"reindexed": 1, "duplicate": 1}
    assert db.fingerprint()["documents"] == 1


def test_same_name_in_two_folders_are_two_documents(db, embedder, tmp_path):
    "a.md of one folder must not replace a.md of another"
    for name in "xy":
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"Folder {name} reports its own harvest of straw in tonnes.")
        ingest(db, embedder, tmp_path / name)
    assert db.fingerprint()["documents"] == 2


def test_renamed_file_is_updated(db, embedder, tmp_path):
    folder = folder_of(tmp_path, 2)
    ingest(db, embedder, folder)
    (folder / "d000.md").rename(folder / "renamed.md")
    report = ingest(db, embedder, folder)
    assert report.counts == {"unchanged": 1, "updated": 1} and "d000.md -> renamed.md" in report.df.reason.str.cat()
    assert ingest(db, embedder, folder).counts == {"unchanged": 2}


def test_rights_update_in_place(db, embedder, tmp_path):
    folder = folder_of(tmp_path, 1)
    ingest(db, embedder, folder)
    ids = db.fetch("SELECT id FROM passages ORDER BY id")
    (folder / "manifest.jsonl").write_text(json.dumps({"path": "d000.md", "license": "CC0-1.0"}))
    report = ingest(db, embedder, folder)
    assert report.counts == {"updated": 1} and "unknown -> public" in report.df.reason[0]
    assert db.fetch("SELECT id FROM passages ORDER BY id") == ids          # passages untouched
    assert ingest(db, embedder, folder).counts == {"unchanged": 1}


def test_bad_files_do_not_stop_the_others(db, embedder, tmp_path):
    folder = folder_of(tmp_path, 2)
    (folder / "empty.md").write_text("")
    (folder / "cut.pdf").write_bytes(b"%PDF-1.7\n1 0 obj\n<< /Type /Cat")
    report = ingest(db, embedder, folder)
    assert report.counts == {"added": 2, "failed": 2} and not report.ok
    assert all(report.failed.reason.str.len() > 10) and not report.failed.reason.str.contains("\n").any()


@pytest.mark.parametrize("source, words", [("nowhere", "no such file"), ("manifest.jsonl", "line 2")])
def test_wrong_sources_change_nothing(db, embedder, tmp_path, source, words):
    (tmp_path / "a.md").write_text("A document that would be fine if it stood alone here.")
    (tmp_path / "manifest.jsonl").write_text('{"path": "a.md"}\n{"path": \n')
    with pytest.raises(SciRagError, match=words): ingest(db, embedder, tmp_path / source)
    assert db.fingerprint()["documents"] == 0


def test_other_model_is_refused(db, embedder, tmp_path):
    "Another encoder, of another dimension and of the same one: an error that names both, nothing dropped"
    folder = folder_of(tmp_path, 1)
    ingest(db, embedder, folder)
    for other in (HashingEmbedder(dim=32), HashingEmbedder(dim=64, max_tokens=128)):
        if other.version == embedder.version: other.version = "hashing-other"
        with pytest.raises(ModelMismatchError) as e: ingest(db, other, folder)
        assert embedder.version in str(e.value) or embedder.model in str(e.value)
    assert db.fingerprint()["embedded"] >= 1


SLOW_INGEST = textwrap.dedent("""
    import sys, time
    from sci_rag.db import open_database
    from sci_rag.embed import HashingEmbedder
    import sci_rag.ingest as m
    name, folder, pause = sys.argv[1], sys.argv[2], float(sys.argv[3])
    real = m.index_terms
    def slow(conn, ids, **k): time.sleep(pause); return real(conn, ids, **k)   # inside the storing transaction
    m.index_terms = slow
    with open_database(name=name) as db: print(m.ingest(db, HashingEmbedder(), folder, group_size=4).counts)
""")


def run_ingest(name, folder, pause): return subprocess.Popen([sys.executable, "-c", SLOW_INGEST, name, str(folder), str(pause)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("kill_after", [1, 5, 14])
def test_killed_ingest_is_completed_by_a_rerun(corpus_name, tmp_path, kill_after):
    "SIGKILL while documents are being stored: never half a document, and a rerun gives the undisturbed digest"
    folder = folder_of(tmp_path, 20)
    with open_database(name=corpus_name) as db:
        p = run_ingest(corpus_name, folder, .1)
        deadline = time.time() + 60
        while db.fetch("SELECT count(*) FROM documents")[0][0] < kill_after:
            assert p.poll() is None and time.time() < deadline
            time.sleep(.01)
        p.send_signal(signal.SIGKILL); p.wait()
        time.sleep(.3)
        half = db.fetch("SELECT id FROM documents d WHERE NOT EXISTS (SELECT 1 FROM passages WHERE document_id = d.id) OR NOT EXISTS (SELECT 1 FROM bm25_units WHERE document_id = d.id)")
        stored = db.fetch("SELECT count(*) FROM documents")[0][0]
        assert not half and kill_after <= stored < 20
        assert sum(ingest(db, HashingEmbedder(), folder).counts.values()) == 20
        digest, passages = db.fingerprint()["digest"], db.fingerprint()["passages"]
        db.drop()
    with open_database(name=corpus_name) as db:
        ingest(db, HashingEmbedder(), folder)
        assert (db.fingerprint()["digest"], db.fingerprint()["passages"]) == (digest, passages)


def test_two_processes_at_once(corpus_name, tmp_path):
    "Two ingests of one folder: no duplicate, no error, and every document whole"
    folder = folder_of(tmp_path, 20)
    with open_database(name=corpus_name) as db:
        both = [run_ingest(corpus_name, folder, .02) for _ in range(2)]
        for p in both:
            out, err = p.communicate(timeout=120)
            assert p.returncode == 0 and "failed" not in out, err
        assert db.fingerprint()["documents"] == 20
        assert db.fetch("SELECT count(*), count(DISTINCT (document_id, representation, ordinal)) FROM passages")[0] == (40, 40)
        units, length = db.fetch("SELECT units, total_length FROM bm25_stats WHERE level = 'document'")[0]
        assert (units, length) == db.fetch("SELECT count(*), sum(length) FROM bm25_units WHERE level = 'document'")[0]


@pytest.mark.parametrize("moves", [{"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "a"}, {"a": "b", "b": None}, {"a": None, "b": "a"}])
def test_texts_that_change_places_are_all_kept(corpus_name, tmp_path, moves):
    "Files swap their contents, in a ring or a chain: nothing is lost, and each name has its text"
    text = {k: f"# {k}\n\nThe {k} straw of Colusa holds {n} percent ash, most of it silica.\n" for n, k in enumerate("abc", 13)}
    for k, t in text.items(): (tmp_path/f"{k}.md").write_text(t)
    with open_database(name=corpus_name) as db:
        ingest(db, HashingEmbedder(), tmp_path)
        now = {**text, **{k: text[v] if v else f"# new\n\nQuite another text about {k} and bran, which nobody has seen before.\n" for k, v in moves.items()}}
        for k, t in now.items(): (tmp_path/f"{k}.md").write_text(t)
        report = ingest(db, HashingEmbedder(), tmp_path)
        assert report.ok and dict(db.fetch("SELECT source_ref, text FROM documents")) == {f"{k}.md": t for k, t in now.items()}, report
        assert ingest(db, HashingEmbedder(), tmp_path).counts == {"unchanged": 3}
