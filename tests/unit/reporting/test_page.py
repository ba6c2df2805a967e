"""The page's parts: charts, tables, the data of the atlas, and what is in which report."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.run_folders import write_run

from brodmann.data.sampling.samplers import SAMPLERS, Sampler
from brodmann.errors import InputError
from brodmann.files import write_json
from brodmann.reporting.blocks import Bars, Case, Cases, Items, Lines, Matrix, Section, Table, Words
from brodmann.reporting.charts import lines, scales, style, ticks
from brodmann.reporting.gains import sharing_arm, single_arm
from brodmann.reporting.html import bar_places, embedded, ownership, page
from brodmann.reporting.record import Record, Study, read_record
from brodmann.reporting.sections import covariance as covsim
from brodmann.reporting.sections import sections
from brodmann.reporting.sections import training_curves as training
from brodmann.reporting.sections.sweep import is_rate
from brodmann.results import HeadScores
from brodmann.studies.report import read_study, report_on

NAMES = st.text(min_size=1, max_size=40)


def silent(event: str, facts: dict[str, Any]) -> None:
    pass


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_round_few_and_inside(low: float, width: float) -> None:
    found = ticks(low, low + width)
    assert 1 <= len(found) <= 8
    slack = 1e-6 * (abs(low) + width)
    assert all(low - slack <= value <= low + width + slack for value in found)


def test_24_series_can_be_told_apart() -> None:
    assert len({style(place) for place in range(24)}) == 24


def test_a_flat_and_a_single_point_line_are_drawn() -> None:
    for points in ([(0.0, 1.0), (1.0, 1.0)], [(3.0, 0.0)]):
        assert "NaN" not in lines(Lines({"a": points}, "x", "y", "c"))


def test_a_band_stands_inside_the_axes() -> None:
    text = lines(Lines({"a": [(0, 10, 5), (1, 20, 5)]}, "x", "y", "c"))
    found = re.search('class="band c0" points="([^"]*)"', text)
    assert found is not None
    heights = [float(pair.split(",")[1]) for pair in found[1].split()]
    assert min(heights) >= 14 and max(heights) <= 270 - 44


@given(NAMES)
def test_data_in_a_script_cannot_end_it(name: str) -> None:
    text = embedded({"name": name + "</script><!--"})
    assert "<" not in text and ">" not in text
    assert json.loads(text) == {"name": name + "</script><!--"}


def test_bars_and_intervals_stand_in_the_track() -> None:
    block = Bars(["a", "b", "c"], [5.0, -2.0, None], [(4.0, 9.0), None, None], "%", "c")
    places = bar_places(block)
    first, second, third = places["bars"]
    assert third is None and first["left"] == places["zero"]
    assert second["left"] + second["width"] == pytest.approx(places["zero"], abs=0.02)
    assert first["between"][1] <= 100 and all(0 <= at <= 100 for at, _ in places["ticks"])


def test_long_column_names_become_numbers() -> None:
    names = ["x" * 30, "y" * 30, "z" * 30]
    block = Matrix(names, [f"–{n}" for n in names] + ["random"], [], "c", [])
    assert [shown for shown, _ in block.column_names()] == ["–1", "–2", "–3", "random"]
    assert block.column_names()[0][1] == "–" + names[0]
    short = Matrix(["a", "b"], ["a", "b"], [], "c", [])
    assert [shown for shown, _ in short.column_names()] == ["a", "b"]


def test_a_head_belongs_to_the_task_that_puts_most_of_itself_there() -> None:
    values = np.array([[[8.0, 1.0, 1.0]], [[0.2, 0.1, 0.1]], [[1.0, 1.0, 0.0]]])
    owner, strength = ownership(HeadScores(("a", "b", "c"), values))
    # shares: a .8 .1 .1, b .5 .25 .25, c .5 .5 0
    assert owner.tolist() == [[0, 2, 1]]
    assert strength[0, 0] == pytest.approx((3 * 0.8 / 1.8 - 1) / 2)
    alone, _ = HeadScores(("a", "b"), np.array([[[1.0, 0.0]], [[0.0, 1.0]]])), None
    assert ownership(alone)[1].tolist() == [[1.0, 1.0]]
    nobody = HeadScores(("a", "b"), np.array([[[1.0, -1.0]], [[1.0, 0.0]]]))
    assert ownership(nobody)[0].tolist() == [[0, -1]]


def names_of(study: Any) -> list[str]:
    return [section.name for section in sections(study)]


def test_a_run_lacks_the_sections_of_what_it_lacks(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    full = ["answer", "atlas", "dissociation", "training", "data"]
    assert names_of(read_study([tmp_path / "run"], silent)) == full
    (tmp_path / "run" / "dissociation.json").unlink()
    assert "dissociation" not in names_of(read_study([tmp_path / "run"], silent))
    (tmp_path / "run" / "importance.json").unlink()
    (tmp_path / "run" / "log.jsonl").unlink()
    assert names_of(read_study([tmp_path / "run"], silent)) == ["answer", "data"]


def test_one_task_makes_a_page(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a"])
    assert "Atlas of heads" in report_on([tmp_path / "run"], silent).read_text()
    assert (tmp_path / "run" / "figures" / "heads.svg").is_file()


def test_several_runs_that_cannot_be_compared_stand_side_by_side(tmp_path: Path) -> None:
    write_run(tmp_path / "one", ["a", "b"])
    write_run(tmp_path / "two", ["a", "b"], seed=1, layers=5)
    said = []
    study = read_study(
        [tmp_path / "one", tmp_path / "two"], lambda event, facts: said.append(facts["text"])
    )
    assert study.comparison is None
    text = page("x", "", sections(study))
    assert "The same for two" in text and text.count('"name":"') == 2


def grid_cell(delta: float, seed: int) -> dict[str, Any]:
    found = {"mean": delta, "undertrained": {}, "intervals": {"mean": None}}
    return {
        "label": f"delta={delta} seed={seed}",
        "state": "done",
        "varied": {"tasks": ["a"], "specialize.delta": delta, "seed": seed},
        "splits": {"validation": {"a": {"score": 0.5 + delta + seed / 100}}},
        "dissociation": found,
    }


def test_a_grid_becomes_curves_over_what_was_varied(tmp_path: Path) -> None:
    cells = [grid_cell(delta, seed) for delta in (0.1, 0.2) for seed in (0, 2)]
    failed = {"label": "bad", "state": "failed", "varied": {}, "error": "no data"}
    write_json(tmp_path / "grid.json", {"cells": [*cells, failed], "over_seeds": {}, "failed": []})
    (found,) = sections(read_study([tmp_path], silent))
    curve = found.blocks[1]
    assert isinstance(curve, Lines) and curve.x_title == "specialize.delta"
    ((first, second),) = curve.series.values()
    assert first == pytest.approx((0.1, 61.0, 2**0.5)) and second[1] == pytest.approx(71.0)
    assert "no data" in page("x", "", [found])


def test_rates_stand_apart_by_their_ratio_and_the_last_tick_is_whole() -> None:
    rates = [0.00002, 0.0002, 0.002]
    cells = [
        {
            "state": "done",
            "label": f"rate {rate}",
            "varied": {"tasks": ["a"], "training.learning_rate": rate, "seed": 0},
            "splits": {"validation": {"a": {"score": 0.5 + place / 10}}},
        }
        for place, rate in enumerate(rates)
    ]
    study = Study("grid", [], grid={"cells": cells, "over_seeds": {}})
    chart = next(b for b in sections(study)[0].blocks if isinstance(b, Lines))
    assert chart.log_x
    x, _, x_ticks, _ = scales(chart)
    assert x_ticks == rates
    assert x(rates[1]) - x(rates[0]) == pytest.approx(x(rates[2]) - x(rates[1]), abs=0.2)
    picture = str(lines(chart))
    for rate in rates:
        assert f">{rate:,.10g}</text>" in picture
    for anchor, place, word in re.findall(
        r'text-anchor="(\w+)" x="([\d.]+)" y="[\d.]+">([\d.e-]+)<', picture
    ):
        right = {"end": 0.0, "middle": 0.5}[anchor] * 6 * len(word)
        assert float(place) + right <= 560, word


@pytest.mark.parametrize(
    ("key", "values", "log"),
    [
        ("training.learning_rate", [1e-5, 2e-5], True),
        ("training.epochs", [1, 2, 10], False),
        ("dissociation.alpha", [0.0, 0.5], False),
        ("training.weight_decay", [0.001, 0.1], True),
    ],
)
def test_which_axes_are_logarithmic(key: str, values: list[float], log: bool) -> None:
    assert is_rate(key, values) is log


def test_figures_of_others_stay_where_they_are(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    (tmp_path / "paper" / "figures").mkdir(parents=True)
    mine = tmp_path / "paper" / "figures" / "mine.pdf"
    mine.write_text("mine")
    report_on([tmp_path / "run"], silent, to=tmp_path / "paper" / "page.html")
    assert mine.read_text() == "mine"
    assert (tmp_path / "paper" / "page-figures" / "heads.svg").is_file()
    (tmp_path / "run" / "figures").mkdir()
    (tmp_path / "run" / "figures" / "mine.pdf").write_text("mine")
    report_on([tmp_path / "run"], silent)
    assert (tmp_path / "run" / "figures" / "mine.pdf").is_file()


def test_undefined_everywhere_still_makes_a_page(tmp_path: Path) -> None:
    _, result = write_run(tmp_path / "run", ["a", "b"])
    assert result is not None
    result.mean, result.per_task = None, [None, None]
    result.pairwise = [[None, None], [None, None]]
    result.verdicts = [["", "undefined"], ["undefined", ""]]
    result.undefined = {"a": "its base score is 0", "b": "its base score is 0"}
    result.intervals = {"level": 0.95, "per_task": [None, None], "mean": None,
                        "pairwise": [[None, None], [None, None]]}  # fmt: skip
    for point in result.curve:
        point |= {"mean": None, "per_task": [None, None]}
    result.save(tmp_path / "run" / "dissociation.json")
    text = report_on([tmp_path / "run"], silent).read_text(encoding="utf-8")
    assert "Specialization could not be measured: D is undefined." in text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("log.jsonl", b'3\nnull\n{"step": 1, "loss": {"a": NaN}, "batches": {"a": 1}}\n\xff\n'),
        (
            "log.jsonl",
            b'{"stage": "evaluation", "sefonds": 3}\n{"stage": 3, "seconds": 1}\n{"loss": {}}\n'
            b'{"step": "4", "loss": {"a": 1.0}}\n{"step": 5, "scores": [], "evaluation": true}\n',
        ),
        ("provenance.json", b'{"schema_version": 1, "data": {"a": {}, "b": {}}}'),
    ],
)
def test_odd_files_do_not_break_the_page(tmp_path: Path, name: str, content: bytes) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    (tmp_path / "run" / name).write_bytes(content)
    assert report_on([tmp_path / "run"], silent).is_file()


def test_damaged_measurements_are_refused_in_one_line(tmp_path: Path) -> None:
    _, result = write_run(tmp_path / "run", ["a", "b"])
    assert result is not None
    result.performance = result.performance[:1]
    result.save(tmp_path / "run" / "dissociation.json")
    with pytest.raises(InputError, match="do not fit its 2 tasks"):
        report_on([tmp_path / "run"], silent)
    write_json(tmp_path / "run" / "metrics.json", {"splits": {"validation": {"a": {}}}})
    with pytest.raises(InputError, match=r"metrics\.json: damaged"):
        report_on([tmp_path / "run"], silent)


def test_words_in_backticks_are_code_and_nothing_else_is_markup() -> None:
    words = "Run `brodmann map <RUN>` on `a` & <b>b</b>; a single ` stays."
    code = "Run <code>brodmann map &lt;RUN&gt;</code> on <code>a</code> &amp; &lt;b&gt;b&lt;/b&gt;"
    blocks = [
        Words(words),
        Items([(words, "as `c` says")]),
        Table(["`x`"], [["`y`"]], "of `z`"),
        Cases([Case("1", "`t`", "`u`", "", "`v`", is_right=False)]),
    ]
    text = page("title", "", [Section("one", "One", blocks)])
    assert text.count(code + "; a single ` stays.") == 2
    assert 'aria-label="of z"' in text
    assert "as <code>c</code> says" in text and "<figcaption>of <code>z</code>" in text
    # What comes from the data keeps its letters.
    for letter in "xytuv":
        assert f"`{letter}`</bdi>" in text or f"<td>`{letter}`</td>" in text
        assert f"<code>{letter}</code>" not in text


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    for name in ("metrics.json", "importance.json", "dissociation.json"):
        (tmp_path / "run" / name).unlink()
    text = report_on([tmp_path / "run"], silent).read_text(encoding="utf-8")
    assert "Not finished: <code>brodmann evaluate</code> is still to come." in text
    (tmp_path / "run" / "log.jsonl").unlink()
    with pytest.raises(InputError, match="nothing to report yet"):
        report_on([tmp_path / "run"], silent)


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        # The steps took 30 s (the log of `write_run`), the stage 50 s with its evaluations.
        ([("training", 50.0)], [("training", "50.0 s", "95 %"), ("evaluation", "2.5 s", "5 %")]),
        # Two sittings; the second begins where the first was stopped.
        (
            [("training", 20.0), ("training", 27.5)],
            [("training", "47.5 s", "95 %"), ("evaluation", "2.5 s", "5 %")],
        ),
        # The first sitting was killed and left no stage: the steps know better.
        ([("training", 8.0)], [("training", "30.0 s", "92 %"), ("evaluation", "2.5 s", "8 %")]),
        # Trained with `fit` in Python: no stage at all.
        ([], [("training", "30.0 s", "92 %"), ("evaluation", "2.5 s", "8 %")]),
    ],
)
def test_the_table_of_phases_counts_training_once(
    tmp_path: Path, stages: list[tuple[str, float]], expected: list[tuple[str, str, str]]
) -> None:
    write_run(tmp_path / "one", ["a", "b"])
    with open(tmp_path / "one" / "log.jsonl", "a", encoding="utf-8") as log:
        for stage, seconds in stages:
            log.write(json.dumps({"stage": stage, "seconds": seconds}) + "\n")
    table = training.views(read_record(tmp_path / "one"))[-1]
    assert table.rows == expected


def test_amounts_of_data_stand_in_their_order(tmp_path: Path) -> None:
    entry = {"plain": {"mean": [0.5, 0.1]}, "iat": {"mean": [0.6, None]}}
    table = {"16": entry, "10 %": entry}
    write_json(tmp_path / "transfer.json", {"tasks": {"a": table}, "metrics": {"a": "accuracy"}})
    (found,) = sections(read_study([tmp_path], silent))
    chart = found.blocks[0]
    assert isinstance(chart, Lines) and list(chart.x_labels) == ["16", "10 %"]
    assert ">10 %</text>" in page("x", "", [found])


@pytest.mark.parametrize("what", ["missing", "empty"])
def test_what_is_no_run_is_refused_in_one_line(tmp_path: Path, what: str) -> None:
    folder = tmp_path / what
    if what == "empty":
        folder.mkdir()
    with pytest.raises(InputError, match=r"no such folder|neither a run"):
        report_on([folder], silent)
    assert not list(tmp_path.glob("**/report.html"))


def test_sampling_by_example_has_its_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    log = tmp_path / "run" / "log.jsonl"
    lines = [
        {"step": step, "loss": {"a": 1.0}, "batches": {"a": 1}, "examples": {"a": 30, "b": 2},
         "entropy": {"a": 0.9, "b": 0.1}, "used": {"a": 0.5, "b": 0.25}}
        for step in (10, 20)
    ]  # fmt: skip
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = next(
        s for s in sections(read_study([tmp_path / "run"], silent)) if s.name == "sampling"
    )
    assert found.blocks[2].series["a"] == [(10, 3.0), (20, 3.0)]
    assert list(found.blocks[3].rows[0]) == ["a", "60", "50.0 %"]
    assert found.title == "Sampling by uncertainty"
    assert found.blocks[0].text.startswith(
        "The sampler uncertainty chose the examples: the candidates of every task that the model "
    )

    config = tmp_path / "run" / "config.toml"
    stored = config.read_text()
    config.write_text(stored.replace("[training]", '[training]\nsampling = "mine"'))
    monkeypatch.setitem(SAMPLERS, "mine", Sampler(by_example=True, chooses="the rarest texts"))
    found = next(
        s for s in sections(read_study([tmp_path / "run"], silent)) if s.name == "sampling"
    )
    assert found.title == "Sampling by mine"
    assert found.blocks[0].text.startswith("The sampler mine chose the examples: the rarest texts.")

    # another sampler, with log_entropy
    config.write_text(stored.replace("[training]", '[training]\nsampling = "uniform"'))
    found = next(
        s for s in sections(read_study([tmp_path / "run"], silent)) if s.name == "sampling"
    )
    assert found.title == "Uncertainty over training"
    assert found.blocks[0].text.startswith("Tasks were drawn by the sampler uniform; how sure ")


def test_relations_and_new_tasks_have_their_sections(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    write_json(
        tmp_path / "run" / "covsim.json",
        {
            "tasks": ["a", "b"],
            "examples": 5,
            "covsim": [[0.5, 0.2], [0.2, 0.4]],
            "mean": [0.2, 0.2],
        },
    )
    write_json(
        tmp_path / "run" / "adaptation.json",
        {"head": "new", "metrics": {"c": "accuracy"},
         "zero_shot": {"c": {"a": {"accuracy": 0.25}, "random": {"accuracy": 0.75}}},
         "scores": {"validation": {"c": {"score": 0.9}}}},
    )  # fmt: skip
    study = read_study([tmp_path / "run"], silent)
    found = {section.name: section for section in sections(study)}
    assert found["relations"].blocks[1].values[0] == [0.5, 0.2]
    rows = [list(row) for row in found["new-tasks"].blocks[0].rows]
    assert rows == [["a", "25.0"], ["random", "75.0"], ["after training", "90.0"]]
    study.runs[0].arm = "multi"
    study.comparison = {
        "tasks": ["a", "b"], "metrics": ["accuracy"] * 2, "baseline": "multi",
        "arms": {"multi": {"against": None}, "single": {"against": {"per_task": {
            t: {"difference": -0.02, "interval": [-0.03, -0.01]} for t in "ab"}}}},
    }  # fmt: skip
    again = covsim.section(study)
    assert again is not None
    scatter = again.blocks[2]
    assert list(scatter.points[0]) == [0.2, 2.0, "a"]
    assert "circle" in page("x", "", [again])


def test_gains_of_every_run_with_covsim_over_the_one_with_encoders_of_its_own() -> None:
    """Whatever the runs are called, and whichever is the baseline."""

    def record(arm: str, architecture: str, mean: list[float]) -> Record:
        found = {"tasks": ["a", "b"], "examples": 5, "covsim": [[0.5] * 2] * 2, "mean": mean}
        settings = {"model": {"architecture": architecture}}
        return Record(arm, settings, "", {}, measures={"covsim": found}, arm=arm)

    runs = [
        record("apart", "single", [0.9, 0.9]),
        record("together", "shared", [0.2, 0.3]),
        record("conditioned", "ca_mtl", [0.4, 0.5]),
    ]
    scores = {"apart": (0.5, 0.6), "together": (0.52, 0.61), "conditioned": (0.55, 0.58)}
    for baseline in scores:
        arms: dict[str, Any] = {}
        for arm, values in scores.items():
            per_task = {t: (value, None) for t, value in zip("ab", values, strict=True)}
            differences = [v - b for v, b in zip(values, scores[baseline], strict=True)]
            tested = {
                t: {"difference": d, "interval": [d, d]}
                for t, d in zip("ab", differences, strict=True)
            }
            against = None if arm == baseline else {"per_task": tested}
            arms[arm] = {"per_task": per_task, "against": against, "seeds": [0]}
        comparison = {"tasks": ["a", "b"], "metrics": ["accuracy"] * 2, "arms": arms}
        study = Study("s", runs, {**comparison, "baseline": baseline})
        points = covsim.gain_points(study)
        assert [(x, round(y, 6), name) for x, y, name in points] == [
            (0.2, 2.0, "a (together)"),
            (0.3, 1.0, "b (together)"),
            (0.4, 5.0, "a (conditioned)"),
            (0.5, -2.0, "b (conditioned)"),
        ]
        shared = "together" if baseline == "apart" else baseline
        assert sharing_arm(study) == shared and single_arm(study) == "apart"
