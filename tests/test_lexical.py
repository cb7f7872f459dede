"Term statistics: right for any text, and right after any history"
import re, threading, uuid
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from sci_rag.db import open_database
from sci_rag.lexical import QUERY_CHARS, index_terms, query_terms, query_text, rebuild_terms, uncounted, unit_terms

pytestmark = pytest.mark.timeout(300)
quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def db():
    db = open_database(name=f"test_{uuid.uuid4().hex[:12]}")
    yield db
    db.drop()


@pytest.fixture(autouse=True)
def empty(db):
    yield
    db.execute("DELETE FROM documents")
    assert db.fetch("SELECT * FROM bm25_stats") == [] and db.fetch("SELECT count(*) FROM bm25_postings") == [(0,)]


def store(conn, id, text, passages=None, title=""):
    conn.execute("INSERT INTO documents (id, title, text, content_hash, index_hash) VALUES (%s, %s, %s, %s, '')", (id, title, text, id))
    for i, (start, end, ref) in enumerate([(0, len(text), False)] if passages is None else passages):
        conn.execute('INSERT INTO passages (document_id, representation, ordinal, text, index_text, "start", "end", is_reference, token_count) VALUES (%s, \'chunk\', %s, %s, %s, %s, %s, %s, 9)',
                     (id, i, text[start:end], text[start:end], start, end, ref))
    index_terms(conn, [id])


def counted(db):
    "The statistics, and what they should be from the postings"
    kept = {l: (n, t) for l, n, t in db.fetch("SELECT level, units, total_length FROM bm25_stats")}
    real = {l: (n, t) for l, n, t in db.fetch("SELECT level, count(*), sum(length) FROM bm25_units GROUP BY level")}
    assert db.fetch("SELECT count(*) FROM bm25_units u WHERE length <> (SELECT coalesce(sum(tf), 0) FROM bm25_postings p WHERE p.unit_id = u.id)") == [(0,)]
    assert db.fetch("SELECT count(*) FROM bm25_postings p LEFT JOIN bm25_units u ON u.id = p.unit_id WHERE u.id IS NULL OR p.length <> u.length OR p.level <> u.level") == [(0,)]
    return kept, real


@pytest.mark.parametrize("text, expected", [
    ("ash " * 255, {"ash": 255}), ("ash " * 254, {"ash": 254}), ("ash " * 256, {"ash": 256}), ("ash " * 100_000, {"ash": 100_000}),
    ("x;" * 3000, {"x": 3000}), ("b," * 9000 + " ash", {"b": 9000, "ash": 1}), ("silica " * 20_000 + "ash", {"silica": 20_000, "ash": 1}),
    ("的" * 5000, {"的": 5000}), ("IL-6 " * 400, {"il": 400, "6": 400, "il6": 400}), ("of the and " * 500, {}), ("", {}), ("\ufb01bre " * 300, {"fibr": 300}), ("x" * 5000, None)])
def test_counts_have_no_caps(db, text, expected):
    with db.session() as conn:
        store(conn, "d", text)
        whole, passage = unit_terms(conn, "d"), unit_terms(conn, "d", 0)
    assert whole == passage
    if expected is not None: assert whole == expected
    kept, real = counted(db)
    assert kept == real


def test_a_text_that_no_tsvector_holds(db):
    text = " ".join(f"q{i}z{i * 7919 % 999983}" for i in range(300_000))
    assert len(text) > 3_000_000
    with db.session() as conn:
        store(conn, "d", text, [(0, 5000, False)])
        assert len(unit_terms(conn, "d")) == 300_000
    assert db.fetch("SELECT length FROM bm25_units WHERE level = 'document'") == [(300_000,)]


@quick
@given(st.lists(st.sampled_from(["ash", "straw", "silica", "IL-6", "x", "的", "ﬁbre", "the", "1,25", "a/b", "\n", "w" * 300, ";;;", "β", "é"]), max_size=700), st.sampled_from([" ", "\n\n", "; "]))
def test_pieces_count_like_the_words_one_by_one(db, tokens, gap):
    text = gap.join(tokens)
    with db.session() as conn:
        store(conn, "d", text)
        expected = Counter()
        for t, n in Counter(tokens).items():
            for w, k in query_terms(conn, t).items(): expected[w] += n * k
        assert unit_terms(conn, "d") == dict(expected)
        conn.execute("DELETE FROM documents")


def test_references_are_left_out_once(db):
    text = "Straw holds ash. REFERENCES Silica paper. Lignin paper. END matter."
    a, b = text.index("REF"), text.index("END")
    with db.session() as conn:
        store(conn, "d", text, [(0, a, False), (a, b - 3, True), (a + 20, b, True), (b, len(text), False)])
        assert set(unit_terms(conn, "d")) == {"straw", "hold", "ash", "end", "matter"}
        store(conn, "all", "Refs only.", [(0, 10, True)])
        assert unit_terms(conn, "all") == {}
        assert uncounted(conn) == []


@quick
@given(st.lists(st.tuples(st.sampled_from("add add del again rebuild fail".split()), st.integers(0, 4), st.lists(st.sampled_from("ash straw silica of".split()), max_size=12)), max_size=14))
def test_any_history_gives_the_same_statistics(db, history):
    alive = {}
    for what, i, words in history:
        id, text = f"d{i}", " ".join(words)
        if what in ("add", "fail"):
            try:
                with db.session() as conn:
                    conn.execute("DELETE FROM documents WHERE id = %s", (id,)); store(conn, id, text)
                    if what == "fail": raise KeyError
                alive[id] = text
            except KeyError: pass
        elif what == "del": db.execute("DELETE FROM documents WHERE id = %s", (id,)); alive.pop(id, None)
        elif what == "again":
            with db.session() as conn: index_terms(conn, [id])
        else: rebuild_terms(db)
    kept, real = counted(db)
    n, total = len(alive), sum(len([w for w in t.split() if w != "of"]) for t in alive.values())
    assert kept == real == ({l: (n, total) for l in ("document", "passage")} if n else {})
    db.execute("DELETE FROM documents")


def test_threads_do_not_lose_counts(db):
    def work(t):
        for i in range(12):
            with db.session() as conn: store(conn, f"{t}-{i}", "ash straw " * (i + 1))
            if i % 3 == 0: db.execute("DELETE FROM documents WHERE id = %s", (f"{t}-{i}",))
    threads = [threading.Thread(target=work, args=(t,)) for t in range(6)]
    for t in threads: t.start()
    for t in threads: t.join()
    kept, real = counted(db)
    assert kept == real and kept["document"][0] == 6 * 8


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_query_is_an_error(db, text):
    with db.session(readonly=True) as conn:
        terms = query_terms(conn, text)
        assert all(n > 0 and w for w, n in terms.items()) and list(terms) == sorted(terms, key=str.encode)


def test_long_queries_are_cut(db):
    assert len(query_text("a" * 10**6)) == QUERY_CHARS and query_text("a\x00b\udc80") == "a b "
    with db.session(readonly=True) as conn: assert query_terms(conn, "ash " * 10**6) == {"ash": 255}


def test_uncounted_and_rebuild(db):
    db.execute("INSERT INTO documents (id, text, content_hash, index_hash) VALUES ('a', 'ash', 'a', ''), ('b', 'straw', 'b', '')")
    with db.session() as conn: assert uncounted(conn) == ["a", "b"]
    assert rebuild_terms(db, ["a"]) == 1
    with db.session() as conn: assert uncounted(conn) == ["b"]
    assert rebuild_terms(db) == 2
    with db.session() as conn: assert uncounted(conn) == []
    before = db.fetch("SELECT level, units, total_length FROM bm25_stats")
    with db.session() as conn: assert index_terms(conn, []) == 0 and index_terms(conn, ["nobody"]) == 0 and index_terms(conn, "a") == 1
    assert db.fetch("SELECT level, units, total_length FROM bm25_stats") == before
