"""Scorers: the numbers of the generators for any pool and any scope, the best view of a document, and nothing about what may not be seen"""
import uuid

import numpy as np
import pytest

from sci_rag.core import EmbeddingError, ParameterError, ScopeError, SettingsError, StrategyError
from sci_rag.db import open_database
from sci_rag.embed import HashingEmbedder
from sci_rag.ingest import DocumentInput, ingest
from sci_rag.layers import bm25, vector
from sci_rag.rerank import Scored, register_reranker
from sci_rag.scope import Scope
from sci_rag.scorers import SCORERS, Pool, Question, Scorer, Scores, best_view, register_scorer, scorer
from test_retrieve import LICENCES, text_of

VIEWS = ("title", "sentence-pack", "coref-propn-sentence", "coref-nominal-sentence", "coref-nominal-dp-colbert")
SCOPES = [None, Scope.external(), Scope(exclude=["d1", "d7"]), Scope(years=(2005, 2011)), Scope(license_classes=["restricted"])]
IDS = [f"d{i}" for i in range(40)]
QUERIES = ["straw yield in Colusa", "almond hull ash price", "potassium", "zzz nothing", "the of and"]


@pytest.fixture(scope="module")
def encoder(): return HashingEmbedder()


@pytest.fixture(scope="module")
def db(encoder):
    db = open_database(name=f"test_{uuid.uuid4().hex[:12]}")
    ingest(db, encoder, [DocumentInput(id=i, text=text_of(n), title=f"Report {n} of straw", year=2000 + n % 20, license=LICENCES[n % 5]) for n, i in enumerate(IDS)],
           representations=VIEWS, show_progress=False)
    yield db
    db.drop()


@pytest.fixture
def conn(db):
    with db.session(readonly=True) as c: yield c


@pytest.fixture
def ask(encoder): return lambda text: Question(text, lambda: encoder.encode_queries([text])[0])


class Marks:
    "A reranker whose scores are made of a function of the text"
    name, version, score_name, truncated = "marks", "1", "mark", 0
    def __init__(self, mark=len): self.mark, self.seen = mark, []
    def score(self, query, texts, timeout_s=None):
        self.seen.append((query, list(texts), timeout_s))
        return Scored(tuple(float(self.mark(t)) for t in texts), self.truncated)


@pytest.fixture
def marks():
    "marks(function) -> (name, reranker)"
    def make(mark=len):
        r, name = Marks(mark), f"marks-{uuid.uuid4().hex[:8]}"
        register_reranker(name, lambda settings: r)
        return name, r
    return make


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("query", QUERIES)
def test_bm25_gives_the_generators_numbers(conn, ask, query, scope):
    q, inside = ask(query), set((scope or Scope()).documents(conn))
    found = {c.document_id: c.score for c in bm25(conn, q, scope or Scope(), 10_000)}
    for pool in (IDS, IDS[::3], IDS[:1]):
        got = scorer("bm25").score(conn, q, pool, scope)
        assert {d: got[d] for d in got.by_id} == {d: found.get(d, 0.) for d in pool if d in inside}


def test_bm25_takes_its_parameters(conn, ask):
    q = ask("straw yield")
    for k1, b in ((0, 0), (2.2, .4), (1.5, 1)):
        found = {c.document_id: c.score for c in bm25(conn, q, Scope(), 100, k1=k1, b=b)}
        assert {d: s for d, (s, _) in scorer("bm25").score(conn, q, IDS, k1=k1, b=b).by_id.items() if s} == found


def test_bm25_of_passages(conn, ask):
    q = ask("straw yield in Colusa")
    found = {c.passage_id: c.score for c in bm25(conn, q, Scope(), 10_000, level="passage")}
    got = scorer("bm25").score(conn, q, Pool([*found], "passage"))
    assert {p: got[p] for p in got.by_id} == found


@pytest.mark.parametrize("views", ["chunk", "title", ("coref-propn-sentence", "coref-nominal-sentence"), ("title", "sentence-pack")])
@pytest.mark.parametrize("scope", SCOPES)
def test_vector_is_the_best_passage_of_all_views(conn, ask, views, scope):
    names = [views] if isinstance(views, str) else list(views)
    q = ask("straw yield in Colusa")
    rows = conn.execute("SELECT document_id, id, representation, ordinal, embedding FROM passages WHERE representation = ANY(%s)", (names,)).fetchall()
    inside, v = set((scope or Scope()).documents(conn)), q.vector()
    got = scorer("vector").score(conn, q, IDS[:20], scope, representation=views)
    assert set(got.by_id) == inside & set(IDS[:20])
    for d, (s, p) in got.by_id.items():
        cosines = {r[1]: float(np.dot(np.asarray(r[4], dtype=float), v)/np.linalg.norm(r[4])/np.linalg.norm(v)) for r in rows if r[0] == d}
        assert s == pytest.approx(max(cosines.values()), abs=1e-6) and cosines[p] == pytest.approx(s, abs=1e-6)


def test_vector_gives_the_generators_numbers(conn, ask):
    q = ask("almond hulls")
    for view in ("chunk", "sentence-pack"):
        found = {c.document_id: (c.score, c.passage_id) for c in vector(conn, q, Scope(), 100, representation=view, collapse="document")}
        assert scorer("vector").score(conn, q, IDS, representation=view).by_id == found


def test_equal_passages_give_the_earlier_one(corpus_name, encoder, ask):
    with open_database(name=corpus_name) as db:
        ingest(db, encoder, [DocumentInput(id="twice", text="Straw burns well here. " * 2 + "Ash is what is left.")], representations=["coref-propn-sentence"], show_progress=False)
        with db.session(readonly=True) as conn:
            _, p = scorer("vector").score(conn, ask("straw burns"), ["twice"], representation="coref-propn-sentence").by_id["twice"]
            assert conn.execute("SELECT ordinal FROM passages WHERE id = %s", (p,)).fetchone() == (0,)


@pytest.mark.parametrize("scope", SCOPES[1:] + [Scope(license_classes=[])])
def test_nothing_out_of_scope_is_scored_or_sent(conn, ask, marks, scope):
    inside = set(scope.documents(conn))
    name, r = marks()
    for judge, params in (("bm25", {}), ("vector", {}), ("rerank", dict(reranker=name)), ("rerank", dict(reranker=name, representation="sentence-pack", aggregation="mean"))):
        assert set(scorer(judge).score(conn, ask("straw"), [*IDS, "nobody"], scope, **params).by_id) == inside
    secret = {t for d, t in conn.execute("SELECT id, text FROM documents").fetchall() if d not in inside}
    assert not any(s in text for _, texts, _ in r.seen for text in texts for s in secret)


def test_the_best_view_wins_and_equals_give_the_lower_ordinal(conn, ask, marks):
    name, r = marks(lambda t: 1 if "straw" in t else 0)
    view = "coref-propn-sentence"
    rows = {(d, o): (p, t) for d, o, p, t in conn.execute("SELECT document_id, ordinal, id, index_text FROM passages WHERE representation = %s", (view,)).fetchall()}
    got = scorer("rerank").score(conn, ask("q"), IDS, reranker=name, representation=view)
    for d in IDS:
        mine = {o: (1 if "straw" in t else 0, p) for (dd, o), (p, t) in rows.items() if dd == d}
        best = max(s for s, _ in mine.values())
        first = min(o for o, (s, _) in mine.items() if s == best)
        assert got.by_id[d] == (best, mine[first][1])
    mean = scorer("rerank").score(conn, ask("q"), ["d3"], reranker=name, representation=view, aggregation="mean")
    mine = [1 if "straw" in t else 0 for (d, _), (_, t) in sorted(rows.items()) if d == "d3"]
    assert mean["d3"] == pytest.approx(sum(mine)/len(mine))


def test_a_missing_view_is_an_error(corpus_name, encoder, ask, marks):
    name, r = marks()
    with open_database(name=corpus_name) as db:
        ingest(db, encoder, [DocumentInput(id="with", text="Straw burns.")], representations=["coref-nominal-dp-colbert"], show_progress=False)
        ingest(db, encoder, [DocumentInput(id="without", text="Ash is left.")], show_progress=False)
        with db.session(readonly=True) as conn:
            with pytest.raises(StrategyError, match="1 of 2 documents have no passage 'coref-nominal-dp-colbert'"):
                scorer("rerank").score(conn, ask("straw"), ["with", "without"], reranker=name, representation="coref-nominal-dp-colbert")
            with pytest.raises(StrategyError, match="no passages 'token-window'"): scorer("vector").score(conn, ask("straw"), ["with"], representation="token-window")
            assert set(scorer("vector").score(conn, ask("straw"), ["with", "without"]).by_id) == {"with", "without"}
    assert not r.seen, "nothing is sent where a view is missing"


def test_what_a_reranker_reads(conn, ask, marks):
    name, r = marks()
    got = scorer("rerank").score(conn, ask("the question"), ["d5", "d2"], seconds=7., reranker=name)
    (query, texts, seconds), = r.seen
    assert query == "the question" and seconds == 7. and [t.split("\n")[0] for t in texts] == ["Report 5 of straw", "Report 2 of straw"]
    assert [got[d] for d in ("d5", "d2")] == [len(t) for t in texts] and got.by_id["d5"][1] is None


def test_the_session_is_free_while_a_service_works(db, ask, marks):
    name, r = marks()
    with db.session(readonly=True) as conn: finish = scorer("rerank").begin(conn, ask("q"), Pool(["d1"]), None, reranker=name)
    assert callable(finish) and not r.seen
    assert set(finish(5.).by_id) == {"d1"}


def test_truncation_is_counted(corpus_name, encoder, ask, marks):
    name, r = marks()
    with open_database(name=corpus_name) as db:
        ingest(db, encoder, [DocumentInput(id="long", text="Straw burns well in here. " * 2000), DocumentInput(id="short", text="Ash is left.")], show_progress=False)
        with db.session(readonly=True) as conn:
            assert scorer("rerank").score(conn, ask("straw"), ["long", "short"], reranker=name).info == {"texts": 2, "truncated": 1}
            assert max(len(t) for t in r.seen[-1][1]) <= 20_000
            r.truncated = 2
            assert scorer("rerank").score(conn, ask("straw"), ["short"], reranker=name).info == {"texts": 1, "truncated": 2}


def test_wrong_use_is_told(conn, ask):
    for call, error, says in [
            (lambda: scorer("bm52"), StrategyError, "Did you mean bm25"), (lambda: scorer("bm25").score(conn, "q", IDS, k2=1), ParameterError, "has no parameter 'k2'"),
            (lambda: scorer("bm25").score(conn, "q", IDS, k1=-1), ParameterError, "k1 must be"), (lambda: scorer("bm25").score(conn, "q", IDS, scope="public"), ScopeError, "must be a Scope"),
            (lambda: scorer("vector").score(conn, ask("q"), IDS, representation="x'y"), ParameterError, "cannot be a representation"),
            (lambda: scorer("vector").score(conn, ask("q"), IDS, representation=()), ParameterError, "a representation is needed"),
            (lambda: scorer("rerank").score(conn, "q", IDS, reranker="msmarco", aggregation="sum"), ParameterError, "max or mean"),
            (lambda: scorer("rerank").check(reranker="colbert"), SettingsError, "rerank_colbert"), (lambda: Pool(["a"], "page"), ParameterError, "documents or passages"),
            (lambda: scorer("token-maxsim").score(conn, "q", Pool([1], "passage")), StrategyError, "cannot score passages"),
            (lambda: scorer("token-maxsim").score(conn, "q", IDS), StrategyError, "token vectors"),
            (lambda: register_scorer(Scorer("bm25", lambda *a: Scores())), StrategyError, "another scorer is registered")]:
        with pytest.raises(error, match=says): call()
    assert {"bm25", "vector", "rerank", "token-maxsim"} <= set(SCORERS)


def test_an_empty_pool_asks_nobody(ask):
    for name in SCORERS: assert len(scorer(name).score(None, ask("q"), [])) == 0
    assert best_view([]) == {}
