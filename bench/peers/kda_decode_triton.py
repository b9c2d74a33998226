#!/usr/bin/env python3
"""A plain Triton chain of kda_decode, the peer of silt's fused kernels: convolution, recurrence, norm; three launches.

Checked against torch in double precision, then timed by the protocol of docs/measuring.md: one CUDA graph of many chains
over rotating inputs. Between the launches values are bf16, as serving engines keep them. Needs a CUDA device, torch and
triton.
"""

import sys

import torch
import triton
import triton.language as tl

import protocol

FIELDS = ("b", "h", "state")
# (rows of the state per program, warps) of the recurrence.
CONFIGS = ((8, 1), (16, 1), (32, 1), (32, 2), (64, 4), (128, 4))
K = 128
LOWER_BOUND = -5.0
L2_EPS = 1e-6
NORM_EPS = 1e-5
CONV_BLOCK = 256


@triton.jit
def conv_kernel(x, weight, history, indices, output, history_slot_stride, P: tl.constexpr, BLOCK: tl.constexpr):
    """Four taps and SiLU; the history (three steps of 3P channels) moves on by one."""
    row = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    live = channel < 3 * P
    part = channel // P
    inside = channel % P
    w = weight + part * 4 * P + inside
    slot = tl.load(indices + row).to(tl.int64)
    h = history + slot * history_slot_stride + channel
    h0 = tl.load(h, mask=live, other=0.0)
    h1 = tl.load(h + 3 * P, mask=live, other=0.0)
    h2 = tl.load(h + 6 * P, mask=live, other=0.0)
    now = tl.load(x + row * 3 * P + channel, mask=live, other=0.0)
    y = tl.load(w, mask=live, other=0.0) * h0.to(tl.float32)
    y += tl.load(w + P, mask=live, other=0.0) * h1.to(tl.float32)
    y += tl.load(w + 2 * P, mask=live, other=0.0) * h2.to(tl.float32)
    y += tl.load(w + 3 * P, mask=live, other=0.0) * now.to(tl.float32)
    y = y / (1.0 + tl.exp(-y))
    tl.store(output + row * 3 * P + channel, y.to(tl.bfloat16), mask=live)
    tl.store(h, h1, mask=live)
    tl.store(h + 3 * P, h2, mask=live)
    tl.store(h + 6 * P, now, mask=live)


@triton.jit
def recurrence_kernel(
    qkv, raw_gate, raw_beta, A_log, dt_bias, indices, state, output, lower_bound, eps,
    H: tl.constexpr, ROWS: tl.constexpr,
):
    """One (row, head) and ROWS of its 128 state rows: norm of q and k, gate, delta rule, readout."""
    item = tl.program_id(0).to(tl.int64)
    row = item // H
    head = item % H
    v = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    k = tl.arange(0, 128)
    P: tl.constexpr = H * 128
    base = qkv + row * 3 * P + head * 128
    query = tl.load(base + k).to(tl.float32)
    key = tl.load(base + P + k).to(tl.float32)
    value = tl.load(base + 2 * P + v).to(tl.float32)
    query = query * tl.rsqrt(tl.sum(query * query, 0) + eps) * 0.08838834764831845
    key = key * tl.rsqrt(tl.sum(key * key, 0) + eps)
    gate = tl.load(raw_gate + item * 128 + k).to(tl.float32) + tl.load(dt_bias + head * 128 + k)
    slope = tl.exp(tl.load(A_log + head))
    decay = tl.exp(lower_bound / (1.0 + tl.exp(-slope * gate)))
    beta = 1.0 / (1.0 + tl.exp(-tl.load(raw_beta + item).to(tl.float32)))
    slot = tl.load(indices + row).to(tl.int64)
    cell = state + (slot * H + head) * 16384 + v[:, None] * 128 + k[None, :]
    s = tl.load(cell).to(tl.float32) * decay[None, :]
    error = (value - tl.sum(s * key[None, :], 1)) * beta
    s += error[:, None] * key[None, :]
    tl.store(output + item * 128 + v, tl.sum(s * query[None, :], 1).to(tl.bfloat16))
    tl.store(cell, s.to(state.dtype.element_ty))


@triton.jit
def norm_kernel(x, gate, weight, output, eps):
    item = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, 128)
    o = tl.load(x + item * 128 + k).to(tl.float32)
    g = tl.load(gate + item * 128 + k).to(tl.float32)
    o = o * tl.rsqrt(tl.sum(o * o, 0) / 128 + eps) * tl.load(weight + k) / (1.0 + tl.exp(-g))
    tl.store(output + item * 128 + k, o.to(tl.bfloat16))


class Inputs:
    """`sets` sets of everything, weights included, as every layer has its own. Slot 0 is the null slot."""

    def __init__(self, b, h, state_dtype, sets):
        generator = torch.Generator(device="cuda").manual_seed(1)

        def uniform(shape, low, high, dtype=torch.bfloat16):
            return torch.empty((sets, *shape), device="cuda", dtype=dtype).uniform_(low, high, generator=generator)

        p = h * K
        self.b, self.h, self.sets = b, h, sets
        self.x = uniform((b, 3 * p), -1.5, 1.5)
        self.weight = uniform((3, 4, p), -0.7, 0.7, torch.float32)
        self.history = uniform((b + 1, 3, 3 * p), -1.5, 1.5)
        self.raw_gate = uniform((b, h, K), -3, 3)
        self.raw_beta = uniform((b, h), -3, 3)
        self.A_log = uniform((h,), -1.5, 1.5, torch.float32)
        self.dt_bias = uniform((h, K), -2, 2, torch.float32)
        self.state = uniform((b + 1, h, K, K), -1, 1, state_dtype)
        self.output_gate = uniform((b, h, K), -3, 3)
        self.norm_weight = uniform((K,), 0.3, 1.7, torch.float32)
        slots = [torch.randperm(b, generator=generator, device="cuda").int() + 1 for _ in range(sets)]
        self.indices = torch.stack(slots)
        self.qkv = torch.empty((sets, b, 3 * p), device="cuda", dtype=torch.bfloat16)
        self.o = torch.empty((sets, b, h, K), device="cuda", dtype=torch.bfloat16)
        self.output = torch.full((sets, b, h, K), float("nan"), device="cuda", dtype=torch.bfloat16)

    def launch(self, i, rows, warps):
        s = i % self.sets
        p = self.h * K
        conv_kernel[(self.b, triton.cdiv(3 * p, CONV_BLOCK))](
            self.x[s], self.weight[s], self.history[s], self.indices[s], self.qkv[s], 9 * p, P=p, BLOCK=CONV_BLOCK)
        recurrence_kernel[(self.b * self.h, K // rows)](
            self.qkv[s], self.raw_gate[s], self.raw_beta[s], self.A_log[s], self.dt_bias[s], self.indices[s],
            self.state[s], self.o[s], LOWER_BOUND, L2_EPS, H=self.h, ROWS=rows, num_warps=warps)
        norm_kernel[(self.b * self.h,)](
            self.o[s], self.output_gate[s], self.norm_weight[s], self.output[s], NORM_EPS, num_warps=1)


def expected(inputs, rows):
    """Set 0 in double precision with the chain's bf16 roundings: (output, state, history) of these rows."""
    h = inputs.h
    p = h * K
    slots = inputs.indices[0, rows].long()
    history = inputs.history[0, slots]
    window = torch.cat([history, inputs.x[0, rows][:, None]], 1)
    taps = inputs.weight[0].permute(1, 0, 2).reshape(4, 3 * p).double()
    y = (window.double() * taps).sum(1)
    qkv = (y * torch.sigmoid(y)).bfloat16().double().view(-1, 3, h, K)
    q, k, v = qkv[:, 0], qkv[:, 1], qkv[:, 2]
    q = q * torch.rsqrt(q.square().sum(-1, keepdim=True) + L2_EPS) * K**-0.5
    k = k * torch.rsqrt(k.square().sum(-1, keepdim=True) + L2_EPS)
    gate = inputs.raw_gate[0, rows].double() + inputs.dt_bias[0].double()
    slope = inputs.A_log[0].double().exp()[None, :, None]
    decay = (LOWER_BOUND * torch.sigmoid(slope * gate)).exp()
    beta = torch.sigmoid(inputs.raw_beta[0, rows].double())
    s = inputs.state[0, slots].double() * decay[:, :, None, :]
    error = (v - (s * k[:, :, None, :]).sum(-1)) * beta[..., None]
    s = s + error[..., None] * k[:, :, None, :]
    o = (s * q[:, :, None, :]).sum(-1).bfloat16().double()
    o = o * torch.rsqrt(o.square().mean(-1, keepdim=True) + NORM_EPS) * inputs.norm_weight[0].double()
    return o * torch.sigmoid(inputs.output_gate[0, rows].double()), s, window[:, 1:]


def check(inputs, rows_per_program, warps):
    """One chain on set 0: history bit for bit, state and output within the roundings of the chain."""
    rows = torch.unique(torch.linspace(0, inputs.b - 1, min(inputs.b, 4), device="cuda").long())
    output, state, history = expected(inputs, rows)
    inputs.output[0] = float("nan")
    inputs.launch(0, rows_per_program, warps)
    torch.cuda.synchronize()
    slots = inputs.indices[0, rows].long()
    name = f"{rows_per_program} rows, {warps} warps"
    if not torch.equal(inputs.history[0, slots], history):
        raise AssertionError(f"{name}: the history differs")
    # A bf16 rounding between the steps may fall the other way: one step of q, k, v or o, 2^-8 of their size.
    for what, got, want, relative in (("state", inputs.state[0, slots], state, 2.0**-7),
                                      ("output", inputs.output[0, rows], output, 2.0**-6)):
        error = (got.double() - want).abs()
        bound = want.abs() * relative + want.abs().amax(-1, keepdim=True) * 2.0**-7
        if not bool((error <= bound).all()):  # NaN fails too
            raise AssertionError(f"{name}: {what}: error {(error / bound).max().item():.3g} of its bound")


def measure(line, fields, samples):
    f = protocol.only(fields, FIELDS, line)
    b, h = f["b"], f["h"]
    state_dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[f.get("state", "f32")]
    head_bytes = K * K * state_dtype.itemsize
    cold, memory = protocol.device_limits()
    sets = protocol.sets_needed(b * h * head_bytes, (b + 1) * h * (head_bytes + 8192) + h * 8192, cold, memory)
    inputs = Inputs(b, h, state_dtype, sets)
    variants = {}
    for rows, warps in CONFIGS:
        check(inputs, rows, warps)
        variants[f"{rows} rows, {warps} warps"] = lambda i, rows=rows, warps=warps: inputs.launch(i, rows, warps)
    config, taken, launches = protocol.fastest(variants, sets, samples)
    return protocol.row_of(line, config, taken, launches, sets)


if __name__ == "__main__":
    sys.exit(protocol.run("kda_decode", __doc__, measure))
