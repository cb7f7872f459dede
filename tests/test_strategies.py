"""Strategies with scorers: hand-made orders, services that lie, fallbacks that were asked for, and text that nobody wrote"""
import json, math, time, uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from sci_rag.core import ParameterError, SettingsError, StrategyError
from sci_rag.db import open_database
from sci_rag.embed import HashingEmbedder
from sci_rag.fusion import competition_ranks, fuse, robust_scale
from sci_rag.ingest import DocumentInput, ingest
from sci_rag.layers import GENERATORS, Candidate, LayerResult
from sci_rag.named import OURS, PUBLISHED, channel, judge, needs
from sci_rag.rerank import RerankService, register_reranker, surrogate_service
from sci_rag.retrieve import search
from sci_rag.scope import Scope
from sci_rag.scorers import SCORERS, Scorer, Scores
from sci_rag.strategy import GeneratorSpec, ScorerSpec, Strategy, get_strategy, strategies
from sci_rag.views import representations
from test_retrieve import LICENCES, Made, text_of

NAMES = """keyword bm25 token-window sentence-pack coref-aware-pack coref-interval-pack coref-propn coref-nominal coref-max title-token-window-rrf hybrid-rrf
bm25-token-window-rrf bm25-coref-propn-rrf bm25-coref-nominal-rrf bm25-coref-max-rrf bm25-sentence-pack-rrf bm25-coref-aware-pack-rrf bm25-coref-interval-pack-rrf
rerank-msmarco pooled-four-channel-rrf pooled-msmarco-rrf pooled-four-channel-robust-sum pooled-colbert pooled-sentence-pack-rrf pooled-coref-aware-pack-rrf
pooled-coref-interval-pack-rrf pooled-coref-interval-msmarco pooled-coref-interval-colbert pooled-coref-interval-rankzephyr pooled-coref-nominal-dp-colbert
pooled-coref-interval-multiview-colbert pooled-coref-interval-content-max-colbert pooled-coref-interval-raw-mean-colbert""".split()
SERVED = [n for n in NAMES if needs(n)["rerankers"]]
ROLES = {"colbert": None, "msmarco": "tei", "rankzephyr": "rankllm"}
WITHOUT_SERVICE = [n for n in NAMES if n not in SERVED]


@pytest.fixture(scope="module")
def encoder(): return HashingEmbedder()


@pytest.fixture(scope="module")
def db(encoder):
    db = open_database(name=f"test_{uuid.uuid4().hex[:12]}")
    ingest(db, encoder, [DocumentInput(id=f"d{i}", text=text_of(i) + " Dr. Voss published her paper. She said that it burns.", title=f"Report {i}", year=2000 + i % 20, license=LICENCES[i % 5])
                         for i in range(80)], representations=representations(), show_progress=False)
    yield db
    db.drop()


@pytest.fixture
def served(encoder):
    "served(change=…): all three roles are played by a local surrogate; afterwards by nobody"
    from sci_rag.rerank import _configured
    open_, settings = [], {"colbert": "rerank_colbert", "msmarco": "rerank_cross_encoder", "rankzephyr": "rerank_listwise"}
    def make(**kwargs):
        context = surrogate_service(encoder, **kwargs)
        service = context.__enter__(); open_.append(context)
        for role, form in ROLES.items(): register_reranker(role, lambda s, form=form: RerankService(service.url, "surrogate", form, attempts=1), replace=True)
        return service
    yield make
    for role, setting in settings.items(): register_reranker(role, _configured(setting), replace=True)
    for c in open_: c.__exit__(None, None, None)


@pytest.fixture
def stub():
    "stub(name=[(id, score), …]) registers generators; scorer(name, function) a scorer; until the end of the test"
    made = []
    class Stub:
        def generators(self, **lists):
            for name, rows in lists.items():
                GENERATORS[name] = Made(name, lambda conn, q, scope, limit, rows=rows: LayerResult([Candidate(d, None, s) for d, s in rows][:limit], {}), unit="document"); made.append((GENERATORS, name))
            return [*lists]
        def scorer(self, name, function, **kwargs):
            SCORERS[name] = Scorer(name, function, **kwargs); made.append((SCORERS, name))
            return name
    yield Stub()
    for registry, name in made: registry.pop(name, None)


# ---------------------------------------------------------------- arithmetic

def test_competition_ranks_by_hand():
    assert competition_ranks({"a": 3., "b": 9., "c": 3., "d": 1., "e": 3.}) == {"b": 1, "a": 2, "c": 2, "e": 2, "d": 5}


def test_robust_normaliser_by_hand():
    sigma = lambda x: 1/(1 + math.exp(-x))
    got = robust_scale({"a": 0, "b": 1, "c": 2, "d": 3})
    assert [got[k] for k in "abcd"] == pytest.approx([sigma(.6745*(x - 1.5)/1) for x in range(4)], abs=1e-12)
    assert list(robust_scale({"a": 0, "b": 0, "c": 0, "d": 10}).values()) == pytest.approx([1/3, 1/3, 1/3, 1])
    assert list(robust_scale({"a": 7, "b": 7, "c": 7}).values()) == [.5, .5, .5]


def test_raw_mean_and_tied_ranks():
    lists = {"x": [("a", -1.), ("b", -4.)], "y": [("a", -5.), ("b", -1.)]}
    assert [f[:2] for f in fuse("raw-mean", lists)] == [("b", -2.5), ("a", -3.)]
    assert {f.id: f.score for f in fuse("rrf", {"x": [("a", 0.), ("b", 0.), ("c", -1.)]}, tied=True)} == {"a": 1/61, "b": 1/61, "c": 1/63}


def test_a_pooled_search_by_hand(db, encoder, stub):
    "Two lists, two scorers with ties, RRF over competition ranks, equal sums in the order of document ids as text"
    g = stub.generators(one=[("d9", 5.), ("d10", 4.)], two=[("d2", 1.), ("d9", .5)])
    stub.scorer("first", lambda conn, q, pool, scope: Scores({d: ({"d10": 2., "d2": 1., "d9": 1.}[d], None) for d in pool.ids}))
    stub.scorer("second", lambda conn, q, pool, scope: Scores({d: ({"d10": 0., "d2": 7., "d9": 7.}[d], None) for d in pool.ids}))
    s = Strategy("by-hand", g, "rrf", "document", scorers=["first", "second"])
    r = search(db, encoder, "straw", strategy=s, strict=True)
    assert [(h.document_id, h.score) for h in r] == [("d2", math.fsum([1/62, 1/61])), ("d9", math.fsum([1/62, 1/61])), ("d10", math.fsum([1/61, 1/63]))]
    assert [(x.name, x.status, x.candidates, x.kind) for x in r.trace] == [
        ("one", "success", 2, "generator"), ("two", "success", 2, "generator"), ("pool", "success", 3, "pool"),
        ("first", "success", 3, "scorer"), ("second", "success", 3, "scorer"), ("fuse", "success", 3, "fuse"), ("evidence", "success", 3, "evidence")]
    assert {n: g.rank for n, g in r[1].generators.items()} == {"one": 1, "two": 2, "first": 2, "second": 1}
    tie = Strategy("tie", stub.generators(three=[("d9", 1.), ("d10", 1.), ("d2", 1.)]), "identity", "document", scorers=[stub.scorer("same", lambda conn, q, pool, scope: Scores({d: (1., None) for d in pool.ids}))])
    assert [h.document_id for h in search(db, encoder, "straw", strategy=tie)] == ["d10", "d2", "d9"], "ids compare as text"


# ---------------------------------------------------------------- the named ones

def test_every_published_name_is_in_the_table():
    assert [row[0] for row in PUBLISHED] and {row[0] for row in PUBLISHED} == set(NAMES) and len(NAMES) == len(set(NAMES)) == 33
    assert set(NAMES) | {"convex-token-maxsim"} <= set(strategies().index)
    for n in NAMES + [row[0] for row in OURS]:
        s = get_strategy(n)
        assert Strategy.from_dict(json.loads(json.dumps(s.as_dict()))) == s and Strategy.from_dict(s.as_dict()).digest == s.digest
        assert s.unit == "document" and (s.pool == 50) == (len(s.generators) > 1)
    assert len({get_strategy(n).digest for n in NAMES}) == 33, "no two of them are the same search"


def test_digests_of_strategies_without_scorers_did_not_change():
    old = dict(zip(["interactive", "deep", "vector", "keyword", "bm25", "bm25-vector-rrf", "bm25-vector-convex"], "05e4d679 682a23c2 7918b80a 6ed9ca08 db692551 82cdd51e 7cba6fa1".split()))
    assert {n: get_strategy(n).digest[:8] for n in old} == old


@pytest.mark.parametrize("name", WITHOUT_SERVICE)
@pytest.mark.parametrize("scope", [None, Scope.external()])
def test_strategies_without_a_service_run(db, encoder, name, scope):
    r = search(db, encoder, "straw yield in Colusa", strategy=name, scope=scope, strict=True)
    assert r.status == "success" and len(r) == 10 and not r.trace.degraded
    assert scope is None or {h.license_class for h in r} <= {"public", "open_commercial"}
    assert [h.document_id for h in search(db, encoder, "straw yield in Colusa", strategy=name, scope=scope)] == [h.document_id for h in r]
    check_shown(db, r)
    for form in (repr(r), r._repr_html_(), repr(r.explain(0)), r.explain(0)._repr_html_(), r.df.to_string(), r.trace._repr_html_()): assert form


@pytest.mark.parametrize("name", SERVED)
def test_strategies_with_a_service_run_against_a_surrogate(db, encoder, served, name):
    service = served()
    r = search(db, encoder, "straw yield in Colusa", strategy=name, strict=True)
    assert r.status == "success" and len(r) == 10 and not r.trace.degraded and service.requests
    read = [s for s in r.trace if s.kind == "scorer" and "texts" in s.info]
    assert read and all(s.info["truncated"] >= 0 and s.info["texts"] >= s.candidates for s in read)
    check_shown(db, r)


@pytest.mark.parametrize("name", SERVED)
def test_an_absent_service_is_an_error_that_names_the_setting(db, encoder, name):
    with pytest.raises(SettingsError, match="rerank_"): search(db, encoder, "straw", strategy=name)


def check_shown(db, ranking):
    "What is shown is the author's text at the place that is told"
    for h in ranking:
        source = db.fetch("SELECT text FROM documents WHERE id = %s", [h.document_id])[0][0]
        assert h.start is not None and h.text and source[h.start:h.end] == h.text, (h.representation, h.text)


def test_a_pool_does_not_depend_on_the_limit(db, encoder):
    for name in ("bm25-token-window-rrf", "pooled-four-channel-rrf", "pooled-four-channel-robust-sum"):
        few, many = (search(db, encoder, "straw price", strategy=name, limit=n) for n in (5, 70))
        assert [(h.document_id, h.score) for h in few] == [(h.document_id, h.score) for h in many[:5]]
        assert all(s.candidates <= 50 for s in many.trace if s.kind == "generator") and len(many) > 50


def test_every_scorer_scores_the_whole_pool(db, encoder):
    r = search(db, encoder, "straw price", strategy="pooled-coref-interval-pack-rrf", limit=100)
    size = r.trace["pool"].candidates
    assert size > 50 and {s.candidates for s in r.trace if s.kind == "scorer"} == {size} == {len(r)}


def test_threads_get_what_one_gets(db, encoder):
    asked = [(q, s) for q in ("straw yield", "almond shells", "silica ash") for s in ("pooled-four-channel-rrf", "coref-max", "pooled-coref-interval-pack-rrf")]
    one = lambda a: search(db, encoder, a[0], strategy=a[1], strict=True)
    alone = [one(a) for a in asked]
    with ThreadPoolExecutor(8) as pool: assert list(pool.map(one, asked*3)) == alone*3


def test_a_view_that_the_corpus_lacks_is_told(corpus_name, encoder):
    with open_database(name=corpus_name) as db:
        ingest(db, encoder, [DocumentInput(id="d", text="Straw burns.")], show_progress=False)
        for name, view in (("token-window", "token-window"), ("pooled-four-channel-rrf", "token-window"), ("coref-max", "coref-propn-sentence")):
            with pytest.raises(StrategyError, match=f"no passages '{view}'.*Ingest again"): search(db, encoder, "straw", strategy=name)
        assert search(db, encoder, "straw", strategy="bm25")[0].document_id == "d"


def test_an_empty_corpus_is_empty(corpus_name, encoder):
    with open_database(name=corpus_name) as db:
        db.bind_embedding(encoder.version, encoder.dim, model=encoder.model)
        for name in ("bm25-token-window-rrf", "pooled-four-channel-rrf"): assert search(db, encoder, "straw", strategy=name).status == "empty"


# ---------------------------------------------------------------- services that fail

def wrong_count(answer): return {**answer, "results": answer["results"][1:]} if "results" in answer else answer[1:]
def twice(answer): return {**answer, "results": [answer["results"][0], *answer["results"][:-1]]} if "results" in answer else [answer[0], *answer[:-1]]
def not_a_number(answer):
    for r in answer["results"] if "results" in answer else answer: r["relevance_score" if "relevance_score" in r else "score"] = float("nan")
    return answer


@pytest.mark.parametrize("change", [wrong_count, twice, not_a_number])
@pytest.mark.parametrize("name", ["pooled-coref-interval-colbert", "rerank-msmarco"])
def test_a_reranker_that_lies_leaves_the_fused_order(db, encoder, served, change, name):
    served(change=change)
    r, s = search(db, encoder, "straw yield in Colusa", strategy=name), get_strategy(name)
    plain = search(db, encoder, "straw yield in Colusa", strategy=Strategy("plain", s.generators, "rrf", "document", pool=50))
    assert [(h.document_id, h.score) for h in r] == [(h.document_id, h.score) for h in plain] and r.status == "success"
    bad, = [x for x in r.trace if x.kind == "scorer"]
    assert (bad.status, bad.reason) == ("error", "ServiceError") and r.trace.degraded and r[0].score_name == "RRF" and "generators" in r[0].meaning


def test_a_strict_search_raises_what_the_service_did(db, encoder, served):
    served(change=twice)
    with pytest.raises(Exception, match="twice|repeated|index|more than once"): search(db, encoder, "straw", strategy="pooled-colbert", strict=True)


def test_the_other_scorers_go_on(db, encoder, served):
    served(change=wrong_count)
    r = search(db, encoder, "straw yield", strategy="pooled-msmarco-rrf")
    rest = search(db, encoder, "straw yield", strategy=get_strategy("pooled-msmarco-rrf").variant("rest", without="msmarco"))
    assert [(h.document_id, h.score) for h in r] == [(h.document_id, h.score) for h in rest]
    assert [(s.name, s.status) for s in r.trace if s.status not in ("success", "empty")] == [("msmarco", "error")]


def test_a_slow_scorer_costs_its_time_and_no_more(db, encoder, stub):
    stub.scorer("sleepy", lambda conn, q, pool, scope: lambda seconds: time.sleep(30))
    stub.scorer("busy", lambda conn, q, pool, scope: conn.execute("SELECT pg_sleep(30)"))
    s = Strategy("slow", ["bm25"], "rrf", "document", scorers=[ScorerSpec("b", "bm25"), ScorerSpec("sleepy", timeout_ms=100, provider_ms=100), ScorerSpec("busy", timeout_ms=200)])
    started = time.perf_counter()
    r = search(db, encoder, "straw yield", strategy=s)
    assert time.perf_counter() - started < 5 and r == search(db, encoder, "straw yield", strategy=s.variant("quick", without=("sleepy", "busy")))
    assert {x.name: x.status for x in r.trace if x.kind == "scorer"} == {"b": "success", "sleepy": "timeout", "busy": "timeout"}


def test_scores_that_are_not_numbers_are_an_error(db, encoder, stub):
    for bad in (float("nan"), float("inf")):
        stub.scorer("odd", lambda conn, q, pool, scope, bad=bad: Scores({d: (bad, None) for d in pool.ids}))
        r = search(db, encoder, "straw yield", strategy=Strategy("odd", ["bm25"], "identity", "document", scorers=["odd"]))
        assert r.trace["odd"].status == "error" and len(r) == 10 and all(math.isfinite(h.score) for h in r)


def test_a_scorer_cannot_smuggle_documents_in(db, encoder, stub):
    stub.scorer("generous", lambda conn, q, pool, scope: Scores({**{d: (1., None) for d in pool.ids}, **{f"d{i}": (9., None) for i in range(80)}, "nobody": (99., None)}))
    r = search(db, encoder, "straw", strategy=Strategy("g", [GeneratorSpec("bm25")], "identity", "document", scorers=["generous"], pool=5), scope=Scope.external(), limit=50)
    assert len(r) == 5 and {h.license_class for h in r} <= {"public", "open_commercial"}


def test_traces_hold_no_content(db, encoder, served, stub):
    served()
    stub.scorer("gossip", lambda conn, q, pool, scope: Scores({d: (1., None) for d in pool.ids}, {"query": q.text, "first": pool.ids[0], "n": 3}))
    s = Strategy("g", ["bm25"], "rrf", "document", scorers=["gossip", ScorerSpec("read", "rerank", provider_ms=9000, params={"reranker": "colbert"})])
    r = search(db, encoder, "confidential straw", strategy=s, strict=True)
    for form in (repr(r.trace), r.trace._repr_html_(), r.trace.df.to_string(), str(r.trace.as_dict())): assert "confidential" not in form and r[0].document_id not in form.split()
    assert dict(r.trace["gossip"].info) == {"query": "withheld", "first": "withheld", "n": 3} and r.trace["read"].info["texts"] == 50


# ---------------------------------------------------------------- fallback

def test_fallback_runs_only_where_it_is_asked_for_and_needed(db, encoder, served):
    plain = search(db, encoder, "straw yield", strategy="bm25-token-window-rrf")
    r = search(db, encoder, "straw yield", strategy="pooled-coref-interval-colbert", fallback="bm25-token-window-rrf")
    assert r == plain and r.strategy.name == "bm25-token-window-rrf"
    assert [(s.name, s.status, s.reason) for s in r.trace if s.kind == "fallback"] == [("pooled-coref-interval-colbert", "disabled", "no-service"), ("bm25-token-window-rrf", "success", "fallback")]
    with pytest.raises(StrategyError, match="Did you mean"): search(db, encoder, "straw", strategy="bm25", fallback="bm25-token-windov-rrf")
    with pytest.raises(SettingsError): search(db, encoder, "straw", strategy="pooled-colbert", fallback="rerank-msmarco")
    assert search(db, encoder, "straw", strategy="pooled-colbert", fallback="bm25", scope=Scope.nothing()).status == "denied"
    served()
    r = search(db, encoder, "straw yield", strategy="pooled-coref-interval-colbert", fallback="bm25-token-window-rrf")
    assert r.strategy.name == "pooled-coref-interval-colbert" and not [s for s in r.trace if s.kind == "fallback"]


# ---------------------------------------------------------------- nobody's text

def test_rewritten_sentences_find_and_are_never_shown(corpus_name, encoder):
    "T7: a chain on 'her' finds under the name; 'heritage' and the source stay; what is shown is the source"
    source = "Dr. Voss published her paper. The heritage of her lab was wide. She retired in May."
    with open_database(name=corpus_name) as db:
        ingest(db, encoder, [DocumentInput(id="voss", title="Voss", text=source), DocumentInput(id="other", title="Other", text="Straw is wide. Ash is not.")], representations=representations(), show_progress=False)
        views = ("title", "coref-propn-sentence", "coref-nominal-sentence", "coref-interval-pack", "coref-aware-pack")
        for view in views:
            for unit in ("document", "passage"):
                r = search(db, encoder, "heritage of her lab", strategy=Strategy("v", [GeneratorSpec("a", "vector", params={"representation": view})], "identity", unit), strict=True)
                check_shown(db, r)
                assert r[0].document_id == "voss" or view == "title"
                assert len({h.passage_id for h in r}) == len(r) and {h.representation for h in r} == {"chunk"}, "one hit for one piece of real text"
        both = Strategy("b", [GeneratorSpec("a", "vector", params={"representation": "coref-propn-sentence"}), "vector", "keyword"], unit="passage")
        r = search(db, encoder, "heritage of her lab", strategy=both)
        assert [h.document_id for h in r] == ["voss", "other"] and set(r[0].generators) == {"a", "vector", "keyword"}
        judged = Strategy("j", [GeneratorSpec("a", "vector", params={"representation": "coref-propn-sentence"})], "identity", "passage", scorers=[ScorerSpec("again", "vector")])
        check_shown(db, search(db, encoder, "heritage", strategy=judged, strict=True))
        assert db.fetch("SELECT text FROM documents WHERE id = 'voss'") == [(source,)]


def test_the_next_best_real_match_is_shown(db, encoder):
    r = search(db, encoder, "straw yield", strategy=Strategy("s", [GeneratorSpec("propn", "vector", weight=9, params={"representation": "coref-propn-sentence"}), GeneratorSpec("pack", "vector", params={"representation": "sentence-pack"})], "rrf", "document"))
    assert {h.representation for h in r if "pack" in h.generators} == {"sentence-pack"}
    check_shown(db, r)


def test_documents_that_differ_in_their_last_sentence(corpus_name):
    "T8: what lies behind the encoder's window is searched, too"
    encoder, shared = HashingEmbedder(max_tokens=256), " ".join(f"Word{i} and straw were weighed on day {i}." for i in range(75))
    with open_database(name=corpus_name) as db:
        ingest(db, encoder, [DocumentInput(id="late", text=f"{shared} The boiler was cleaned with vinegar."), DocumentInput(id="else", text=f"{shared} The cows were fed with almond hulls.")],
               representations=representations(), show_progress=False)
        for name in ("token-window", "sentence-pack", "coref-interval-pack", "coref-max", "bm25-token-window-rrf", "pooled-four-channel-rrf", "pooled-coref-interval-pack-rrf"):
            assert search(db, encoder, "boiler cleaned with vinegar", strategy=name)[0].document_id == "late", name
            assert search(db, encoder, "cows fed with almond hulls", strategy=name)[0].document_id == "else", name


# ---------------------------------------------------------------- wrong use

def test_wrong_strategies_are_told():
    for make, says in [(lambda: Strategy("s", ["bm25"], "identity", scorers=["a", "b"]), "2 scorers and no fusion"), (lambda: Strategy("s", ["a"], scorers=["a"]), "names a scorer twice: a"),
                       (lambda: Strategy("s", ["a"], scorers=["pool"]), "name of a stage"), (lambda: Strategy("s", ["a"], pool=-1), "pool of strategy s"), (lambda: Strategy("s", (), scorers=["a"]), "no generators"),
                       (lambda: Strategy.from_dict({"name": "s", "generators": ["a"], "scorers": [{"name": "b", "limit": 1}]}), "no field 'limit'"),
                       (lambda: ScorerSpec("a b"), "letters"), (lambda: ScorerSpec("a", params={"x": object()}), "a parameter must be")]:
        with pytest.raises(StrategyError, match=says): make()


def test_wrong_scorers_are_found_before_anything_runs():
    class Untouchable:
        def __getattr__(self, name): raise AssertionError(f"{name} was used")
    for s, error, says in [(Strategy("s", ["bm25"], scorers=["bm52"]), StrategyError, "Did you mean bm25"), (Strategy("s", ["vector"], scorers=["token-maxsim"]), StrategyError, "ranks passages"),
                           (Strategy("s", ["bm25"], unit="document", scorers=[ScorerSpec("r", "rerank", params={"reranker": "nobody:here"})]), StrategyError, "no reranker")]:
        with pytest.raises(error, match=says): search(Untouchable(), None, "straw", strategy=s)


def test_parameters_of_scorers_are_checked(db, encoder):
    for params, says in (({"k3": 1}, "has no parameter 'k3'"), ({"b": 7}, "b must be")):
        with pytest.raises(ParameterError, match=says): search(db, encoder, "straw", strategy=Strategy("s", ["bm25"], unit="document", scorers=[ScorerSpec("x", "bm25", params=params)]))


def test_a_scorer_without_weight_does_not_run(db, encoder):
    s = get_strategy("pooled-four-channel-rrf")
    r = search(db, encoder, "straw", strategy=s.variant("v", weights={"title-score": 0}))
    assert r.trace["title-score"].status == "skipped" and r == search(db, encoder, "straw", strategy=s.variant("w", without="title-score"))


def test_without_an_encoder_the_lexical_half_answers(db):
    r = search(db, None, "straw yield", strategy="pooled-four-channel-rrf")
    assert {x.name: x.status for x in r.trace if x.kind == "scorer"} == {"bm25-score": "success", "title-score": "skipped", "token-window-score": "skipped", "coref-max-score": "skipped"}
    assert [h.document_id for h in r][:3] == [h.document_id for h in search(db, None, "straw yield", strategy="bm25")][:3]


def test_specs_of_channels_and_judges():
    assert channel("coref-max").generator == "best-view" and judge("coref-max").params["representation"] == ("coref-propn-sentence", "coref-nominal-sentence")
    assert judge("colbert-content").params["representation"] == "coref-nominal-dp-colbert" and judge("rankzephyr").provider_ms == 300_000


# ---------------------------------------------------------------- the report

@pytest.mark.slow
def test_the_strategy_ablation_lands_a_report_of_the_demo(tmp_path):
    import nbformat
    from pathlib import Path
    from sci_rag.report import ablate, read_report
    notebook = Path(__file__).parent.parent / "nbs/ablations/strategy_ablation.ipynb"
    some = ["interactive", "bm25", "bm25-token-window-rrf", "coref-max", "pooled-coref-interval-pack-rrf", "pooled-coref-interval-content-max-colbert", "convex-token-maxsim"]
    folder = ablate(notebook, dict(embedder="hashing", strategies=some, max_queries=4, fresh=True), out=tmp_path / "runs", name="s")
    manifest, df = read_report(folder)
    assert set(df.strategy) == {*some[:5], "surrogate: pooled-coref-interval-content-max-colbert", "convex-token-maxsim"} and not df.degraded.any()
    shown = "\n".join(o.get("data", {}).get("text/plain", "") + o.get("text", "") for c in nbformat.read(folder / "report.ipynb", 4).cells for o in c.get("outputs", []))
    assert "token vectors" in shown and "distinct texts alone" in shown and "coref-nominal-dp-colbert" in shown and manifest["evaluation"]["costs"]
