"""Metrics against ir-measures on exported files, and the statistics against brute force"""
import itertools

import ir_measures
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from sci_rag.core import DatasetError, ParameterError
from sci_rag.metrics import (METRICS, bootstrap_ci, compare_to_baseline, holm, paired_test, parse_metrics, qrels_digest, read_qrels, read_run, score_run,
                             strict_scores, write_qrels, write_run)


def from_files(run, qrels, folder):
    "query id -> metric -> value, by ir-measures on the exported files"
    write_run(run, folder / "run"); write_qrels(qrels, folder / "qrels")
    out = {}
    for r in ir_measures.iter_calc(parse_metrics(), ir_measures.read_trec_qrels(str(folder / "qrels")), ir_measures.read_trec_run(str(folder / "run"))):
        out.setdefault(r.query_id, {})[str(r.measure)] = r.value
    return out


def test_unanswered_query_counts_zero_and_partial_recall_is_not_perfect(tmp_path):
    qrels = {"q1": {"a": 1, "b": 1, "c": 1}, "q2": {"a": 1}}
    run = {"q1": [("a", .5), ("x", .5), ("y", .5)]}
    df = score_run(run, qrels)
    assert df.loc["q2"].eq(0).all()
    assert df.loc["q1", "R@10"] == pytest.approx(1 / 3) and df.loc["q1", "nDCG@10"] < 1
    assert df["nDCG@10"].mean() == pytest.approx(df.loc["q1", "nDCG@10"] / 2)
    for q, values in from_files(run, qrels, tmp_path).items():
        for m, v in values.items(): assert df.loc[q, m] == v


ids = st.sampled_from([f"d{i}" for i in range(30)] + ["é", "9", "10", "Z", "a:b"])
scores = st.one_of(st.sampled_from([0., -0., .5, 1., 1 + 1e-12, 1e-45, -3.]), st.floats(-1e6, 1e6, width=64))


@settings(max_examples=60, deadline=None)
@given(run=st.dictionaries(st.sampled_from("abcd"), st.lists(st.tuples(ids, scores), max_size=25), max_size=4),
       qrels=st.dictionaries(st.sampled_from("abcd"), st.dictionaries(ids, st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=4))
def test_any_run_scores_as_its_file_does(run, qrels, tmp_path_factory):
    df = score_run(run, qrels)
    theirs = from_files(run, qrels, tmp_path_factory.mktemp("trec"))
    assert set(df.index) == set(qrels)
    for q in qrels:
        for m in METRICS: assert df.loc[q, m] == theirs.get(q, {}).get(m, 0.)


@given(st.lists(st.tuples(ids, scores), max_size=40))
def test_strict_scores_keep_the_order_in_single_precision(ranked):
    out = strict_scores(ranked)
    assert list(out) == list(dict.fromkeys(d for d, _ in ranked))
    s = [np.float32(v) for v in out.values()]
    assert all(a > b for a, b in zip(s, s[1:]))


def test_a_file_read_back_is_the_run_that_was_written(tmp_path):
    run = {"q": [("b", .5), ("a", .5), ("c", -1.)]}
    write_run(run, tmp_path / "r")
    assert [d for d, _ in read_run(tmp_path / "r")["q"]] == ["b", "a", "c"]
    qrels = {"q": {"b": 2, "a": 0}}
    assert read_qrels(write_qrels(qrels, tmp_path / "q")) == qrels


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_scores_that_cannot_be_ranked_are_refused(score):
    with pytest.raises(DatasetError, match="not a number that can be ranked"): score_run({"q": [("a", score)]}, {"q": {"a": 1}})


@pytest.mark.parametrize("bad", ["my doc", "", "a\tb", "a\n"])
def test_ids_that_would_shift_columns_are_refused(bad, tmp_path):
    with pytest.raises(DatasetError, match="white space"): write_run({"q": [(bad, 1.)]}, tmp_path / "r")
    with pytest.raises(DatasetError, match="white space"): score_run({}, {bad: {"a": 1}})


def test_a_document_twice_counts_once():
    once, twice = score_run({"q": [("a", 1.), ("b", .9)]}, {"q": {"b": 1}}), score_run({"q": [("a", 1.), ("a", .95), ("b", .9)]}, {"q": {"b": 1}})
    pd.testing.assert_frame_equal(once, twice)


def test_digest_of_judgements_ignores_order():
    assert qrels_digest({"a": {"x": 1, "y": 1}, "b": {"z": 1}}) == qrels_digest({"b": {"z": 1}, "a": {"y": 1, "x": 1}})
    assert qrels_digest({"a": {"x": 1}}) != qrels_digest({"a": {"x": 2}})


def test_exact_p_equals_brute_force():
    rng = np.random.default_rng(3)
    a, b = rng.random(9), rng.random(9)
    d, seen = a - b, abs((a - b).mean())
    flips = [abs((d * s).mean()) for s in itertools.product([1, -1], repeat=9)]
    assert paired_test(a, b).p.item() == pytest.approx(np.mean([f >= seen - 1e-12 for f in flips]))


def test_statistics_are_repeatable_and_seeded():
    rng = np.random.default_rng(0)
    a, b = rng.random(200), rng.random(200)
    pd.testing.assert_frame_equal(paired_test(a, b), paired_test(a, b))
    assert bootstrap_ci(a, seed=0) == bootstrap_ci(a, seed=0) != bootstrap_ci(a, seed=1)


def test_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = sum(low <= 2 / 3 <= high for low, high in (bootstrap_ci(rng.beta(2, 1, 60), n=300, seed=i) for i in range(150)))
    assert .88 <= hits / 150 <= .99


def test_false_alarms_stay_rare_under_the_null():
    rng = np.random.default_rng(1)
    p = [paired_test(x := rng.random(40), x + rng.normal(0, .1, 40), n=400, seed=i).p.item() for i in range(120)]
    assert np.mean(np.array(p) < .05) < .12


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_equals_its_definition(p):
    order = sorted(range(len(p)), key=lambda i: p[i])
    expected, worst = [0.] * len(p), 0.
    for k, i in enumerate(order):
        worst = max(worst, min(1., p[i] * (len(p) - k))); expected[i] = worst
    assert holm(p) == pytest.approx(expected)


def test_baseline_comparison_names_what_is_missing():
    s = pd.Series([.1, .2], index=["q1", "q2"])
    with pytest.raises(ParameterError, match="'bm52' was not evaluated"): compare_to_baseline({"bm25": s}, "bm52")
    with pytest.raises(ParameterError, match="different queries"): compare_to_baseline({"bm25": s, "x": s.rename({"q1": "q9"})}, "bm25")
