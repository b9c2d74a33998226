#!/usr/bin/env python3
"""A plain Triton kernel of attn_res, the peer of silt's native kernels: one program per token, its tile swept.

Checked against torch in double precision, then timed by the protocol of docs/measuring.md: one CUDA graph of many
launches over rotating inputs. Needs a CUDA device, torch and triton.
"""

import sys

import torch
import triton
import triton.language as tl

import protocol

FIELDS = ("t", "n", "d", "delta", "norm", "r", "stable")
# (columns per tile, warps); a tile as wide as the row keeps it in registers, narrower ones find it in cache again.
CONFIGS = ((512, 4), (1024, 4), (1024, 8), (2048, 8), (4096, 16), (8192, 16))
EPS = 1e-5


@triton.jit
def attn_res_kernel(
    prefix, delta, bank, norm_weight, qk_weight, output_weight, output, token_stride, slot_stride, eps,
    D: tl.constexpr, N: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, DELTA: tl.constexpr, NORM: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    prefix += token * D
    delta += token * D
    output += token * D
    bank += token * token_stride
    row = tl.arange(0, ROWS)
    # Statistics: dot with the weights and sum of squares of every source, the prefix last.
    bank_dot = tl.zeros([ROWS], tl.float32)
    bank_square = tl.zeros([ROWS], tl.float32)
    own_dot = 0.0
    own_square = 0.0
    for start in tl.static_range(0, D, TILE):
        column = start + tl.arange(0, TILE)
        live = column < D
        p = tl.load(prefix + column, mask=live, other=0.0)
        if DELTA:
            p = (p.to(tl.float32) + tl.load(delta + column, mask=live, other=0.0).to(tl.float32)).to(tl.bfloat16)
            tl.store(prefix + column, p, mask=live)
        if N > 0:
            w = tl.load(norm_weight + column, mask=live, other=0.0).to(tl.float32)
            w *= tl.load(qk_weight + column, mask=live, other=0.0).to(tl.float32)
            p = p.to(tl.float32)
            own_dot += tl.sum(p * w, 0)
            own_square += tl.sum(p * p, 0)
            v = tl.load(bank + row[:, None] * slot_stride + column[None, :],
                        mask=(row[:, None] < N) & live[None, :], other=0.0).to(tl.float32)
            bank_dot += tl.sum(v * w[None, :], 1)
            bank_square += tl.sum(v * v, 1)
    tl.debug_barrier()  # the prefix is read again, perhaps by other threads than stored it
    # Softmax over the N + 1 logits.
    bank_logit = bank_dot * tl.rsqrt(bank_square / D + eps)
    bank_logit = tl.where(row < N, bank_logit, float("-inf"))
    own_logit = own_dot * tl.rsqrt(own_square / D + eps)
    largest = tl.maximum(tl.max(bank_logit, 0), own_logit)
    bank_share = tl.exp(bank_logit - largest)
    own_share = tl.exp(own_logit - largest)
    total = tl.sum(bank_share, 0) + own_share
    bank_share /= total
    own_share /= total
    # The mixture's sum of squares first, then once more for the output, where the row is wider than a tile.
    scale = 1.0
    if NORM:
        square = 0.0
        for start in tl.static_range(0, D, TILE):
            column = start + tl.arange(0, TILE)
            live = column < D
            mix = tl.load(prefix + column, mask=live, other=0.0).to(tl.float32)
            if N > 0:
                v = tl.load(bank + row[:, None] * slot_stride + column[None, :],
                            mask=(row[:, None] < N) & live[None, :], other=0.0).to(tl.float32)
                mix = mix * own_share + tl.sum(v * bank_share[:, None], 0)
            square += tl.sum(mix * mix, 0)
        scale = tl.rsqrt(square / D + eps)
    for start in tl.static_range(0, D, TILE):
        column = start + tl.arange(0, TILE)
        live = column < D
        mix = tl.load(prefix + column, mask=live, other=0.0).to(tl.float32)
        if N > 0:
            v = tl.load(bank + row[:, None] * slot_stride + column[None, :],
                        mask=(row[:, None] < N) & live[None, :], other=0.0).to(tl.float32)
            mix = mix * own_share + tl.sum(v * bank_share[:, None], 0)
        if NORM:
            mix = mix * scale * tl.load(output_weight + column, mask=live, other=0.0).to(tl.float32)
        tl.store(output + column, mix.to(tl.bfloat16), mask=live)


class Inputs:
    """`sets` sets of one problem; the weights are one set for all."""

    def __init__(self, t, n, d, slots, delta, norm, sets):
        generator = torch.Generator(device="cuda").manual_seed(1)

        def uniform(shape, low, high):
            values = torch.empty(shape, device="cuda", dtype=torch.bfloat16)
            return values.uniform_(low, high, generator=generator)

        self.t, self.n, self.d, self.sets, self.delta_given, self.norm = t, n, d, sets, delta, norm
        self.prefix = uniform((sets, t, d), -1.5, 1.5)
        self.delta = uniform((sets, t, d), -1.5, 1.5) if delta else self.prefix
        self.bank = uniform((sets, t, max(slots, 1), d), -1.5, 1.5)
        self.output = torch.full((sets, t, d), float("nan"), device="cuda", dtype=torch.bfloat16)
        self.norm_weight = uniform((d,), 0.7, 1.3)
        self.qk_weight = uniform((d,), -3.0 / d**0.5, 3.0 / d**0.5)
        self.output_weight = uniform((d,), 0.3, 1.7)

    def launch(self, i, tile, warps):
        s = i % self.sets
        bank = self.bank[s]
        attn_res_kernel[(self.t,)](
            self.prefix[s], self.delta[s], bank, self.norm_weight, self.qk_weight, self.output_weight, self.output[s],
            bank.stride(0), bank.stride(1), EPS, D=self.d, N=self.n, ROWS=triton.next_power_of_2(max(self.n, 1)),
            TILE=tile, DELTA=self.delta_given, NORM=self.norm, num_warps=warps)


def expected(inputs, rows):
    """Set 0 in double precision: (prefix, output) of these rows."""
    prefix = inputs.prefix[0, rows]
    if inputs.delta_given:
        prefix = (prefix.float() + inputs.delta[0, rows].float()).bfloat16()
    mix = prefix.double()
    if inputs.n > 0:
        sources = torch.cat([inputs.bank[0, rows, : inputs.n], prefix[:, None]], 1).double()
        w = inputs.norm_weight.double() * inputs.qk_weight.double()
        logits = (sources * w).sum(-1) * torch.rsqrt(sources.square().mean(-1) + EPS)
        mix = (torch.softmax(logits, -1)[..., None] * sources).sum(1)
    if inputs.norm:
        mix = mix * torch.rsqrt(mix.square().mean(-1, keepdim=True) + EPS) * inputs.output_weight.double()
    return prefix, mix


def check(inputs, tile, warps):
    """One launch on set 0: the prefix bit for bit, the output within two bf16 steps of the exact value."""
    rows = torch.unique(torch.linspace(0, inputs.t - 1, min(inputs.t, 64), device="cuda").long())
    prefix, exact = expected(inputs, rows)
    inputs.output[0] = float("nan")
    inputs.launch(0, tile, warps)
    torch.cuda.synchronize()
    if not torch.equal(inputs.prefix[0, rows], prefix):
        raise AssertionError(f"tile {tile}, {warps} warps: the prefix differs")
    error = (inputs.output[0, rows].double() - exact).abs()
    bound = exact.abs() * 2.0**-7 + 1e-4
    if not bool((error <= bound).all()):  # NaN fails too
        raise AssertionError(f"tile {tile}, {warps} warps: error {error.max().item():.3g} beyond its bound")


def measure(line, fields, samples):
    f = protocol.only(fields, FIELDS, line)
    t, n, d = f["t"], f["n"], f["d"]
    slots = f.get("r", n)
    delta, norm = f.get("delta", 1) == 1, f.get("norm", 1) == 1
    row_bytes = 2 * d
    cold, memory = protocol.device_limits()
    sets = protocol.sets_needed(t * (n + 2 + delta) * row_bytes, t * (slots + 3) * row_bytes, cold, memory)
    inputs = Inputs(t, n, d, slots, delta, norm, sets)
    variants = {}
    for tile, warps in CONFIGS:
        if tile >= 2 * triton.next_power_of_2(d):
            continue
        check(inputs, tile, warps)
        variants[f"tile {tile}, {warps} warps"] = lambda i, tile=tile, warps=warps: inputs.launch(i, tile, warps)
    config, taken, launches = protocol.fastest(variants, sets, samples)
    return protocol.row_of(line, config, taken, launches, sets)


if __name__ == "__main__":
    sys.exit(protocol.run("attn_res", __doc__, measure))
