"""Fusion: agreed orders, ties under any hash seed, scales, and properties over random lists"""
import math, os, subprocess, sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from sci_rag.core import ParameterError
from sci_rag.fusion import FUSIONS, best_ranks, convex, fuse, identity, minmax, robust, robust_scale, rrf

quick = settings(max_examples=200, deadline=None, derandomize=True)
ids = st.one_of(st.sampled_from("abcdefghij"), st.integers(0, 9))
score = st.one_of(st.integers(-20, 20).map(float), st.floats(-1e6, 1e6), st.sampled_from([0.0, -0.0, 5e-324, 1e308, -1e308]))
scored = st.lists(st.tuples(ids, score), max_size=10)
lists = st.dictionaries(st.sampled_from(["vector", "keyword", "bm25", "graph"]), scored, max_size=4)
methods = st.sampled_from(["rrf", "convex", "robust"])


def test_first_everywhere_is_one_row():
    "First in three weighted layers: one row, the sum of w/(k+1)"
    [(item, value)] = rrf({"a": ["x"], "b": ["x"], "c": ["x"]}, {"a": 1.5, "b": 1, "c": .8})
    assert item == "x" and value == pytest.approx((1.5 + 1 + .8) / 61, abs=1e-15)


def test_absence_is_not_a_rank():
    "An item in both lists at rank 3 beats items that one list has first and the other does not know"
    fused = rrf({"dense": ["X", "a", "Y"], "sparse": ["b", "c", "Y"]})
    assert fused[0] == ("Y", math.fsum([1/63, 1/63]))
    assert dict(fused)["X"] == 1/61


def test_shared_dense_keyword():
    fused = rrf({"vector": ["dense", "shared"], "keyword": ["shared", "keyword"]})
    assert [i for i, _ in fused] == ["shared", "dense", "keyword"]
    assert fused[0][1] == pytest.approx(1/61 + 1/62, abs=1e-15)


@pytest.mark.parametrize("method", ["rrf", "convex", "robust"])
def test_order_survives_hash_seeds(method):
    "Ties come out in the same order in processes with different hash seeds"
    code = f"from sci_rag.fusion import fuse; print([f.id for f in fuse({method!r}, {{c: [(c + d, 1.) for d in 'xy'] for c in {{*'qwertzuiopasdf'}}}})])"
    run = lambda seed: subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent).stdout
    assert len({run(s) for s in "0123"}) == 1


def test_ties_follow_the_key():
    keys = {"a": 2, "b": 1}
    assert [i for i, _ in rrf({"x": ["a"], "y": ["b"]}, key=keys.get)] == ["b", "a"]
    assert [i for i, _ in convex({"x": [("a", 3)], "y": [("b", 9)]}, key=keys.get)] == ["b", "a"]


def test_robust_scale_of_known_lists():
    scale = lambda *s: list(robust_scale(dict(enumerate(s))).values())
    a, b, c, d = scale(0, 1, 2, 3)
    assert a < b < c < d and a + d == pytest.approx(1) and b + c == pytest.approx(1)
    assert scale(0, 0, 0, 10) == pytest.approx([1/3, 1/3, 1/3, 1])
    assert scale(7, 7, 7) == [.5, .5, .5]


def test_minmax_choices():
    "A list without spread counts fully; an absent item gets nothing"
    assert minmax({"a": 2., "b": 2.}) == {"a": 1., "b": 1.}
    assert convex({"v": [("a", 3.), ("b", 1.)], "k": [("b", 9.)]}) == [("a", .5), ("b", .5)]


def test_wrong_use():
    for call, says in [(lambda: rrf({}, k=0), "k must be positive"), (lambda: rrf({}, k=float("nan")), "k must be positive"), (lambda: rrf({"a": []}, {"b": 1}), "no such list"),
                       (lambda: rrf({"a": []}, {"a": -1}), "at least 0"), (lambda: convex({"a": [("x", float("nan"))]}), "finite"), (lambda: fuse("mean", {}), "unknown fusion"),
                       (lambda: identity({"a": [], "b": []}), "one list")]:
        with pytest.raises(ParameterError, match=says): call()


@quick
@given(lists, methods)
def test_same_items_each_once_finite_and_sorted(lists, method):
    fused = fuse(method, lists)
    assert {f.id for f in fused} == {i for l in lists.values() for i, _ in l} and len({f.id for f in fused}) == len(fused)
    assert all(math.isfinite(f.score) and f.score >= 0 for f in fused)
    assert [f.score for f in fused] == sorted((f.score for f in fused), reverse=True)
    assert all(f.score == math.fsum(f.parts.values()) for f in fused)


@quick
@given(lists, methods, st.randoms(use_true_random=False))
def test_layer_order_is_irrelevant(lists, method, random):
    names = list(lists)
    random.shuffle(names)
    assert [(f.id, f.score) for f in fuse(method, lists)] == [(f.id, f.score) for f in fuse(method, {n: lists[n] for n in names})]


@quick
@given(lists)
def test_repeats_do_not_vote(lists):
    assert fuse("rrf", {n: l + l for n, l in lists.items()}) == fuse("rrf", lists)


@quick
@given(lists)
def test_means_stay_in_the_unit_interval(lists):
    for m in ("convex", "robust"):
        for f in fuse(m, lists): assert 0 <= f.score <= 1 + 1e-12


@quick
@given(st.lists(st.tuples(st.sampled_from("abcdefghij"), st.floats(-1e3, 1e3)), min_size=2, max_size=10, unique_by=lambda p: p[0]))
def test_scales_keep_the_order(pairs):
    "A better native score is never scaled below a worse one"
    scores = dict(pairs)
    for scale in (minmax, robust_scale):
        out = scale(scores)
        for a in scores:
            for b in scores:
                if scores[a] > scores[b]: assert out[a] >= out[b]


@quick
@given(st.lists(ids, max_size=12))
def test_best_ranks_are_dense(items):
    ranks = best_ranks(items)
    assert sorted(ranks.values()) == list(range(1, len(set(items)) + 1))


@quick
@given(lists, st.floats(.1, 5))
def test_only_ratios_of_weights_matter_in_means(lists, factor):
    w = {n: i + 1. for i, n in enumerate(lists)}
    for f in (convex, robust):
        a, b = dict(f(lists, w)), dict(f(lists, {n: x*factor for n, x in w.items()}))
        assert a.keys() == b.keys() and all(a[i] == pytest.approx(b[i], abs=1e-9) for i in a)


def test_every_method_is_reachable(): assert set(FUSIONS) == {"rrf", "convex", "robust", "raw-mean", "identity"}
