"""Meta-training: what a step does, resuming to the bit, and what stays untouched."""

import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.checkers import assert_other_bits, assert_same_bits, weights

import brodmann as bm
from brodmann.data.loading import load_tasks
from brodmann.errors import InputError, Interrupted
from brodmann.training.meta.gradients import outer_gradients
from brodmann.training.meta.meta_settings import Meta
from brodmann.training.meta.trainer import _MetaLoop, episode_batch, meta_train
from brodmann.training.meta.unseen import Adapter, DivergedError, meta_test, support_of

SETTINGS = Meta(steps=4, pairs=2, support=4, query=4, inner_steps=2)


def pairs(*names: str, train: int = 60) -> list[Any]:
    return load_tasks(
        [
            {
                "use": f"builtin/{name.replace('-', ':')}",
                "name": name,
                "head": "team" if name[:4] in ("team", "club") else name[:-3],
                "limit": {"train": train, "validation": 40, "test": 8},
            }
            for name in names
        ]
    )


def tiny(tasks: list[Any], **options: Any) -> Any:
    return bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, **options)


@pytest.mark.parametrize("algorithm", ["fomaml", "maml", "reptile"])
def test_a_step_is_the_mean_of_the_pairs_gradients(algorithm: str) -> None:
    tasks = pairs("team-en", "team-es", "topic-en")
    settings = Meta(
        algorithm=algorithm,
        steps=1,
        pairs=2,
        support=4,
        query=4,
        inner_steps=2,
        clip=None,
        gate_rate=0.5,
    )
    model = tiny(tasks, dropout=0.0, gates="trained").eval()
    before, loop = weights(model), _MetaLoop(model, tasks, settings, "float32", 0)
    expected: dict[str, torch.Tensor] = {}
    for place, episode in loop.drawn(0):
        found, _ = outer_gradients(
            loop.loss,
            loop.trained,
            episode_batch(model, tasks[place], loop.encoded[place], episode.support),
            episode_batch(model, tasks[place], loop.encoded[place], episode.query),
            algorithm=algorithm,
            steps=2,
            rate=settings.inner_rate,
            still=loop.still,
        )
        for name, gradient in found.items():
            expected[name] = expected.get(name, 0) + gradient / 2
    assert_same_bits(model, before)  # adaptation leaves the start as it was
    loop.step(0)
    for name, parameter in loop.trained.items():
        step = settings.outer_rate * expected[name]
        if name == "gates.free" and algorithm != "reptile":  # of one length, whatever the gradient
            step = 0.5 * expected[name] / expected[name].norm()
        moved = before[name] - step
        assert torch.allclose(parameter, moved, atol=1e-6), name
    still = torch.equal(model.gates.free, before["gates.free"])
    assert still == (algorithm == "reptile")


def moved(before: dict[str, torch.Tensor], loop: Any) -> dict[str, torch.Tensor]:
    return {name: p.detach() - before[name] for name, p in loop.trained.items()}


def length(values: dict[str, torch.Tensor]) -> float:
    return sum(float(value.double().square().sum()) for value in values.values()) ** 0.5


def test_clipping_limits_the_outer_gradient() -> None:
    tasks = pairs("team-en", "topic-en")
    found = {}
    for clip in (None, 0.001):
        model = tiny(tasks, dropout=0.0).double()  # the steps are small beside the weights
        settings = SETTINGS.model_copy(update={"clip": clip, "momentum": 0.0})
        before, loop = weights(model), _MetaLoop(model, tasks, settings, "float32", 0)
        loop.step(0)
        found[clip] = moved(before, loop)
    whole = length(found[None]) / SETTINGS.outer_rate
    assert whole > 0.01
    assert length(found[0.001]) / SETTINGS.outer_rate == pytest.approx(0.001, rel=1e-4)
    for name, value in found[None].items():  # shorter, in the same direction
        assert torch.allclose(found[0.001][name], value * 0.001 / whole, rtol=1e-4), name


def test_momentum_against_a_loop_by_hand() -> None:
    tasks = pairs("team-en", "topic-en")
    settings = SETTINGS.model_copy(update={"steps": 3, "momentum": 0.7, "clip": None})
    model, by_hand = tiny(tasks, dropout=0.0), tiny(tasks, dropout=0.0)
    meta_train(model, tasks, settings)
    loop = _MetaLoop(by_hand.train(), tasks, settings, "float32", 0)
    speed = {name: torch.zeros_like(p) for name, p in loop.trained.items()}
    for number in range(3):
        mean = {name: torch.zeros_like(p) for name, p in loop.trained.items()}
        for place, episode in loop.drawn(number):
            batches = [
                episode_batch(by_hand, tasks[place], loop.encoded[place], examples)
                for examples in (episode.support, episode.query)
            ]
            gradients, _ = outer_gradients(
                loop.loss, loop.trained, *batches, steps=2, rate=settings.inner_rate
            )
            for name, gradient in gradients.items():
                mean[name] += gradient / 2
        with torch.no_grad():
            for name, parameter in loop.trained.items():
                speed[name] = 0.7 * speed[name] + mean[name]
                parameter -= settings.outer_rate * speed[name]
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter, loop.trained[name], atol=1e-6), name


@pytest.mark.parametrize("gates", ["mask", "trained"])
def test_heads_that_are_off_do_not_move(gates: str) -> None:
    """Through meta-training and adapting; the answers are those of gates from outside."""
    tasks = pairs("team-en", "topic-en", "team-es")
    off = [(0, 1), (2, 3)]
    model = tiny(tasks[:2], gates=gates)
    model.switch_off(off)
    before = weights(model)
    meta_train(model, tasks[:2], SETTINGS)
    adapter = Adapter(model, tasks[2])
    curve = adapter.curve(support_of(tasks[2], 8, 0), rate=0.5, at=[3], seed=0)
    next(curve)  # held here, where the model is adapted
    after = weights(adapter.model)
    slice_of = {"query": 0, "key": 0, "value": 0, "output.dense": 1}
    for layer in range(3):
        for part, dimension in slice_of.items():
            name = f"encoder.backbone.encoder.layer.{layer}.attention."
            name += f"{part}.weight" if dimension else f"self.{part}.weight"
            change = (after[name] - before[name]).transpose(0, dimension)
            for head in range(4):
                still = not change[16 * head : 16 * (head + 1)].any()
                assert still == ((layer, head) in off), (name, head)
    plain = tiny(tasks, gates="" if gates == "mask" else "trained")
    kept = {k: v for k, v in after.items() if k != "gates.mask"}
    plain.load_state_dict(kept | ({} if gates == "mask" else {"gates.mask": torch.ones(3, 4)}))
    batch = episode_batch(plain, tasks[2], adapter.encoded["train"], range(6))
    with torch.no_grad():
        answers = adapter.model.eval()(batch).logits[0]
        open_answers = plain.eval()(batch).logits[0]
        with bm.head_gates(plain, off=off):
            gated = plain(batch).logits[0]
    assert torch.allclose(answers, gated, atol=1e-6)
    assert not torch.allclose(answers, open_answers, atol=1e-4)
    curve.close()


def test_another_start_does_not_go_on_in_the_same_folder(tmp_path: Path) -> None:
    tasks = pairs("team-en", "team-es")
    meta_train(tiny(tasks, gates="mask"), tasks, SETTINGS, folder=tmp_path)
    others = [tiny(tasks, gates="mask") for _ in range(2)]
    with torch.no_grad():
        next(others[0].parameters())[0, 0] += 1e-3
    others[1].switch_off([(0, 0)])
    for other in others:
        start = weights(other)
        with pytest.raises(InputError) as error:
            meta_train(other, tasks, SETTINGS, folder=tmp_path)
        assert "was written with other settings, data, start or number of processes" in str(
            error.value
        )
        assert_same_bits(other, start)
    meta_train(tiny(tasks, gates="mask"), tasks, SETTINGS, folder=tmp_path)  # the same start may


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"at": []}, "meta: curve = []: expected numbers of steps, rising"),
        ({"shots": [0]}, "meta: shots = [0]: expected numbers of examples, at least 1"),
        ({"shots": []}, "meta: shots = []: expected numbers of examples, at least 1"),
        ({"rates": {}}, "meta: rates: none for the start 'plain'"),
        ({"rates": {"plain": 0}}, "meta: rates: 0 for 'plain': expected a number above 0"),
    ],
)
def test_a_test_of_nothing_is_one_line(changes: dict[str, Any], message: str) -> None:
    tasks = pairs("team-en")
    options: dict[str, Any] = {"shots": [4], "at": [0, 1], "rates": {"plain": 0.1}, "draws": 1}
    with pytest.raises(InputError) as error:
        meta_test({"plain": tiny(tasks)}, tasks[0], **(options | changes))
    assert str(error.value) == message


def test_every_start_adapts_to_the_same_draws_of_the_support_set() -> None:
    tasks = pairs("team-en", "team-es")
    starts = {"one": tiny(tasks[:1]), "other": tiny(tasks[:1], seed=5)}
    rates = dict.fromkeys(starts, 0.3)
    options: dict[str, Any] = {"shots": [4], "at": [0, 2], "rates": rates}
    rows = meta_test(starts, tasks[1], draws=3, **options)
    assert [(r["start"], r["draw"], r["steps"]) for r in rows] == [
        (start, draw, steps) for start in starts for draw in range(3) for steps in (0, 2)
    ]
    drawn = {support_of(tasks[1], 4, 0, draw) for draw in range(3)}
    assert len(drawn) == 3
    first = [row for row in rows if row["draw"] == 0]
    alone = meta_test(starts, tasks[1], draws=1, **options)
    assert first == alone  # more draws change none before them
    for start in starts:  # zero-shot does not depend on the draw
        assert len({r["score"] for r in rows if r["start"] == start and r["steps"] == 0}) == 1
    with pytest.raises(InputError) as error:
        meta_test(starts, tasks[1], draws=0, **options)
    assert str(error.value) == "meta: draws = 0: expected at least 1"


def test_draws_are_averaged_within_a_seed_and_paired_between_starts() -> None:
    from brodmann.analysis.statistics import paired_interval
    from brodmann.studies.meta_summary import _difference, _over_seeds

    ours = {(0, 0): 0.5, (0, 1): 0.7, (1, 0): 0.6, (1, 1): None}
    theirs = {(0, 0): 0.4, (0, 1): 0.4, (1, 0): 0.5, (1, 1): 0.1}
    found = _over_seeds(ours)
    assert found["scores"] == pytest.approx([0.6, 0.6]) and found["diverged"] == 1
    assert found["draws"] == 2 and found["over_draws"] == pytest.approx(0.2 / 2**0.5)
    assert _difference(ours, theirs) == pytest.approx(paired_interval([0.2, 0.1], [0.0, 0.0]))
    assert _difference({(0, 0): None}, theirs) == {"mean": None, "low": None, "high": None}


def test_what_diverges_has_no_score() -> None:
    tasks = pairs("team-en")
    notes: list[str] = []
    options: dict[str, Any] = {"shots": [4], "at": [0, 2], "rates": {"plain": 1e30}, "draws": 1}
    rows = meta_test({"plain": tiny(tasks)}, tasks[0], diverged=notes.append, **options)
    assert [row["score"] is None for row in rows] == [False, True] and rows[1]["scores"] == {}
    assert notes == [
        "plain, seed 0: team-en: adapting at a rate of 1e+30 diverged within 2 steps: give lower "
        "'rates'"
    ]
    with pytest.raises(DivergedError):
        meta_test({"plain": tiny(tasks)}, tasks[0], **options)


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    tasks = pairs("team-en", "team-es")
    whole, stopped = tiny(tasks, gates="trained"), tiny(tasks, gates="trained")
    meta_train(whole, tasks, SETTINGS, seed=3)

    def interrupt(event: str, facts: dict[str, Any]) -> None:
        if event == "measuring goes on" and facts["items"] == 1:
            signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(Interrupted, match="stopped after 1 of 4 steps: run the same command"):
        meta_train(stopped, tasks, SETTINGS, folder=tmp_path, seed=3, report=interrupt)
    again = tiny(tasks, gates="trained")
    torch.rand(7)  # another place in the random stream
    losses = meta_train(again, tasks, SETTINGS, folder=tmp_path, seed=3)
    assert len(losses) == 4
    assert_same_bits(again, whole)
    with pytest.raises(InputError, match="was written with other settings"):
        meta_train(tiny(tasks), tasks, SETTINGS, folder=tmp_path, seed=4)


def test_adapting_starts_anew_every_time_and_keeps_heads_off() -> None:
    tasks = pairs("team-en", "team-es")
    model = tiny(tasks[:1], gates="trained")
    model.switch_off([(0, 1), (2, 3)])
    before = weights(model)
    adapter = Adapter(model, tasks[1])
    assert adapter.model.head_of("team-es") is adapter.model.head_of("team-en")
    chosen = support_of(tasks[1], 8, 0)
    during = []
    for steps, _ in adapter.curve(chosen, rate=0.5, at=[0, 3], seed=0):
        during.append((steps, weights(adapter.model)))
    assert [steps for steps, _ in during] == [0, 3]
    assert_same_bits(before, during[0][1])
    assert_other_bits(before, during[1][1])
    assert torch.equal(during[1][1]["gates.mask"], before["gates.mask"])
    assert torch.equal(during[1][1]["gates.free"], before["gates.free"])
    assert_same_bits(before, adapter.model)
    assert_same_bits(before, model)
    first, second = (
        [scores for _, scores in adapter.curve(chosen, rate=0.5, at=[3], seed=0)] for _ in range(2)
    )
    assert first == second


def test_a_pair_of_an_unknown_kind_gets_the_same_new_head_for_every_start() -> None:
    tasks = pairs("team-en", "topic-es")
    one, other = tiny(tasks[:1]), tiny(tasks[:1], seed=5)
    heads = [Adapter(start, tasks[1], seed=2).model.head_of("topic-es") for start in (one, other)]
    assert_same_bits(heads[0], heads[1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outer_rate": 0.5}, "Meta: outer_rate = 0.5: expected below inner_rate = 0.1"),
        (
            {"algorithm": "mamel"},
            "Meta: algorithm = 'mamel': input should be 'fomaml', 'maml' or 'reptile'",
        ),
        ({"pairs": 0}, "Meta: pairs = 0: input should be greater than 0"),
        ({"momentum": 1.0}, "Meta: momentum = 1.0: input should be less than 1"),
    ],
)
def test_wrong_settings_are_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        Meta(**changes)
    assert str(error.value) == message


def test_more_pairs_a_step_than_there_are() -> None:
    tasks = pairs("team-en")
    with pytest.raises(InputError, match="pairs = 2 per step, but only 1 are trained on"):
        meta_train(tiny(tasks), tasks, SETTINGS)


def test_a_rate_that_is_too_high_is_said_so() -> None:
    tasks = pairs("team-en", "team-es")
    settings = Meta(steps=30, pairs=2, support=4, query=4, inner_rate=1e6, outer_rate=1e5)
    with pytest.raises(InputError, match=r"the query loss is .* at step \d+: lower inner_rate"):
        meta_train(tiny(tasks), tasks, settings)
