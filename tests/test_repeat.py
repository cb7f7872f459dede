"""The same corpus and the same code give the same rankings and metrics to the last digit, on any fresh database"""
from pathlib import Path

import pytest

import sci_rag
from sci_rag.datasets import load_questions
from sci_rag.metrics import write_run

seeds = Path(__file__).parent.parent / "seeds"
NAMES = ["interactive", "bm25", "keyword", "vector", "bm25-vector-rrf", "bm25-vector-convex"]


@pytest.fixture
def names(corpus_name): return corpus_name, corpus_name + "_b"


def test_two_fresh_databases_agree_to_the_last_digit(names, tmp_path):
    "Real vectors; the second database gets the documents in the opposite order"
    files = [f for f in sorted((seeds / "demo").glob("*.md"))[:6]]
    runs, scores, digests = [], [], []
    for name, order in zip(names, (files, files[::-1])):
        with sci_rag.connect(name=name, embedder="minilm") as corpus:
            for f in order: assert corpus.ingest(f, show_progress=False).ok
            data = load_questions(seeds / "questions.jsonl")
            held = {d for d in corpus.documents().source_ref}
            some = {q: data.queries[q] for q, docs in data.qrels.items() if set(docs) <= held}
            ids = dict(zip(corpus.documents().source_ref, corpus.documents().id))
            qrels = {q: {ids[d]: g for d, g in data.qrels[q].items()} for q in some}
            ev = corpus.evaluate(NAMES, some, qrels, metrics=["nDCG@10", "AP"])
            digests.append(corpus.fingerprint()["digest"])
            runs.append({s: write_run(ev.runs[s], tmp_path / f"{name}-{s}", s).read_text() for s in NAMES})
            scores.append(ev.per_query.drop(columns="latency_ms"))
            corpus.db.drop()
    assert len(some) >= 10
    assert digests[0] == digests[1]
    assert runs[0] == runs[1]
    assert scores[0].equals(scores[1])
