"""Retrieve: stages that stall, fail and talk too much; scope before everything; the same answer from any thread"""
import asyncio, json, pickle, random, subprocess, sys, threading, time, uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from sci_rag import layers
from sci_rag.core import DatabaseError, ModelMismatchError, ParameterError, QueryError, StrategyError
from sci_rag.db import open_database
from sci_rag.embed import HashingEmbedder, QueryCache
from sci_rag.ingest import DocumentInput, ingest
from sci_rag.layers import Candidate, LayerResult
from sci_rag.ranking import STATUSES, Stage
from sci_rag.retrieve import asearch, search
from sci_rag.scope import Scope
from sci_rag.strategy import GeneratorSpec, Strategy, get_strategy, strategies

BUILT_IN = ["interactive", "deep", "vector", "keyword", "bm25", "bm25-vector-rrf", "bm25-vector-convex"]
WORDS = "straw ash silica boiler slag hull almond rice burn yield price steam county field potassium".split()
QUESTIONS = ["straw yield in Colusa", "almond hulls", "what is the ash of rice straw made of?", '"boiler slag" OR steam', "potassium -field", "price", "nothing of the kind zzz"]


def text_of(i):
    r = random.Random(i)
    return f"# Report {i}\n\n" + " ".join(r.choice(WORDS) for _ in range(40)) + f". Lot {i} was stored in Colusa.\n\n## Method\n\n" + " ".join(r.choice(WORDS) for _ in range(30)) + "."


LICENCES = ["CC BY 4.0", "public domain", "CC BY-NC 4.0", "all rights reserved", None]


@pytest.fixture(scope="module")
def encoder(): return HashingEmbedder()


@pytest.fixture(scope="module")
def db(encoder):
    db = open_database(name=f"test_{uuid.uuid4().hex[:12]}")
    ingest(db, encoder, [DocumentInput(id=f"d{i}", text=text_of(i), title=f"Report {i}", year=2000 + i % 20, license=LICENCES[i % 5]) for i in range(60)], show_progress=False)
    yield db
    db.drop()


class Made:
    "A generator made of one function"
    def __init__(self, name, run, unit="passage", needs_vector=False): self.name, self.run, self.unit, self.needs_vector, self.score_name = name, run, unit, needs_vector, "score"


@pytest.fixture
def generator():
    "generator(function, **fields) registers it until the end of the test"
    names = []
    def make(run, **kwargs):
        name = f"{run.__name__.strip('<>')}-{len(names)}"
        layers.GENERATORS[name] = Made(name, run, **kwargs)
        names.append(name)
        return name
    yield make
    for n in names: layers.GENERATORS.pop(n)


class Silent(HashingEmbedder):
    "A model service that never answers"
    def _run(self, *args, **kwargs): time.sleep(60)


class Untouchable:
    "Neither database nor encoder may be used"
    def __getattr__(self, name): raise AssertionError(f"{name} was used")


def others_at_work(db):
    "Sessions of this server that run something or hold a transaction"
    return db.fetch("SELECT state, query FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle' AND query LIKE %s", (f"%{TAG}%",))


TAG = f"/* {uuid.uuid4().hex} */"     # tells our sleepers from those of another test run on the same server


def key(r): return r.status, [(h.rank, h.score, h.document_id, h.passage_id, h.found_by) for h in r]


def timed(call):
    t = time.perf_counter()
    out = call()
    return out, time.perf_counter() - t


# ---- what can be asked

@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\x00", "\u200b\u2060", None, 7, b"straw"])
def test_nothing_to_search(db, encoder, text):
    with pytest.raises(QueryError): search(db, encoder, text)


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "10", None, 10**9])
def test_limit_is_checked(limit):
    with pytest.raises(QueryError, match="limit"): search(Untouchable(), Untouchable(), "straw", limit=limit)


def test_too_long_a_query():
    with pytest.raises(QueryError, match="characters"): search(Untouchable(), Untouchable(), "straw " * 20_000)


def test_an_embedder_must_encode(db):
    for wrong in ("minilm", object()):
        with pytest.raises(ParameterError, match="an embedder has encode"): search(db, wrong, "straw")


def test_unknown_names_are_found_before_anything_runs():
    for strategy, says in [("interactiv", "interactive"), (Strategy("s", ["vektor"]), "vector"), (Strategy("s", ["keywrod"]), "keyword")]:
        with pytest.raises(StrategyError, match=f"Did you mean .*{says}"): search(Untouchable(), Untouchable(), "straw", strategy=strategy)


ODD = ["k=60", "a:b?x=1", '"unbalanced', "foo & | !", ":*", "((", "'; DROP TABLE passages;--", "😀", "the of and", "x" * 10_000, "straw " * 1_700, "binding\x00affinity", "\ud800 straw", "\\", "%s %(query)s {scope}",
       "<script>", "-straw", "a'b\"c", "OR", "&" * 50, "ﬁ", "ΑΒΓ 中文 مرحبا", "1,25-dihydroxyvitamin D3", "IL-6 CD4+", "\u202e\u0301"]


@pytest.mark.parametrize("strategy", BUILT_IN)
def test_any_text_is_a_query(db, encoder, strategy):
    "No input is an SQL error; strict would raise one"
    for text in ODD: assert search(db, encoder, text, strategy=strategy, strict=True).status in ("success", "empty"), text


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60))
def test_any_text_is_a_query_random(db, encoder, text):
    try: r = search(db, encoder, text, strategy="bm25-vector-rrf", strict=True)
    except QueryError: assert not any(c.isprintable() and not c.isspace() for c in text.replace("\x00", " "))
    else: assert r.status in ("success", "empty")


# ---- scope

@pytest.mark.parametrize("strategy", BUILT_IN)
def test_denied_touches_nothing(strategy):
    r = search(Untouchable(), Untouchable(), "straw", strategy=strategy, scope=Scope(license_classes=[]))
    assert (r.status, len(r)) == ("denied", 0) and {s.status for s in r.trace} == {"denied"}
    assert "denied" in repr(r) and "denied" in r._repr_html_()


@pytest.mark.parametrize("strategy", BUILT_IN)
def test_scope_holds_and_fills_the_limit(db, encoder, strategy):
    r = search(db, encoder, "straw ash of rice", strategy=strategy, scope=Scope.external(), limit=10)
    assert {h.license_class for h in r} <= {"public", "open_commercial"} and len(r) == 10
    assert all(p.document_id in {d for d, in db.fetch("SELECT id FROM documents WHERE license_class IN ('public', 'open_commercial')")} for p in r.pool)
    assert r.runner_up.license_class in ("public", "open_commercial")


def test_generator_that_ignores_scope_leaks_nothing(db, encoder, generator):
    "The evidence query asks the scope again"
    rows = db.fetch("SELECT document_id, id FROM passages ORDER BY id")
    leaky = generator(lambda conn, query, scope, limit: LayerResult([Candidate(d, p, 1.) for d, p in rows[:limit]]))
    r = search(db, encoder, "straw", strategy=Strategy("s", [GeneratorSpec(leaky, limit=200)]), scope=Scope.external(), limit=100)
    assert len(r) and {h.license_class for h in r} <= {"public", "open_commercial"} and {p.document_id for p in r.pool} == {h.document_id for h in r}


def test_text_that_is_gone_is_not_shown(db, encoder, generator):
    ghost = generator(lambda conn, query, scope, limit: LayerResult([Candidate("nobody", 10**12, 2.)]))
    r = search(db, encoder, "straw", strategy=Strategy("s", [ghost, "keyword"]))
    assert len(r) and "nobody" not in {p.document_id for p in r.pool}
    assert key(r)[1][0][2] == search(db, encoder, "straw", strategy="keyword")[0].document_id


# ---- parts that stall

def sleeping(conn, query, scope, limit): conn.execute(f"SELECT pg_sleep(60) {TAG}"); return LayerResult()


def stubborn(conn, query, scope, limit):
    "Catches the cancellation and goes on"
    for _ in range(200):
        try:
            with conn.transaction(): conn.execute(f"SELECT pg_sleep(0.3) {TAG}")
        except Exception: pass
    return LayerResult()


def dozing(conn, query, scope, limit): conn.execute(f"SELECT pg_sleep(0) {TAG}"); time.sleep(3); conn.execute("SELECT 1"); return LayerResult()


@pytest.mark.parametrize("stall", [sleeping, stubborn, dozing])
def test_stalled_generator(db, encoder, generator, stall):
    "The search waits for the stage's time and no longer, keeps the other hits, and the server is soon idle"
    s = Strategy("s", ["keyword", GeneratorSpec(generator(stall), timeout_ms=300)])
    r, took = timed(lambda: search(db, encoder, "straw ash", strategy=s))
    assert .2 <= took < 1.5
    assert r.status == "success" and len(r) == 10 and r.trace.degraded
    stage = r.trace.stages[1]
    assert (stage.status, stage.candidates) == ("timeout", 0)
    if stall is sleeping: assert not others_at_work(db)
    patience = time.monotonic() + 10
    while others_at_work(db) and time.monotonic() < patience: time.sleep(.05)
    assert not others_at_work(db)


def test_stalled_generators_run_side_by_side(db, encoder, generator):
    s = Strategy("s", ["keyword", *(GeneratorSpec(generator(sleeping), timeout_ms=300) for _ in range(4))])
    r, took = timed(lambda: search(db, encoder, "straw", strategy=s))
    assert took < 2 and sum(x.status == "timeout" for x in r.trace) == 4 and not others_at_work(db)


def test_statement_timeout_is_in_the_session(db, encoder, generator):
    seen = []
    def look(conn, query, scope, limit):
        seen.append([conn.execute(f"SHOW {s}").fetchone()[0] for s in ("statement_timeout", "transaction_read_only")])
        return LayerResult()
    search(db, encoder, "straw", strategy=Strategy("s", [GeneratorSpec(generator(look), timeout_ms=1234)]))
    assert seen[0][1] == "on" and 0 < int(seen[0][0].removesuffix("ms")) <= 1234


def test_ceiling_of_the_whole_search(db, encoder, generator):
    s = Strategy("s", ["keyword", GeneratorSpec(generator(sleeping), timeout_ms=60_000)])
    r, took = timed(lambda: search(db, encoder, "straw", strategy=s, timeout_ms=300))
    assert took < 2 and len(r) and r.trace.stages[1].status == "timeout"


def test_nothing_in_time(db, encoder, generator):
    r = search(db, encoder, "straw", strategy=Strategy("s", [GeneratorSpec(generator(sleeping), timeout_ms=100)]))
    assert (r.status, len(r)) == ("timeout", 0)


def test_cancelled_connection_is_not_reused(db, encoder, generator):
    "Many short timeouts beside many searches: no search is hit by another's cancellation"
    s = Strategy("s", [GeneratorSpec(generator(sleeping), timeout_ms=20)])
    def one(i): return search(db, encoder, "straw", strategy=s if i % 2 else "keyword", strict=False)
    with ThreadPoolExecutor(8) as pool: found = list(pool.map(one, range(120)))
    assert {r.status for r in found[::2]} == {"success"} and not any(r.trace.degraded for r in found[::2])
    assert not others_at_work(db)


@pytest.mark.parametrize("embedder", [Silent(), QueryCache(Silent())], ids=["direct", "cached"])
def test_silent_model_service(db, embedder):
    "It costs the embedding's time; lexical hits arrive; the vector generator shares its fate"
    s = get_strategy("interactive").variant("s", embed_timeout_ms=200)
    r, took = timed(lambda: search(db, embedder, "straw ash", strategy=s))
    assert .2 <= took < 1.5 and len(r) == 10
    assert [(x.name, x.status) for x in r.trace][:3] == [("embed", "timeout"), ("vector", "timeout"), ("keyword", "success")]
    assert r.trace["vector"].reason == "query-vector"
    assert key(r)[1][0][2] == search(db, None, "straw ash", strategy=s)[0].document_id


def test_loading_a_model_is_not_counted(db, encoder):
    class Cold(HashingEmbedder):
        def load(self): time.sleep(.4)
    s = get_strategy("vector").variant("s", embed_timeout_ms=150)
    assert search(db, Cold(), "straw", strategy=s).status == "success"
    assert search(db, QueryCache(Cold()), "straw", strategy=s).status == "success"


def test_process_ends_cleanly_around_a_late_model():
    "A model on this machine may finish its text; a service is not waited for"
    code = """
import time
from sci_rag.embed import HashingEmbedder
from sci_rag.retrieve import _Run, _embed_work, _generate
from sci_rag.layers import GENERATORS
from sci_rag.scope import Scope
from sci_rag.strategy import get_strategy
class Slow(HashingEmbedder):
    def encode_queries(self, texts, **kwargs): time.sleep(1.5); print('finished', flush=True); return super().encode_queries(texts)
class Local(Slow):
    def load(self): pass
s = get_strategy('vector').variant('s', timeout_ms=100)
for e in EMBEDDERS:
    run = _Run(None, 5000)
    _generate(run, s, [(s.generators[0], GENERATORS['vector'], '', '')], 'straw', Scope(), 5, e)
    print(run.jobs[0].status, flush=True)
"""
    def run(embedders):
        t = time.perf_counter()
        p = subprocess.run([sys.executable, "-c", code.replace("EMBEDDERS", embedders)], capture_output=True, text=True, cwd=Path(__file__).parent.parent)
        return p.returncode, p.stdout.split(), time.perf_counter() - t
    assert run("[Local()]")[:2] == (0, ["timeout", "finished"])
    assert run("[Slow()]")[:2] == (0, ["timeout"])


def test_query_is_encoded_once_and_beside_the_lexical_generators(db, encoder, generator):
    calls, order = [], []
    class Counting(HashingEmbedder):
        def encode_queries(self, texts, **kwargs): calls.append(threading.get_ident()); time.sleep(.2); order.append("encoded"); return super().encode_queries(texts, **kwargs)
    lexical = generator(lambda conn, query, scope, limit: order.append("lexical") or LayerResult())
    s = Strategy("s", [lexical, "vector", GeneratorSpec("again", "vector"), GeneratorSpec("third", "vector", limit=5)])
    r = search(db, Counting(), "straw", strategy=s)
    assert len(calls) == 1 and order == ["lexical", "encoded"]
    assert [x.status for x in r.trace if x.name in ("vector", "again", "third")] == ["success"]*3


# ---- parts that fail

def test_failing_generator_contributes_nothing(db, encoder, generator):
    def broken(conn, query, scope, limit): raise RuntimeError(f"secret {query.text}")
    def sql(conn, query, scope, limit): return conn.execute("SELECT nonsense")
    def nan(conn, query, scope, limit): return LayerResult([Candidate("d1", 1, float("nan"))])
    def none(conn, query, scope, limit): return None
    alone = search(db, encoder, "straw ash", strategy=Strategy("s", ["keyword"]))
    r = search(db, encoder, "straw ash", strategy=Strategy("s", ["keyword", *map(generator, (broken, sql, nan, none))]))
    assert [(h.document_id, h.score) for h in r] == [(h.document_id, h.score) for h in alone]
    assert [(x.status, x.reason) for x in r.trace.stages[1:5]] == [("error", "RuntimeError"), ("error", "UndefinedColumn"), ("error", "ValueError"), ("error", "AttributeError")]


def test_failing_encoder(db):
    class Broken(HashingEmbedder):
        def encode_queries(self, texts, **kwargs): raise ConnectionError(texts[0])
    r = search(db, Broken(), "straw ash", strategy="bm25-vector-rrf")
    assert len(r) and [(x.name, x.status, x.reason) for x in r.trace][:3:2] == [("embed", "error", "ConnectionError"), ("vector", "error", "query-vector")]
    assert search(db, Broken(), "straw ash", strategy="vector").status == "error"


def test_strict_raises(db, encoder, generator):
    def broken(conn, query, scope, limit): raise RuntimeError("broken")
    with pytest.raises(RuntimeError): search(db, encoder, "straw", strategy=Strategy("s", ["keyword", generator(broken)]), strict=True)
    with pytest.raises(TimeoutError): search(db, encoder, "straw", strategy=Strategy("s", ["keyword", GeneratorSpec(generator(sleeping), timeout_ms=50)]), strict=True)


def test_missing_parts_are_named(db, encoder):
    r = search(db, encoder, "straw", strategy="deep")
    missing = [n for n in ("graph", "community", "hyde") if n not in layers.GENERATORS]
    assert [(x.status, x.reason) for x in r.trace if x.name in missing] == [("disabled", "not-built")]*len(missing)
    r = search(db, None, "straw")
    assert (r.trace["vector"].status, r.trace["vector"].reason, r.status) == ("skipped", "no-embedder", "success")
    r = search(db, encoder, "straw", strategy=get_strategy("interactive").variant("s", weights={"keyword": 0}))
    assert (r.trace["keyword"].status, r.trace["keyword"].reason) == ("skipped", "no-weight")
    assert search(db, None, "straw", strategy="vector").status == "skipped"


def test_documents_in_a_ranking_of_passages(db, encoder):
    with pytest.raises(StrategyError, match="ranks passages"): search(db, encoder, "straw", strategy=Strategy("s", ["bm25"], unit="passage"))


def test_another_model_is_an_error(db):
    with pytest.raises(ModelMismatchError): search(db, HashingEmbedder(dim=32), "straw")
    with pytest.raises(ModelMismatchError): search(db, QueryCache(HashingEmbedder(dim=32)), "straw", strategy="vector")
    assert len(search(db, HashingEmbedder(dim=32), "straw", strategy="bm25"))       # no vector, no conflict


# ---- the trace tells nothing

@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(categories=["L"]), min_size=4, max_size=12), st.sampled_from(["info", "key", "error", "reason", "class"]))
def test_trace_has_no_text(db, encoder, word, where):
    "Whatever a generator reports or raises, the words of the query are not in any form of the trace"
    word = "qz" + word
    def run(conn, query, scope, limit):
        if where == "error": raise ValueError(query.text)
        if where == "class": raise type("E", (Exception,), {})(query.text)
        return LayerResult([], {"info": {"x": query.text, "y": [query.text], "step": word}, "key": {query.text: 1}, "reason": {"reason": query.text}}[where])
    layers.GENERATORS["gossip"] = Made("gossip", run)
    try: r = search(db, encoder, f"{word} straw", strategy=Strategy("s", ["gossip", "keyword", "vector"]))
    finally: layers.GENERATORS.pop("gossip")
    for form in (repr(r.trace), str(r.trace.stages), r.trace._repr_html_(), r.trace.df.to_string(), json.dumps(r.trace.as_dict(), ensure_ascii=False), pickle.dumps(r.trace).decode("utf-8", "replace")): assert word not in form


def test_trace_has_no_passage_text(db, encoder):
    r = search(db, encoder, "straw ash silica", strategy="deep")
    words = {w.casefold() for h in r for w in h.text.split() if len(w) > 4}
    assert not any(w in str(r.trace.as_dict()).casefold() for w in words)
    assert {x.status for x in r.trace} <= set(STATUSES)


# ---- loops and threads

def test_inside_a_running_loop(db, encoder):
    async def main():
        r = search(db, encoder, "straw ash")
        many = await asyncio.gather(*(asearch(db, encoder, "straw ash") for _ in range(8)))
        return r, many
    r, many = asyncio.run(main())
    assert len(r) and all(m == r for m in many)


def test_asearch_does_not_block_the_loop(db, encoder, generator):
    async def main():
        ticks, task = 0, asyncio.create_task(asearch(db, encoder, "straw", strategy=Strategy("s", ["keyword", GeneratorSpec(generator(sleeping), timeout_ms=400)])))
        while not task.done(): await asyncio.sleep(.01); ticks += 1
        return ticks, await task
    ticks, r = asyncio.run(main())
    assert ticks > 15 and len(r)


def test_asearch_raises_what_search_raises(db, encoder):
    async def main():
        with pytest.raises(QueryError): await asearch(db, encoder, " ")
        with pytest.raises(StrategyError): await asearch(db, encoder, "straw", strategy="nope")
        with pytest.raises(ModelMismatchError): await asearch(db, HashingEmbedder(dim=32), "straw")
    asyncio.run(main())


def test_cancelled_coroutine_stops_the_server(db, encoder, generator):
    s = Strategy("s", ["keyword", GeneratorSpec(generator(sleeping), timeout_ms=60_000)])
    async def main():
        task = asyncio.create_task(asearch(db, encoder, "straw", strategy=s))
        while not others_at_work(db): await asyncio.sleep(.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError): await task
        for _ in range(100):
            if not others_at_work(db): return True
            await asyncio.sleep(.02)
    assert asyncio.run(main())


def test_threads_get_what_one_gets(db, encoder):
    "32 threads, 1,000 mixed searches: no error, equal results, no setting and no connection left behind"
    names = [n for n in BUILT_IN if n in strategies().index]
    tasks = [(q, s, scope) for q in QUESTIONS for s in names for scope in (None, Scope.external(), Scope(years=(2005, 2012)))]
    cache = QueryCache(encoder)
    def one(t): return key(search(db, cache, t[0], strategy=get_strategy(t[1]).variant(t[1], timeout_ms=30_000), scope=t[2], strict=True))
    alone = {t: one(t) for t in tasks}
    work = (tasks * 10)[:1000]
    random.Random(0).shuffle(work)
    with ThreadPoolExecutor(32) as pool: assert list(pool.map(one, work)) == [alone[t] for t in work]
    for setting, default in [("hnsw.ef_search", "40"), ("statement_timeout", "0")]:
        with ThreadPoolExecutor(16) as pool: assert {r for r in pool.map(lambda _: db.fetch(f"SELECT current_setting('{setting}', true)")[0][0], range(40))} <= {default, None, ""}
    patience = time.monotonic() + 10                      # a stage of another test may still be on its way out
    while (stats := db._pool.get_stats())["pool_available"] < stats["pool_size"] and time.monotonic() < patience: time.sleep(.1)
    assert stats["pool_available"] == stats["pool_size"] and not stats.get("requests_waiting")


def test_no_thread_is_left_behind(db, encoder):
    before = threading.active_count()
    for _ in range(30): search(db, encoder, "straw ash")
    time.sleep(.2)
    assert threading.active_count() <= before + 1


# ---- the database goes away

def test_connections_cut_between_searches(db, encoder):
    before = key(search(db, encoder, "straw ash"))
    db.fetch("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
    try: search(db, encoder, "straw ash")
    except DatabaseError: pass
    assert key(search(db, encoder, "straw ash")) == before


def test_database_that_is_away(encoder, tmp_path):
    "An empty ranking would look like an answer, so it is an error"
    from urllib.parse import quote
    from sci_rag.core import Settings
    keeper = open_database(name="away", settings=Settings(data_dir=tmp_path))
    try:
        given = keeper._given()
        if given.get("password") or not str(given.get("host", "")).startswith("/"): pytest.skip("needs a socket without a password")
        url = f"postgresql://{given['user']}@/{given['dbname']}?host={quote(str(given['host']), safe='')}&port={given.get('port', 5432)}"
        db = open_database(url=url, name="away")
        ingest(db, encoder, [DocumentInput(text="Straw ash holds silica in most fields.")], show_progress=False)
        assert len(search(db, encoder, "straw"))
    finally: keeper.drop()
    for strategy in ("interactive", "bm25", "vector"):
        with pytest.raises(DatabaseError): search(db, encoder, "straw", strategy=strategy)
    db.close()


# ---- what comes back

@pytest.mark.parametrize("strategy", BUILT_IN)
def test_hits_are_complete(db, encoder, strategy):
    r = search(db, encoder, "ash of rice straw", strategy=strategy, limit=8)
    assert [h.rank for h in r] == list(range(1, 9)) and [h.score for h in r] == sorted((h.score for h in r), reverse=True)
    for h in r:
        source, = db.fetch("SELECT text FROM documents WHERE id = %s", (h.document_id,))[0]
        assert source[h.start:h.end] == h.text and h.title and h.license_class and h.generators and h.meaning
        assert h.score == pytest.approx(sum(g.contribution for g in h.generators.values()))
    for i in range(8): assert r.explain(i).df.contribution.sum() == pytest.approx(r[i].score)
    if get_strategy(strategy).unit == "document": assert len({h.document_id for h in r}) == 8
    assert len(r.to_trec("q").splitlines()) == len({h.document_id for h in r})


@pytest.mark.parametrize("strategy", BUILT_IN)
def test_deep_lists_are_filled(db, encoder, strategy):
    "A ranking of documents has `limit` of them although several passages of one match"
    r = search(db, encoder, "straw ash silica", strategy=strategy, limit=50)
    assert len(r) == 50
    assert [h.document_id for h in search(db, encoder, "straw ash silica", strategy=strategy, limit=5)] == [h.document_id for h in r[:5]] or get_strategy(strategy).unit == "passage"


def test_same_corpus_same_ranking(db, encoder, corpus_name):
    "Another database with the documents in another order gives the same ranking"
    with open_database(name=corpus_name) as other:
        ingest(other, encoder, [DocumentInput(id=f"d{i}", text=text_of(i), title=f"Report {i}", year=2000 + i % 20, license=LICENCES[i % 5]) for i in reversed(range(60))], show_progress=False)
        for q in QUESTIONS:
            for s in BUILT_IN:
                a, b = ([(h.document_id, h.score, h.start) for h in search(d, encoder, q, strategy=s, limit=40)] for d in (db, other))
                assert a == b, (q, s)


def test_ranking_survives_pickling(db, encoder):
    r = search(db, encoder, "straw yields")
    again = pickle.loads(pickle.dumps(r))
    assert again == r and again._repr_html_() and again.explain(0).marked() and again.trace == r.trace


def test_matched_words_come_from_the_stemmer(db, encoder):
    r = search(db, encoder, "burning of potassium fields", strategy="keyword")
    marked = r.explain(0).marked().casefold()
    assert "«" in marked and any(f"«{w}»" in marked for w in ("burn", "potassium", "field"))


def test_statuses_are_closed():
    with pytest.raises(Exception): Stage("x", "fine")
