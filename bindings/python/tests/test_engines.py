"""The functions with an engine's signature and layouts, against the operators on plain ones."""

import pytest

torch = pytest.importorskip("torch")

import silt
import silt.engines
from test_torch import assert_same, bits, each_device

HEADS, ROWS, SLOTS = 3, 4, 6
P = 128 * HEADS


def attn_res_arguments(device):
    """Activations as slices of wider rows; the bank has more slots than are valid."""
    torch.manual_seed(3)
    d = 320
    wide = torch.randn(ROWS, 2 * d + 64, device=device).bfloat16()
    return {
        "prefix": wide[:, :d],
        "delta": wide[:, d + 64 :],
        "blocks": torch.randn(ROWS, 5, d, device=device).bfloat16(),
        "norm_weight": torch.randn(d, device=device).bfloat16(),
        "qk_weight": torch.randn(1, d, device=device).bfloat16().squeeze(0),
        "output_norm_weight": torch.randn(d, device=device).bfloat16(),
        "num_blocks": 2,
        "block_write_idx": 2,
        "eps": 1e-5,
        "output_norm_eps": 1e-6,
    }


@pytest.mark.parametrize("absent", [(), ("delta",), ("output_norm_weight",), ("delta", "output_norm_weight")], ids=str)
@each_device
def test_attn_res(absent, device):
    ours, theirs = ({**attn_res_arguments(device), **dict.fromkeys(absent)} for _ in range(2))
    got = silt.engines.attn_res(*ours.values())
    expected = torch.empty(got.shape, dtype=got.dtype, device=device)
    silt.attn_res(**theirs, output=expected)
    assert got.is_contiguous() and got.shape == ours["prefix"].shape
    assert torch.equal(bits(got), bits(expected))
    assert_same(ours, theirs)


def kda_arguments(device, dim_first=False, paged=False, dtype=torch.float32):
    """As an engine passes them: slices of one projection's output, a leading axis of 1, histories as transposed views,
    and with `paged` state and history of a slot in one page of bytes."""
    torch.manual_seed(4)
    f32 = lambda *shape: torch.randn(shape, device=device)
    act = lambda *shape: f32(*shape).bfloat16()
    fused = act(ROWS, 4 * P + HEADS + 5)
    qkv, gate, beta = fused[:, : 3 * P], fused[:, 3 * P : 4 * P], fused[:, 4 * P : 4 * P + HEADS]
    conv, state = act(SLOTS, 3 * P * 3), f32(SLOTS, HEADS, 128, 128).to(dtype)
    if paged:
        page = conv.nbytes // SLOTS + state.nbytes // SLOTS
        page += -page % 64
        memory = torch.zeros(SLOTS * page, dtype=torch.uint8, device=device)
        pages_b, pages_s = memory.view(torch.bfloat16), memory.view(dtype)
        size = 2 if dtype == torch.bfloat16 else 4
        paged_conv = pages_b.as_strided(conv.shape, (page // 2, 1))
        paged_state = pages_s.as_strided(
            state.shape, (page // size, 128 * 128, 128, 1), storage_offset=conv.nbytes // SLOTS // size
        )
        paged_conv.copy_(conv)
        paged_state.copy_(state)
        conv, state = paged_conv, paged_state
    conv = conv.unflatten(1, (3 * P, 3)) if dim_first else conv.unflatten(1, (3, 3 * P)).transpose(-1, -2)
    return {
        "x": qkv,
        "weight": f32(3, 4, P),
        "bias": f32(3 * P),
        "conv_state": conv,
        "raw_g": act(ROWS, P).unflatten(-1, (HEADS, 128)).unsqueeze(0),
        "raw_beta": beta.unsqueeze(0),
        "A_log": f32(HEADS),
        "dt_bias": f32(P),
        "state_indices": torch.tensor([3, 0, 5, 1], dtype=torch.int32, device=device),
        "state": state,
        "out": torch.empty(1, ROWS + 2, HEADS, 128, dtype=torch.bfloat16, device=device)[:, :ROWS],
        "lower_bound": -5.0,
        "output_gate": gate.unflatten(-1, (HEADS, 128)),
        "norm_weight": f32(128),
        "norm_eps": 1e-5,
    }


def expected_of(arguments):
    """The operator on contiguous copies."""
    a = {k: v.clone(memory_format=torch.contiguous_format) if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
    gate = {"safe_gate": False} if a["lower_bound"] is None else {"lower_bound": a["lower_bound"]}
    output = torch.empty(ROWS, HEADS, 128, dtype=torch.bfloat16, device=a["x"].device)
    silt.kda_decode(
        a["x"], a["weight"], a["conv_state"], a["raw_g"].view(ROWS, HEADS, 128), a["raw_beta"].view(ROWS, HEADS), a["A_log"],
        a["dt_bias"].view(HEADS, 128), a["state_indices"], a["state"], output=output, conv_bias=a["bias"],
        output_gate=a["output_gate"], norm_weight=a["norm_weight"], norm_eps=a["norm_eps"], **gate,
    )  # fmt: skip
    return output, a["state"], a["conv_state"]


@pytest.mark.parametrize("dim_first", [False, True], ids=["SD", "DS"])
@pytest.mark.parametrize("paged", [False, True], ids=["pool", "pages"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@each_device
def test_fused_kda_decode(dim_first, paged, dtype, device):
    arguments = kda_arguments(device, dim_first, paged, dtype)
    output, state, conv_state = expected_of(arguments)
    assert silt.engines.fused_kda_decode(*arguments.values()) is arguments["out"]
    assert torch.equal(bits(arguments["out"][0]), bits(output))
    assert torch.equal(bits(arguments["state"]), bits(state))
    assert torch.equal(bits(arguments["conv_state"]), bits(conv_state))
    assert not arguments["out"][0, 1].any()  # index 0 is padding


@each_device
def test_fused_kda_decode_with_what_may_be_absent(device):
    arguments = kda_arguments(device)
    arguments.update(bias=None, out=None, lower_bound=None, output_gate=None, norm_weight=None)
    output, state, _ = expected_of(arguments)
    got = silt.engines.fused_kda_decode(**arguments)
    assert got.shape == (1, ROWS, HEADS, 128)
    assert torch.equal(bits(got[0]), bits(output)) and torch.equal(bits(arguments["state"]), bits(state))


@each_device
def test_flat_heads(device):
    """[B, H * 128] in place of [B, H, 128], and the heads' own axes where a caller has them."""
    arguments = kda_arguments(device)
    output, _, _ = expected_of(arguments)
    arguments["raw_g"], arguments["raw_beta"] = arguments["raw_g"][0].flatten(1), arguments["raw_beta"][0]
    arguments["output_gate"] = arguments["output_gate"].flatten(1)
    arguments["dt_bias"] = arguments["dt_bias"].view(HEADS, 128)
    arguments["out"] = torch.empty(ROWS, P + 8, dtype=torch.bfloat16, device=device)[:, :P]
    silt.engines.fused_kda_decode(**arguments)
    assert torch.equal(bits(arguments["out"].unflatten(1, (HEADS, 128))), bits(output))


@pytest.mark.parametrize("name", ["raw_g", "raw_beta", "dt_bias", "out", "output_gate", "weight", "conv_state", "x"])
def test_a_layout_that_fits_nothing_is_refused(name):
    arguments = kda_arguments("cpu")
    arguments[name] = torch.zeros(2, ROWS, HEADS + 1, 128, dtype=arguments[name].dtype)
    before = arguments["state"].clone()
    with pytest.raises(ValueError, match="^kda_decode: "):
        silt.engines.fused_kda_decode(**arguments)
    assert torch.equal(arguments["state"], before)


@each_device
def test_opcheck_of_the_fused_step(device):
    torch.library.opcheck(torch.ops.silt.fused_kda_decode.default, tuple(kda_arguments(device).values()))


@each_device
def test_compiled_as_one_graph(device):
    def layer(a, k):
        mixed = silt.engines.attn_res(*a.values())
        out = silt.engines.fused_kda_decode(**{**k, "x": k["x"] * 0.5})
        return mixed * 2, out + 1

    eager = attn_res_arguments(device), kda_arguments(device)
    compiled = attn_res_arguments(device), kda_arguments(device)
    expected = layer(*eager)
    torch.compiler.reset()
    backend = "inductor" if device == "cuda" else "aot_eager"
    got = torch.compile(layer, fullgraph=True, backend=backend)(*compiled)
    for ours, theirs in zip(got, expected):
        assert torch.equal(bits(ours), bits(theirs))
    for ours, theirs in zip(compiled, eager):
        assert_same(ours, theirs)
