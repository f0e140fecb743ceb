"""Whatever decides an answer tells two services apart in their cache; nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ferry_api.runtime_config import ColdConfig, EngineConfig, EngineType, ModelConfig, Quantization
from ferry_runtime.caching import StoreChoice, served_model
from ferry_runtime.configuration import ConfigurationSource, LiveConfiguration
from ferry_runtime.engine.fake import FakeBackend
from ferry_runtime.engine.protocol import EngineState, ModelInfo
from ferry_runtime.models.prepared import PreparedModel
from ferry_runtime.service import Service, Surroundings
from ferry_runtime.settings import Secrets

INFO = ModelInfo(
    family="llama", device="cpu", dtype="float32", numerics="Fast", vocab_size=10, context_length=64,
    eos_token_ids=(2,), slots=8, kv_block_tokens=16, kv_blocks=4, parameters=1, weights_bytes=1, kv_bytes=1,
    load_seconds=1.0,
)  # fmt: skip
COLD = ColdConfig(
    model=ModelConfig(source="hf://a/b", served_name="served"),
    engine=EngineConfig(type=EngineType.OPENAI_COMPATIBLE, upstream_url="http://one", upstream_model="one"),
)
DECIDES: dict[str, dict[str, Any]] = {
    "model": {"served_name": "other", "quantization": Quantization.INT8},
    "engine": {"type": EngineType.TRANSFORMERS, "upstream_url": "http://two", "upstream_model": "two"},
}
# By what it led to: the digest of what was fetched, or what the engine says that it loaded.
DECIDES_INDIRECTLY = {"model": {"source", "dtype"}, "engine": {"numerics"}}
DECIDES_NOTHING = {
    "model": {"context_length"},  # only how long an answer may get, which each request says
    "engine": {"kv_cache_bytes", "max_batched_tokens"},
}


@pytest.mark.parametrize("part", ["model", "engine"])
def test_every_setting_is_known_to_decide_an_answer_or_not_to(part: str) -> None:
    named = set(DECIDES[part]) | DECIDES_INDIRECTLY[part] | DECIDES_NOTHING[part]
    assert set(type(getattr(COLD, part)).model_fields) == named


@pytest.mark.parametrize(
    ("part", "change"),
    [(part, {name: value}) for part, changes in DECIDES.items() for name, value in changes.items()],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else value,
)
def test_another_setting_is_another_model(part: str, change: dict[str, Any]) -> None:
    other = COLD.model_copy(update={part: getattr(COLD, part).model_copy(update=change)})
    assert served_model(COLD, "digest", INFO) != served_model(other, "digest", INFO)


@pytest.mark.parametrize("change", [{"dtype": "bfloat16"}, {"numerics": "Deterministic"}, {"device": "cuda"}])
def test_what_the_engine_loaded_tells_models_apart(change: dict[str, str]) -> None:
    other = msgspec.structs.replace(INFO, **change)
    assert served_model(COLD, "digest", INFO) != served_model(COLD, "digest", other)


def test_other_content_is_another_model() -> None:
    assert served_model(COLD, "digest", INFO) != served_model(COLD, "other", INFO)


def test_an_upstream_model_is_asked_for_by_the_served_name_where_none_is_given() -> None:
    unnamed = COLD.engine.model_copy(update={"upstream_model": None})
    assert served_model(COLD.model_copy(update={"engine": unnamed}), "d", INFO).upstream_model == "served"


class Engine(FakeBackend):
    """In the state that a test puts it in."""

    now = EngineState.LOADING

    @property
    def state(self) -> EngineState:
        return self.now

    @property
    def info(self) -> ModelInfo:
        return INFO


def test_a_model_once_loaded_stays_known_while_its_engine_is_restarted(tmp_path: Path) -> None:
    live = LiveConfiguration(ConfigurationSource(None, {"MODEL_NAME": "hf://a/b"}))
    around = Surroundings(
        cache_dir=tmp_path, secrets=Secrets(), store=StoreChoice(address=lambda: None), local=True
    )
    service = Service(live, around)
    engine = Engine()
    service.backend.become(engine)
    service.model = PreparedModel(directory=str(tmp_path), source="hf://a/b", digest="d", weights_bytes=1)
    assert service._served_model() is None
    engine.now = EngineState.READY
    ready = service._served_model()
    assert ready is not None
    engine.now = EngineState.RESTARTING
    assert service._served_model() == ready
