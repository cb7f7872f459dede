"A scope against a model of it in Python: the same documents, whatever the values"
import re, uuid

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from sci_rag.core import ScopeError
from sci_rag.db import open_database
from sci_rag.rights import LICENSE_CLASSES
from sci_rag.scope import Scope, bare_doi

pytestmark = pytest.mark.timeout(300)
quick = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))

sources, journals, dois = ["lab", "agency", "a'b", "%s"], ["Fuel", "BIORESOURCE  Technology", "bioresource technology", "O'Neil's \"Letters\""], ["10.1/a", "10.1/B", "doi:10.1/c"]
people = ["Anna Voss", "Voss, A.", "Min Lee", "Lee, M. K.", "Åsa Öberg", "O’Neil", "van der Berg, J."]
spelt = [*dois, "https://doi.org/10.1/A", " 10.1/b\n", "HTTP://DX.DOI.ORG/10.1/C"]
row = st.fixed_dictionaries(dict(license_class=st.sampled_from(LICENSE_CLASSES), source=st.sampled_from(sources), year=st.none() | st.integers(1980, 2030),
                                 doi=st.none() | st.sampled_from(spelt), authors=st.lists(st.sampled_from(people), max_size=3, unique=True),
                                 journal=st.none() | st.sampled_from(journals), is_retracted=st.booleans()))
maybe = lambda values: st.none() | st.lists(st.sampled_from(values), max_size=3)
years = st.none() | st.just(()) | st.tuples(st.none() | st.integers(1980, 2005), st.none() | st.integers(2005, 2030))
scopes = st.builds(Scope, maybe(LICENSE_CLASSES), maybe(sources), st.lists(st.sampled_from([f"d{i}" for i in range(12)]), max_size=3),
                   st.lists(st.sampled_from(dois), max_size=2), years, maybe(["Voss", "A Voss", "lee", "Åsa Öberg", "O’NEIL", "der van"]), maybe(["fuel", "Bioresource Technology", "o'neil's \"letters\""]), st.booleans())


def words(name): return set(re.split("[^a-z0-9\u0080-\U0010ffff]+", name.lower())) - {""}


def permitted(s, d):
    "The meaning of a scope, written down a second time"
    if s.license_classes is not None and d["license_class"] not in s.license_classes: return False
    if s.sources is not None and d["source"] not in s.sources: return False
    if d["id"] in s.exclude or d["doi"] and bare_doi(d["doi"]) in s.exclude_dois: return False
    if s.years is not None and (s.years == () or d["year"] is None or not (s.years[0] or -9999) <= d["year"] <= (s.years[1] or 9999)): return False
    groups = () if s.authors is None else s.authors if s.authors and isinstance(s.authors[0], tuple) else (s.authors,)
    if not all(any(words(n) <= words(a) for n in g for a in d["authors"]) for g in groups): return False
    if s.journals is not None and (d["journal"] is None or " ".join(d["journal"].lower().split()) not in s.journals): return False
    return not (s.exclude_retracted and d["is_retracted"])


def insert(conn, docs):
    for d in docs:
        conn.execute("""INSERT INTO documents (id, license_class, source, year, doi, authors, journal, is_retracted, content_hash, text, index_hash)
                        VALUES (%(id)s, %(license_class)s, %(source)s, %(year)s, %(doi)s, %(authors)s, %(journal)s, %(is_retracted)s, md5(%(id)s), '', '')""", d)


@pytest.fixture(scope="module")
def db():
    db = open_database(name=f"test_{uuid.uuid4().hex[:12]}")
    yield db
    db.drop()


@quick
@given(rows=st.lists(row, min_size=1, max_size=12), scopes=st.lists(scopes, min_size=1, max_size=8))
def test_sql_means_what_the_model_says(db, rows, scopes):
    docs = [dict(r, id=f"d{i}") for i, r in enumerate(rows)]
    with db.session() as conn:
        insert(conn, docs)
        for s in scopes:
            assert s.documents(conn) == sorted(d["id"] for d in docs if permitted(s, d)), s
            if s.denied: assert s.sql() == ("FALSE", {})
        conn.execute("DELETE FROM documents")


@quick
@given(rows=st.lists(row, min_size=1, max_size=12), a=scopes, b=scopes, c=scopes)
def test_and_is_intersection(db, rows, a, b, c):
    docs = [dict(r, id=f"d{i}") for i, r in enumerate(rows)]
    with db.session() as conn:
        insert(conn, docs)
        ids = lambda s: set(s.documents(conn))
        assert ids(a & b) == ids(a) & ids(b)
        conn.execute("DELETE FROM documents")
    assert a & b == b & a and a & a == a and (a & b) & c == a & (b & c)
    assert a & Scope() == a and (a & Scope.nothing()).denied


@quick
@given(scopes)
def test_plain_values_and_hash(s):
    assert Scope.from_dict(s.as_dict()) == s and hash(Scope.from_dict(s.as_dict())) == hash(s)
    assert eval(repr(s)) == s
    condition, params = s.sql("x")
    assert all(k.startswith("scope_") and f"%({k})s" in condition for k in params)
    assert set(re.findall(r"%\((\w+)\)s", condition)) == set(params)


@quick
@given(text=st.text(max_size=30), field=st.sampled_from(["sources", "exclude", "exclude_dois", "authors", "journals"]))
def test_any_text_is_a_value_or_a_clear_error(db, text, field):
    try: s = Scope(**{field: [text]})
    except ScopeError: return
    with db.session() as conn:
        insert(conn, [dict(id="d", license_class="public", source=text if field == "sources" else "x", year=None, doi=None, is_retracted=False,
                           authors=[text] if field == "authors" else [], journal=text if field == "journals" else None)])
        found = s.documents(conn)
        conn.execute("DELETE FROM documents")
    if field in ("sources", "exclude", "exclude_dois"): assert found == ["d"] or field == "exclude" and text.strip() == "d"


def test_values_are_parameters(db):
    with db.session() as conn:
        insert(conn, [dict(id="d", license_class="restricted", source="lab", year=None, doi=None, authors=[], journal=None, is_retracted=False)])
        for evil in ("x' OR TRUE --", "%(scope_x)s", "'; DROP TABLE documents; --", "{lab}", "\\"):
            assert Scope(sources=evil).documents(conn) == [] and Scope(license_classes=["public"], exclude=[evil]).documents(conn) == []
        conn.execute("DELETE FROM documents")


def test_unknown_is_never_external_safe():
    assert "unknown" not in Scope.external().license_classes and "restricted" not in Scope.external().license_classes
    assert Scope(license_classes=[]).denied and Scope(license_classes=[]) != Scope(license_classes=None)
    assert (Scope.external() & Scope(license_classes=["unknown", "restricted"])).denied


def test_ids_are_taken_as_they_are_and_wrong_types_are_refused():
    assert Scope(exclude=[" x"]).exclude == (" x",) and Scope(sources=[" lab"]).sources == (" lab",)
    for wrong in (0, False, {}, ""):
        with pytest.raises(ScopeError): Scope(exclude=wrong)


@pytest.mark.parametrize("stored", ["10.1000/abc.1", "\u00a010.1000/ABC.1\u200b", "DOI 10.1000/abc.1", "doi.org:10.1000/abc.1", "https://doi.org/10.1000%2Fabc.1", "https://doi.org/doi:10.1000/abc.1",
    "doi:https://doi.org/10.1000/abc.1", "info:doi/10.1000/abc.1", "urn:doi:10.1000/abc.1", "https://doi.org//10.1000/abc.1", "https://doi.org/10.1000/abc.1/", "10.1000/abc.1.", "\uff11\uff10.1000/abc.1"])
def test_a_doi_is_excluded_in_any_spelling_on_either_side(db, stored):
    with db.session() as conn:
        insert(conn, [dict(id="d", license_class="public", source="x", year=None, doi=stored, is_retracted=False, authors=[], journal=None),
                      dict(id="e", license_class="public", source="x", year=None, doi="10.1000/abc.12", is_retracted=False, authors=[], journal=None)])
        assert Scope(exclude_dois=["10.1000/abc.1"]).documents(conn) == ["e"]
        conn.execute("UPDATE documents SET doi = '10.1000/abc.1' WHERE id = 'd'")
        assert Scope(exclude_dois=[stored]).documents(conn) == ["e"]
        conn.execute("DELETE FROM documents")
