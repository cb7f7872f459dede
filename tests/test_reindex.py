"A new encoder for an old corpus: searchable all the time, never two models, and a killed run loses a batch at most"
import os, signal, subprocess, sys, textwrap, threading, time

import numpy as np, pytest

from sci_rag.core import CorpusError, EmbeddingError, ModelMismatchError
from sci_rag.corpus import connect
from sci_rag.db import open_database
from sci_rag.embed import HashingEmbedder
from sci_rag.ingest import DocumentInput, ingest
from sci_rag.reindex import plan_reindex, reindex
from sci_rag.retrieve import search
from sci_rag.scope import Scope


class Other(HashingEmbedder):
    "Another model of the same dimension: the same words, other places"
    def __init__(self, *args, **kw): super().__init__(*args, **kw); self.version = self.model = f"other:{self.dim}"
    def _run(self, *args): return np.ascontiguousarray(super()._run(*args)[:, ::-1])


class Slow(Other):
    "Takes its time over each batch, and tells that it does"
    def __init__(self, *args, pause=.2, **kw): super().__init__(*args, **kw); self.pause, self.batches = pause, 0
    def encode_documents(self, texts, **kw): time.sleep(self.pause); self.batches += 1; return super().encode_documents(texts, **kw)


def docs(n, start=0): return [DocumentInput(id=f"d{i:03}", title=f"Lot {i} of straw", text=f"# Lot {i}\n\nStraw lot {i} of farm {i % 7} held {10 + i} percent ash and was burnt in autumn.") for i in range(start, start + n)]


@pytest.fixture
def db(corpus_name):
    with open_database(name=corpus_name) as db: yield db


def models(db): return {r[0] for r in db.fetch("SELECT DISTINCT embedding_version FROM passages")}
def hnsw(db): return [r[0] for r in db.fetch("SELECT c.relname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'hnsw' AND c.relnamespace = to_regnamespace(%s)", [db.schema])]
def found(db, e, **kw): return [h.document_id for h in search(db, e, "straw lot 7 ash", strategy="vector", strict=True, **kw)]


@pytest.mark.parametrize("new", [Other(dim=64), HashingEmbedder(dim=96), HashingEmbedder(dim=2100)], ids=["same dimension", "other dimension", "too many for an index"])
def test_equals_a_corpus_made_with_the_new_model(db, new, corpus_name):
    old = HashingEmbedder(dim=64)
    ingest(db, old, docs(40), show_progress=False)
    before = db.fingerprint()["digest"]
    plan = reindex(db, new)
    assert not plan.done and plan.texts == 40 and models(db) == {old.version} and "dry run" in repr(plan)
    assert reindex(db, new, dry_run=False, batch=16).done
    assert models(db) == {new.version} and db.embedding()["version"] == new.version and db.embedding()["dim"] == new.dim
    assert len(hnsw(db)) == (new.dim <= 2000) and not db.fetch("SELECT 1 FROM next_embeddings")
    assert found(db, new) and db.fingerprint()["digest"] == before
    with pytest.raises(ModelMismatchError): found(db, old)
    stored = db.fetch("SELECT index_text, embedding FROM passages ORDER BY id")
    assert np.allclose(np.stack([v for _, v in stored]), new.encode_documents([t for t, _ in stored], progress=False), atol=1e-6)
    assert ingest(db, new, docs(40), show_progress=False).counts == {"unchanged": 40}
    assert not plan_reindex(db, new).pending and db.fetch("SELECT count(*) FROM passages WHERE tsv IS NULL") == [(0,)]


def test_there_and_back(db):
    "Twice over the column of another dimension"
    a, b = HashingEmbedder(dim=64), HashingEmbedder(dim=96)
    ingest(db, a, docs(10), show_progress=False)
    want = found(db, a)
    for e in (b, a, b, a): reindex(db, e, dry_run=False)
    assert found(db, a) == want and ingest(db, a, docs(12), show_progress=False).counts == {"added": 2, "unchanged": 10}


def test_only_what_is_stale(db):
    e = HashingEmbedder()
    ingest(db, e, docs(10), show_progress=False)
    db.execute("UPDATE passages SET embedding = NULL, embedding_version = NULL WHERE document_id < 'd003'")
    assert reindex(db, e).texts == 3 and reindex(db, e, dry_run=False).texts == 3
    assert models(db) == {e.version} and reindex(db, e, dry_run=False).texts == 0
    db.execute("DROP INDEX passages_hnsw_chunk"); reindex(db, e, dry_run=False)
    assert hnsw(db), "an index that is missing is built"


def test_an_empty_corpus(db):
    assert reindex(db, HashingEmbedder()).texts == 0 and not reindex(db, HashingEmbedder(), dry_run=False).done


def test_unembedded_views_stay(db):
    "Views that are only read have no vector, before and after"
    from sci_rag.views import _views
    names = [n for n, v in _views.items() if not v.embedded and not v.coref and n != "chunk"][:1]
    ingest(db, HashingEmbedder(), docs(3), representations=["chunk", "title", *names], show_progress=False)
    new = HashingEmbedder(dim=96)
    reindex(db, new, dry_run=False)
    assert dict(db.fetch("SELECT representation, count(*) - count(embedding) FROM passages GROUP BY 1")) == {"chunk": 0, "title": 0, **{n: 3 for n in names}}
    assert len(hnsw(db)) == 2 and ingest(db, new, docs(3), representations=["chunk", "title", *names], show_progress=False).counts == {"unchanged": 3}


@pytest.mark.parametrize("dim", [64, 96])
def test_searches_go_on_and_never_mix(db, dim):
    "While passages are encoded and switched, a search gets the old model's answer or the error that names the new one"
    old, new = HashingEmbedder(dim=64), Slow(dim=dim, pause=.05)
    ingest(db, old, docs(60), show_progress=False)
    want, seen, stop = found(db, old), [], threading.Event()
    def look():
        while not stop.is_set():
            try: seen.append(found(db, old))
            except ModelMismatchError: seen.append("refused")
    threads = [threading.Thread(target=look) for _ in range(3)]
    for t in threads: t.start()
    reindex(db, new, dry_run=False, batch=10)
    stop.set()
    for t in threads: t.join()
    answers = [s for s in seen if s not in ("refused", [])]      # []: a snapshot from before a column of another dimension
    assert answers and all(s == want for s in answers) and seen.count([]) <= 3*(dim != 64)
    assert found(db, new)[0] and seen[0] == want


KILLED = """
    import sys, time
    sys.path.insert(0, {tests!r})
    from test_reindex import Slow
    from sci_rag.db import open_database
    from sci_rag.reindex import reindex
    with open_database(name={name!r}) as db:
        print('begun', flush=True)
        reindex(db, Slow(dim={dim}, pause=.4), dry_run=False, batch=5)
"""


@pytest.mark.parametrize("dim", [64, 96])
def test_killed_in_the_middle(db, corpus_name, dim):
    "The old model works on; what was encoded is kept; the rerun encodes the rest"
    old, new = HashingEmbedder(dim=64), Slow(dim=dim, pause=0)
    ingest(db, old, docs(30), show_progress=False)
    want = found(db, old)
    code = textwrap.dedent(KILLED).format(tests=os.path.dirname(__file__), name=corpus_name, dim=dim)
    p = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    p.stdout.readline()
    while db.fetch("SELECT count(*) FROM next_embeddings")[0][0] < 10: time.sleep(.02)
    p.send_signal(signal.SIGKILL); p.wait()
    ready = db.fetch("SELECT count(*) FROM next_embeddings")[0][0]
    assert 10 <= ready < 30 and models(db) == {old.version} and found(db, old) == want and hnsw(db)
    assert ingest(db, old, docs(31), show_progress=False).counts == {"added": 1, "unchanged": 30}, "the old model still ingests"
    assert plan_reindex(db, new).texts == 31 - ready
    report = reindex(db, new, dry_run=False, batch=100)
    assert report.texts == 31 - ready and new.batches == 1 and models(db) == {new.version}


def test_another_target_throws_away_what_waits(db):
    old, one, two = HashingEmbedder(dim=64), Other(dim=64), HashingEmbedder(dim=96)
    ingest(db, old, docs(6), show_progress=False)
    from sci_rag.reindex import _encode_batch
    _encode_batch(db, one, ["chunk"], 4)
    assert reindex(db, two, dry_run=False).texts == 6 and models(db) == {two.version}


def test_documents_that_come_and_go_meanwhile(db):
    "Ingested, replaced and deleted during the encoding: all are in the switch, none is left behind"
    old, new = HashingEmbedder(dim=64), Slow(dim=96, pause=.15)
    ingest(db, old, docs(30), show_progress=False)
    t = threading.Thread(target=reindex, args=(db, new), kwargs=dict(dry_run=False, batch=5))
    t.start()
    ingest(db, old, docs(3, 100), show_progress=False)
    db.execute("DELETE FROM documents WHERE id IN ('d000', 'd029')")
    t.join()
    assert models(db) == {new.version} and db.fetch("SELECT count(*), count(embedding) FROM passages") == [(31, 31)]


def test_a_writer_of_the_old_model_is_refused_after_the_switch(db):
    "An ingest that began before the switch cannot store what it encoded"
    class Waits(HashingEmbedder):
        def encode_documents(self, texts, **kw):
            v = super().encode_documents(texts, **kw)
            reindex(db, Other(dim=64), dry_run=False)
            return v
    ingest(db, HashingEmbedder(dim=64), docs(5), show_progress=False)
    report = ingest(db, Waits(dim=64), docs(6), show_progress=False)
    assert report.counts == {"failed": 1, "unchanged": 5} and "bound to other:64" in report.df.reason.str.cat()
    assert models(db) == {"other:64"}


def test_one_at_a_time(db):
    ingest(db, HashingEmbedder(dim=64), docs(20), show_progress=False)
    t = threading.Thread(target=reindex, args=(db, Slow(dim=64, pause=.3)), kwargs=dict(dry_run=False, batch=5))
    t.start(); time.sleep(.3)
    with pytest.raises(CorpusError, match="another process"): reindex(db, HashingEmbedder(dim=96), dry_run=False)
    t.join()
    assert models(db) == {"other:64"}


def test_a_smaller_window_is_refused(db):
    "Passages that the new model cannot read are not cut in silence"
    ingest(db, HashingEmbedder(max_tokens=256), [DocumentInput(id="long", text="Straw is burnt in a boiler. " * 60)], show_progress=False)
    with pytest.raises(EmbeddingError, match="longer than the 32 tokens.*long"): reindex(db, HashingEmbedder(dim=96, max_tokens=32), dry_run=False)
    assert db.embedding()["dim"] == 64 and not db.fetch("SELECT 1 FROM next_embeddings")


def test_a_model_that_fails_leaves_the_old_one(db):
    class Broken(Other):
        def encode_documents(self, texts, **kw):
            if any("lot 7" in t for t in texts): raise EmbeddingError("the service is away")
            return super().encode_documents(texts, **kw)
    old = HashingEmbedder(dim=64)
    ingest(db, old, docs(10), show_progress=False)
    want = found(db, old)
    with pytest.raises(EmbeddingError, match="away"): reindex(db, Broken(dim=64), dry_run=False, batch=3)
    assert found(db, old) == want and reindex(db, Other(dim=64), dry_run=False).texts == 4


def test_scopes_hold_afterwards(db):
    old, new = HashingEmbedder(dim=64), HashingEmbedder(dim=96)
    ingest(db, old, docs(10), show_progress=False)
    db.execute("UPDATE documents SET license_class = 'public' WHERE id < 'd005'")
    reindex(db, new, dry_run=False)
    assert set(found(db, new, scope=Scope.external(), limit=20)) == {f"d00{i}" for i in range(5)}


def test_the_corpus_takes_over(corpus_name):
    with connect(name=corpus_name, embedder=HashingEmbedder(dim=64)) as a: a.ingest(docs(5), show_progress=False)
    with connect(name=corpus_name, embedder=HashingEmbedder(dim=96)) as b:
        with pytest.raises(ModelMismatchError): b.search("ash")
        assert b.reindex().texts == 5 and b.reindex(dry_run=False).done
        assert len(b.search("ash")) and b.ingest(docs(6), show_progress=False).counts == {"added": 1, "unchanged": 5}
