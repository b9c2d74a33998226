"""Microseconds that a call takes on the host, stage by stage, for tensors of the smallest useful size.

usage: overhead.py [cpu|cuda]
On a GPU calls are queued and timed without waiting for them; the queue is drained between batches. The figure of a row is
the least of many batches, the one beside it their median.
"""

import statistics
import sys
import time

import torch

import silt
import silt.engines
import silt.torch


def timed(work, device, batch=100, batches=60):
    times = []
    for _ in range(batches):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(batch):
            work()
        times.append((time.perf_counter() - start) / batch * 1e6)
    return min(times), statistics.median(times)


def attn_res_rows(device):
    d, slots, t = 7168, 8, 1
    act = lambda *shape: torch.randn(shape, device=device).bfloat16()
    prefix, delta, bank, w, g, n = act(t, d), act(t, d), act(t, slots, d), act(d), act(d), act(d)
    out = torch.empty_like(prefix)
    common = dict(delta=delta, output_norm_weight=n, num_blocks=4)
    nothing = dict(common, delta=delta[:0])
    yield "attn_res: arguments and checks alone (no tokens)", lambda: silt.attn_res(
        prefix[:0], bank[:0], w, g, output=out[:0], **nothing
    )
    empty = [x[:0] for x in (prefix, bank, out, delta)]
    yield "  the same without the slices of the line above", lambda: silt.attn_res(
        empty[0], empty[1], w, g, output=empty[2], **dict(common, delta=empty[3])
    )
    yield "silt.attn_res", lambda: silt.attn_res(prefix, bank, w, g, output=out, **common)
    yield "silt.engines.attn_res (makes its output)", lambda: silt.engines.attn_res(
        prefix, delta, bank, w, g, n, 4, -1, 1e-5, 1e-5
    )
    yield "torch.ops.silt.attn_res", lambda: torch.ops.silt.attn_res(prefix, bank, w, g, output=out, **common)
    yield "torch.empty_like", lambda: torch.empty_like(prefix)
    yield "torch.add(out=)", lambda: torch.add(prefix, delta, out=out)


def kda_rows(device):
    h, b, slots = 2, 1, 4
    p = 128 * h
    f32 = lambda *shape: torch.randn(shape, device=device)
    act = lambda *shape: f32(*shape).bfloat16()
    fused = act(b, 5 * p + h)
    x, gate, beta = fused[:, : 3 * p], fused[:, 3 * p : 4 * p].unflatten(-1, (h, 128)), fused[:, 5 * p :]
    g2 = fused[:, 4 * p : 5 * p].unflatten(-1, (h, 128))
    conv = torch.zeros(slots, 3, 3 * p, device=device, dtype=torch.bfloat16).transpose(1, 2)
    state, out = torch.zeros(slots, h, 128, 128, device=device), act(b, h, 128)
    weight, a_log, dt, norm = f32(3, 4, p), f32(h), f32(h, 128), f32(128)
    index = torch.ones(b, dtype=torch.int32, device=device)
    arguments = (x, weight, conv, gate, beta, a_log, dt, index, state)
    yield "silt.kda_decode", lambda: silt.kda_decode(*arguments, output=out, output_gate=g2, norm_weight=norm)
    g4, b3, o4 = gate.unsqueeze(0), beta.unsqueeze(0), out.unsqueeze(0)
    yield "silt.engines.fused_kda_decode (the engine's views)", lambda: silt.engines.fused_kda_decode(
        x, weight, None, conv, g4, b3, a_log, dt, index, state, o4, -5.0, g2, norm, 1e-5
    )
    yield "torch.ops.silt.kda_decode", lambda: torch.ops.silt.kda_decode(
        *arguments, output=out, output_gate=g2, norm_weight=norm
    )


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    print(f"host time of a call, us, torch {torch.__version__}, {device}")
    print(f"{'':<54} {'least':>7} {'median':>7}")
    for label, work in [*attn_res_rows(device), *kda_rows(device)]:
        for _ in range(50):
            work()
        least, median = timed(work, device)
        print(f"{label:<54} {least:7.2f} {median:7.2f}")


with torch.inference_mode():
    main()
