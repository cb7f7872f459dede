"What leaves a corpus leaves no trace; what is no evidence is not found; what is retracted later is retracted at once"
import json

import pytest

from sci_rag import layers
from sci_rag.core import CorpusError
from sci_rag.corpus import connect
from sci_rag.embed import HashingEmbedder
from sci_rag.ingest import DocumentInput
from sci_rag.scope import Scope


@pytest.fixture
def corpus(corpus_name):
    with connect(name=corpus_name, embedder="hashing") as c: yield c


ONE = "# Ash of rice straw\n\nRice straw holds 14 percent ash, and zirconium was found in none of the samples we took.\n"
TWO = "# Almond hulls\n\nAlmond hulls are fed to dairy cows in winter, and the shells are burnt for heat in the huller.\n"
REFERENCES = """# Potassium in straw

Potassium leaves the straw with the rain, and most of it is gone within three weeks of the harvest in a wet year.

## References

1. Zweistein, Q. (1998). Quokkaology of the hedgerow and its xylophones. Journal of Quokkaology, 4, 12-19.
2. Zweistein, Q. (2001). More xylophones for the hedgerow: a quokkaological reply. Journal of Quokkaology, 7, 33-41.
"""


def rows(c, ids=None):
    "Rows of every table of the corpus, but for the books"
    tables = [r[0] for r in c.db.fetch("SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r'", [f'"{c.db.schema}"'])]
    return {t: c.db.fetch(f"SELECT count(*) FROM {t}")[0][0] for t in tables if t not in ("schema_version", "bm25_changes", "corpus_meta")}


def test_delete_takes_everything_along(corpus):
    "After a deletion every table is as it was before the document came, graph and statistics included"
    corpus.ingest([DocumentInput(id="two", text=TWO, format="markdown")], representations=["chunk", "title"], show_progress=False)
    corpus.db.execute("INSERT INTO kg_entities (name) VALUES ('hulls'), ('cows')")
    passage = lambda id: corpus.db.fetch("SELECT min(id) FROM passages WHERE document_id = %s", [id])[0][0]
    relate = lambda a, b, id: corpus.db.execute("INSERT INTO kg_relationships (source_id, target_id, passage_id) SELECT x.id, y.id, %s FROM kg_entities x, kg_entities y WHERE x.name = %s AND y.name = %s", (passage(id), a, b))
    relate("hulls", "cows", "two")
    corpus.db.execute("INSERT INTO kg_communities (title, members) SELECT 'feed', array_agg(id) FROM kg_entities WHERE name = 'hulls'")
    before, digest, stats = rows(corpus), corpus.fingerprint()["digest"], corpus.db.fetch("SELECT * FROM bm25_stats ORDER BY 1")
    corpus.ingest([DocumentInput(id="one", text=ONE, format="markdown")], representations=["chunk", "title"], show_progress=False)
    corpus.db.execute("INSERT INTO kg_entities (name) VALUES ('ash')")
    relate("ash", "cows", "one")
    corpus.db.execute("INSERT INTO kg_communities (title, members) SELECT 'ash', array_agg(id) FROM kg_entities WHERE name = 'ash'")
    gone = corpus.delete("one")
    assert gone["documents"] == 1 and gone["passages"] == 2 and gone["vectors"] == 2 and gone["kg_relationships"] == 1 and gone["kg_entities"] == 1
    assert gone["kg_communities"] == 1 and gone["bm25_units"] == 2 and gone["bm25_postings"] > 5
    assert rows(corpus) == before and corpus.fingerprint()["digest"] == digest and corpus.db.fetch("SELECT * FROM bm25_stats ORDER BY 1") == stats
    assert not len(corpus.search("zirconium", strategy="bm25")) and {"two"} == {h.document_id for h in corpus.search("ash zirconium")}
    assert corpus.db.fetch("SELECT name FROM kg_entities ORDER BY 1") == [("cows",), ("hulls",)]


def test_delete_is_all_or_none(corpus):
    corpus.ingest([DocumentInput(id="one", text=ONE), DocumentInput(id="two", text=TWO)], show_progress=False)
    before = rows(corpus)
    with pytest.raises(CorpusError, match="nobody"): corpus.delete("one", "nobody")
    assert rows(corpus) == before
    assert corpus.delete("one", "two", "one")["documents"] == 2 and set(rows(corpus).values()) == {0}
    assert corpus.delete() == {"documents": 0, "passages": 0, "vectors": 0}


def test_references_are_in_no_list(corpus):
    "Words that stand in the list of references alone are not evidence: no generator, no level, no representation returns them"
    corpus.ingest([DocumentInput(id="r", text=REFERENCES, format="markdown"), DocumentInput(id="two", text=TWO, format="markdown")], show_progress=False)
    marked = corpus.db.fetch("SELECT id, is_reference FROM passages WHERE text LIKE '%%Quokkaology%%'")
    assert marked and all(is_reference for _, is_reference in marked), "they are labelled, and stored"
    listed = {i for i, _ in marked}
    embedder = HashingEmbedder()
    lexical = [("keyword", {}), ("bm25", {"level": "passage"}), ("bm25", {"level": "document"})]
    with corpus.db.session() as conn:
        query = lambda: layers.Query("quokkaology xylophones hedgerow", lambda: embedder.encode_queries(["quokkaology xylophones hedgerow Zweistein"])[0])
        for name, params in lexical:
            assert not layers.generator(name).run(conn, query(), None, 10, **params).candidates, (name, params)
            assert layers.generator(name).run(conn, layers.Query("potassium rain"), None, 10, **params).candidates
        for name, g in layers.GENERATORS.items():
            for mode in ("exact", "hnsw") if "mode" in g.params else (None,):
                given = {"mode": mode} if mode else {"representations": ("chunk",)} if "representations" in g.params else {}
                found = g.run(conn, query(), None, 10, **given).candidates
                assert not listed & {c.passage_id for c in found}, (name, mode)
    for strategy in ("interactive", "bm25", "vector"):
        assert all("Quokkaology" not in h.text for h in corpus.search("quokkaology xylophones hedgerow", strategy=strategy))


class Counted(HashingEmbedder):
    texts = 0
    def encode_documents(self, texts, **kw): Counted.texts += len(texts); return super().encode_documents(texts, **kw)


def test_a_later_retraction_and_licence_count_at_once(corpus_name, tmp_path):
    "A manifest that declares a retraction later: results change, nothing is encoded, passages keep their ids"
    (tmp_path / "one.md").write_text(ONE); (tmp_path / "two.md").write_text(TWO)
    def manifest(**more): (tmp_path / "manifest.jsonl").write_text(json.dumps(dict(path="one.md", license="CC BY 4.0", **more)) + "\n" + json.dumps(dict(path="two.md", license="CC BY 4.0")) + "\n")
    with connect(name=corpus_name, embedder=Counted()) as c:
        manifest(); c.ingest(tmp_path, show_progress=False)
        encoded, passages = Counted.texts, c.db.fetch("SELECT id, embedding_version FROM passages ORDER BY id")
        careful = Scope(exclude_retracted=True)
        found = lambda scope, s="bm25": [h.title for h in c.search("zirconium ash of straw", strategy=s, scope=scope)]
        assert "Ash of rice straw" in found(careful)
        manifest(meta={"is_retracted": True, "retraction_notice": "10.5555/notice"})
        report = c.ingest(tmp_path, show_progress=False)
        assert report.counts == {"unchanged": 1, "updated": 1} and "is_retracted: False -> True" in report.df.reason.str.cat()
        for s in ("bm25", "keyword", "vector", "interactive"):
            assert "Ash of rice straw" not in found(careful, s) and "Ash of rice straw" in found(None, s)
        hit = c.search("zirconium", strategy="bm25")[0]
        assert hit.is_retracted and hit.retraction_notice == "10.5555/notice"
        assert Counted.texts == encoded and c.db.fetch("SELECT id, embedding_version FROM passages ORDER BY id") == passages
        manifest(); assert c.ingest(tmp_path, show_progress=False).counts == {"unchanged": 1, "updated": 1} and "Ash of rice straw" in found(careful)
