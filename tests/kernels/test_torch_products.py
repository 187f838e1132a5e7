"""oneDNN's products beside torch's own."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from toposcope.kernels.torch_products import onednn_products, read_with_onednn  # noqa: E402

pytestmark = pytest.mark.skipif(not onednn_products(), reason="this build of torch lacks oneDNN's products")


def _layers() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.GELU(), torch.nn.Linear(20, 5, bias=False))


@pytest.mark.parametrize("shape", [(7, 12), (2, 7, 12), (1, 12)])
def test_values_agree_to_rounding(shape: tuple[int, ...]) -> None:
    plain, fast, x = _layers(), _layers(), torch.randn(shape)
    read_with_onednn(fast)
    with torch.inference_mode():
        assert torch.allclose(plain(x), fast(x), rtol=1e-5, atol=1e-6)


def test_gradients_flow_as_before() -> None:
    plain, fast, x = _layers(), _layers(), torch.randn(7, 12)
    read_with_onednn(fast)
    for model in (plain, fast):
        model(x).square().sum().backward()
    for mine, other in zip(fast.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine.grad, other.grad)


def test_half_precision_is_left_to_torch() -> None:
    model = _layers().to(torch.bfloat16)
    read_with_onednn(model)
    assert type(model[0]) is torch.nn.Linear
    with torch.inference_mode():
        assert model(torch.randn(3, 12, dtype=torch.bfloat16)).dtype == torch.bfloat16
