"""From a directory to a runner: what is found there, what is refused, what is reported."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ferry_api.runtime_config import DType, Numerics
from ferry_runtime.engine.model.contract import Row, Want
from ferry_runtime.engine.model.load import load_runner
from ferry_runtime.errors import EngineLoadError

from .tiny import CONTEXT, VOCAB, Loop, cold_config, load, random_prompts, reference_tokens, save_tiny_model

Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("llama")
    save_tiny_model("llama", directory)
    return directory


@pytest.fixture
def copy(llama: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(llama, tmp_path / "model"))


def _change(directory: Path, change: Callable[[Tensors], object]) -> None:
    file = directory / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file, metadata={"format": "pt"})


def _edit_config(directory: Path, **values: object) -> None:
    file = directory / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def _tokens(directory: Path) -> list[list[int]]:
    return Loop(load(directory)).run(random_prompts(1, [5, 30]), [6, 6])


def test_what_is_reported_about_a_loaded_model(llama: Path) -> None:
    stages: list[tuple[str, float]] = []
    report = lambda stage, share: stages.append((stage, share))  # noqa: E731
    runner = load_runner(llama, cold_config(slots=5), progress=report)
    info = runner.info
    assert (info.family, info.device, info.dtype, info.numerics) == ("llama", "cpu", "float32", "Fast")
    assert (info.vocab_size, info.context_length, info.slots) == (VOCAB, CONTEXT, 5)
    assert info.kv_bytes <= 8_000_000
    assert info.kv_bytes == info.kv_blocks * info.kv_block_tokens * 4 * 2 * 2 * 16 * 4
    assert info.parameters == sum(t.numel() for t in load_file(llama / "model.safetensors").values())
    assert info.weights_bytes == 4 * info.parameters
    assert info.load_seconds > 0
    assert stages == sorted(stages, key=lambda item: (item[0] != "weights", item[1]))
    assert ("weights", 1.0) in stages
    assert stages[-1] == ("measure", 1.0)


def test_costs_are_measured_and_leave_nothing_behind(llama: Path) -> None:
    runner = load(llama)
    assert runner.cost.decode_seconds > 0
    assert runner.cost.prefill_seconds_per_token > 0
    assert 1 <= runner.cost.chunk_tokens <= CONTEXT
    assert runner.blocks_used == 0


def test_sharded_files(copy: Path) -> None:
    expected = _tokens(copy)
    tensors = load_file(copy / "model.safetensors")
    (copy / "model.safetensors").unlink()
    halves = sorted(tensors)[::2], sorted(tensors)[1::2]
    weight_map = {}
    for i, names in enumerate(halves):
        save_file({name: tensors[name] for name in names}, copy / f"part-{i}.safetensors")
        weight_map |= dict.fromkeys(names, f"part-{i}.safetensors")
    (copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert _tokens(copy) == expected


def test_a_base_models_names_without_the_prefix(copy: Path) -> None:
    expected = _tokens(copy)

    def strip(tensors: Tensors) -> None:
        for name in [name for name in tensors if name.startswith("model.")]:
            tensors[name.removeprefix("model.")] = tensors.pop(name)

    _change(copy, strip)
    assert _tokens(copy) == expected


def test_weights_in_half_precision_are_widened(copy: Path) -> None:
    _change(copy, lambda tensors: tensors.update({k: v.bfloat16() for k, v in tensors.items()}))
    model_tokens = _tokens(copy)
    _change(copy, lambda tensors: tensors.update({k: v.float() for k, v in tensors.items()}))
    assert _tokens(copy) == model_tokens


@pytest.mark.parametrize("names", ["embed_out", "lm_head"])
def test_gpt_neox_output_layers_under_both_names(tmp_path: Path, names: str) -> None:
    model = save_tiny_model("gpt_neox", tmp_path)
    prompt = random_prompts(1, [12])[0]
    _change(tmp_path, lambda tensors: _rename_head(tensors, f"{names}.weight"))
    assert Loop(load(tmp_path)).run([prompt], [6]) == [reference_tokens(model, prompt, 6)]


def _rename_head(tensors: Tensors, name: str) -> None:
    head = next(key for key in tensors if key.startswith(("embed_out", "lm_head")))
    tensors[name] = tensors.pop(head)


def test_buffers_that_older_checkpoints_carry_are_ignored(tmp_path: Path) -> None:
    save_tiny_model("gpt2", tmp_path)
    expected = _tokens(tmp_path)
    _change(tmp_path, lambda tensors: tensors.update({"transformer.h.0.attn.bias": torch.ones(1, 1, 4, 4)}))
    assert _tokens(tmp_path) == expected


def test_a_tied_model_whose_file_holds_another_output_layer_uses_that(tmp_path: Path) -> None:
    save_tiny_model("llama-tied-scaled", tmp_path)
    tied = _tokens(tmp_path)
    table = load_file(tmp_path / "model.safetensors")["model.embed_tokens.weight"]
    _change(tmp_path, lambda tensors: tensors.update({"lm_head.weight": table.clone()}))
    assert _tokens(tmp_path) == tied
    _change(tmp_path, lambda tensors: tensors.update({"lm_head.weight": table.flip(0).contiguous()}))
    assert _tokens(tmp_path) != tied


def test_a_missing_tensor_is_named(copy: Path) -> None:
    _change(copy, lambda tensors: tensors.pop("model.layers.2.mlp.up_proj.weight"))
    with pytest.raises(EngineLoadError, match=r"no tensor model\.layers\.2\.mlp\.up_proj\.weight"):
        load(copy)


def test_a_missing_output_layer_is_named(copy: Path) -> None:
    _change(copy, lambda tensors: tensors.pop("lm_head.weight"))
    with pytest.raises(EngineLoadError, match=r"no lm_head\.weight.*not tied"):
        load(copy)


def test_another_shape_is_named(copy: Path) -> None:
    _change(copy, lambda tensors: tensors.update({"model.norm.weight": torch.ones(63)}))
    with pytest.raises(EngineLoadError, match=r"model\.norm\.weight has shape \[63\].*calls for \[64\]"):
        load(copy)


def test_another_kind_of_number_is_refused(copy: Path) -> None:
    _change(copy, lambda tensors: tensors.update({"model.norm.weight": torch.ones(64, dtype=torch.int8)}))
    with pytest.raises(EngineLoadError, match=r"holds int8; served are float32"):
        load(copy)


def test_tensors_that_the_family_does_not_have_are_refused(copy: Path) -> None:
    _change(copy, lambda tensors: tensors.update({"model.layers.0.self_attn.sinks": torch.ones(4)}))
    with pytest.raises(EngineLoadError, match=r"such as model\.layers\.0\.self_attn\.sinks"):
        load(copy)


def test_another_families_weights_are_refused(copy: Path) -> None:
    _edit_config(copy, model_type="gpt_neox")
    with pytest.raises(EngineLoadError, match=r"it is not a gpt_neox model, or files are missing"):
        load(copy)


def test_pickles_are_never_opened(copy: Path) -> None:
    torch.save({}, copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    with pytest.raises(EngineLoadError, match=r"no model\.safetensors.*pickled ones.*refused"):
        load(copy)


def test_a_cut_off_file_is_refused(copy: Path) -> None:
    file = copy / "model.safetensors"
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(EngineLoadError, match="not a complete safetensors file"):
        load(copy)


def test_an_index_may_not_point_outside(copy: Path) -> None:
    (copy / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../x.safetensors"}}))
    with pytest.raises(EngineLoadError, match="outside the model's directory"):
        load(copy)


def test_a_longer_context_than_the_models_is_refused(llama: Path) -> None:
    with pytest.raises(EngineLoadError, match=r"contextLength is 161.*at most 160"):
        load(llama, context=161)


def test_a_shorter_context_is_served(llama: Path) -> None:
    assert load(llama, context=100).info.context_length == 100


def test_too_little_memory_is_refused_with_the_sum(llama: Path) -> None:
    with pytest.raises(EngineLoadError, match=r"160 tokens needs 1 MB.*160 tokens of 1024 bytes each"):
        load(llama, kv_cache_bytes=100_000)


def test_float16_needs_a_gpu(llama: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(EngineLoadError, match="Float16 is served on GPUs only"):
        load(llama, dtype=DType.FLOAT16)


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2", "qwen3", "opt-350m", "gpt_neox"])
def test_bfloat16_is_no_further_from_full_precision_than_transformers_own(tmp_path: Path, name: str) -> None:
    model = save_tiny_model(name, tmp_path)
    runner = load(tmp_path, dtype=DType.BFLOAT16)
    assert runner.info.dtype == "bfloat16"
    prompt = random_prompts(1, [60])[0]
    runner.admit(0, prompt, 60)
    ours = runner.step([], [Row(0, tuple(prompt), 0, Want.ALL)])[0]
    with torch.no_grad():
        exact = model(torch.tensor([prompt])).logits[0]
        theirs = model.to(torch.bfloat16)(torch.tensor([prompt])).logits[0].float()
    assert (ours - exact).square().mean() < 1.2 * (theirs - exact).square().mean()


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_gpu_answers_as_the_processor_does(llama: Path) -> None:
    runner = load(llama)
    assert runner.info.device == "cuda"
    prompts = random_prompts(1, [5, 30, 90])
    model_tokens = Loop(runner, chunk=13).run(prompts, [8] * 3)
    assert model_tokens == Loop(load(llama), reuse=False).run(prompts, [8] * 3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_deterministic_numerics_are_refused_on_a_gpu(llama: Path) -> None:
    with pytest.raises(EngineLoadError, match="served on CPUs only"):
        load(llama, numerics=Numerics.DETERMINISTIC)


def test_auto_never_computes_a_float32_checkpoint_on_a_cpu_with_fewer_digits(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ferry_runtime.engine.model.device._has_amx", lambda: True)
    monkeypatch.setattr("ferry_runtime.engine.model.device._bfloat16_gain", lambda _spec, _rows: 5.0)
    assert load_runner(llama, cold_config(dtype=DType.AUTO)).info.dtype == "float32"


@pytest.mark.parametrize(
    ("amx", "gain", "chosen"),
    [
        pytest.param(True, 5.0, "bfloat16", id="in-hardware-and-much-faster"),
        pytest.param(True, 1.1, "float32", id="hardly-faster"),
        pytest.param(False, 5.0, "float32", id="not-in-hardware"),
    ],
)
def test_auto_on_a_cpu_takes_bfloat16_for_a_16_bit_checkpoint_only_where_it_pays(
    copy: Path, monkeypatch: pytest.MonkeyPatch, amx: bool, gain: float, chosen: str
) -> None:
    _change(copy, lambda tensors: tensors.update({k: v.to(torch.bfloat16) for k, v in tensors.items()}))
    monkeypatch.setattr("ferry_runtime.engine.model.device._has_amx", lambda: amx)
    monkeypatch.setattr("ferry_runtime.engine.model.device._bfloat16_gain", lambda _spec, _rows: gain)
    assert load_runner(copy, cold_config(dtype=DType.AUTO)).info.dtype == chosen


def test_ids_outside_of_the_vocabulary_end_no_answer(llama: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model"
    shutil.copytree(llama, copy)
    _edit_config(copy, eos_token_id=[3, VOCAB, 10 * VOCAB, -1])
    (copy / "generation_config.json").unlink(missing_ok=True)
    assert load(copy).info.eos_token_ids == (3,)


def test_what_attention_adds_is_counted_by_operations_and_bytes(llama: Path) -> None:
    cost = load(llama).cost
    assert 0 < cost.attention_share < 1
    assert cost.attention_read > 0
    assert cost.attention_span is None
    assert cost.weight(0, 10) == pytest.approx(10 * (1 + 5 * cost.attention_share))
    assert cost.weight(100, 10) == pytest.approx(
        10 * (1 + 105 * cost.attention_share) + 100 * cost.attention_read
    )
