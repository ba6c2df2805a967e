"""The multi-task model: mixed batches, saving, predicting, freezing, every architecture."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import every_kind
from tests.families import shaken

import brodmann as bm
from brodmann.data.batches import make_batch
from brodmann.data.encoding import encode_task
from brodmann.models.backbone.anatomy import layers_of


def pieces(model: Any, tasks: list[Any], items: list[int]) -> list[Any]:
    return [
        (
            task.name,
            encode_task(task.splits["train"], task.spec, model.tokenizer, max_length=32, stride=8),
            np.array(items),
        )
        for task in tasks
    ]


@pytest.mark.parametrize("architecture", ["shared", "single"])
def test_a_mixed_batch_gives_what_separate_batches_give(
    tasks_of_every_kind: list[Any], architecture: str
) -> None:
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks_of_every_kind, architecture=architecture
    ).eval()
    parts = pieces(model, tasks_of_every_kind, [0, 3, 5])
    with torch.no_grad():
        mixed = model(make_batch(parts, pad_id=0))
        for place, part in enumerate(parts):
            alone = model(make_batch([part], pad_id=0))
            together, apart = mixed.logits[place], alone.logits[0]
            if part[0] in ("where", "tag"):  # padded to another width
                apart, together = apart[:, :7], together[:, :7]
            torch.testing.assert_close(together, apart, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(mixed.losses[place], alone.losses[0], atol=1e-5, rtol=1e-5)
            assert mixed.losses[place].shape == (3,)


def test_a_batch_reaches_only_its_own_head_and_in_single_its_own_encoder(
    tasks_of_every_kind: list[Any],
) -> None:
    for architecture in ("shared", "single"):
        model = bm.MultiTaskModel.from_pretrained(
            "builtin:tiny", tasks_of_every_kind, architecture=architecture
        )
        batch = make_batch(pieces(model, tasks_of_every_kind[:1], [0, 1]), pad_id=0)
        model(batch).losses[0].sum().backward()
        touched = {n for n, p in model.named_parameters() if p.grad is not None}
        others = [
            n for n in touched if n.startswith("heads.") and not n.startswith("heads.task:single.")
        ]
        assert not others
        if architecture == "single":
            assert not [n for n in touched if n.startswith("encoder.") and ".task:single." not in n]
            counts = model.parameter_counts()
            assert counts["encoder"] == 7 * sum(
                p.numel() for p in model.bare_models()[0].parameters()
            )


@pytest.mark.parametrize("architecture", ["shared", "single"])
def test_saved_and_loaded_it_answers_the_same(
    tasks_of_every_kind: list[Any], architecture: str, tmp_path: Path
) -> None:
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks_of_every_kind, architecture=architecture, max_length=48
    ).eval()
    model.save_pretrained(tmp_path / "model", scores={"single": {"accuracy": 0.5}})
    loaded = bm.MultiTaskModel.from_pretrained(tmp_path / "model")
    assert loaded.specs == model.specs and loaded.settings == model.settings
    for ours, theirs in zip(model.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    inputs = {"text": "the red cat", "text_pair": "a dog", "choices": ["yes", "no"]}
    inputs |= {"question": "which cat", "context": "the red cat sat", "tokens": "the red cat"}
    assert loaded.predict_all([inputs]) == model.predict_all([inputs])
    assert list(loaded.predict_all([inputs])[0]) == list(model.specs)
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert '| single | classification | 0, 1 | a text or {"a": ...} | accuracy | 50.0 |' in card
    files = {path.name for path in (tmp_path / "model").iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "README.md"} <= files
    assert not [name for name in files if name.endswith((".bin", ".pt", ".pkl"))]
    model.save_pretrained(tmp_path / "model")  # over an old one


def test_predictions_have_the_form_people_expect(tiny_model: Any) -> None:
    (label,) = tiny_model.predict("single", ["the cat"])
    assert set(label) == {"label", "score", "probabilities"}
    assert sum(label["probabilities"].values()) == pytest.approx(1)
    assert label["score"] == max(label["probabilities"].values())
    assert set(tiny_model.predict("many", ["the cat"])[0]) == {"labels", "probabilities"}
    assert isinstance(tiny_model.predict("value", [("a cat", "a dog")])[0]["value"], float)
    (choice,) = tiny_model.predict("pick", [{"text": "a", "choices": ["x", "y", "z"]}])
    assert choice["text"] == ["x", "y", "z"][choice["choice"]] and len(choice["probabilities"]) == 3
    (answer,) = tiny_model.predict("where", [("which cat?", "the red cat")])
    assert set(answer) == {"answer", "score", "start", "end"}
    raw = "Is  it O'Hara's?"
    (tags,) = tiny_model.predict("tag", [raw])
    assert tags["tokens"] == ["Is", "it", "O", "'", "Hara", "'", "s", "?"]
    assert len(tags["tags"]) == 8
    for entity in tags["entities"]:
        assert raw[entity["start"] : entity["end"]] == entity["text"]
    assert tiny_model.predict("tag", [["Is", "it"]])[0]["tokens"] == ["Is", "it"]
    assert tiny_model.predict("single", []) == []


def test_predict_all_reads_a_text_once_and_agrees_with_predict(
    tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["the red cat", "a dog " * 100, "x"]
    calls = []
    backbone = tiny_model.encoder.backbone
    hook = backbone.register_forward_hook(lambda *_: calls.append(1))
    together = tiny_model.predict_all(texts)
    hook.remove()
    assert len(calls) == 1  # one batch, one pass for all tasks
    for name in ("single", "many", "tag"):
        alone = tiny_model.predict(name, texts)
        for a, b in zip(together, alone, strict=True):
            if name == "tag":
                assert a[name]["tags"] == b["tags"]
            elif name == "single":
                assert a[name]["label"] == b["label"]
                assert a[name]["score"] == pytest.approx(b["score"], abs=1e-5)
    assert list(together[0]) == ["single", "many", "tag"]


def test_predict_all_gives_every_input_the_tasks_that_read_it(tiny_model: Any) -> None:
    everything = {"text": "the red cat", "text_pair": "a dog", "choices": ["yes", "no"]}
    everything |= {"question": "which cat", "context": "the red cat sat", "tokens": "the red cat"}
    whole, pair, text = tiny_model.predict_all(
        [everything, ("the red cat", "a dog"), "the red cat"]
    )
    assert list(text) == ["single", "many", "tag"]
    assert {"pair", "value"} <= set(pair)
    assert list(whole) == list(tiny_model.specs)
    for name in tiny_model.specs:  # the same answers as one task at a time
        (alone,) = tiny_model.predict(name, [everything])
        for key, value in alone.items():
            expected = pytest.approx(value, abs=1e-5) if isinstance(value, float) else None
            assert expected is None or whole[name][key] == expected
    assert whole["pair"]["score"] == pytest.approx(pair["pair"]["score"], abs=1e-5)
    assert whole["single"]["score"] == pytest.approx(text["single"]["score"], abs=1e-5)
    with pytest.raises(
        bm.InputError, match=r"^input 2: no task of the model reads 3: single needs"
    ):
        tiny_model.predict_all(["a", 3])
    assert tiny_model.predict_all([]) == []


def test_wrong_inputs_are_named(tiny_model: Any) -> None:
    def message(call: Any) -> str:
        with pytest.raises(bm.InputError) as caught:
            call()
        return str(caught.value)

    assert message(lambda: tiny_model.predict("singel", ["a"])) == (
        "the model has no task 'singel'; did you mean 'single'?"
    )
    assert message(lambda: tiny_model.predict("pair", ["a"])) == (
        "input 1: task 'pair' takes a tuple (text, text_pair) or "
        '{"a": ..., "b": ...}, found \'a\''
    )
    assert message(lambda: tiny_model.predict("single", "a")) == (
        "expected a list of inputs, found one str: put it in [ ]"
    )
    assert message(lambda: bm.MultiTaskModel.from_pretrained("builtin:tiny")) == (
        "builtin:tiny: not a trained multi-task model: give the tasks to build one"
    )


def test_freezing_a_share_of_the_layers_or_the_encoder(tasks_of_every_kind: list[Any]) -> None:
    def trained(freeze: Any) -> tuple[list[bool], bool, bool]:
        model = bm.MultiTaskModel.from_pretrained(
            "builtin:tiny", tasks_of_every_kind[:1], freeze=freeze
        )
        bare = model.bare_models()[0]
        layers = [all(p.requires_grad for p in layer.parameters()) for layer in layers_of(bare)]
        heads = all(p.requires_grad for p in model.heads.parameters())
        return layers, all(p.requires_grad for p in bare.embeddings.parameters()), heads

    assert trained(0.0) == ([True] * 3, True, True)
    assert trained(0.34) == ([False, True, True], False, True)
    assert trained(0.5) == ([False, True, True], False, True)
    assert trained("encoder") == ([False] * 3, False, True)
    with pytest.raises(
        bm.InputError, match=r"^from_pretrained: freeze = 1\.5: input should be 'encoder' or"
    ):
        trained(1.5)


def test_a_model_from_a_folder_in_the_hub_layout(
    tasks_of_every_kind: list[Any], tmp_path: Path
) -> None:
    """What loads from the hub loads from a folder: here another family, saved by transformers."""
    import transformers as tf

    from brodmann.models.backbone.tiny import tiny_tokenizer, tiny_vocabulary

    config = tf.RobertaConfig(
        vocab_size=len(tiny_vocabulary()), hidden_size=32, num_hidden_layers=2,
        num_attention_heads=4, intermediate_size=37, max_position_embeddings=66, pad_token_id=0,
        type_vocab_size=2,
    )  # fmt: skip
    tf.AutoModel.from_config(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    model = bm.MultiTaskModel.from_pretrained(str(tmp_path), tasks_of_every_kind, max_length=64)
    assert set(bm.evaluate(model, tasks_of_every_kind)) == {t.name for t in tasks_of_every_kind}
    with pytest.raises(bm.InputError, match=r"max_length = 128: .* reads at most 65 tokens"):
        bm.MultiTaskModel.from_pretrained(str(tmp_path), tasks_of_every_kind)


def test_a_decoder_answers_from_its_last_real_token(tmp_path: Path) -> None:
    import transformers as tf

    from brodmann.models.backbone.tiny import tiny_tokenizer, tiny_vocabulary

    config = tf.GPT2Config(
        vocab_size=len(tiny_vocabulary()), n_embd=32, n_layer=2, n_head=4, n_positions=64
    )
    tf.AutoModel.from_config(config).save_pretrained(tmp_path)
    tokenizer = tiny_tokenizer()
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.save_pretrained(tmp_path)
    tasks = bm.load_tasks([d for d in every_kind() if d["kind"] != "choice"])
    model = bm.MultiTaskModel.from_pretrained(str(tmp_path), tasks, max_length=48).eval()
    alone = model.predict("single", ["the red cat"])[0]
    padded = model.predict("single", ["the red cat", "a dog " * 20])[0]
    assert alone["score"] == pytest.approx(padded["score"], abs=1e-5)
    assert set(bm.evaluate(model, tasks)) == {task.name for task in tasks}


def openai_gpt(folder: Path) -> None:
    """A folder as OpenAI GPT's: no special tokens around a text, `<unk>` and no padding token."""
    import transformers as tf
    from tokenizers import processors

    from brodmann.models.backbone.tiny import tiny_tokenizer, tiny_vocabulary

    config = tf.OpenAIGPTConfig(
        vocab_size=len(tiny_vocabulary()), n_embd=32, n_layer=2, n_head=4, n_positions=64
    )
    torch.manual_seed(0)
    shaken(tf.AutoModel.from_config(config)).save_pretrained(folder)
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", pair="$A $B", special_tokens=[]
    )
    tokenizer.pad_token = None
    tokenizer.eos_token = None
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.save_pretrained(folder)


def test_openai_gpt_reads_an_unknown_word_at_the_end(tmp_path: Path) -> None:
    """It pads with `<unk>`: the last real token is told by the mask, also in what is exported."""
    import transformers as tf

    from brodmann.models.exports import export_transformers

    openai_gpt(tmp_path / "gpt")
    tasks = bm.load_tasks(every_kind()[:1])
    model = bm.MultiTaskModel.from_pretrained(str(tmp_path / "gpt"), tasks, max_length=48).eval()
    assert model.tokenizer.pad_token == "[UNK]"
    texts = ["the red cat 漢", "the red cat", "a dog " * 20]
    found = [answer["probabilities"] for answer in model.predict("single", texts)]
    assert found[0]["0"] != pytest.approx(found[1]["0"], abs=1e-3)

    backbone, head = model.encoder.backbone, model.head_of("single").stock
    for text, answer in zip(texts, found, strict=True):
        inputs = model.tokenizer(text, return_tensors="pt", truncation=True, max_length=48)
        with torch.no_grad():
            last = head.score(backbone(**inputs).last_hidden_state[0, -1]).softmax(-1)
        assert list(answer.values()) == pytest.approx(last.tolist(), abs=1e-5)

    export_transformers(model, "single", tmp_path / "exported")
    stock = tf.AutoModelForSequenceClassification.from_pretrained(tmp_path / "exported").eval()
    tokenizer = tf.AutoTokenizer.from_pretrained(tmp_path / "exported")
    assert tokenizer.pad_token_id == stock.config.pad_token_id != tokenizer.unk_token_id
    with torch.no_grad():
        rows = stock(**tokenizer(texts, padding=True, truncation=True, return_tensors="pt")).logits
    for row, answer in zip(rows.softmax(-1).tolist(), found, strict=True):
        assert row == pytest.approx(list(answer.values()), abs=1e-5)


def test_backbones_that_cannot_be_loaded(tmp_path: Path, tasks_of_every_kind: list[Any]) -> None:
    def message(name: str) -> str:
        with pytest.raises(bm.InputError) as caught:
            bm.MultiTaskModel.from_pretrained(name, tasks_of_every_kind)
        return str(caught.value)

    assert message("builtin:maxi") == (
        "unknown backbone 'builtin:maxi'; built in are builtin:minilm and builtin:tiny"
    )
    text = message("someone/unknown-model")
    assert text.startswith("backbone 'someone/unknown-model' could not be loaded from the hub: ")
    assert text.endswith("To work offline, use a folder or builtin:minilm")
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert message(str(tmp_path)) == (
        f"backbone '{tmp_path}': its config.json names no model_type, so it is no backbone; if it "
        "is a trained multi-task model, leave 'tasks' out"
    )
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5"}), encoding="utf-8")
    assert message(str(tmp_path)) == (
        f"backbone '{tmp_path}': t5 is an encoder-decoder, "
        "expected an encoder (BERT, RoBERTa, ...) or a decoder (GPT-2, Llama, ...)"
    )


@pytest.mark.parametrize(
    ("name", "damage", "reason"),
    [
        ("model.safetensors", lambda content: content[:-20], "does not match its checksum"),
        (
            "model.safetensors",
            lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
            "does not match its checksum",
        ),
        ("model.safetensors", None, "missing"),
        ("config.json", lambda c: c.replace(b"12", b"6"), "does not match its checksum"),
        ("tokenizer.json", lambda content: content[:100], "does not match its checksum"),
        ("checksums.json", lambda content: b'{"schema_version": 1, "files": []}',
         "has no table 'files'"),
        ("checksums.json", lambda content: content.replace(b'"tokenizer.json"', b'"tokenizer"'),
         "does not list tokenizer.json"),
        ("checksums.json", lambda content: b"[",
         "not a JSON document (Expecting value: line 1 column 2 (char 1))"),
    ],
)  # fmt: skip
def test_a_model_that_is_not_as_it_was_saved_is_refused(
    tiny_model: Any, tmp_path: Path, name: str, damage: Any, reason: str
) -> None:
    tiny_model.save_pretrained(tmp_path / "m")
    (tmp_path / "m" / "README.md").write_text("a card may be written by hand")
    bm.MultiTaskModel.from_pretrained(tmp_path / "m")
    path = tmp_path / "m" / name
    content = path.read_bytes()
    path.unlink()
    if damage is not None:
        path.write_bytes(damage(content))
        assert damage(content) != content
    with pytest.raises(bm.InputError) as error:
        bm.MultiTaskModel.from_pretrained(tmp_path / "m")
    assert str(error.value) == (
        f"{path}: {reason}: restore it from a copy, or train again (if you changed it yourself, "
        "remove checksums.json)"
    )


def test_damaged_weights_are_named_without_checksums(tiny_model: Any, tmp_path: Path) -> None:
    """A model from before there were any, or whose owner has removed them."""
    tiny_model.save_pretrained(tmp_path / "m")
    (tmp_path / "m" / "checksums.json").unlink()
    weights = tmp_path / "m" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    with pytest.raises(bm.InputError) as error:
        bm.MultiTaskModel.from_pretrained(tmp_path / "m")
    assert str(error.value) == (
        f"{weights}: damaged or missing (SafetensorError: Error while deserializing header: "
        "invalid header length)"
    )


def test_gradient_checkpointing_gives_the_same_gradients(tasks_of_every_kind: list[Any]) -> None:
    gradients = []
    for checkpointing in (False, True):
        model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks_of_every_kind, dropout=0.0)
        model.train()
        if checkpointing:
            model.enable_gradient_checkpointing()
        batch = make_batch(pieces(model, tasks_of_every_kind, [0, 1]), pad_id=0)
        torch.stack([losses.mean() for losses in model(batch).losses]).sum().backward()
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    assert len(gradients[0]) == len(gradients[1])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("architecture", ["shared", "single"])
def test_a_task_may_have_the_name_of_a_method(architecture: str, tmp_path: Path) -> None:
    descriptions = [{**every_kind()[0], "name": name} for name in ("type", "train", "forward")]
    tasks = bm.load_tasks(descriptions)
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks, architecture=architecture
    ).eval()
    model.save_pretrained(tmp_path / "m")
    loaded = bm.MultiTaskModel.from_pretrained(tmp_path / "m")
    assert loaded.predict_all(["a cat"]) == model.predict_all(["a cat"])


def test_inputs_from_a_frame_or_a_generator(tiny_model: Any) -> None:
    import pandas as pd

    texts = ["the cat", "a dog", "x"]
    expected = [answer["label"] for answer in tiny_model.predict("single", texts)]
    frame = pd.DataFrame({"a": texts, "other": 1})
    assert list(tiny_model.predict("single", frame)["single.answer"]) == expected
    generated = tiny_model.predict_all(text for text in texts)
    assert [a["single"]["label"] for a in generated] == expected


def test_saving_never_replaces_what_is_not_a_model(tiny_model: Any, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("mine")
    with pytest.raises(bm.InputError, match=r"data\.csv: is a file, expected a folder or nothing$"):
        tiny_model.save_pretrained(tmp_path / "data.csv")
    with pytest.raises(bm.InputError, match=r"contains other files: save the model to a new"):
        tiny_model.save_pretrained(tmp_path)
    assert (tmp_path / "data.csv").read_text() == "mine"


def test_wrong_settings_of_a_model(tasks_of_every_kind: list[Any]) -> None:
    for options, message in (
        ({"parameters": {"x": 1}}, "architecture 'shared' has no parameter 'x'"),
        ({"max_length": 0}, "from_pretrained: max_length = 0: input should be greater than or"),
        ({"architecture": "sharde"}, "unknown architecture 'sharde'; did you mean 'shared'?"),
        ({"attention": "flash_attention_2"}, "backbone 'builtin:minilm': "),
    ):
        name = "builtin:minilm" if "attention" in options else "builtin:tiny"
        with pytest.raises(bm.InputError) as caught:
            bm.MultiTaskModel.from_pretrained(name, tasks_of_every_kind, **options)
        assert str(caught.value).startswith(message)
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks_of_every_kind)
    with pytest.raises(
        bm.InputError, match=r"^no task has a split 'tset'; known: train, validation$"
    ):
        bm.evaluate(model, tasks_of_every_kind, split="tset")


def test_a_hub_out_of_reach_is_asked_once(
    tasks_of_every_kind: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client would try again for half a minute, with a line for every attempt."""
    import huggingface_hub
    from huggingface_hub import constants

    asked = []

    class NoNetwork:
        def head(self, address: str, timeout: float) -> None:
            asked.append((address, timeout))
            raise OSError("Name or service not known")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "get_session", NoNetwork)
    with pytest.raises(bm.InputError) as caught:
        bm.MultiTaskModel.from_pretrained("bert-base-uncasd", tasks_of_every_kind)
    assert str(caught.value) == (
        "backbone 'bert-base-uncasd' could not be loaded from the hub: it is not in the cache of "
        "this machine, and the hub cannot be reached. To work offline, use a folder or "
        "builtin:minilm"
    )
    assert asked == [(constants.ENDPOINT, 5.0)] and constants.HF_HUB_OFFLINE is False
    with pytest.raises(bm.InputError, match="not a model folder"):
        bm.MultiTaskModel.from_pretrained("./nowhere", tasks_of_every_kind)
    assert len(asked) == 1  # a path is no name of the hub's
    with pytest.raises(bm.InputError, match="hub:nobody/nothing could not be loaded"):
        bm.load_task("x", kind="classification", hub="nobody/nothing")
    assert len(asked) == 2


def test_a_hub_that_is_switched_off_is_not_asked(tasks_of_every_kind: list[Any]) -> None:
    with pytest.raises(bm.InputError) as caught:
        bm.MultiTaskModel.from_pretrained("bert-base-uncasd", tasks_of_every_kind)
    assert str(caught.value) == (
        "backbone 'bert-base-uncasd' could not be loaded from the hub: it is not in the cache of "
        "this machine, and the hub is switched off (HF_HUB_OFFLINE). To work offline, use a "
        "folder or builtin:minilm"
    )
