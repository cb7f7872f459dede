"Near-duplicates: one work is one piece of evidence, two works stay two, and nobody learns of what he may not see"
import gzip, json, multiprocessing, random, re, shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings as hyp, strategies as st

from sci_rag.core import ParameterError
from sci_rag.db import open_database
from sci_rag.duplicates import Facts, best_versions, compare, compare_titles, duplicates, keys, link_duplicates, pending, versions, works
from sci_rag.embed import HashingEmbedder
from sci_rag.ingest import DocumentInput, ingest
from sci_rag.retrieve import search
from sci_rag.scope import Scope

demo = Path(__file__).parent.parent / "seeds/demo"
TITLE = "Leaching of potassium from wheat straw in autumn rain"
SENTENCES = """Wheat straw was left on the field after harvest and sampled every week until November. Rain removed potassium faster than chlorine in all plots.
Samples were dried at 105 degrees, milled to one millimetre and digested in nitric acid before analysis by flame photometry. The loss followed the amount of rain and not the number of days.
After 62 mm of rain the potassium content had fallen from 1.31 to 0.44 percent of dry matter. Chlorine fell from 0.52 to 0.09 percent over the same time.
Straw in the middle of a swath lost less than straw on top, since water ran along the stems. Turning the swath once made the difference vanish within a week.
Ash that was made from leached straw began to soften at 1,080 degrees, and ash of fresh straw at 840 degrees. Boilers that burn straw would therefore gain from late baling.
The price of waiting is a loss of dry matter, which came to 4.1 percent in our plots, and the danger that a wet autumn leaves no dry day for baling.""".replace("\n", " ")


def shuffled(seed, words="boiler grate furnace pellet silo auger burner chimney bark chip dust moss peat reed husk cob vine pulp lime sand clay loam".split()):
    "A text of another subject, 200 words"
    rng = random.Random(seed)
    return " ".join(rng.choice(words) for _ in range(200)) + "."


def rewrite(text, share, seed=1):
    rng = random.Random(seed)
    return re.sub(r"[^\W\d_]{4,}", lambda m: rng.choice(["moreover", "whereas", "quantity", "observed"]) if rng.random() < share else m[0], text)


def renumber(text, seed=1):
    rng = random.Random(seed)
    return re.sub(r"\d[\d.,]*\d|\d", lambda m: str(rng.randrange(100, 99_999)), text)


same = {
    "other doi": (Facts(TITLE, SENTENCES, "10.1000/preprint.1", 2017), Facts(TITLE, SENTENCES.replace("0.44", "0.43"), "10.1000/xyz", 2018)),
    "one word in ten changed, title in capitals": (Facts(TITLE, SENTENCES), Facts(TITLE.upper(), rewrite(SENTENCES, .1))),
    "marks of a version": (Facts(f"Preprint: {TITLE}", SENTENCES), Facts(f"{TITLE} [version 2; peer review: 2 approved]", rewrite(SENTENCES, .05))),
    "no title": (Facts("", SENTENCES), Facts(TITLE, rewrite(SENTENCES, .05))),
    "another title": (Facts("Late baling as a way to better straw", SENTENCES), Facts(TITLE, rewrite(SENTENCES, .04))),
    "subtitle dropped": (Facts(TITLE + ": a field study", SENTENCES), Facts(TITLE, rewrite(SENTENCES, .2))),
    "abstract record and full text": (Facts(TITLE, SENTENCES), Facts(TITLE, SENTENCES + "\n\n# 1 Introduction\n\n" + shuffled(1) * 10)),
    "stamped by the publisher": (Facts(TITLE, SENTENCES + "\nPosted 3 March 2017."), Facts(TITLE, SENTENCES + "\nReceived 2 May 2017, accepted 9 June 2018. © 2018 Example Press")),
    "hyphens and quotes of a scan": (Facts(TITLE, SENTENCES), Facts(TITLE, SENTENCES.replace(" ", "  ").replace("potassium", "POTASSIUM").replace(", ", " ,"))),
    "same doi, recomputed": (Facts(TITLE, SENTENCES, "https://doi.org/10.1000/ABC"), Facts("", renumber(SENTENCES), "doi:10.1000/abc")),
    "same authors, rewritten": (Facts(TITLE, SENTENCES, None, 2017, ("K. Eksempel",)), Facts(TITLE, rewrite(SENTENCES, .4), None, 2019, ("Eksempel, K.", "R. Roe"))),
}
other = {
    "parts": (Facts(f"{TITLE}. Part I", SENTENCES), Facts(f"{TITLE}. Part II", rewrite(SENTENCES, .05))),
    "parts in words": (Facts(f"{TITLE}, first part: rain", SENTENCES), Facts(f"{TITLE}, second part: snow", SENTENCES)),
    "a part and the whole": (Facts(TITLE, SENTENCES), Facts(f"{TITLE}. Part 2", SENTENCES)),
    "corrigendum": (Facts(TITLE, SENTENCES), Facts(f"Corrigendum to: {TITLE}", SENTENCES)),
    "retraction notice": (Facts(TITLE, SENTENCES), Facts(f"RETRACTED: {TITLE}", SENTENCES)),
    "reply": (Facts(f"Comment on {TITLE}", SENTENCES), Facts(f"Reply to comment on {TITLE}", SENTENCES)),
    "supplement": (Facts(TITLE, SENTENCES), Facts(f"Supplementary material: {TITLE}", SENTENCES)),
    "annual reports by title": (Facts("Annual report of the straw mill 2019", SENTENCES), Facts("Annual report of the straw mill 2020", SENTENCES)),
    "annual reports by numbers": (Facts("Annual report", SENTENCES), Facts("Annual report", renumber(SENTENCES))),
    "annual reports by years": (Facts("Annual report", f"In 2019 and also late in 2019: {SENTENCES}"), Facts("Annual report", f"In 2020 and also late in 2020: {SENTENCES}")),
    "one title, two texts": (Facts("Introduction", SENTENCES), Facts("Introduction", shuffled(2))),
    "editorials": (Facts("Editorial", shuffled(3)), Facts("Editorial", shuffled(4))),
    "same long title, other text": (Facts(TITLE, SENTENCES), Facts(TITLE, shuffled(5))),
    "same doi, supplement of data": (Facts(TITLE, SENTENCES, "10.1000/abc"), Facts("Data", shuffled(6), "10.1000/abc")),
    "a chapter in a book": (Facts(TITLE, SENTENCES), Facts("Handbook of straw", shuffled(7) * 30 + SENTENCES)),
    "nothing": (Facts("", ""), Facts("", "")),
    "one short sentence": (Facts("", "All rights reserved by the press."), Facts("", "All rights reserved by the press.")),
}


@pytest.mark.parametrize("case", same)
def test_versions_of_one_work(case):
    a, b = same[case]
    v = compare(a, b)
    assert v and v == compare(b, a), v
    assert set(keys(a)) & set(keys(b)), "they would never be compared"


@pytest.mark.parametrize("case", other)
def test_two_works_stay_two(case):
    a, b = other[case]
    assert not compare(a, b) and compare(a, b) == compare(b, a), compare(a, b)


@given(st.tuples(st.text(max_size=60), st.text(max_size=400)), st.tuples(st.text(max_size=60), st.text(max_size=400)))
def test_any_two_texts(x, y):
    "Symmetric, total, and never same without a key in common that leads to the comparison"
    a, b = Facts(*x), Facts(*y)
    assert compare(a, b) == compare(b, a) and compare_titles(x[0], y[0]) == compare_titles(y[0], x[0])
    assert keys(a) == keys(Facts(*x)) and all(-2**63 <= k < 2**63 for k in keys(a))


def test_signatures_are_the_same_everywhere():
    "Stored signatures are compared with those of other machines and later versions"
    assert sum(keys(Facts(TITLE, SENTENCES, "10.1000/abc"))) == KEYS


KEYS = -34424086971680989141


def test_long_and_odd_texts():
    "A book is bounded; scripts without spaces have runs"
    assert len(Facts("", "straw " * 10**6).tokens) == 20_000
    chinese = "在二〇一九年秋季我们测量了水稻秸秆的产量和灰分并与前几年的结果进行了比较发现差异很小而且主要由降雨引起" * 2
    assert len(Facts("", chinese).shingles) > 25 and compare(Facts("", chinese), Facts("", chinese + "谢谢"))


def test_scifact_has_none(real_data):
    "5,183 abstracts of different papers: nothing is flagged"
    from itertools import combinations
    with gzip.open(real_data("scifact/corpus.jsonl.gz"), "rt") as f: docs = [json.loads(l) for l in f]
    facts, at = [Facts(d["title"], " ".join(d["abstract"])) for d in docs], {}
    for i, f in enumerate(facts):
        for k in keys(f): at.setdefault(k, []).append(i)
    pairs = {p for found in at.values() for p in combinations(found, 2)}
    assert len(pairs) < 5_000 and not [(docs[i]["title"], docs[j]["title"]) for i, j in pairs if compare(facts[i], facts[j])]


# in the database

@pytest.fixture
def db(corpus_name):
    with open_database(name=corpus_name) as db: yield db


@pytest.fixture(scope="module")
def encoder(): return HashingEmbedder()


def doc(id, f, **kw): return DocumentInput(id=id, title=f.title, text=f.text, format="text", doi=f.doi, year=f.year, **kw)


FAMILY = {"a": Facts(TITLE, SENTENCES, "10.1000/a"), "b": Facts(TITLE, rewrite(SENTENCES, .1), "10.1000/b"), "c": Facts("", rewrite(SENTENCES, .03, 3)),
          "d": Facts(f"{TITLE}. Part II", SENTENCES + " More."), "x": Facts("Moss", shuffled(8)), "y": Facts("Moss", shuffled(9))}


def state(db):
    return (db.fetch("SELECT a, b, true, reason, similarity FROM document_duplicates WHERE same ORDER BY a, b"),
            db.fetch("SELECT document_id, group_id FROM document_signatures ORDER BY document_id"))


@hyp(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("+-~"), st.sampled_from(sorted(FAMILY))), max_size=10))
def test_the_way_there_does_not_matter(db, encoder, steps):
    "Whatever was inserted, deleted and replaced: the groups are those of what is there now"
    db.execute("DELETE FROM documents"); link_duplicates(db)
    have = {}
    for what, id in steps:
        if what == "-":
            db.execute("DELETE FROM documents WHERE id = %s", (id,)); have.pop(id, None); link_duplicates(db)
        else:
            f = FAMILY[id] if what == "+" else Facts(FAMILY[id].title, shuffled(id), FAMILY[id].doi)
            ingest(db, encoder, [doc(id, f)], show_progress=False); have[id] = f
    after = state(db)
    want = {tuple(sorted((i, j))) for i in have for j in have if i < j and compare(have[i], have[j])}
    assert {r[:2] for r in after[0]} == want
    hashes = dict(db.fetch("SELECT id, content_hash FROM documents"))
    told = [(i, j, v.same, v.reason, v.similarity) for i in have for j in have if i < j and ((v := compare(have[i], have[j])) or v.apart)]
    groups = {i: f"group-{hashes[g[0]][:12]}" for g in works(told, hashes) for i in g}
    assert dict(after[1]) == {i: groups.get(i) for i in have} and not pending(db)


def test_demo_has_one_pair(db, encoder):
    report = ingest(db, encoder, demo, show_progress=False)
    assert report.ok
    df = duplicates(db)
    assert sorted(df.source_ref) == ["dilute-acid-stover-article.md", "dilute-acid-stover-preprint.md"] and df.group.nunique() == 1
    assert (df.reason == "title").all()


def test_other_file_formats(db, encoder, tmp_path):
    "One paper as Markdown, HTML and plain text"
    body = [SENTENCES[i:i + 400] for i in range(0, len(SENTENCES), 400)]
    (tmp_path / "a.md").write_text(f"# {TITLE}\n\n## Abstract\n\n" + "\n\n".join(body) + "\n\n| plot | loss |\n|---|---|\n| 1 | 4.1 |\n")
    (tmp_path / "b.html").write_text(f"<html><head><title>{TITLE}</title></head><body><h1>{TITLE}</h1>" + "".join(f"<p>{p}</p>" for p in body) + "</body></html>")
    (tmp_path / "c.txt").write_text("Journal of Straw\n\n" + "\n\n".join(body))
    ingest(db, encoder, tmp_path, show_progress=False)
    assert len(duplicates(db)) == 3 and duplicates(db).group.nunique() == 1


def test_metadata_in_place_counts(db, encoder):
    "A DOI that is declared later makes two documents one work; a wrong one that goes makes them two again"
    a, b = FAMILY["a"], Facts("", renumber(SENTENCES))
    ingest(db, encoder, [doc("a", a), doc("b", b)], show_progress=False)
    assert duplicates(db).empty
    assert ingest(db, encoder, [doc("b", Facts("", b.text, a.doi))], show_progress=False).counts == {"updated": 1}
    assert list(duplicates(db).reason) == ["doi", "doi"]
    ingest(db, encoder, [doc("b", b)], show_progress=False)
    assert duplicates(db).empty and not pending(db)


def test_what_a_killed_run_left_is_compared_by_the_next(db, encoder):
    ingest(db, encoder, [doc("a", FAMILY["a"]), doc("b", FAMILY["b"])], show_progress=False)
    want = state(db)
    db.execute("DELETE FROM document_signatures WHERE document_id = 'a'"); db.execute("DELETE FROM document_duplicates")
    assert pending(db) == 1
    ingest(db, encoder, [doc("a", FAMILY["a"])], show_progress=False)
    assert state(db) == want


def _ingest_one(name, id):
    with open_database(name=name) as db: ingest(db, HashingEmbedder(), [doc(id, FAMILY[id])], show_progress=False)


def test_two_processes_at_once(corpus_name):
    "Neither sees the other's document until it is stored; the pair is found all the same"
    open_database(name=corpus_name).close()
    at_once = [multiprocessing.get_context("spawn").Process(target=_ingest_one, args=(corpus_name, id)) for id in "abc"]
    for p in at_once: p.start()
    for p in at_once: p.join(); assert p.exitcode == 0
    with open_database(name=corpus_name) as db: assert list(duplicates(db).id.sort_values()) == ["a", "b", "c"]


# in a ranking

QUESTION = "potassium loss of wheat straw by rain before baling"


def found(db, encoder, scope=None, strategy="interactive", **kw):
    r = search(db, encoder, QUESTION, strategy=strategy, scope=scope, limit=20, **kw)
    return r, [(h.rank, h.document_id, h.ordinal if hasattr(h, "ordinal") else h.start, round(h.score, 12), h.also_as) for h in r]


@pytest.mark.parametrize("strategy", ["interactive", "bm25", "vector", "bm25-vector-convex"])
def test_one_version_counts(db, encoder, strategy):
    ingest(db, encoder, [doc(i, f) for i, f in FAMILY.items()], show_progress=False)
    r, hits = found(db, encoder, strategy=strategy)
    every, all_hits = found(db, encoder, strategy=strategy, duplicates="all")
    family = [h.document_id for h in r if h.document_id in "abc"]
    assert len(set(family)) == 1 and {h.document_id for h in every} >= {"a", "b", "c"}
    first = next(h for h in every if h.document_id in "abc")
    assert family[0] == first.document_id, "the best-ranked version stays"
    shown = next(h for h in r if h.document_id == family[0])
    assert {i for i, *_ in shown.also_as} == {"a", "b", "c"} - set(family) and all(h.also_as == () for h in every)
    assert "also as: " in repr(shown) and "also as: " in r._repr_html_() and "also as" in repr(r)
    assert [h.document_id for h in r if h.document_id not in "abc"] == [h.document_id for h in every if h.document_id not in "abc"]
    scores = {(h.document_id, h.passage_id): h.score for h in every}
    assert all(h.score == scores[h.document_id, h.passage_id] for h in r) and [h.rank for h in r] == list(range(1, len(r) + 1))


def test_rankings_without_versions_do_not_change(db, encoder):
    ingest(db, encoder, [doc(i, FAMILY[i]) for i in "adxy"], show_progress=False)
    db.execute("UPDATE document_signatures SET group_id = NULL"); db.execute("DELETE FROM document_duplicates")
    for strategy in ("interactive", "bm25"):
        (r, hits), (q, others) = found(db, encoder, strategy=strategy), found(db, encoder, strategy=strategy, duplicates="all")
        assert hits == others and [p.key for p in r.pool] == [p.key for p in q.pool] and [dict(s.info) for s in r.trace] == [dict(s.info) for s in q.trace]


@pytest.mark.parametrize("strategy", ["interactive", "bm25", "vector"])
@pytest.mark.parametrize("hidden", [["a"], ["b"], ["c"], ["a", "c"]])
def test_what_may_not_be_seen_has_no_influence(db, encoder, strategy, hidden):
    "A search in a corpus with restricted versions equals one in a corpus without them: hits, scores, notes and trace"
    licence = lambda i: "all rights reserved" if i in hidden else "CC BY 4.0"
    ingest(db, encoder, [doc(i, f, license=licence(i)) for i, f in FAMILY.items()], show_progress=False)
    r, there = found(db, encoder, Scope.external(), strategy)
    listed = duplicates(db, Scope.external())
    db.execute("DELETE FROM documents WHERE id = ANY(%s)", (hidden,)); link_duplicates(db)
    q, gone = found(db, encoder, Scope.external(), strategy)
    told = lambda r: [(s.name, s.status, s.candidates, dict(s.info)) for s in r.trace]
    assert there == gone and told(r) == told(q) and repr(r) == repr(q) and not {h[1] for h in there} & set(hidden)
    assert listed.equals(duplicates(db, Scope.external()))


def test_a_hidden_link_does_not_join(db, encoder):
    "Two documents that are alike only through a third one are two for a reader who may not see the third"
    for i in "abc":
        db.execute("INSERT INTO documents (id, title, text, content_hash, index_hash, license_class) VALUES (%s, '', %s, %s, '', %s)",
                   (i, shuffled(i), i * 20, "restricted" if i == "b" else "public"))
    db.execute("INSERT INTO document_duplicates VALUES ('a', 'b', true, 'text', .9), ('b', 'c', true, 'text', .9)")
    with db.session() as conn:
        assert versions(conn, ["a"]) == {"a": ("b", "c"), "b": ("a", "c"), "c": ("a", "b")}
        assert versions(conn, ["a", "c"], Scope(license_classes=["public"])) == {}
        assert versions(conn, [], None) == {}
    assert best_versions(["a", "c", "a"], str, {}) == ["a", "c", "a"]


def test_wrong_use(db, encoder):
    with pytest.raises(ParameterError): search(db, encoder, "straw", duplicates="some")


def test_evaluation_judges_each_document(corpus_name, encoder):
    "Qrels that name both versions find both, unless asked otherwise"
    from sci_rag.corpus import connect
    with connect(name=corpus_name, embedder=encoder) as c:
        c.ingest([doc(i, f) for i, f in FAMILY.items()], show_progress=False)
        qrels = {"q": {"a": 1, "b": 1, "c": 1}}
        run = lambda **kw: c.evaluate(["bm25"], {"q": QUESTION}, qrels, metrics=["R@100"], **kw).per_query["R@100"][0]
        assert run() == 1 and round(run(duplicates="best"), 3) == .333
