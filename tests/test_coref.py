"Coreference: clusters, rewriting, what a cut costs, packers, resolvers"
import random, re, subprocess, sys, time, types
from itertools import product

import pytest

from sci_rag.chunker import TokenCounter
from sci_rag.core import ParameterError, SciRagError
from sci_rag import coref
from sci_rag.coref import (CorefError, FastCorefResolver, abbreviations, best_pack, boundary_costs, find_names, get_resolver, greedy_pack, link_scores, marked,
                           name_key, paragraphs, replacements, resolution, rewrite, split_long, token_windows, words)


def given(s): return resolution(*marked(s))


def needs_spacy():
    "The English pipeline is an extra"
    try: return coref.load_spacy()
    except CorefError as e: pytest.skip(str(e))


@pytest.fixture(scope="module")
def rules():
    needs_spacy()
    return get_resolver("rules")


# clusters

def test_offsets_are_checked_against_the_text():
    for bad in [(-1, 3), (0, 0), (3, 2), (0, 99), ("0", 3), (0.0, 3)]:
        with pytest.raises(CorefError, match="does not lie in a text of 9"): resolution("a b c d e", [[(0, 1), bad]])
    with pytest.raises(CorefError, match="not the text it points at"): resolution("b b", given("[a]1 [a]1").clusters[:1] and [given("[a]1 [a]1").clusters[0].mentions])
    assert issubclass(CorefError, SciRagError)


def test_small_clusters_and_repeated_mentions_are_dropped():
    assert resolution("a b", [[(0, 1)], [], [(2, 3), (2, 3)]]).clusters == ()
    [c] = resolution("a b", [[(2, 3), (0, 1), (0, 1)]]).clusters
    assert [m.start for m in c.mentions] == [0, 2]


def test_white_space_around_a_mention_is_trimmed():
    assert [m.text for m in resolution(" a  b ", [[(0, 3), (3, 6)]]).clusters[0].mentions] == ["a", "b"]


def test_canonical_is_most_words_then_characters_then_earliest():
    c = given("[Ann]1P [Ann Li]1P [Ann Lo]1P [Ann Lee]1P [Bob Lee]1P [the very tall woman]1N [she]1").clusters[0]
    assert c.canonical("propn").text == "Ann Lee" and c.canonical("nominal").text == "the very tall woman"
    assert given("[it]1 [its]1").clusters[0].canonical("nominal") is None
    with pytest.raises(ParameterError, match="Did you mean nominal"): c.canonical("nominall")


# rewriting

def test_possessives_stay_possessive():
    assert rewrite(given("[Aspirin]1P works. [Its]1 effect is quick.")).text == "Aspirin works. Aspirin's effect is quick."
    assert rewrite(given("[Aspirin]1P works. We saw [the drug's]1N effect and [the drug]1N's smell."), "propn").text == "Aspirin works. We saw Aspirin's effect and Aspirin's smell."
    assert rewrite(given("[Aspirin's]1P effect. [It]1 works. [Its]1 price.")).text == "Aspirin's effect. Aspirin works. Aspirin's price."


def test_her_is_possessive_before_a_noun_only():
    assert rewrite(given("[Dr. Voss]1P came. We met [her]1 and [her]1 son. Nobody knew [her]1.")).text == "Dr. Voss came. We met Dr. Voss and Dr. Voss's son. Nobody knew Dr. Voss."


def test_rewriting_changes_the_search_view_only():
    "A chain on 'her' must not touch 'heritage', and the source stays byte for byte"
    who = given("[Dr. Voss]1P published [her]1 paper. The heritage of [her]1 lab was wide.")
    source = who.text
    new = rewrite(who)
    assert new.text == "Dr. Voss published Dr. Voss's paper. The heritage of Dr. Voss's lab was wide."
    assert who.text is source and source == "Dr. Voss published her paper. The heritage of her lab was wide."
    assert len(new.offsets) == len(new.text) + 1 and all(a <= b for a, b in zip(new.offsets, new.offsets[1:]))
    unchanged = [i for i in range(len(new.text)) if new.text[i:i + 8] == "heritage"]
    assert source[new.offsets[unchanged[0]]:][:8] == "heritage"


def test_replacements_never_overlap_and_inner_mentions_win():
    who = given("[Aspirin]1P acts. [A test]2P ran. [[Its]1 [first [test of [it]1]3]2N]4 failed, [[it]1 said [it]1]2N.")
    for p in coref.POLICIES:
        edits = replacements(who, p)
        assert edits == sorted(edits) and all(a[1] <= b[0] for a, b in zip(edits, edits[1:]))
    assert "Aspirin's first" in rewrite(who).text and "test of Aspirin" in rewrite(who).text


def test_a_mention_that_holds_its_own_canonical_mention_stays():
    assert rewrite(given("[the drug [Aspirin]1P]1 helps. [It]1 is old.")).text == "the drug Aspirin helps. Aspirin is old."


def test_parts_of_a_text_are_rewritten_with_names_from_outside():
    who = given("[Aspirin]1P works. [It]1 is old. [It]1 is cheap.")
    at = who.text.index("It is cheap")
    assert rewrite(who, start=at).text == "Aspirin is cheap." and rewrite(who, start=at, end=at + 1).text == "It"[:1]


# what a cut costs

def test_noun_chains_cost_nothing_under_propn():
    who = given("[The drug]1N works. [It]1 is cheap.")
    at = [who.text.index("It is")]
    assert boundary_costs(who, at, "propn") == [0] and boundary_costs(who, at, "nominal") == [1]


def test_costs_equal_a_count_by_hand():
    rng = random.Random(3)
    for _ in range(100):
        text = "x" * 60
        chains = [[(a, a + rng.randint(1, 4), {rng.choice(["PROPN", "NOUN", "PRON"])}) for a in rng.sample(range(55), rng.randint(1, 5))] for _ in range(rng.randint(0, 6))]
        who = resolution(text, chains)
        for p in coref.POLICIES:
            slow = [sum(c.canonical(p) is not None and min(m.start for m in c.mentions) < x < max(m.end for m in c.mentions) for c in who.clusters) for x in range(61)]
            assert boundary_costs(who, range(61), p) == slow


# packers

def test_three_short_sentences_pack_as_two_and_one():
    assert greedy_pack([2, 2, 2], 4, 6) == [(0, 2), (2, 3)]
    assert best_pack([2, 2, 2], [0, 0], 4, 6) == [(0, 3)], "2 + 1 and 3 are equally far from the target; fewer passages win"
    assert best_pack([2, 2, 2], [0, 0], 4, 5) == [(0, 1), (1, 3)], "two equal packings: the earlier ends win"


def test_greedy_cuts_the_chain_that_the_programme_keeps():
    sizes, cuts = [7, 3, 3], [0, 1]
    assert greedy_pack(sizes, 10, 12) == greedy_pack(sizes, 10, 12, cuts) == [(0, 2), (2, 3)]
    assert best_pack(sizes, cuts, 10, 12) == [(0, 1), (1, 3)]


def test_aware_packing_uses_the_room_only_while_a_chain_crosses():
    assert greedy_pack([5, 5, 2, 2], 10, 13, [0, 1, 0]) == [(0, 3), (3, 4)]
    assert greedy_pack([5, 5, 2, 2], 10, 11, [0, 1, 0]) == [(0, 2), (2, 4)]
    assert greedy_pack([5, 5, 2, 2], 10, 13, [0, 0, 0]) == [(0, 2), (2, 4)]


def prices(sizes, cuts, target, limit):
    n = len(sizes)
    for inside in product([0, 1], repeat=n - 1):
        ends = [i + 1 for i, x in enumerate(inside) if x] + [n]
        spans = list(zip([0, *ends], ends))
        total = [sum(sizes[a:b]) for a, b in spans]
        if all(t <= limit or b == a + 1 for t, (a, b) in zip(total, spans)):
            yield (sum(cuts[e - 1] for e in ends[:-1]), sum((t - target) ** 2 for t in total), len(spans), ends), spans


@pytest.mark.parametrize("seed", range(6))
def test_the_programme_is_exact(seed):
    rng = random.Random(seed)
    for _ in range(120):
        n, target = rng.randint(1, 10), rng.choice([1, 3, 6, 20])
        limit = target + rng.choice([0, 1, 5, 200])
        sizes, cuts = [rng.choice([0, 1, 1, 2, 3, 9]) for _ in range(n)], [rng.choice([0, 0, 1, 1, 5]) for _ in range(n)]
        assert best_pack(sizes, cuts, target, limit) == min(prices(sizes, cuts, target, limit))[1]


def test_packers_take_nothing_and_refuse_nonsense():
    assert best_pack([], [], 4, 6) == greedy_pack([], 4, 6) == token_windows([], 4, 1) == []
    for f in (lambda: best_pack([1], [], 7, 6), lambda: greedy_pack([1], 0, 6), lambda: token_windows([1], 4, 4)):
        with pytest.raises(ParameterError): f()


def test_long_documents_are_packed_in_time():
    rng = random.Random(0)
    for size, target, limit in ((2, 510, 510), (2, 112, 126), (25, 112, 126)):
        n = 20_000 // size
        cuts, started = [rng.randint(0, 9) for _ in range(n)], time.process_time()
        found = best_pack([size] * n, cuts, target, limit)
        assert time.process_time() - started < 2
        assert found[0][0] == 0 and found[-1][1] == n and all(a[1] == b[0] for a, b in zip(found, found[1:]))


def test_windows_overlap_and_cover():
    rng = random.Random(0)
    for _ in range(200):
        costs = [rng.randint(0, 5) for _ in range(rng.randint(1, 40))]
        size = rng.randint(5, 12); overlap = rng.randint(0, size - 1)
        found = token_windows(costs, size, overlap)
        assert found[0][0] == 0 and found[-1][1] == len(costs)
        assert all(sum(costs[a:b]) <= size for a, b in found)
        assert all(a[0] < b[0] <= a[1] < b[1] and sum(costs[b[0]:a[1]]) <= overlap for a, b in zip(found, found[1:]))


# cutting what is too long

def word_pieces(s): return len(re.findall(r"\w{1,4}|[^\w\s]", s)) + 2


@pytest.mark.parametrize("text", ["one two three four five six seven eight", "GATTACA" * 9, "a " * 50, "日本語の文" * 10, "short", "x" * 100 + " y " + "z" * 100])
@pytest.mark.parametrize("limit", [1, 2, 5, 11])
def test_pieces_fit_alone_and_lose_nothing(text, limit):
    count = TokenCounter(word_pieces)
    found = split_long(text, limit, count)
    assert all(0 < count.cost(text[a:b]) <= limit and text[a:b] == text[a:b].strip() for a, b, _ in found)
    assert "".join(text[a:b] for a, b, _ in found).replace(" ", "") == text.replace(" ", "")
    assert [count.cost(text[a:b]) for a, b, _ in found] == [c for *_, c in found]


def test_a_long_sentence_is_cut_evenly():
    count = TokenCounter(lambda s: len(s.split()))
    assert [c for *_, c in split_long("w " * 130, 126, count)] == [65, 65]
    assert [c for *_, c in split_long("w " * 126, 126, count)] == [126]
    assert sum(c for *_, c in words("w " * 300, 5, count)) == 300


# rules

def test_abbreviations_are_read_and_false_ones_are_not():
    def found(s): return [(s[a:b], s[c:d]) for a, b, c, d in abbreviations(s)]
    assert found("Levels of interleukin-6 (IL-6) rose.") == [("interleukin-6", "IL-6")]
    assert found("tumour necrosis factor-alpha (TNF-α)") == [("tumour necrosis factor-alpha", "TNF-α")]
    assert found("We used polymerase chain reaction (PCR; see Table 2).") == [("polymerase chain reaction", "PCR")]
    for s in ("The mice (Jackson) ran.", "It rose (P < 0.05).", "(IL-6)", "The end. (WHO) ", "ten patients (Figure 2)", "", "()", "(((", "a (b) c"): assert found(s) == [], s


def test_names_are_recognised_by_their_letters():
    def found(s): return [s[a:b] for a, b in find_names(s)]
    assert found("IL-6-induced BRCA1 and COPD-related p53") == ["IL-6", "BRCA1", "COPD", "p53"]
    assert found("In 2019 it rose by 30 kWh at 4 GPa. A cat.") == []
    assert len({name_key(s) for s in ("TNF-alpha", "TNF alpha", "TNFα", "tnf-α")}) == 1


@pytest.mark.parametrize("s", [
    "[Aspirin]1 was tested in dogs. [Its]1 effect was small.",
    "[Dr. Voss]1 published [her]1 paper. The heritage of [her]1 lab was wide.",
    "[Interleukin-6 (IL-6)]1 rises in sepsis. [IL-6]1 is made by macrophages.",
    "[Forty patients with diabetes]1 were enrolled. [The patients]1 received metformin, and [their]1 glucose was measured daily.",
    "[Rituximab]1 depletes B cells. In most patients [this drug]1 is well tolerated.",
    "[TNF-alpha]1 drives inflammation. Blocking [TNF-α]1 helps patients with arthritis.",
    "The treatment group lost weight. The control group did not.",
    "It is known that the vaccine works. It is important to test the drug.",
    "[Bacillus subtilis]1 is harmless. [B. subtilis]1 survives drying.",
])
def test_rules_find_what_is_plain(rules, s):
    text, chains = marked(s)
    assert [r for r in link_scores(text, chains, rules.resolve(text)) if r[1] != "right"] == []


def test_rules_are_deterministic_and_valid_on_odd_texts(rules):
    for text in ("", " ", "It.", "(", "Its its it IT It's", "α-β (γ).", "a" * 300, "They\n\nthey.\n\n\n", "IL-6 (IL-6) IL-6", "the the the", "x (" * 40, "e\u0301 \u200b it", "𝒳 is it. 𝒳"):
        a, b = rules.resolve(text), rules.resolve(text)
        assert a == b
        for c in a.clusters: assert len(c.mentions) > 1 and all(text[m.start:m.end] == m.text for m in c.mentions)
        for p in coref.POLICIES: rewrite(a, p); boundary_costs(a, range(len(text)), p)


def test_only_the_given_spans_are_read(rules):
    text = "Aspirin works.\n\nIt | 3\n\nIts effect is small."
    who = rules.resolve(text, spans=[(0, 14), (24, len(text))])
    assert [m.text for m in who.clusters[0].mentions] == ["Aspirin", "Its"]


def test_very_long_paragraphs_are_read_in_parts():
    text = "The cat sat. " * 400
    found = paragraphs(text, most=1000)
    assert all(b - a <= 1000 for a, b in found) and "".join(text[a:b] for a, b in found).replace(" ", "") == text.replace(" ", "")
    assert paragraphs("x" * 2500, most=1000) == [(0, 1000), (1000, 2000), (2000, 2500)]


def test_resolving_grows_in_line_with_the_text(rules):
    text = "Aspirin was tested in dogs. Its effect was small, and the dogs liked it. "
    def seconds(n):
        t = text * n
        started = time.process_time(); rules.resolve(t)
        return time.process_time() - started
    seconds(10)
    assert seconds(400) < 8 * max(seconds(100), .2)


# what is not installed, and the neural adapter

def test_importing_coref_loads_neither_spacy_nor_torch():
    code = "import sys, sci_rag.coref, sci_rag.views; print(sorted({'spacy', 'torch', 'fastcoref', 'thinc'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_missing_packages_are_said_clearly(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.setattr(coref, "_pipelines", {})
    with pytest.raises(CorefError, match=r"spaCy is not installed.*pip install 'sci-rag\[coref\]'"): coref.RuleResolver()
    monkeypatch.setitem(sys.modules, "fastcoref", None)
    with pytest.raises(CorefError, match=r"fastcoref is not installed.*pip install 'sci-rag\[fastcoref\]'"): FastCorefResolver()


def test_a_missing_pipeline_is_said_clearly(monkeypatch):
    pytest.importorskip("spacy")
    monkeypatch.setattr(coref, "_pipelines", {}); monkeypatch.setattr(coref, "MODELS", ())
    with pytest.raises(CorefError, match="no English spaCy pipeline is installed"): coref.load_spacy()


class Prediction:
    def __init__(self, clusters): self.clusters = clusters
    def get_clusters(self, as_strings=True): return self.clusters if not as_strings else 1 / 0


def stub(monkeypatch, clusters, calls=None):
    class FCoref:
        def __init__(self, model, device=None, nlp=None, enable_progress_bar=True):
            if model == "absent": raise OSError("no such file")
            self.made = dict(model=model, device=device, bar=enable_progress_bar)
        def predict(self, texts, is_split_into_words=False, max_tokens_in_batch=10000):
            if calls is not None: calls.append((texts, max_tokens_in_batch, self.made))
            return [Prediction(clusters(t) if callable(clusters) else clusters) for t in texts]
    monkeypatch.setitem(sys.modules, "fastcoref", types.SimpleNamespace(FCoref=FCoref, LingMessCoref=FCoref, __version__="9.9"))


def test_the_neural_adapter_maps_offsets_tags_and_spans(monkeypatch):
    needs_spacy()
    calls = []
    stub(monkeypatch, lambda t: [[m.span() for m in re.finditer(r"Marie Curie|She|her\b", t)], [(0, 5)]], calls)
    text = "Marie Curie slept.\n\n| She | 3 |\n\nShe woke. Nobody saw her son."
    who = FastCorefResolver().resolve(text, spans=[(0, 18), (33, len(text))])
    [c] = who.clusters
    assert [(m.start, m.text) for m in c.mentions] == [(0, "Marie Curie"), (33, "She"), (54, "her")]
    assert c.canonical("propn").text == "Marie Curie" and [m.possessive for m in c.mentions] == [False, False, True]
    assert rewrite(who).text.endswith("Marie Curie woke. Nobody saw Marie Curie's son.")
    assert who.resolver == "fastcoref:9.9:biu-nlp/f-coref"
    assert calls == [(["Marie Curie slept.\n\nShe woke. Nobody saw her son."], 4000, dict(model="biu-nlp/f-coref", device="cpu", bar=False))]


def test_the_neural_adapter_refuses_bad_offsets_and_says_what_failed(monkeypatch):
    needs_spacy()
    stub(monkeypatch, [[(0, 4), (5, 999)]])
    with pytest.raises(CorefError, match="does not lie in a text"): FastCorefResolver().resolve("Some text.")
    with pytest.raises(CorefError, match="cannot be loaded.*absent"): FastCorefResolver("absent").resolve("Some text.")
    stub(monkeypatch, lambda t: 1 / 0)
    with pytest.raises(CorefError, match="model failed"): FastCorefResolver().resolve("Some text.")
    stub(monkeypatch, [])
    assert FastCorefResolver().resolve("").clusters == () and FastCorefResolver().resolve("Some text.").clusters == ()


def test_resolvers_by_name(monkeypatch):
    class Mine:
        version = "mine"
        def resolve(self, text, spans=None): return resolution(text, [])
    mine = Mine()
    assert get_resolver(mine) is mine
    with pytest.raises(CorefError, match="Did you mean rules"): get_resolver("rule")
    with pytest.raises(CorefError, match="no resolver"): get_resolver(3)
