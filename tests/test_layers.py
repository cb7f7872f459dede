"The layers on a real server: equal to other implementations, blind to what the scope hides, deaf to malice"
import math, random, re, uuid
from collections import Counter

import numpy as np, pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from sci_rag.core import ModelMismatchError, ParameterError, QueryError, StrategyError
from sci_rag.db import open_database
from sci_rag.layers import GENERATORS, Candidate, Query, generator
from sci_rag.lexical import index_terms
from sci_rag.rights import LICENSE_CLASSES
from sci_rag.scope import Scope

pytestmark = pytest.mark.timeout(600)
quick = lambda n: settings(max_examples=n, deadline=None, suppress_health_check=list(HealthCheck))
new = lambda: open_database(name=f"test_{uuid.uuid4().hex[:12]}")


def store(conn, id, text, title="", passages=None, vectors=None, representation="chunk", terms=True, **columns):
    "A document; one passage, or those given as texts (a leading '!' marks a reference list)"
    d = dict(license_class="public", source="lab", year=2020, is_retracted=False, doi=None) | columns
    conn.execute("""INSERT INTO documents (id, title, text, content_hash, index_hash, license_class, source, year, is_retracted, doi)
                    VALUES (%s, %s, %s, md5(%s || 'x'), '', %s, %s, %s, %s, %s)""", (id, title, text, id, d["license_class"], d["source"], d["year"], d["is_retracted"], d["doi"]))
    at = 0
    for i, p in enumerate([text] if passages is None else passages):
        v = None if vectors is None or vectors[i] is None else np.asarray(vectors[i], np.float32)
        bare, ref = p.lstrip("!"), p.startswith("!")
        at = max(text.find(bare, at), 0)
        conn.execute("""INSERT INTO passages (document_id, representation, ordinal, text, index_text, "start", "end", is_reference, token_count, embedding)
                        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, 9, %s)""", (id, representation, i, bare, f"{title}\n{bare}", at, at + len(bare), ref, v))
        at += len(bare)
    if terms: index_terms(conn, [id])


def lists(conn, query, scope=None, limit=10, vector=None, **params):
    "The list of each layer: name -> candidates"
    query = Query(query, lambda: np.asarray(vector, np.float32))
    ask = {"bm25": ("bm25", {}), "bm25 passage": ("bm25", dict(level="passage")), "keyword": ("keyword", {})}
    if vector is not None: ask |= {"vector None": ("vector", {}), "vector document": ("vector", dict(collapse="document"))}
    return {n: generator(g).run(conn, query, scope, limit, **(p | params)).candidates for n, (g, p) in ask.items()}


@pytest.fixture(scope="module")
def db():
    "An empty corpus bound to vectors of 4 dimensions; tests undo what they store"
    db = new()
    db.bind_embedding("made-up", 4)
    yield db
    db.drop()


class Undo(Exception): "Ends a session without keeping anything"


@pytest.fixture
def conn(db):
    "A session that is rolled back"
    try:
        with db.session() as conn:
            yield conn
            raise Undo
    except Undo: pass


# ------------------------------------------------------------------ equal to bm25s
words = [f"w{i}q" for i in range(60)]     # no stemmer and no stop list touches them


@pytest.mark.parametrize("k1, b", [(1.5, .75), (.9, .4), (1.2, 0.), (0., .5), (2., 1.)])
def test_bm25_equals_bm25s_on_the_same_tokens(conn, k1, b):
    bm25s = pytest.importorskip("bm25s")
    rng = random.Random(int(10*k1 + b*100))
    texts = [[rng.choice(words[:rng.choice([5, 20, 60])]) for _ in range(rng.randint(0, 80))] for _ in range(150)] + [[], ["w1q"]*300]
    for i, t in enumerate(texts): store(conn, f"d{i:03}", " ".join(t))
    index = bm25s.BM25(method="lucene", k1=k1, b=b)
    index.index(texts, show_progress=False)
    for level in ("document", "passage"):
        for _ in range(12):
            query = [rng.choice(words) for _ in range(rng.randint(1, 9))]
            theirs = index.get_scores([w for w in query if w in index.vocab_dict])
            ours = generator("bm25").run(conn, " ".join(query), None, 1000, level=level, k1=k1, b=b).candidates
            assert len(ours) == (theirs > 0).sum()
            for c in ours: assert abs(c.score - theirs[int(c.document_id[1:])]) < 1e-4
            assert [c.score for c in ours] == sorted((c.score for c in ours), reverse=True)


def test_bm25_of_scifact(real_data):
    "nDCG@10 on the test claims of SciFact, and the scores of bm25s on the tokens of the database"
    import gzip, json
    bm25s = pytest.importorskip("bm25s")
    folder = real_data("scifact")
    docs = [json.loads(l) for l in gzip.open(folder / "corpus.jsonl.gz", "rt")]
    claims = [json.loads(l) for l in open(folder / "claims_dev.jsonl")]
    db = new()
    try:
        with db.session() as conn:
            with conn.cursor().copy("COPY documents (id, title, text, content_hash, index_hash) FROM STDIN") as copy:
                for d in docs: copy.write_row((str(d["doc_id"]), d["title"], " ".join(s.strip() for s in d["abstract"]), str(d["doc_id"]), ""))
        ids = [str(d["doc_id"]) for d in docs]
        with db.session() as conn: index_terms(conn, ids)
        with db.session(readonly=True) as conn:
            runs = {c["id"]: generator("bm25").run(conn, c["claim"], None, 100).candidates for c in claims}
            gains = []
            for c in claims:
                relevant, found = {str(d) for d in c["cited_doc_ids"]}, [x.document_id for x in runs[c["id"]]][:10]
                gain = lambda places: sum(1/math.log2(i + 2) for i in places)
                gains.append(gain(i for i, d in enumerate(found) if d in relevant) / gain(range(min(10, len(relevant)))))
            assert np.mean(gains) >= .685
            tokens = {i: [] for i in ids}
            postings = "SELECT u.document_id, p.term, p.tf FROM bm25_postings p JOIN bm25_units u ON u.id = p.unit_id"
            for i, term, tf in conn.execute(postings).fetchall(): tokens[i] += [term]*tf
            index = bm25s.BM25(method="lucene", k1=1.5, b=.75); index.index(list(tokens.values()), show_progress=False)
            place = {d: i for i, d in enumerate(tokens)}
            for c in claims[:40]:
                query = conn.execute("SELECT lexeme, cardinality(positions) FROM unnest(to_tsvector(lexical(%s)))", (c["claim"],)).fetchall()
                theirs = index.get_scores([w for w, n in query for _ in range(n) if w in index.vocab_dict])
                assert all(abs(x.score - theirs[place[x.document_id]]) < 1e-4 for x in runs[c["id"]])
                assert runs[c["id"]][-1].score >= np.sort(theirs)[-100] - 1e-4
    finally: db.drop()


# ------------------------------------------------------------------ the scope
vocabulary = "ash straw silica boiler slag rice hull mill steam potassium".split()
SENTINEL = "zanzibarsentinel"


def pile(rng):
    "Thirty documents with mixed rights, many words in common, and sentinel words in those that are not public"
    for i in range(30):
        licence, retracted = rng.choice(LICENSE_CLASSES), rng.random() < .15
        hidden = licence in ("restricted", "unknown") or retracted
        words = lambda: " ".join(rng.choice(vocabulary[:rng.choice([3, 6, 10])]) for _ in range(rng.randint(1, 25)))
        texts = [words() + (f" {SENTINEL}" * rng.randint(1, 3) if hidden else "") for _ in range(rng.randint(1, 3))]
        if rng.random() < .3: texts.append("!ash straw silica references")
        vectors = [None if rng.random() < .05 else [round(rng.gauss(0, 1), 1) for _ in range(4)] for _ in texts]
        yield dict(id=f"doc{i}", title=rng.choice(["", "rice straw", "slag"]), text="\n".join(t.lstrip("!") for t in texts), passages=texts, vectors=vectors,
                   license_class=licence, source=rng.choice("abc"), year=rng.randint(2000, 2020), is_retracted=retracted, doi=rng.choice([None, f"10.1/{i}"]))


@pytest.fixture(scope="module")
def piled():
    "A corpus of such documents that stays for the module"
    db = new()
    db.bind_embedding("made-up", 4)
    docs = list(pile(random.Random(7)))
    with db.session() as conn:
        for d in docs: store(conn, **d)
    yield db, docs
    db.drop()


maybe = lambda values: st.none() | st.lists(st.sampled_from(values), min_size=1, max_size=4)
scopes = st.builds(Scope, maybe(LICENSE_CLASSES), maybe(list("abc")), st.lists(st.sampled_from([f"doc{i}" for i in range(30)]), max_size=12),
                   st.lists(st.sampled_from([f"10.1/{i}" for i in range(30)]), max_size=4),
                   st.none() | st.tuples(st.integers(2000, 2010), st.integers(2010, 2020)), exclude_retracted=st.booleans())
pieces = [*vocabulary, SENTINEL, "quark", "the", "OR", "-slag", f"-{SENTINEL}", '"rice straw"', f'"ash {SENTINEL}"']
questions = st.lists(st.sampled_from(pieces), min_size=1, max_size=6).map(" ".join)


@quick(500)
@given(scope=scopes, query=questions, seed=st.integers(0, 10**6), limit=st.sampled_from([1, 3, 10, 100]))
def test_what_is_out_of_scope_does_not_exist(piled, scope, query, seed, limit):
    db, _ = piled
    vector = np.random.default_rng(seed).normal(size=4).round(1)
    try:
        with db.session() as conn:
            seen = lists(conn, query, scope, limit, vector)
            told = [generator(n).run(conn, Query(query, lambda: vector), scope, limit).info for n in ("bm25", "keyword", "vector")]
            permitted = scope.documents(conn)
            assert {c.document_id for l in seen.values() for c in l} <= set(permitted)
            conn.execute("DELETE FROM documents WHERE NOT id = ANY(%s)", (permitted,))        # a database that never held the others
            assert lists(conn, query, None, limit, vector) == seen
            assert [generator(n).run(conn, Query(query, lambda: vector), None, limit).info for n in ("bm25", "keyword", "vector")] == told
            assert SENTINEL not in str(told)
            raise Undo
    except Undo: pass


def test_a_retraction_counts_from_the_next_search(piled):
    db, docs = piled
    scope, victim = Scope(exclude_retracted=True), next(d["id"] for d in docs if not d["is_retracted"] and "ash" in d["text"])
    try:
        with db.session() as conn:
            assert victim in {c.document_id for c in generator("bm25").run(conn, "ash", scope, 100)}
            conn.execute("UPDATE documents SET is_retracted = true WHERE id = %s", (victim,))
            for l in lists(conn, "ash", scope, 100, [1, 0, 0, 0]).values(): assert victim not in {c.document_id for c in l}
            raise Undo
    except Undo: pass


def test_denied_scopes_touch_nothing():
    for name, g in GENERATORS.items():
        if name in ("vector", "keyword", "bm25"):
            r = g.run(None, Query("x", lambda: 1/0), Scope(license_classes=[]), 5)        # no connection, no encoder
            assert r.candidates == [] and r.info == {"reason": "denied"}


def test_references_are_left_out(conn):
    store(conn, "d", "Straw.\nAsh and silica.", passages=["Straw.", "!Ash and silica."], vectors=[[1, 0, 0, 0], [0, 1, 0, 0]])
    for q in ("ash", "silica", '"ash and silica"'):
        for name, found in lists(conn, q, None, 10, [0, 1, 0, 0]).items():
            if name.startswith("vector"): assert len(found) == 1 and found[0].score == 0
            else: assert found == [], (name, q)


# ------------------------------------------------------------------ order
@quick(15)
@given(seed=st.integers(0, 10**6))
def test_the_order_of_storing_does_not_matter(db, seed):
    rng = random.Random(seed)
    docs, query = list(pile(random.Random(seed))), " ".join(rng.sample(vocabulary, 3))
    vector, seen = [rng.choice([-1, 0, 1]) or 1 for _ in range(4)], []
    for _ in range(2):
        try:
            with db.session() as conn:
                for d in docs: store(conn, **d)
                place = dict(conn.execute("SELECT id, ordinal FROM passages").fetchall())
                found = lists(conn, query, None, 20, vector)
                seen.append({n: [(c.document_id, place.get(c.passage_id), c.score) for c in l] for n, l in found.items()})
                raise Undo
        except Undo: pass
        rng.shuffle(docs)
    assert seen[0] == seen[1]


def test_ties_break_on_the_content_hash(conn):
    ids = [f"d{i}" for i in range(12)]
    for i in ids: store(conn, i, "ash straw", passages=["ash straw", "ash straw"], vectors=[[1, 0, 0, 0]]*2)
    expected = [r[0] for r in conn.execute("SELECT id FROM documents ORDER BY content_hash").fetchall()]
    place = dict(conn.execute("SELECT id, ordinal FROM passages").fetchall())
    for limit in (5, 24):
        for name, found in lists(conn, "ash", None, limit, [1, 0, 0, 0]).items():
            want = expected if name in ("bm25", "vector document") else [d for d in expected for _ in range(2)]
            assert [c.document_id for c in found] == want[:limit], name
            if name not in ("bm25", "vector document"): assert [place[c.passage_id] for c in found] == [i % 2 for i in range(len(found))]


@quick(100)
@given(query=questions, limits=st.tuples(st.integers(1, 20), st.integers(1, 60)))
def test_a_shorter_list_begins_a_longer_one(piled, query, limits):
    with piled[0].session(readonly=True) as conn:
        short, long = (lists(conn, query, None, l, [1, -1, .5, 0]) for l in sorted(limits))
    for n in short: assert short[n] == long[n][:len(short[n])] and len(short[n]) <= min(limits)


# ------------------------------------------------------------------ keyword
def ids(conn, q, **k): return [c.document_id for c in generator("keyword").run(conn, q, None, 20, **k)]


def test_a_question_is_not_an_and_of_its_words(conn):
    store(conn, "brca", "BRCA1 mutations raise risk"); store(conn, "other", "Rice straw holds ash")
    r = generator("keyword").run(conn, "What are the main risks associated with BRCA1 mutations across populations?", None, 10)
    assert [c.document_id for c in r] == ["brca"] and r.info["step"] == "most" and r.info["most"] == 1


def test_steps(conn):
    for i, t in enumerate(("ash of rice straw", "ash of straw", "ash", "boiler slag", "potassium", "boiler", "silica", "hulls")): store(conn, f"d{i}", t)
    step = lambda q: generator("keyword").run(conn, q, None, 10).info.get("step")
    expected = {"ash rice straw": "all", "rice straw quark": "most", "potassium silica hulls": "any", '"rice straw"': "websearch",
                '"boiler slag" quark': "phrases", "quark": None, "slag OR quark": "websearch"}
    assert {q: step(q) for q in expected} == expected


def test_operators_are_honoured(conn):
    for i, t in {"a": "open burning of straw", "b": "burning open fields of rice", "c": "straw hulls", "d": "rice hulls ash"}.items(): store(conn, i, t)
    assert ids(conn, '"open burning"') == ["a"] and ids(conn, "\u201copen burning\u201d") == ["a"]
    assert set(ids(conn, "straw -burning")) == {"c"} and set(ids(conn, "hulls -straw")) == {"d"}
    assert set(ids(conn, "straw OR ash")) == {"a", "c", "d"} and set(ids(conn, 'rice hulls OR "open burning"')) == {"a", "d"}
    assert set(ids(conn, 'straw OR ash -"open burning"')) == {"c", "d"}
    assert ids(conn, "-straw") == [] and ids(conn, '-"open burning" -ash') == []
    assert ids(conn, '"burning open" quark') == ["b"]          # the phrase holds, the unknown word is optional
    assert ids(conn, '"open burning" "rice hulls"') == []      # both phrases must hold
    assert set(ids(conn, "straw or ash")) == {"a", "c", "d"}   # small letters: a word
    assert ids(conn, "stored at -80 °C burning")[0] in "ab"    # a temperature excludes nothing


@pytest.mark.parametrize("term", ["IL-6", "CD4+", "1,25-dihydroxyvitamin D3", "COVID-19", "TNF-α", "p53", "NF-κB", "H2O2", "T-cell", "thyroid"])
def test_odd_terms_find_themselves_first(conn, term):
    texts = dict(il6="Serum IL-6 was high in 10 patients.", il10="Serum IL-10 was high in 6 patients of 6 groups, 6 each.", cd4="CD4+ lymphocytes fell.",
                 cd8="CD8+ lymphocytes: 4 fell, 4 rose.", vit="Levels of 1,25-dihydroxyvitamin D3 fell.", vit2="Vitamin D2, 25 units, 1 dose, dihydroxy.",
                 covid="COVID-19 in children.", nineteen="In 19 children of 19.", tnf="TNF-alpha rises.", tnfb="TNF-beta rises.", p53="The protein p53.",
                 p21="The protein p21, 53 times.", nfkb="NF-\u03baB moves.", nfat="NFAT moves, B cells too.", h2o2="H2O2 bleaches.", h2o="Water, H2O, 2 of 2.",
                 tcell="A T-cell line.", bcell="A B-cell line, line T.", thyroid="Patients with thyroid/metabolic disorders.", liver="Patients with liver/metabolic disorders.")
    for i, t in texts.items(): store(conn, i, t)
    want = {"IL-6": "il6", "CD4+": "cd4", "1,25-dihydroxyvitamin D3": "vit", "COVID-19": "covid", "TNF-α": "tnf", "p53": "p53", "NF-κB": "nfkb",
            "H2O2": "h2o2", "T-cell": "tcell", "thyroid": "thyroid"}[term]
    for name, found in lists(conn, term).items(): assert found[0].document_id == want, name
    assert ids(conn, f'"{term}"')[0] == want


@pytest.mark.parametrize("config, text, query, hit", [
    ("german", "Metformin hat Nebenwirkungen.", "Welche Nebenwirkungen hat Metformin?", True),
    ("english", "Metformin hat Nebenwirkungen.", "Welche Nebenwirkungen hat Metformin?", True),
    ("simple", "二甲双胍有副作用。", "二甲双胍的副作用", True), ("english", "Metformin lowers glucose.", "二甲双胍有什么副作用？", False),
    ("simple", "метформин снижает глюкозу", "глюкозу", True)])
def test_other_languages(config, text, query, hit):
    db = open_database(name=f"test_{uuid.uuid4().hex[:12]}", text_search_config=config)
    try:
        with db.session() as conn:
            store(conn, "d", text); store(conn, "e", "Other words.")
            for name, found in lists(conn, query).items(): assert [c.document_id for c in found] == (["d"] if hit else []), name
    finally: db.drop()


# ------------------------------------------------------------------ any input
nasty = ["", " ", "the of and", "k=60", "a:b?x=1", '"unbalanced', "foo & | !", ":*", "((", "))((", "'; DROP TABLE passages;--", "😀", "a\x00b", "\ud800",
         "%s %(text)s {}", "\\", '"', '""', '" "', "OR", "OR OR", "a OR", "OR b", "- -", "-", "-a", '-"a b"', '"a" OR "b" -"c"', "<->", "a <-> b", "!a", "'a'",
         "$$", "E'\\''", "\u202e", "ﬃ", "x" * 10_000, "ash " * 2500, '"ash straw" ' * 900, "ash -b " * 1500, "(" * 5000, "-" * 10_000, '"' * 9_999]


@pytest.mark.parametrize("query", nasty, ids=range(len(nasty)))
def test_nasty_queries(piled, query):
    with piled[0].session(readonly=True) as conn:
        for scope in (None, Scope.external(), Scope(exclude=["doc1"])):
            for l in lists(conn, query, scope, 10).values(): assert all(math.isfinite(c.score) and c.score > 0 for c in l)
        assert conn.execute("SELECT count(*) FROM passages").fetchone()[0] > 30


@quick(400)
@given(query=st.text(max_size=80) | st.text(alphabet='ab "-()&|!:*\'\\<>OR\n', max_size=60))
@example(query='"" OR -""')
def test_any_text(piled, query):
    with piled[0].session(readonly=True) as conn:
        for l in lists(conn, query).values(): assert all(math.isfinite(c.score) and c.score > 0 for c in l)


def test_a_corpus_of_stop_words(conn):
    for i in range(3): store(conn, f"d{i}", "of the and", vectors=[[0, 0, 0, 0]])
    for q in ("the of and", "ash", '"of the"', ""):
        for name, found in lists(conn, q, None, 10, [1, 0, 0, 0]).items(): assert found == [], name
    assert generator("bm25").run(conn, "ash", None, 5).info == {"level": "document", "terms": 1}
    assert generator("bm25").run(conn, "of", None, 5).info["reason"] == "no-terms"


def test_an_empty_corpus(conn):
    for name, found in lists(conn, 'ash "straw" -slag', None, 10, [1, 0, 0, 0]).items(): assert found == [], name
    for name, found in lists(conn, "ash", Scope.external(), 10, [1, 0, 0, 0]).items(): assert found == [], name


def test_wrong_parameters_are_named(conn):
    store(conn, "d", "ash", vectors=[[1, 0, 0, 0]])
    q = Query("ash", lambda: [1, 0, 0, 0])
    wrong = [("bm25", dict(level="x"), "level"), ("bm25", dict(k1=-1), "k1"), ("bm25", dict(b=2), "b must"), ("bm25", dict(k1=float("nan")), "k1"),
             ("bm25", dict(K1=1), "no parameter 'K1'"), ("keyword", dict(level="document"), "no parameter"), ("vector", dict(mode="fast"), "mode"),
             ("vector", dict(collapse=True), "collapse"), ("vector", dict(representation="a'b"), "representation"), ("vector", dict(exact_rows="all"), "exact_rows")]
    for name, params, error in wrong:
        with pytest.raises(ParameterError, match=re.escape(error)): generator(name).run(conn, q, None, 5, **params)
    with pytest.raises(ModelMismatchError, match="3 dimensions"):
        with conn.transaction(): generator("vector").run(conn, Query("", lambda: [1, 0, 0]), None, 5)
    with pytest.raises(QueryError, match="no query vector"): generator("vector").run(conn, Query("ash"), None, 5)
    with pytest.raises(StrategyError, match="Did you mean vector"): generator("vectro")


# ------------------------------------------------------------------ vector
@pytest.fixture(scope="module")
def cloud():
    "2,000 passages in 500 documents with an HNSW index; 20 of them in a source far from the rest"
    db = new()
    rng = np.random.default_rng(3)
    near, far = [2, 0, 0, 0, 0, 0, 0, 0], [-2, 1, 1, 0, 0, 0, 0, 0]
    vectors = np.vstack([rng.normal(near, .6, (1980, 8)), rng.normal(far, .6, (20, 8))]).astype(np.float32)
    db.bind_embedding("made-up", 8)
    with db.session() as conn:
        for i in range(500):
            conn.execute("INSERT INTO documents (id, source, text, content_hash, index_hash, year) VALUES (%s, %s, '', md5(%s), '', %s)",
                         (f"d{i}", "far" if i >= 495 else "near", f"d{i}", 1900 + i % 100))
        with conn.cursor().copy("COPY passages (document_id, representation, ordinal, text, index_text, token_count, embedding) FROM STDIN") as copy:
            for i, v in enumerate(vectors): copy.write_row((f"d{i//4}", "chunk", i % 4, "", "", 0, str(v.tolist())))
        index_terms(conn, [f"d{i}" for i in range(500)])
    yield db, vectors
    db.drop()


def numpy_order(vectors, query, keep):
    unit = lambda v: v/np.linalg.norm(v, axis=-1, keepdims=True)
    scores = unit(vectors.astype(np.float64)) @ unit(np.asarray(query, np.float64))
    return sorted(((s, i) for i, s in enumerate(scores) if keep(i)), reverse=True)


def run_vector(db, query, scope=None, limit=10, **params):
    with db.session(readonly=True) as conn:
        r = generator("vector").run(conn, Query("", lambda: np.asarray(query, np.float32)), scope, limit, **params)
        place = dict(conn.execute("SELECT id, ordinal FROM passages").fetchall())
        for setting, value in (("enable_sort", "on"), ("enable_seqscan", "on")): assert conn.execute(f"SHOW {setting}").fetchone()[0] == value
    with db.session() as conn:
        conn.execute("SELECT '[1]'::vector")
        assert conn.execute("SHOW hnsw.ef_search").fetchone()[0] == "40"
    return [(int(c.document_id[1:])*4 + place[c.passage_id], c.score) for c in r], r.info


@pytest.mark.parametrize("share", [None, (1900, 1904), (1900, 1949)])
def test_exact_equals_numpy(cloud, share):
    db, vectors = cloud
    keep = lambda i: share is None or share[0] <= 1900 + i//4 % 100 <= share[1]
    for query in np.random.default_rng(1).normal(size=(5, 8)):
        found, info = run_vector(db, query, Scope(years=share), 50)
        want = numpy_order(vectors, query, keep)[:50]
        assert info["mode"] == "exact" and [i for i, _ in found] == [i for _, i in want]
        assert np.allclose([s for _, s in found], [s for s, _ in want], atol=1e-6)


def test_few_permitted_far_away(cloud):
    db, vectors = cloud
    for mode in ("auto", "exact", "hnsw"):
        for params in ({}, {"exact_rows": 0}) if mode == "auto" else ({},):
            found, info = run_vector(db, [1, 0, 0, 0, 0, 0, 0, 0], Scope(sources="far"), 10, mode=mode, **params)
            want = [i for _, i in numpy_order(vectors, [1, 0, 0, 0, 0, 0, 0, 0], lambda i: i >= 1980)[:10]]
            assert len(found) == 10 and len({i for i, _ in found} & set(want)) >= 9.5, (mode, info)


def test_the_graph_keeps_recall_and_fills_the_list(cloud):
    db, vectors = cloud
    for years in (None, (1900, 1949), (1900, 1909)):
        keep, hits = (lambda i: years is None or years[0] <= 1900 + i//4 % 100 <= years[1]), []
        for query in np.random.default_rng(2).normal([1, 0, 0, 0, 0, 0, 0, 0], 1, size=(20, 8)):
            found, info = run_vector(db, query, Scope(years=years), 20, mode="hnsw")
            assert len(found) == 20
            hits.append(len({i for i, _ in found[:10]} & {i for _, i in numpy_order(vectors, query, keep)[:10]})/10)
        assert np.mean(hits) >= .99


def test_collapse_gives_that_many_documents(cloud):
    db, vectors = cloud
    for mode in ("exact", "hnsw"):
        found, _ = run_vector(db, [1, .5, 0, 0, 0, 0, 0, 0], None, 100, mode=mode, collapse="document")
        assert len(found) == len({i//4 for i, _ in found}) == 100
        best = {}
        for s, i in numpy_order(vectors, [1, .5, 0, 0, 0, 0, 0, 0], lambda i: True): best.setdefault(i//4, i)
        assert len(set(list(best.values())[:100]) & {i for i, _ in found}) >= 99


def test_more_than_there_is(cloud):
    db, _ = cloud
    for mode in ("exact", "hnsw"): assert len(run_vector(db, [1, 0, 0, 0, 0, 0, 0, 0], Scope(sources="far"), 100, mode=mode)[0]) == 20


def test_other_representations(cloud, conn):
    store(conn, "d", "ash", passages=["ash", "straw"], vectors=[[1, 0, 0, 0], [0, 1, 0, 0]], representation="whole")
    store(conn, "e", "ash", vectors=[[1, 0, 0, 0]])
    run = lambda **k: [c.document_id for c in generator("vector").run(conn, Query("", lambda: [1, 0, 0, 0]), None, 5, **k)]
    assert run(representation="whole") == ["d", "d"] and run() == ["e"] and run(representation="none") == [] and run(representation="whole", mode="hnsw") == ["d", "d"]


def test_odd_vectors(conn):
    store(conn, "zero", "ash", vectors=[[0, 0, 0, 0]]); store(conn, "none", "ash", vectors=[None]); store(conn, "some", "ash", vectors=[[0, 1, 0, 0]])
    run = lambda v, **k: [(c.document_id, c.score) for c in generator("vector").run(conn, Query("", lambda: v), None, 5, **k)]
    for mode in ("exact", "hnsw"): assert run([0, 2, 0, 0], mode=mode) == [("some", 1.)]
    for bad in ([0, 0, 0, 0], [math.nan, 0, 0, 0], [math.inf, 0, 0, 0]): assert run(bad) == []
