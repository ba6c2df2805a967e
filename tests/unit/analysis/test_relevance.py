"""Relevance, clusters and similarity: the papers' own tables, hand-made cases, and scipy."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import brodmann as bm
from brodmann.analysis import (
    ahp,
    cluster_tasks,
    cnm,
    cra,
    dse,
    linked,
    suggested_clusters,
    vocabulary_relevance,
)
from brodmann.analysis.ahp import tournament, transferability
from brodmann.analysis.clusters import dendrogram
from brodmann.analysis.cnm import FILES, read_sentences, read_voxels, voxel_scores
from brodmann.analysis.link import dual_task, linked_pairs, pairs_of, reindexed
from brodmann.analysis.relevance import (
    asymmetry,
    group_matrix,
    improvement_matrix,
    most_unequal,
    vocabulary,
    vocabulary_matrix,
)

# HMNet, Appendix A: Table 2 (common words, eq. 2) and Table 3 (pair trainings, eq. 4), in percent.
NAMES = ["MNLI", "QNLI", "RTE", "WNLI", "CB", "SNLI", "IMDB", "SST-2", "QQP", "STS-B", "MRPC",
         "BoolQ", "MultiRC"]  # fmt: skip
BY_WORDS = np.array([
    [100, 92.83, 97.64, 99.58, 99.42, 98.5, 95.7, 99.21, 93.46, 98.29, 98.21, 93.83, 98.76],
    [94.4, 100, 98.11, 98.32, 98.01, 95.02, 94, 96.55, 94.19, 97.71, 98.02, 95.31, 97.55],
    [52.42, 51.8, 100, 84.72, 81.73, 59.25, 52.99, 65.23, 52.26, 74.24, 74.11, 54.11, 66.54],
    [5.5, 5.34, 8.72, 100, 24.8, 7.47, 5.63, 9.9, 5.51, 10.64, 9.77, 5.75, 8.78],
    [10.62, 10.29, 16.26, 47.93, 100, 13.76, 10.87, 18.86, 10.61, 18.95, 18.44, 11, 16.15],
    [69.92, 66.33, 78.35, 95.94, 91.44, 100, 70.87, 84.65, 68.98, 83.62, 80.12, 69.19, 80.05],
    [93.74, 90.55, 96.68, 99.72, 99.67, 97.8, 100, 99.69, 91.86, 97.45, 97.06, 92.13, 97.41],
    [44.45, 42.54, 54.44, 80.31, 79.12, 53.43, 45.6, 100, 44.07, 58.34, 57.02, 44.68, 56.31],
    [92.93, 92.11, 96.79, 99.09, 98.8, 96.63, 93.25, 97.8, 100, 97.67, 97.4, 93.65, 97.13],
    [41.08, 40.17, 57.8, 80.52, 74.18, 49.24, 41.59, 54.43, 41.06, 100, 67.28, 42.43, 54.52],
    [43.97, 43.15, 61.8, 79.12, 77.3, 50.53, 44.36, 56.97, 43.85, 72.06, 100, 45.47, 57.67],
    [87.67, 87.58, 94.18, 97.2, 96.27, 91.07, 87.88, 93.19, 88.01, 94.84, 94.9, 100, 93.29],
    [57.48, 55.84, 72.14, 92.43, 88.03, 65.64, 57.88, 73.15, 56.86, 75.92, 74.98, 58.11, 100],
])  # fmt: skip
BY_TRAINING = np.array([
    [0, -0.1, 15.96, 50, 47.31, 0.75, -0.29, 0, -0.14, -0.96, -1.87, 5.93, 6.42],
    [-0.54, 0, 2.13, 21.43, 26.37, 0.24, -0.09, -0.62, -0.06, 0.43, -0.69, 5.38, 1.58],
    [-0.47, -0.32, 0, 7.14, 10.45, 0.25, 0.1, -0.98, -0.03, -0.1, -1.95, 0.67, 1.03],
    [-0.28, -0.32, -3.19, 0, 2.62, 0.08, 0.08, -0.74, -0.03, -0.16, -0.39, 0.59, -0.18],
    [-0.35, 0.02, 0, 7.14, 0, -0.3, -0.09, -0.49, 0.04, 0.35, -0.5, -0.17, 0.29],
    [-0.19, -0.64, 11.7, 64.29, 33.51, 0, -0.17, -1.85, -0.12, -1.23, -3.16, 3.19, 3.16],
    [0.01, 0, -1.06, 14.29, 30.95, -0.03, 0, -0.74, -0.16, 0.52, 0.79, 0.38, 0.68],
    [0.21, -0.02, 1.06, 14.29, 33.58, 0.09, -4.24, 0, 0.02, -0.76, -1.98, 4.71, 0.53],
    [-0.77, -0.82, 3.19, 0, 7.48, 0.09, -0.41, -2.21, 0, -1.63, -2.85, 1.89, -0.19],
    [-0.12, 0.04, 5.85, 57.14, 13.07, 0.13, 0.03, -1.23, 0.05, 0, 1.15, 3.15, 1.48],
    [-0.21, 0.02, 2.66, 21.43, 13.07, -0.01, -0.01, 0.25, -0.11, -0.23, 0, 1.77, 0.22],
    [-0.35, -0.36, -2.66, 21.43, 33.58, -0.15, -0.05, -0.62, -0.03, 1.18, -1.24, 0, -0.26],
    [-0.37, -0.2, 4.26, 71.43, 10.38, -0.07, -0.04, -1.48, 0.04, 0.7, 0.27, 1.64, 0],
])  # fmt: skip


def as_sets(groups: list[list[str]]) -> set[frozenset[str]]:
    return {frozenset(group) for group in groups}


@pytest.mark.parametrize("seed", range(5))
def test_the_papers_tables_give_the_papers_groups(seed: int) -> None:
    assert as_sets(cluster_tasks(BY_WORDS / 100, NAMES, 3, seed)) == as_sets([
        ["WNLI", "CB"], ["MultiRC", "RTE", "SST-2", "MRPC", "STS-B"],
        ["QQP", "QNLI", "BoolQ", "IMDB", "SNLI", "MNLI"],
    ])  # fmt: skip
    assert as_sets(cluster_tasks(BY_TRAINING / 100, NAMES, 3, seed)) == as_sets([
        ["CB", "WNLI", "QQP", "RTE"], ["MRPC", "QNLI", "BoolQ", "IMDB", "SST-2"],
        ["MultiRC", "STS-B", "SNLI", "MNLI"],
    ])  # fmt: skip


def test_clusters_that_stand_apart_are_found_by_number() -> None:
    random = np.random.default_rng(0)
    centres = np.array([[0, 0], [10, 0], [0, 10]])
    rows = np.concatenate([c + 0.1 * random.normal(size=(3, 2)) for c in centres])
    names = [f"t{n}" for n in range(9)]
    count, clear = suggested_clusters(rows, names)
    assert count == 3 and clear > 0.9
    assert cluster_tasks(rows, names, 3) == [names[:3], names[3:6], names[6:]]
    tree = dendrogram(rows, names)
    assert sorted(tree["order"]) == names and len(tree["joins"]) == 8
    assert tree["joins"][0]["distance"] < 1 < tree["joins"][-1]["distance"]
    assert suggested_clusters(rows[:2], names[:2]) == (1, 0.0)
    same = np.ones((4, 4))
    assert suggested_clusters(same, names[:4]) == (1, 0.0)
    assert cluster_tasks(same, names[:4], 3) == [names[:4]]


@pytest.mark.parametrize("clusters", [0, 10, True])
def test_a_number_of_clusters_that_cannot_be_is_refused(clusters: int) -> None:
    with pytest.raises(bm.InputError, match="expected a number from 1 to 3"):
        cluster_tasks(np.eye(3), ["a", "b", "c"], clusters)


def test_words_in_common_by_hand() -> None:
    """Equations 1 and 2."""
    source, target = ["The cat sat.", "A dog"], ["the CAT", "the bird"]
    assert vocabulary(source) == {"the", "cat", "sat", "a", "dog"}
    assert vocabulary_relevance(source, target) == (2 / 5, 2 / 3)
    matrix = vocabulary_matrix([vocabulary(source), vocabulary(target)])
    assert matrix.tolist() == [[1.0, 2 / 3], [2 / 5, 1.0]]
    assert asymmetry(matrix)[0, 1] == pytest.approx(2 / 3 - 2 / 5)
    with pytest.raises(bm.InputError, match="no words"):
        vocabulary_relevance(["..."], target)


def test_pair_trainings_by_hand() -> None:
    """Equations 3 and 4: MNLI raises WNLI from 0.4 to 0.6, and falls from 0.8 to 0.72."""
    joint = {frozenset(("MNLI", "WNLI")): {"MNLI": 0.72, "WNLI": 0.6}}
    matrix = improvement_matrix(["MNLI", "WNLI"], {"MNLI": 0.8, "WNLI": 0.4}, joint)
    np.testing.assert_allclose(matrix, [[0, 0.5], [-0.1, 0]])
    with pytest.raises(bm.InputError, match="no joint run of 'a' and 'b'"):
        improvement_matrix(["a", "b"], {"a": 1, "b": 1}, {})
    # Nothing is a ratio to 0: the column is undefined, the other stays.
    found = improvement_matrix(["a", "b"], {"a": 1, "b": 0}, {frozenset("ab"): {"a": 2, "b": 1}})
    np.testing.assert_array_equal(found, [[0, np.nan], [1, np.nan]])


def test_groups_by_hand() -> None:
    assert group_matrix(["x", "y", "x", None]).tolist() == [
        [1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1],
    ]  # fmt: skip


def test_dse_of_a_model_with_itself_is_1_and_of_opposites_minus_1() -> None:
    x = np.random.default_rng(0).normal(size=(7, 5))
    assert dse(x, x) == pytest.approx(1.0) and dse(x, -2 * x) == pytest.approx(-1.0)
    assert dse(np.eye(3), np.roll(np.eye(3), 1, axis=1)) == pytest.approx(0.0)
    with pytest.raises(bm.InputError, match="expected two equal shapes"):
        dse(x, x[:, :3])


@pytest.mark.parametrize("seed", range(3))
def test_cra_against_scipy(seed: int) -> None:
    random = np.random.default_rng(seed)
    a, b = random.normal(size=(6, 9)), random.normal(size=(6, 4))
    pairs = [(i, j) for i in range(6) for j in range(i + 1, 6)]
    one = [1 - stats.pearsonr(a[i], a[j]).statistic for i, j in pairs]
    other = [1 - stats.pearsonr(b[i], b[j]).statistic for i, j in pairs]
    assert cra(a, b) == pytest.approx(stats.spearmanr(one, other).statistic)
    assert cra(a, a) == pytest.approx(1.0)


def test_ahp_on_a_worked_example() -> None:
    """Two sources for a target: a wins 3 of 4 examples, so it has 3/4 of the transferability."""
    losses = np.array([[0.1, 0.1, 0.1, 0.9], [0.5, 0.5, 0.5, 0.5]])
    w = tournament(losses)
    assert w[0, 1] == 0.75 and w[1, 0] == 0.25 and w[0, 0] == 0.5
    np.testing.assert_allclose(transferability(w), [0.75, 0.25])
    # Three sources with consistent ratios 4 : 2 : 1 keep them.
    consistent = np.array([[0.5, 2 / 3, 4 / 5], [1 / 3, 0.5, 2 / 3], [1 / 5, 1 / 3, 0.5]])
    np.testing.assert_allclose(transferability(consistent), np.array([4, 2, 1]) / 7)
    assert tournament(np.array([[1.0, 2.0], [1.0, 3.0]]))[0, 1] == 0.75  # a tie counts half
    assert tournament(np.array([[0.0], [1.0]]))[0, 1] == 0.999
    tables = {
        "a": np.array([[9.0] * 4, losses[0], losses[1]]),
        "b": np.array([losses[0], [9.0] * 4, losses[1]]),
        "c": np.array([losses[1], losses[1], [9.0] * 4]),
    }
    matrix, similarity = ahp(tables, ["a", "b", "c"])
    np.testing.assert_allclose(matrix[[1, 2], 0], [0.75, 0.25])
    np.testing.assert_allclose(matrix[[0, 2], 1], [0.75, 0.25])
    np.testing.assert_allclose(matrix[[0, 1], 2], [0.5, 0.5])
    assert similarity[0, 1] == pytest.approx(0.75) and similarity[0, 2] == pytest.approx(0.375)
    assert np.isnan(matrix[0, 0])


def test_ahp_of_four_sources_that_do_not_agree() -> None:
    """a beats b, b beats c, c beats a: the principal eigenvector of W / W' settles it."""
    w = np.array([
        [0.5, 0.9, 0.2, 0.6], [0.1, 0.5, 0.8, 0.7], [0.8, 0.2, 0.5, 0.55], [0.4, 0.3, 0.45, 0.5],
    ])  # fmt: skip
    values, vectors = np.linalg.eig(w / w.T)
    first = np.abs(np.real(vectors[:, np.argmax(np.real(values))]))
    assert np.real(values).max() > 4.5  # far from consistent, which would be 4
    np.testing.assert_allclose(transferability(w), first / first.sum(), rtol=1e-6)
    # The same four as sources of one target among five tasks, from losses.
    rows = np.random.default_rng(1).normal(size=(4, 30))
    held = tournament(rows)
    values, vectors = np.linalg.eig(held / held.T)
    first = np.abs(np.real(vectors[:, np.argmax(np.real(values))]))
    np.testing.assert_allclose(transferability(held), first / first.sum(), rtol=1e-6)


def test_the_most_unequal_pairs_stand_first() -> None:
    matrix = np.array([[0, 0.5, np.nan], [0.1, 0, np.nan], [0.3, 0.3, np.nan]])
    assert most_unequal(matrix, ["a", "b", "c"]) == [("a", "b")]
    assert most_unequal(np.eye(2), ["a", "b"]) == []


def test_cnm_recovers_a_planted_mapping() -> None:
    random = np.random.default_rng(0)
    x, noise = random.normal(size=(80, 10)), random.normal(size=(80, 10))
    voxels = random.normal(size=(80, 40))
    voxels[:, :20] += 3 * x @ random.normal(size=(10, 20))  # the first half follows x
    scores = voxel_scores(x, voxels, most=40)
    assert np.nanmean(scores[:20]) > 0.8 > 0.3 > abs(np.nanmean(scores[20:]))
    blind = voxel_scores(noise, voxels, most=40)
    assert abs(np.nanmean(blind)) < 0.2
    again = voxel_scores(2 * x @ np.linalg.qr(random.normal(size=(10, 10)))[0], voxels, most=40)
    assert cnm(scores, again) > 0.95 > 0.5 > cnm(scores, blind)
    few = voxel_scores(x, voxels, most=10)
    assert np.isfinite(few[:20]).sum() > np.isfinite(few[20:]).sum()


def test_a_voxel_that_does_not_vary_has_no_score() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 5))
    voxels = np.concatenate([x @ random.normal(size=(5, 6)), np.full((40, 2), 0.1)], axis=1)
    scores = voxel_scores(x, voxels)
    assert np.isfinite(scores[:6]).all() and np.isnan(scores[6:]).all()
    with pytest.raises(bm.InputError, match="no voxel varies"):
        voxel_scores(x, np.ones((40, 3)))
    with pytest.raises(bm.InputError, match="not finite numbers"):
        voxel_scores(x, np.where(voxels == 0.1, np.nan, voxels))


def test_fmri_files_are_read_or_refused_in_one_line(tmp_path: Path) -> None:
    from scipy.io import savemat

    _, plain = FILES
    with pytest.raises(bm.InputError, match=r"are at https://osf\.io/crwz7"):
        read_voxels(tmp_path)
    (tmp_path / "P01").mkdir()
    file = tmp_path / "P01" / plain
    savemat(file, {"examples": np.ones((384, 5))})
    assert read_voxels(tmp_path)["P01"].shape == (384, 5)
    for wrong, words in (
        ({"examples": np.ones((243, 5))}, r"is \(243, 5\), expected 384 sentences"),
        ({"examples": np.ones((384, 0))}, r"expected 384 sentences × voxels"),
        ({"examples": np.full((384, 2), np.inf)}, "holds numbers that are not finite"),
        ({"other": np.ones(3)}, "expected a matrix of numbers, 'examples_passagesentences' or"),
        ({"examples": np.array(["a", "b"])}, "expected a matrix of numbers"),
    ):
        savemat(file, wrong)
        with pytest.raises(bm.InputError, match=words):
            read_voxels(tmp_path)
    file.write_bytes(b"nothing")
    with pytest.raises(bm.InputError, match="not a MATLAB file that can be read"):
        read_voxels(tmp_path)


def test_both_published_layouts_and_where_the_texts_are(tmp_path: Path) -> None:
    from scipy.io import savemat

    full, plain = FILES
    texts = [f"sentence {n}." for n in range(384)]
    (tmp_path / "P01").mkdir()
    (tmp_path / "M02").mkdir()
    savemat(tmp_path / "P01" / plain, {"examples": np.ones((384, 5))})
    with pytest.raises(
        bm.InputError, match=r"write the 384 sentences into sentences\.txt in that folder"
    ):
        read_sentences(tmp_path)
    (tmp_path / "sentences.txt").write_text("\n".join(texts[:-1]), encoding="utf-8")
    with pytest.raises(bm.InputError, match="383 lines, expected 384 sentences"):
        read_sentences(tmp_path)
    (tmp_path / "sentences.txt").write_text("\n".join(texts[::-1]) + "\n", encoding="utf-8")
    assert read_sentences(tmp_path) == texts[::-1]
    cells = np.empty((384, 1), dtype=object)
    cells[:, 0] = texts
    content = {"examples_passagesentences": np.zeros((384, 7)), "keySentences": cells}
    savemat(tmp_path / "M02" / full, content)
    assert read_sentences(tmp_path) == texts  # a file's own texts come first
    assert {name: len(m.T) for name, m in read_voxels(tmp_path).items()} == {"M02": 7, "P01": 5}
    flat = tmp_path / "flat"
    flat.mkdir()
    for name in ("P01", "P02"):
        savemat(flat / f"{name}.mat", content)
    assert list(read_voxels(flat)) == ["P01", "P02"] and read_sentences(flat) == texts
    savemat(flat / "P01.mat", {**content, "keySentences": cells[:5]})
    with pytest.raises(bm.InputError, match="'keySentences': expected 384 texts"):
        read_sentences(flat)


def test_the_link_is_scipys_and_its_band_holds_the_line() -> None:
    random = np.random.default_rng(2)
    x = random.normal(size=10)
    y = -0.5 * x + 0.3 * random.normal(size=10)
    found = linked(x.tolist(), y.tolist())
    assert found["pearson"] == pytest.approx(stats.pearsonr(x, y).statistic)
    assert found["pearson_p"] == pytest.approx(stats.pearsonr(x, y).pvalue)
    assert found["spearman"] == pytest.approx(stats.spearmanr(x, y).statistic)
    for place, low, high in found["band"]:
        assert low < found["intercept"] + found["slope"] * place < high
    assert pairs_of(np.array([[0, 1, 2], [3, 0, 4], [5, 6, 0]])).tolist() == [2, 3.5, 5]
    with pytest.raises(bm.InputError, match="no correlation is defined"):
        linked([1, 1, 1], [1, 2, 3])


def test_pairs_without_a_d_are_dropped_and_tasks_go_by_name() -> None:
    similarity = np.array([[1, 0.9, 0.5, 0.2], [0.9, 1, 0.4, 0.1], [0.5, 0.4, 1, 0.3],
                           [0.2, 0.1, 0.3, 1]])  # fmt: skip
    joint = np.array([[None, 4, 7, 1], [4, None, None, 2], [7, None, None, 3],
                      [1, 2, 3, None]], dtype=float)  # fmt: skip
    apart = reindexed(joint, ["d", "x", "c", "a"], ["a", "b", "c", "d"])
    assert apart[0, 3] == 1 and apart[2, 3] == 7 and np.isnan(apart[1]).all()
    pairs, link = linked_pairs(["a", "b", "c", "d"], similarity, apart)
    assert [(one, other, y) for one, other, _, y in pairs] == [
        ("a", "c", 3.0), ("a", "d", 1.0), ("c", "d", 7.0),
    ]  # fmt: skip
    assert link is not None and link["pairs"] == 3
    assert link["pearson"] == pytest.approx(stats.pearsonr([0.5, 0.2, 0.3], [3, 1, 7]).statistic)
    assert linked_pairs(["a", "b"], similarity[:2, :2], apart[:2, :2]) == ([], None)


def test_dual_task_d_is_the_mean_over_seeds_of_plain_pairs() -> None:
    def cell(tasks: str, mean: float | None, **varied: object) -> dict[str, object]:
        undefined = {} if mean is not None else {"a": "no score"}
        found = {"tasks": list(tasks), "mean": mean, "undefined": undefined}
        return {"dissociation": found, "varied": {"tasks": list(tasks), **varied}}

    cells = [cell("ab", 0.1, seed=0), cell("ba", 0.3, seed=1), cell("ac", None), cell("abc", 0.9)]
    cells += [cell("bc", 0.5, freeze=1), {"dissociation": None, "varied": {"tasks": ["b", "c"]}}]
    found = dual_task(cells, ["a", "b", "c"])
    assert found[0, 1] == found[1, 0] == pytest.approx(0.2)
    assert np.isnan(found[2]).all() and np.isnan(found[:, 2]).all()
