"""One call of every operator on random data: its arguments by name, as NumPy arrays."""

import ml_dtypes
import numpy

HEADS = 2
P = 128 * HEADS
SLOTS = 5
ROWS = 3


class Maker:
    def __init__(self, seed, activation):
        self.random = numpy.random.default_rng(seed)
        self.activation = activation

    def f32(self, *shape):
        return self.random.standard_normal(shape, dtype=numpy.float32)

    def act(self, *shape, pad=0):
        """Activations whose rows are `pad` apart, as slices of a larger buffer are."""
        row = int(numpy.prod(shape[1:]))
        wide = self.f32(shape[0], row + pad).astype(self.activation)
        inner = numpy.empty(shape[1:], self.activation).strides
        return numpy.lib.stride_tricks.as_strided(wide, shape, (wide.strides[0], *inner))

    def bf16(self, *shape):
        return self.f32(*shape).astype(ml_dtypes.bfloat16)

    def gates(self, rows):
        return {
            "raw_gate": self.act(rows, HEADS, 128, pad=64),
            "raw_beta": self.act(rows, HEADS, pad=3),
            "A_log": self.f32(HEADS),
            "dt_bias": self.f32(HEADS, 128),
            "state": self.f32(SLOTS, HEADS, 128, 128),
        }

    def indices(self, *values):
        return numpy.array(values, numpy.int32)


def attn_res(make):
    t, r, d = 3, 4, 320
    return {
        "prefix": make.act(t, d, pad=8),
        "delta": make.act(t, d),
        "blocks": make.act(r, t, d).transpose(1, 0, 2),
        "norm_weight": make.bf16(d),
        "qk_weight": make.bf16(d),
        "output_norm_weight": make.bf16(d),
        "num_blocks": 2,
        "block_write_idx": 3,
        "output": make.act(t, d),
    }


def attn_res_partials(make):
    t, r, d, queries = 3, 4, 320, 2
    return {
        "blocks": make.act(t, r, d),
        "norm_weight": make.bf16(queries, d),
        "qk_weight": make.bf16(queries, d),
        "num_blocks": 3,
        "statistics": make.f32(queries, t, 2),
        "mix": make.f32(queries, t, d),
    }


def attn_res_merge(make):
    t, d = 3, 320
    return {
        "prefix": make.act(t, d),
        "delta": make.act(t, d),
        "statistics": numpy.abs(make.f32(t, 2)),
        "mix": make.f32(t, d),
        "slot": make.act(t, d),
        "norm_weight": make.bf16(d),
        "qk_weight": make.bf16(d),
        "output": make.act(t, d),
    }


def kda_decode(make):
    return {
        "x": make.act(ROWS, 3 * P, pad=16),
        "conv_weight": make.f32(3, 4, P),
        "conv_bias": make.f32(3 * P),
        "conv_state": make.act(SLOTS, 3, 3 * P).transpose(0, 2, 1),
        **make.gates(ROWS),
        "state_indices": make.indices(4, 0, 2),
        "output_gate": make.act(ROWS, HEADS, 128),
        "norm_weight": make.f32(128),
        "output": make.act(ROWS, HEADS, 128),
        "lower_bound": -4.0,
    }


def kda_prefill(make):
    tokens = 20
    return {
        "x": make.act(tokens, 3 * P),
        "conv_weight": make.f32(3, 4, P),
        "conv_state": make.act(SLOTS, 3 * P, 3),
        **make.gates(tokens),
        "offsets": make.indices(0, 17, 20),
        "state_indices": make.indices(1, 3),
        "has_initial_state": make.indices(0, 1),
        "output": make.act(tokens, HEADS, 128),
        "safe_gate": False,
    }


def causal_conv1d_update(make):
    return {
        "x": make.act(ROWS, 2, 3 * P),
        "weight": make.f32(3, 4, P),
        "bias": make.f32(3 * P),
        "conv_state": make.act(SLOTS, 3 * P, 3),
        "state_indices": make.indices(1, 4, 2),
        "output": make.act(ROWS, 2, 3 * P),
    }


def kda_recurrence(make):
    tokens = 4
    return {
        "q": make.act(tokens, HEADS, 128),
        "k": make.act(tokens, HEADS, 128),
        "v": make.act(tokens, HEADS, 128),
        **make.gates(tokens),
        "offsets": make.indices(0, 3, 4),
        "state_indices": make.indices(0, 2),
        "output": make.act(tokens, HEADS, 128),
        "null_slot": -1,
    }


def rms_norm_gated(make):
    return {
        "x": make.act(ROWS, HEADS, 128),
        "gate": make.act(ROWS, HEADS, 128, pad=8),
        "weight": make.f32(128),
        "output": make.act(ROWS, HEADS, 128),
        "eps": 1e-3,
    }


ALL = [
    attn_res,
    attn_res_partials,
    attn_res_merge,
    kda_decode,
    kda_prefill,
    causal_conv1d_update,
    kda_recurrence,
    rms_norm_gated,
]


def problem(op, seed=1, activation=ml_dtypes.bfloat16):
    """The same arrays for the same operator and seed."""
    return op(Maker(seed, activation))


def written(op):
    """The names of what an operator writes in its problem here."""
    return {
        "attn_res": ["prefix", "blocks", "output"],
        "attn_res_partials": ["statistics", "mix"],
        "attn_res_merge": ["prefix", "slot", "output"],
        "kda_decode": ["conv_state", "state", "output"],
        "kda_prefill": ["conv_state", "state", "output"],
        "causal_conv1d_update": ["conv_state", "output"],
        "kda_recurrence": ["state", "output"],
        "rms_norm_gated": ["output"],
    }[op.__name__]
