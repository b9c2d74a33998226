"""The slices of all ranks together are the checkpoint, mirrors follow their parameter, and faults are named."""

import pytest

torch = pytest.importorskip("torch")

from silt import loaders

HEADS, WIDTH, RANKS = 6, 4, 3
P = 128 * HEADS


def parts(shape, load, loaded, dtype=torch.float32):
    made = []
    for rank in range(RANKS):
        made.append(torch.full(shape, torch.nan, dtype=dtype))
        load(made[-1], loaded, rank, RANKS)
    return made


def test_projections():
    weight = torch.randn(P, 5)
    rows = parts((P // RANKS, 5), loaders.load_column_parallel, weight)
    assert torch.equal(torch.cat(rows), weight)
    columns = parts((5, P // RANKS), loaders.load_row_parallel, weight.t())
    assert torch.equal(torch.cat(columns, 1), weight.t())


@pytest.mark.parametrize("shape", [(8,), (1, 1, 8, 1), (6,)], ids=str)
def test_A_log_may_be_longer_than_the_heads(shape):
    loaded = torch.randn(shape)
    got = parts((HEADS // RANKS,), loaders.load_A_log, loaded)
    assert torch.equal(torch.cat(got), loaded.flatten()[:HEADS])
    with pytest.raises(ValueError, match="load_A_log: loaded: heads: has 5, needs at least 3 x 2"):
        parts((HEADS // RANKS,), loaders.load_A_log, torch.randn(5))


@pytest.mark.parametrize("shape", [(P,), (HEADS, 128)], ids=str)
@pytest.mark.parametrize("own", [(P // RANKS,), (HEADS // RANKS, 128)], ids=str)
def test_dt_bias(shape, own):
    loaded = torch.randn(shape)
    got = parts(own, loaders.load_dt_bias, loaded)
    assert torch.equal(torch.cat(got).flatten(), loaded.flatten())


@pytest.mark.parametrize("shape", [(P, WIDTH), (P, 1, WIDTH)], ids=str)
@pytest.mark.parametrize("middle", [(), (1,)], ids=str)
def test_convolution_and_its_mirror(shape, middle):
    channels = P // RANKS
    checkpoint = [torch.randn(shape).bfloat16() for _ in range(3)]
    for rank in range(RANKS):
        param = torch.nn.Parameter(torch.empty((3 * channels, *middle, WIDTH), dtype=torch.bfloat16))
        mirror = torch.full((3, WIDTH, channels), torch.nan)
        for again in range(2):  # a reload: other values, in another order
            order = [2, 0, 1] if again else [0, 1, 2]
            weights = [weight * (1 + again) for weight in checkpoint]
            for part in order:
                loaders.load_conv(param, mirror, weights[part], part, rank, RANKS)
            own = [w.reshape(P, WIDTH)[rank * channels : (rank + 1) * channels] for w in weights]
            assert torch.equal(param.detach().reshape(-1, WIDTH), torch.cat(own))
            assert torch.equal(mirror, torch.stack([w.t().float() for w in own]))
        loaders.load_conv(param, None, checkpoint[0], 0, rank, RANKS)


def test_norm_and_its_mirror():
    param, mirror = torch.empty(128, dtype=torch.bfloat16), torch.full((128,), torch.nan)
    for _ in range(2):
        loaded = torch.randn(128).bfloat16()
        loaders.load_norm(param, mirror, loaded)
        assert torch.equal(param, loaded) and torch.equal(mirror, loaded.float())
    loaders.load_norm(param, None, loaded)


def test_nothing_without_memory_is_touched():
    meta = lambda *shape: torch.empty(shape, device="meta")
    mirror = torch.zeros(3, WIDTH, P)
    loaders.load_conv(meta(3 * P, WIDTH), mirror, torch.ones(P, WIDTH), 0, 0, 1)
    assert mirror[0].eq(1).all() and not mirror[1:].any()
    loaders.load_conv(torch.zeros(3 * P, WIDTH), mirror, meta(P, WIDTH), 1, 0, 1)
    assert not mirror[1:].any()
    loaders.load_conv(meta(3 * P, WIDTH), meta(3, WIDTH, P), torch.ones(P, WIDTH), 0, 0, 1)
    loaders.load_norm(meta(128), meta(128), torch.ones(128))
    loaders.load_replicated(meta(4), torch.ones(4))
    loaders.load_column_parallel(meta(4), torch.ones(8), 1, 2)
    loaders.load_row_parallel(meta(4, 2), torch.ones(4, 4), 1, 2)
    loaders.load_A_log(meta(4), torch.ones(8), 1, 2)
    loaders.load_dt_bias(meta(4), torch.ones(8), 1, 2)


def test_faults_are_named():
    with pytest.raises(ValueError, match=r"tp_rank: has 2, needs 0\.\.1"):
        loaders.load_column_parallel(torch.zeros(2), torch.zeros(4), 2, 2)
    with pytest.raises(ValueError, match="load_row_parallel: loaded: axis 1: has 5, needs 2 x 2"):
        loaders.load_row_parallel(torch.zeros(3, 2), torch.zeros(3, 5), 0, 2)
    with pytest.raises(ValueError, match="load_conv: part: has 3"):
        loaders.load_conv(torch.zeros(6, 4), None, torch.zeros(2, 4), 3, 0, 1)
    with pytest.raises(ValueError, match="load_conv: loaded: width: has 3, needs 4"):
        loaders.load_conv(torch.zeros(6, 4), None, torch.zeros(2, 3), 0, 0, 1)
    with pytest.raises(ValueError, match="load_conv: mirror: shape"):
        loaders.load_conv(torch.zeros(6, 4), torch.zeros(3, 2, 4), torch.zeros(2, 4), 0, 0, 1)
    with pytest.raises(ValueError, match="load_replicated: loaded: shape"):
        loaders.load_replicated(torch.zeros(4), torch.zeros(1))
