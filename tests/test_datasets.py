"""Datasets: the published SciFact, BEIR form, downloads that break off, questions against an ingested corpus"""
import gzip, http.server, json, shutil, threading

import pytest

import sci_rag.datasets as ds
from sci_rag.core import DatasetError
from sci_rag.datasets import SCIFACT_CORPUS, beir_digest, download, load_beir, load_dataset, load_questions, load_scifact


def lines(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


@pytest.fixture(scope="session")
def scifact_dir():
    from conftest import find_data
    return find_data("scifact/claims_dev.jsonl") or pytest.skip("no scifact on SCI_RAG_TEST_DATA")


def test_scifact_is_the_published_one(scifact_dir):
    d = load_scifact(scifact_dir.parent)
    assert d.digest == SCIFACT_CORPUS and len(d.documents) == 5183
    assert {s: len(q) for s, q in d.splits.items()} == {"test": 300, "train": 809, "train-development": 649, "train-validation": 160}
    test = d.split("test")
    assert sum(map(len, test.qrels.values())) == 339 and len(test.qrels) == 300
    assert set(d.splits["train-development"]) | set(d.splits["train-validation"]) == set(d.splits["train"])
    assert "evidence documents are not used" in d.qrels_rule


def test_scifact_in_beir_form_has_the_same_digest(scifact_dir, tmp_path):
    d = load_scifact(scifact_dir.parent).split("test")
    with gzip.open(tmp_path / "corpus.jsonl.gz", "wt") as f:
        for r in d.documents.rows(): f.write(json.dumps({"_id": r["id"], "title": r["title"], "text": r["text"], "metadata": {}}) + "\n")
    lines(tmp_path / "queries.jsonl", [{"_id": q, "text": t} for q, t in d.queries.items()])
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(f"{q}\t{i}\t{g}\n" for q, docs in d.qrels.items() for i, g in docs.items()))
    b = load_beir(tmp_path)
    assert b.digest == SCIFACT_CORPUS and b.split("test").qrels_digest == d.qrels_digest


def test_a_changed_scifact_is_noticed(scifact_dir, tmp_path):
    for f in scifact_dir.parent.iterdir(): shutil.copy(f, tmp_path); (tmp_path / f.name).chmod(0o644)
    claims = (tmp_path / "claims_dev.jsonl").read_text()
    (tmp_path / "claims_dev.jsonl").write_text(claims[:claims.rindex("\n", 0, -1) + 1])
    with pytest.raises(DatasetError, match="not the published SciFact: claims digest"): load_scifact(tmp_path)
    assert len(load_scifact(tmp_path, check=False).splits["test"]) == 299


def test_bm25s_scores_as_others_have_measured(scifact_dir):
    bm25s, stemmer = pytest.importorskip("bm25s"), pytest.importorskip("Stemmer").Stemmer("english")
    from sci_rag.metrics import score_run
    d = load_scifact(scifact_dir.parent)
    rows, words = list(d.documents.rows()), lambda texts: bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
    index = bm25s.BM25(k1=1.5, b=.75); index.index(words([f"{r['title']} {r['text']}" for r in rows]), show_progress=False)
    for split, expected in (("train-development", .696), ("train-validation", .699), ("test", .686)):
        part = d.split(split)
        found, scores = index.retrieve(words(list(part.queries.values())), k=100, show_progress=False)
        run = {q: [(rows[j]["id"], float(s)) for j, s in zip(found[i], scores[i]) if s > 0] for i, q in enumerate(part.queries)}
        assert score_run(run, part.qrels, ["nDCG@10"])["nDCG@10"].mean() == pytest.approx(expected, abs=.001)


@pytest.mark.parametrize("text, message", [
    ('{"_id": "a", "text": "x"}\nnot json\n', "line 2: is not JSON"),
    ('{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}\n', "line 2: _id 'a' stands already in line 1"),
    ('{"_id": 3, "text": "x"}\n', "line 1: '_id' must be text"),
    ('{"_id": "a"}\n', "line 1: has no field 'text'"),
    ('[1]\n', "line 1: is not a JSON object"),
    ('{"_id": "a b", "text": "x"}\n', "white space"),
])
def test_malformed_lines_name_file_and_line(tmp_path, text, message):
    (tmp_path / "corpus.jsonl").write_text(text); (tmp_path / "qrels").mkdir()
    with pytest.raises(DatasetError, match="corpus.jsonl") as e: load_beir(tmp_path)
    assert message in str(e.value)


def test_a_broken_gzip_is_a_dataset_error(tmp_path):
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(b'{"_id": "a", "text": "x"}\n' * 1000)[:-20])
    with pytest.raises(DatasetError, match="cannot be read"): load_beir(tmp_path)


def test_not_utf8_is_a_dataset_error(tmp_path):
    (tmp_path / "q.jsonl").write_bytes(b'{"id": "a", "question": "\xff"}\n')
    with pytest.raises(DatasetError, match="cannot be read"): load_questions(tmp_path / "q.jsonl")


class Server(http.server.BaseHTTPRequestHandler):
    "Serves `data` with ranges; drops the line after `breaks` bytes as long as there are any"
    data, breaks, etag, ranges = b"", [], '"v1"', []
    def do_GET(self):
        r = self.headers.get("Range"); type(self).ranges.append(r)
        start = int(r[6:-1]) if r and self.headers.get("If-Range", self.etag) == self.etag else 0
        if r and start >= len(self.data): self.send_response(416); self.end_headers(); return
        body = self.data[start:]
        self.send_response(206 if start else 200); self.send_header("ETag", self.etag); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body[:self.breaks.pop(0)] if self.breaks else body)
    def log_message(self, *a): pass


@pytest.fixture
def server():
    class S(Server): data, breaks, ranges = bytes(range(256)) * 400, [], []
    srv = http.server.ThreadingHTTPServer(("127.0.0.1", 0), S)
    threading.Thread(target=srv.serve_forever, daemon=True).start()
    yield S, f"http://127.0.0.1:{srv.server_port}/x"
    srv.shutdown(); srv.server_close()


def test_a_download_that_breaks_off_is_continued(server, tmp_path):
    S, url = server
    S.breaks[:] = [50_000, 30_000]
    assert download(url, tmp_path / "x").read_bytes() == S.data
    assert S.ranges[0] is None and S.ranges[1].startswith("bytes=") and len(S.ranges) == 3
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_the_next_call_continues_too(server, tmp_path):
    S, url = server
    S.breaks[:] = [50_000]
    with pytest.raises(DatasetError, match="cannot be downloaded"): download(url, tmp_path / "x", attempts=1)
    assert not (tmp_path / "x").exists()
    assert download(url, tmp_path / "x").read_bytes() == S.data and S.ranges[-1] is not None


def test_a_file_that_changed_meanwhile_is_fetched_whole(server, tmp_path):
    S, url = server
    S.breaks[:] = [50_000]
    with pytest.raises(DatasetError): download(url, tmp_path / "x", attempts=1)
    S.data, S.etag = b"new" * 30_000, '"v2"'
    assert download(url, tmp_path / "x").read_bytes() == S.data


def test_offline_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(ds, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(ds, "SCIFACT_URL", "http://127.0.0.1:9/data.tar.gz")
    with pytest.raises(DatasetError, match="Fetch it on a machine with network access"): load_scifact()
    assert not (tmp_path / "scifact").exists()


def test_scifact_from_the_server(server, scifact_dir, tmp_path, monkeypatch):
    import io, tarfile
    S, url = server
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for f in scifact_dir.parent.iterdir():
            data = gzip.decompress(f.read_bytes()) if f.suffix == ".gz" else f.read_bytes()
            info = tarfile.TarInfo(f"data/{f.name.removesuffix('.gz')}"); info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    S.data, S.breaks[:] = buffer.getvalue(), [100_000]
    monkeypatch.setattr(ds, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(ds, "SCIFACT_URL", url)
    assert load_scifact().digest == SCIFACT_CORPUS
    asked = len(S.ranges)
    assert len(load_scifact().queries) == 1109 and len(S.ranges) == asked      # the second time from the cache


def test_questions_find_their_documents_in_a_corpus(tmp_path, corpus_name):
    from sci_rag import connect
    folder = tmp_path / "demo"; folder.mkdir()
    (folder / "ash.md").write_text("# Ash\n\nRice straw holds 14 % ash, most of it silica, which fuses late.\n")
    (folder / "hulls.md").write_text("# Hulls\n\nAlmond hulls are fed to dairy cows; the shells are burnt for heat.\n")
    q = lines(tmp_path / "questions.jsonl", [dict(id="q1", question="How much ash?", answer="14 %", documents=["demo/ash.md"], evidence=["14 %  ASH"], tags=["numeric"]),
                                             dict(id="q2", question="Who won?", documents=[], tags=["unanswerable"])])
    with connect(name=corpus_name, embedder="hashing") as corpus:
        corpus.ingest(folder)
        d = load_questions(q).resolve(corpus)
        ids = dict(corpus.db.fetch("SELECT source_ref, id FROM documents"))
        assert d.qrels == {"q1": {ids["ash.md"]: 1}} and set(d.queries) == {"q1", "q2"}
        assert len(ds.missing_evidence(d, dict(corpus.db.fetch("SELECT id, text FROM documents")))) == 0
        ev = corpus.evaluate(["bm25", "vector"], d.queries, d.qrels, metrics=["R@10"])
        assert ev.rows("bm25").loc["q1", "R@10"] == 1 and ev.context["unjudged"] == 1
        (folder / "ash.md").unlink(); corpus.delete(ids["ash.md"])
        with pytest.raises(DatasetError, match="not in the corpus: demo/ash.md"): load_questions(q).resolve(corpus)


def test_names_choose_a_loader(tmp_path):
    with pytest.raises(DatasetError, match="unknown dataset 'nope'"): load_dataset("nope")
    assert beir_digest([]) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
