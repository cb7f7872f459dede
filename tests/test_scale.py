"""What a larger or a worse world does to a search: filtered recall, an index that proposes, services that fall silent, a server that restarts"""
import random, shutil, socket, tempfile, threading, time, uuid
from pathlib import Path
from urllib.parse import quote

import numpy as np, pytest, yaml

from sci_rag import embedded as em, layers, vectorchord
from sci_rag.core import DatabaseError, SchemaError, Settings
from sci_rag.db import open_database
from sci_rag.embed import HashingEmbedder, HTTPEmbedder
from sci_rag.ingest import DocumentInput, ingest
from sci_rag.layers import Query, generator
from sci_rag.lexical import index_terms
from sci_rag.retrieve import search
from sci_rag.rights import LICENSE_CLASSES
from sci_rag.scope import Scope
from sci_rag.strategy import get_strategy
from sci_rag.synthetic import GivenVector, Synthetic, scopes, sizes

pytestmark = pytest.mark.timeout(900)
root = Path(__file__).parent.parent


# ------------------------------------------------------------------ recall under a scope
def filled(passages):
    corpus, db = Synthetic(passages), open_database(name=f"test_{uuid.uuid4().hex[:12]}")
    corpus.fill(db)
    return corpus, db


@pytest.fixture(scope="module")
def crowd():
    corpus, db = filled(8000)
    yield corpus, db
    db.drop()


def recall_and_rows(corpus, db, n, limit=20, **params):
    "share -> (mean recall@10 against the exact list, the numbers of candidates, the numbers of eligible passages)"
    def ask(q, scope, **p):
        with db.session(readonly=True) as conn: return generator("vector").run(conn, Query(q.text, lambda: q.vector), scope, limit, **p)
    out = {}
    for share, scope in scopes().items():
        with db.session() as conn: eligible = len(scope.documents(conn))*corpus.per_document
        found, hits = [], []
        for q in corpus.questions(n):
            exact, r = ([c.passage_id for c in ask(q, scope, **p)] for p in (dict(mode="exact"), params))
            found.append(len(r)); hits.append(len(set(exact[:10]) & set(r[:10]))/min(10, eligible))
        out[share] = np.mean(hits), set(found), eligible
    return out


@pytest.mark.parametrize("params", [{}, dict(exact_rows=1500), dict(mode="hnsw")], ids=["rule", "graph above 1,500", "graph"])
def test_recall_and_rows_at_every_share(crowd, params):
    for share, (recall, rows, eligible) in recall_and_rows(*crowd, 20, **params).items():
        assert recall >= .99 and rows == {min(20, eligible)}, (share, recall, rows)


@pytest.mark.slow
def test_recall_and_rows_at_every_share_of_100_000():
    corpus, db = filled(100_000)
    try:
        for share, (recall, rows, _) in recall_and_rows(corpus, db, 100).items(): assert recall >= .99 and rows == {20}, (share, recall, rows)
    finally: db.drop()


def test_synthetic_corpus_is_searched_like_any(crowd):
    corpus, db = crowd
    r = search(db, GivenVector(corpus.questions(1)[0].vector), corpus.questions(1)[0].text, scope=Scope.external())
    assert len(r) == 10 and {h.license_class for h in r} <= {"public", "open_commercial"} and all(v > 0 for v in sizes(db).values())
    with db.session() as conn: assert Scope.external().documents(conn) != Scope().documents(conn)


def test_heap_and_ties(crowd):
    "More units tie for the last place than the heap holds: the list still begins with the smallest hashes"
    _, db = crowd
    with db.session() as conn:
        for i in range(300):
            conn.execute("INSERT INTO documents (id, text, content_hash, index_hash) VALUES (%s, 'tiedword', md5(%s), '')", (f"t{i}", f"t{i}"))
            conn.execute("INSERT INTO passages (document_id, representation, ordinal, text, index_text, token_count) VALUES (%s, 'chunk', 0, 'tiedword', 'tiedword', 1)", (f"t{i}",))
        index_terms(conn, [f"t{i}" for i in range(300)])
        order = [i for i, in conn.execute("SELECT id FROM documents WHERE id LIKE 't%' ORDER BY content_hash").fetchall()]
        for name in ("bm25", "keyword"):
            for n in (1, 20, 250, 1000): assert [c.document_id for c in generator(name).run(conn, "tiedword", None, n)] == order[:n]
        conn.execute("DELETE FROM documents WHERE id LIKE 't%'")


# ------------------------------------------------------------------ VectorChord-BM25, against a stand-in with its names, types and operators
STANDIN = ["CREATE SCHEMA bm25_catalog", "CREATE DOMAIN bm25_catalog.bm25vector AS int[]", "CREATE TYPE bm25_catalog.bm25query AS (index_oid regclass, query_vector int[])",
  "CREATE FUNCTION bm25_catalog.to_bm25query(i regclass, q bm25_catalog.bm25vector) RETURNS bm25_catalog.bm25query IMMUTABLE LANGUAGE sql AS 'SELECT ROW(i, q::int[])::bm25_catalog.bm25query'",
  """CREATE FUNCTION bm25_catalog.search(target int[], q bm25_catalog.bm25query) RETURNS real STABLE LANGUAGE plpgsql AS $$
     DECLARE score real; BEGIN
       EXECUTE format('WITH d AS (SELECT vector::int[] AS v FROM %s), s AS (SELECT count(*)::float8 AS n, avg(cardinality(v))::float8 AS average FROM d),
         t AS (SELECT id, count(*) AS qtf, (SELECT count(*) FROM unnest($1) x WHERE x = id)::float8 AS tf, (SELECT count(*) FROM d WHERE id = ANY(v))::float8 AS df FROM unnest($2) id GROUP BY id)
         SELECT -sum(qtf*ln(1 + (n - df + .5)/(df + .5))*tf*2.2/(tf + 1.2*(.25 + .75*cardinality($1)/average))) FROM t, s',
         (SELECT indrelid::regclass FROM pg_index WHERE indexrelid = q.index_oid)) INTO score USING target, q.query_vector;
       RETURN score; END $$""",
  "CREATE OPERATOR public.<&> (PROCEDURE = bm25_catalog.search, LEFTARG = int[], RIGHTARG = bm25_catalog.bm25query)", "CREATE ACCESS METHOD bm25 TYPE INDEX HANDLER bthandler",
  "CREATE OPERATOR CLASS bm25_catalog.bm25_ops DEFAULT FOR TYPE anyarray USING bm25 AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btarraycmp(anyarray, anyarray)"]
WORDS = "straw ash silica boiler slag hull almond rice burn yield IL-6 α-amylase".split()


@pytest.fixture
def folder():
    d = Path(tempfile.mkdtemp(prefix="srsc")).resolve(); d.chmod(0o755)
    yield d
    for s in [s for h, s in list(em._servers.items()) if d in h.parents]: s.handles = 1; s.leave()
    for p in em.server_processes(d/"pg"/"data"): p.kill()
    shutil.rmtree(d, ignore_errors=True)


def add(db, i):
    r = random.Random(i)
    text = " ".join(r.choice(WORDS[:r.choice([4, 8, 12])]) for _ in range(r.randint(3, 40)))
    with db.session() as conn:
        conn.execute("INSERT INTO documents (id, text, content_hash, index_hash, license_class) VALUES (%s, %s, md5(%s), '', %s)", (f"d{i}", text, str(i), LICENSE_CLASSES[i % 5]))
        conn.execute("INSERT INTO passages (document_id, representation, ordinal, text, index_text, token_count) VALUES (%s, 'chunk', 0, %s, %s, 9)", (f"d{i}", text, text))
        index_terms(conn, [f"d{i}"])


def test_vectorchord_proposes_and_the_sql_layer_decides(folder, monkeypatch):
    asked, propose = [], vectorchord._propose
    monkeypatch.setattr(vectorchord, "_propose", lambda conn, params: asked.append(params["level"]) or propose(conn, params))
    with open_database(settings=Settings(data_dir=folder)) as db:
        for i in range(12): add(db, i)
        with pytest.raises(SchemaError, match="no extension vchord_bm25"): vectorchord.enable(db)
        for s in STANDIN: db.execute(s)
        def lists(scope, query, **params):
            with db.session() as conn: return [(c.document_id, c.score) for c in generator("bm25").run(conn, query, scope, 5, **params)]
        queries, levels = ("straw ash", "IL-6 ash ash", "α-amylase", "boiler slag rice hull", "nothing"), ("document", "passage")
        calls = [(q, dict(level=l, k1=k)) for q in queries for l in levels for k in (1.2, 1.5)]
        for scope in (None, Scope(exclude=["nobody"]), Scope.external(), Scope(exclude=["d3"])):
            vectorchord.disable(db)
            without = [lists(scope, q, **p) for q, p in calls]
            assert vectorchord.enable(db) and not vectorchord.enable(db)
            asked.clear()
            assert [lists(scope, q, **p) for q, p in calls] == without
            assert bool(asked) == (scope is None or scope.exclude == ("nobody",))     # never where the scope hides something: its statistics are global
        vectors = lambda: db.fetch("SELECT unit_id, vector::text FROM bm25_vectors_document UNION ALL SELECT unit_id, vector::text FROM bm25_vectors_passage ORDER BY 1")
        for i in range(12, 16): add(db, i)                                            # it follows insertion and deletion
        db.execute("DELETE FROM documents WHERE id IN ('d1', 'd13')")
        with db.session() as conn: index_terms(conn, ["d2"])
        assert [u for u, _ in vectors()] == [u for u, in db.fetch("SELECT id FROM bm25_units ORDER BY id")]
        kept = [v for _, v in vectors()]
        after = [lists(None, q, **p) for q, p in calls]
        vectorchord.disable(db)
        assert after == [lists(None, q, **p) for q, p in calls]
        vectorchord.enable(db)
        count = lambda vs: sorted(len(v.split(",")) for v in vs)
        assert count(v for _, v in vectors()) == count(kept)


def test_vectorchord_sql_is_what_its_documentation_shows():
    setup = "\n".join(vectorchord.setup_sql("corpus_x"))
    for part in ("USING bm25 (vector bm25_catalog.bm25_ops)", "::bm25_catalog.bm25vector", "vector bm25_catalog.bm25vector NOT NULL"): assert part in setup
    ask = vectorchord._propose_sql("corpus_x", "document")
    assert "ORDER BY vector <&> bm25_catalog.to_bm25query('\"corpus_x\".bm25_vectors_document_bm25'::regclass, " in ask and ask.endswith("LIMIT %(ask)s")


def test_compose_database_has_the_extensions():
    services = yaml.safe_load((root/"docker-compose.yml").read_text())["services"]
    db = services["db"]
    image, tag = db["image"].rsplit(":", 1)
    assert image == "tensorchord/vchord-suite" and tag.startswith("pg17-") and "latest" not in tag
    settings = dict(c.split("=", 1) for c in db["command"][2::2])
    assert db["command"][0] == "postgres" and set(db["command"][1::2]) == {"-c"} and {"vchord.so", "vchord_bm25.so", "pg_tokenizer.so"} <= set(settings["shared_preload_libraries"].split(","))
    assert all(p.startswith("127.0.0.1:") for p in db["ports"]) and "PGPASSWORD" in db["environment"]["POSTGRES_PASSWORD"]


# ------------------------------------------------------------------ services that never answer, layers that hang
@pytest.fixture(scope="module")
def small():
    db = open_database(name=f"test_{uuid.uuid4().hex[:12]}")
    ingest(db, HashingEmbedder(), [DocumentInput(id=f"d{i}", text=f"Straw ash number {i} holds silica, as boiler slag of lot {i} does.") for i in range(20)], show_progress=False)
    yield db
    db.drop()


@pytest.fixture
def silent_service():
    "Address of a server that accepts and never answers"
    listener, taken = socket.create_server(("127.0.0.1", 0)), []
    def accept():
        try:
            while True: taken.append(listener.accept()[0])
        except OSError: pass
    threading.Thread(target=accept, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", taken
    listener.close()
    for s in taken: s.close()


def test_a_model_endpoint_that_never_answers(small, silent_service):
    "interactive is late by the embedding's time at most, and the lexical hits are those of a search without an encoder"
    url, taken = silent_service
    started = time.perf_counter()
    r = search(small, HTTPEmbedder(url, "m", dim=HashingEmbedder().dim, query_timeout=60), "straw ash", strategy="interactive")
    took, budget = time.perf_counter() - started, get_strategy("interactive").embed_timeout_ms/1000
    assert taken and budget <= took < budget + 1.5
    assert [(s.name, s.status) for s in r.trace][:3] == [("embed", "timeout"), ("vector", "timeout"), ("keyword", "success")]
    assert [(h.document_id, h.score) for h in r] == [(h.document_id, h.score) for h in search(small, None, "straw ash", strategy="interactive")]


@pytest.mark.parametrize("stalled", ["keyword", "vector"])
def test_a_layer_that_sleeps_for_a_minute(small, monkeypatch, stalled):
    "interactive goes on after the stage's time with the other layer's hits, and the server is idle"
    tag, whole = f"/* {uuid.uuid4().hex} */", layers.GENERATORS[stalled]
    class Asleep:
        name, unit, score_name, needs_vector = stalled, "passage", "score", whole.needs_vector
        def run(self, conn, *args, **kwargs): conn.execute(f"SELECT pg_sleep(60) {tag}")
    monkeypatch.setitem(layers.GENERATORS, stalled, Asleep())
    started = time.perf_counter()
    r = search(small, HashingEmbedder(), "straw ash", strategy="interactive")
    took, budget = time.perf_counter() - started, get_strategy("interactive").generators[0].timeout_ms/1000
    assert took < budget + 1.5 and len(r) == 10 and r.trace[stalled].status == "timeout"
    assert not small.fetch("SELECT query FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state <> 'idle' AND query LIKE %s", (f"%{tag}%",))


# ------------------------------------------------------------------ the server restarts between two searches
def test_restart_between_two_searches(folder):
    keeper = open_database(name="restart", settings=Settings(data_dir=folder))
    ingest(keeper, HashingEmbedder(), [DocumentInput(id=f"d{i}", text=f"Straw ash number {i} holds silica.") for i in range(5)], show_progress=False)
    ask = lambda db: [(h.document_id, h.score) for h in search(db, HashingEmbedder(), "straw silica")]
    before = ask(keeper)
    with keeper._server.locked(): keeper._server._stop()
    assert before and ask(keeper) == before                        # the embedded server is started again by whoever needs it
    given = keeper._given()
    if given.get("password") or not str(given.get("host", "")).startswith("/"): pytest.skip("needs a socket without a password")
    url = f"postgresql://{given['user']}@/{given['dbname']}?host={quote(str(given['host']), safe='')}&port={given.get('port', 5432)}"
    with open_database(url, "restart") as remote:
        assert ask(remote) == before
        with keeper._server.locked(): keeper._server._stop()
        with pytest.raises(DatabaseError, match="cannot be reached"): ask(remote)      # a server of somebody else is not started
        keeper.fetch("SELECT 1")
        assert ask(remote) == before                               # the same handle
        with keeper._server.locked(): keeper._server._stop()
        keeper.fetch("SELECT 1")
        try: ask(remote)                                           # down and up again unseen: its connections are dead
        except DatabaseError as e: assert "reached" in str(e) or "lost" in str(e)
        assert ask(remote) == before
    keeper.close()
