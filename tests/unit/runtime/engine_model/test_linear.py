"""Packed linear layers compute what torch's own do, at any number of rows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from ferry_runtime.engine.model.linear import LinearFactory, can_pack, packed_linear

CPU = torch.device("cpu")

needs_packing = pytest.mark.skipif(not can_pack(CPU), reason="this build of torch has no oneDNN")


@needs_packing
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("rows", [1, 3, 8, 64, 257])
def test_equals_torchs_linear(rows: int, dtype: torch.dtype, tolerance: float, bias: bool) -> None:
    torch.manual_seed(rows)
    weight = (torch.randn(96, 70) / 70**0.5).to(dtype)
    b = torch.randn(96).to(dtype) if bias else None
    x = torch.randn(rows, 70).to(dtype)
    result = packed_linear(weight, b, rows=8)(x)
    assert result.dtype == dtype
    torch.testing.assert_close(result, F.linear(x, weight, b), atol=tolerance, rtol=tolerance)


@needs_packing
@pytest.mark.parametrize("pack", [None, True, False])
def test_a_factory_builds_what_it_is_given(pack: bool | None) -> None:
    torch.manual_seed(1)
    factory = LinearFactory(8, torch.float32, CPU, pack=pack)
    weight, bias, x = torch.randn(40, 30), torch.randn(40), torch.randn(5, 30)
    torch.testing.assert_close(factory.build(weight, bias)(x), F.linear(x, weight, bias))
    assert factory.weights_bytes == 4 * (40 * 30 + 40)


def test_weights_do_not_alias_the_file() -> None:
    factory = LinearFactory(8, torch.float32, CPU, pack=False)
    weight = torch.randn(4, 4)
    linear = factory.build(weight, None)
    before = linear(torch.eye(4)).clone()
    weight.zero_()
    assert torch.equal(linear(torch.eye(4)), before)


@needs_packing
def test_a_shared_table_counts_again_only_when_it_is_packed() -> None:
    table = torch.randn(40, 30)
    plain = LinearFactory(8, torch.float32, CPU, pack=False)
    packed = LinearFactory(8, torch.float32, CPU, pack=True)
    for factory in (plain, packed):
        torch.testing.assert_close(factory.build_shared(table)(table), F.linear(table, table))
    assert (plain.weights_bytes, packed.weights_bytes) == (0, 4 * 40 * 30)
