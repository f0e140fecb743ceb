"""The fake engine of the end-to-end tests takes the place of the real ones, whatever they are asked with."""

from __future__ import annotations

import inspect
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest
from tests.conftest import ROOT

from ferry_runtime import engines, service


def test_it_is_made_as_the_real_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "make_backend", service.make_backend)
    monkeypatch.setattr(service, "needs_weights", service.needs_weights)
    loader = SourceFileLoader("fake_ferry", str(ROOT / "e2e" / "fake" / "ferry"))
    spec = spec_from_loader("fake_ferry", loader)
    assert spec is not None
    fake = module_from_spec(spec)
    loader.exec_module(fake)
    fake.use_fake_engine()
    assert service.make_backend is not engines.make_backend
    real = inspect.signature(engines.make_backend).parameters.values()
    made = inspect.signature(service.make_backend).parameters.values()
    assert [(one.name, one.kind) for one in made] == [(one.name, one.kind) for one in real]
