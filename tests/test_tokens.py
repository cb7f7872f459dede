"""Token vectors: what is stored, what is scored, and what must be refused"""
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sci_rag.core import CorpusError, EmbeddingError, ModelMismatchError, ParameterError
from sci_rag.db import open_database
from sci_rag.encoder import EmbedderBase, HashingEmbedder
from sci_rag.ingest import DocumentInput, ingest
from sci_rag.tokens import (TokenProjection, best_matches, corpus_projection, exact_maxsim, fit_projection, maxsim, packed_maxsim, plan_tokens, principal,
                            moments, unit, unpack)

def eye(width, dims): return TokenProjection('m', np.zeros(width, np.float32), np.eye(width, dtype=np.float32)[:, :dims], 'test')

def plain(query, passage):
    "The formula, one pair at a time"
    cosine = lambda a, b: float(a @ b/np.linalg.norm(a)/np.linalg.norm(b))
    return sum(max(cosine(q, t) for t in passage) for q in np.asarray(query, float))


shapes = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@settings(max_examples=30, deadline=None)
@given(shapes, st.integers(1, 9), st.lists(st.integers(1, 40), min_size=1, max_size=8), st.integers(1, 80))
def test_exact_is_the_formula_and_stored_is_near(rng, n, sizes, width):
    query, passages = rng.standard_normal((n, width)), [rng.standard_normal((m, width)) for m in sizes]
    wanted = [plain(query, p) for p in passages]
    assert np.allclose(exact_maxsim(query, passages), wanted, atol=1e-4)
    p = eye(width, width)
    found = packed_maxsim(p.query_codes(query), [p.pack(x) for x in passages])
    assert np.allclose(found, wanted, atol=.02*n)


@settings(max_examples=20, deadline=None)
@given(shapes, st.integers(1, 12), st.integers(1, 64))
def test_stored_scores_do_not_depend_on_company(rng, n, dims):
    p, query = eye(64, dims), rng.standard_normal((n, 64))
    packed = [p.pack(rng.standard_normal((m, 64))) for m in rng.integers(1, 3000, 30)]       # more rows than a block
    q = p.query_codes(query)
    together = packed_maxsim(q, packed)
    assert [packed_maxsim(q, [x])[0] for x in packed] == together.tolist()
    assert packed_maxsim(q, packed[::-1])[::-1].tolist() == together.tolist()


def test_products_of_codes_are_whole_and_exact():
    for dims in (1, 32, 64, 128, 384):
        p = eye(384, dims); rng = np.random.default_rng(dims)
        q, y = p.query_codes(np.ones((2, 384))), np.full((3, 384), 1.)
        codes = np.frombuffer(p.pack(y).codes, np.int8).reshape(3, -1).astype(np.float32)
        product = codes @ q.codes.T
        assert abs(product).max() <= 2**24 and np.array_equal(product, codes.astype(np.int64) @ q.codes.T.astype(np.int64))


def test_degenerate_vectors():
    p = eye(4, 2)
    zero = np.zeros((2, 4))
    assert unpack(p.pack(zero)).tolist() == [[0, 0], [0, 0]]
    assert packed_maxsim(p.query_codes(zero), [p.pack(zero)]).tolist() == [0]
    assert np.isfinite(packed_maxsim(p.query_codes(np.eye(4)[2:]), [p.pack(np.eye(4))])).all()     # nothing left of the query
    with pytest.raises(EmbeddingError, match='NaN'): p.pack([[np.nan]*4])
    with pytest.raises(ParameterError, match='without tokens'): p.query_codes(np.zeros((0, 4)))
    with pytest.raises(ParameterError, match='matrix'): p.pack([1., 2.])
    with pytest.raises(ModelMismatchError, match='width 3'): p.pack(np.ones((1, 3)))
    assert exact_maxsim(np.ones((1, 2)), []).tolist() == [] and packed_maxsim(p.query_codes(np.eye(4)), []).tolist() == []


def test_axes_are_ordered_and_signed():
    rng = np.random.default_rng(0)
    m = moments(rng.standard_normal((400, 6))*np.arange(6, 0, -1))
    mean, axes, shares = principal(m)
    assert (np.diff(shares) <= 0).all() and abs(shares.sum() - 1) < 1e-9
    assert all(axes[abs(axes[:, j]).argmax(), j] > 0 for j in range(6))
    assert principal(m)[1].tobytes() == axes.tobytes()


# ---- in a corpus ---------------------------------------------------------------------------------------------------

TEXTS = {'iron': '# Iron\n\nFerritin rose in the treated group and fell in none.\n\nBirth weight did not change with iron.',
         'straw': '# Straw\n\nStraw ash melts early because potassium lowers its melting point.',
         'twin': '# Twin\n\nAn almond hull is fed to cows in winter.'}


def documents(): return [DocumentInput(id=k, text=v, format='markdown', source_ref=k, license='CC0') for k, v in TEXTS.items()]


@pytest.fixture
def corpus(corpus_name):
    with open_database(name=corpus_name) as db: yield db


class Plain(HashingEmbedder):
    "An encoder without token vectors"
    gives_tokens = False


def token_rows(db): return db.fetch('SELECT p.document_id, representation, ordinal, projection, tokens, codes, scales FROM token_vectors t JOIN passages p ON p.id = t.passage_id ORDER BY 1, 2, 3')


def test_ingest_keeps_them_once(corpus):
    e = HashingEmbedder()
    assert ingest(corpus, e, documents(), show_progress=False).ok and token_rows(corpus) == []
    for how, status in [(('chunk',), 'reindexed'), (('chunk',), 'unchanged'), ('chunk', 'unchanged'), (('title', 'chunk'), 'reindexed'), ((), 'reindexed'), (('chunk',), 'reindexed')]:
        report = ingest(corpus, e, documents(), token_vectors=how, show_progress=False)
        assert report.counts == {status: 3}, how
        assert {r[1] for r in token_rows(corpus)} == set([how] if isinstance(how, str) else how)
    assert len(corpus.fetch('SELECT 1 FROM token_projections')) == 1
    first = token_rows(corpus)
    assert ingest(corpus, e, documents(), token_vectors='chunk', token_dims=16, show_progress=False).counts == {'reindexed': 3}
    assert {len(r[5]) for r in token_rows(corpus)} == {16*r[4] for r in first}
    assert corpus.get_meta('token_vectors')['projection'] == token_rows(corpus)[0][3]


def test_vectors_are_those_of_an_ingest_without(corpus, corpus_name):
    e, vectors = HashingEmbedder(), 'SELECT document_id, representation, ordinal, embedding::text FROM passages ORDER BY 1, 2, 3'
    ingest(corpus, e, documents(), show_progress=False)
    before = corpus.fetch(vectors)
    ingest(corpus, e, documents(), token_vectors='chunk', show_progress=False)
    assert corpus.fetch(vectors) == before


def test_scores_provenance_and_deletion(corpus):
    e = HashingEmbedder()
    ingest(corpus, e, documents(), token_vectors=('chunk', 'title'), token_dims=64, show_progress=False)
    query = e.encode_query_tokens('potassium lowers the melting point of straw ash')[1]
    with corpus.session() as conn:
        found = maxsim(conn, query, ['iron', 'straw', 'twin', 'straw'], model=e.version)
        assert list(found) == ['iron', 'straw', 'twin'] and max(found, key=lambda d: found[d][0]) == 'straw'
        texts, p = dict(conn.execute("SELECT id, index_text FROM passages").fetchall()), corpus_projection(corpus, e, 64)
        for d, (score, passage) in found.items():
            tokens = {}; e.encode_with_tokens([texts[passage]], lambda t, m: tokens.update(m=m.copy()))
            assert abs(score - exact_maxsim(unit(query) - p.mean, [unit(tokens['m']) - p.mean])[0]) < .1     # nothing lost but by rounding to a byte
        both = maxsim(conn, query, ['straw'], ('title', 'chunk'))
        assert both['straw'] == max(found['straw'], maxsim(conn, query, ['straw'], 'title')['straw'])
        assert maxsim(conn, query, []) == {}
        for ids, view in ((['straw', 'nowhere'], 'chunk'), (['straw'], 'whole')):
            with pytest.raises(CorpusError, match='no token vectors'): maxsim(conn, query, ids, view)
        with pytest.raises(ModelMismatchError): maxsim(conn, query, ['straw'], model='another')
    corpus.execute("DELETE FROM documents WHERE id = 'straw'")
    assert 'straw' not in {r[0] for r in token_rows(corpus)}


def test_equal_scores_name_the_earlier_passage(corpus):
    e = HashingEmbedder(); plan = plan_tokens(corpus, e)
    corpus.execute("INSERT INTO documents (id, content_hash, text, index_hash) VALUES ('d', 'd', '', '')")
    with corpus.session() as conn:
        for ordinal in (2, 0, 1):
            conn.execute("INSERT INTO passages (document_id, representation, ordinal, text, index_text, token_count) VALUES ('d', 'chunk', %s, '', 'same words', 2)", (ordinal,))
        class Same:
            index_text, is_reference = 'same words', False
            def __init__(self, ordinal): self.ordinal = ordinal
        from sci_rag.tokens import save_tokens
        save_tokens(conn, 'd', plan.encode(e, ['same words'], [{'chunk': [Same(i) for i in range(3)]}])[1][0])
        passage = maxsim(conn, e.encode_query_tokens('words')[1], ['d'])['d'][1]
    assert corpus.fetch('SELECT ordinal FROM passages WHERE id = %s', (passage,)) == [(0,)]


def test_references_are_left_out_unless_there_is_nothing_else(corpus):
    class P:
        def __init__(self, i, ref): self.index_text, self.ordinal, self.is_reference = f'text {i}', i, ref
    plan = plan_tokens(corpus, HashingEmbedder())
    assert [c.ordinal for _, c in plan.wanted({'chunk': [P(0, False), P(1, True), P(2, False)]})] == [0, 2]
    assert [c.ordinal for _, c in plan.wanted({'chunk': [P(0, True)]})] == [0] and plan.wanted({}) == []
    assert pickle.loads(pickle.dumps(plan)).facts == plan.facts


def test_what_cannot_be_is_refused_before_anything_is_stored(corpus):
    for e, names in ((Plain(), 'chunk'), (HashingEmbedder(), 'coref-nominal-dp-colbert'), (HashingEmbedder(), 'chnk')):
        with pytest.raises((EmbeddingError, CorpusError)): ingest(corpus, e, documents(), token_vectors=names, show_progress=False)
    assert corpus.embedding() is None and corpus.fetch('SELECT count(*) FROM documents') == [(0,)]
    with pytest.raises(ParameterError, match='dims'): ingest(corpus, HashingEmbedder(), documents(), token_vectors='chunk', token_dims=1000, show_progress=False)
    with pytest.raises(EmbeddingError, match='no token vectors'): Plain().encode_query_tokens('a')
    assert EmbedderBase.gives_tokens is False


def test_the_projection_stays_with_the_corpus(corpus, monkeypatch, tmp_path):
    monkeypatch.setenv('SCI_RAG_DATA_DIR', str(tmp_path))
    e = HashingEmbedder()
    ingest(corpus, e, documents()[:1], token_vectors='chunk', token_dims=8, show_progress=False)
    was = corpus.fetch('SELECT version FROM token_projections')
    ingest(corpus, e, documents(), token_vectors='chunk', token_dims=8, show_progress=False)
    assert corpus.fetch('SELECT version FROM token_projections') == was and {r[3] for r in token_rows(corpus)} == {was[0][0]}
    assert fit_projection(e, 8, ['some text']).version == fit_projection(e, 8, ['some text']).version


def test_best_matches_takes_stretches():
    assert best_matches(np.array([[1., -5], [3, -7], [-2, -1]]), [0, 2]).tolist() == [[3, -5], [-2, -1]]
