"""A KDA layer of models/k3-mini with its heads split over two ranks, against the same layer in one process.

usage: kda_layer_on_two_ranks.py [--backend gloo|nccl]     gloo: two processes on the CPU; nccl: on two GPUs

Projections are summed in double precision and rounded to bf16, so that the split does not show in them: what the heads put
out must be equal bit for bit. The output projection stays in double precision; its two halves, added by the ranks, may
differ from the whole by the rounding of a sum of n products, n * 2^-53 of the sum of their magnitudes.
"""

import argparse
import json
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist

from silt import engines, loaders

MODEL = pathlib.Path(__file__).parents[3] / "models" / "k3-mini"
LAYER = "language_model.model.layers.1.self_attn."
RANKS, ROWS, STEPS, SLOTS = 2, 3, 5, 5


def checkpoint():
    """The tensors of the layer: a safetensors file is a length, a JSON header and the bytes."""
    data = bytearray((MODEL / "model-00001-of-00002.safetensors").read_bytes())
    size = int.from_bytes(data[:8], "little")
    kinds = {"F32": torch.float32, "BF16": torch.bfloat16}
    found = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name.startswith(LAYER):
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            tensor = torch.frombuffer(data[begin:end], dtype=kinds[entry["dtype"]])
            found[name.removeprefix(LAYER)] = tensor.reshape(entry["shape"])
    return found


class Layer:
    """The part of one rank; the whole layer where tp_size is 1."""

    def __init__(self, weights, config, tp_rank, tp_size, device):
        self.device = device
        self.lower_bound, self.eps = config["linear_attn_config"]["gate_lower_bound"], config["rms_norm_eps"]
        self.heads = config["linear_attn_config"]["num_heads"] // tp_size
        channels, hidden = 128 * self.heads, config["hidden_size"]
        new = lambda *shape: torch.full(shape, torch.nan, device=device)
        self.matrices = {}
        for name, rows, columns in [*((part, channels, hidden) for part in "qkvg"), ("b", self.heads, hidden), ("f_b", channels, 128)]:
            self.matrices[name] = new(rows, columns)
            loaders.load_column_parallel(self.matrices[name], weights[f"{name}_proj.weight"].to(device), tp_rank, tp_size)
        self.matrices["f_a"], self.matrices["o"] = new(128, hidden), new(hidden, channels)
        loaders.load_replicated(self.matrices["f_a"], weights["f_a_proj.weight"])
        loaders.load_row_parallel(self.matrices["o"], weights["o_proj.weight"].to(device), tp_rank, tp_size)
        self.conv, self.conv_mirror = new(3 * channels, 1, 4), new(3, 4, channels)
        for part, name in enumerate("qkv"):
            loaders.load_conv(self.conv, self.conv_mirror, weights[f"{name}_conv1d.weight"].to(device), part, tp_rank, tp_size)
        self.A_log, self.dt_bias = new(self.heads), new(channels)
        loaders.load_A_log(self.A_log, weights["A_log"], tp_rank, tp_size)
        loaders.load_dt_bias(self.dt_bias, weights["dt_bias"], tp_rank, tp_size)
        self.norm, self.norm_mirror = new(128), new(128)
        loaders.load_norm(self.norm, self.norm_mirror, weights["o_norm.weight"])
        self.conv_state = torch.zeros(SLOTS, 3, 3 * channels, dtype=torch.bfloat16, device=device).transpose(1, 2)
        self.state = torch.zeros(SLOTS, self.heads, 128, 128, device=device)

    def project(self, name, x):
        return (x.double() @ self.matrices[name].double().t()).bfloat16()

    def step(self, x, slots):
        """What the heads put out, and this rank's summand of the output with the magnitudes that its rounding goes by."""
        qkv = torch.cat([self.project(part, x) for part in "qkv"], -1)
        gate = self.project("f_b", self.project("f_a", x))
        mixed = engines.fused_kda_decode(
            qkv, self.conv_mirror, None, self.conv_state, gate.unflatten(-1, (-1, 128)).unsqueeze(0), self.project("b", x)[None],
            self.A_log, self.dt_bias, slots, self.state, None, self.lower_bound, self.project("g", x), self.norm_mirror, self.eps,
        )[0]  # fmt: skip
        flat, o = mixed.flatten(1).double(), self.matrices["o"].double()
        return mixed, flat @ o.t(), flat.abs() @ o.abs().t()


def run(rank, backend, folder):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    torch.set_num_threads(1)
    dist.init_process_group(backend, init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    config = json.loads((MODEL / "config.json").read_text())["text_config"]
    weights = checkpoint()
    part, whole = (Layer(weights, config, *place, device) for place in ((rank, RANKS), (0, 1)))
    slots = torch.tensor([3, 0, 1], dtype=torch.int32, device=device)  # row 1 is padding
    largest = 0.0
    for step in range(STEPS):
        x = torch.randn(ROWS, config["hidden_size"], generator=torch.Generator().manual_seed(step)).bfloat16().to(device)
        mixed, output, _ = part.step(x, slots)
        dist.all_reduce(output)
        whole_mixed, whole_output, magnitude = whole.step(x, slots)
        first = rank * part.heads
        own = whole_mixed[:, first : first + part.heads]
        assert torch.equal(mixed.view(torch.int16), own.contiguous().view(torch.int16)), f"rank {rank}, step {step}: heads differ"
        assert mixed[0].any() and not mixed[1].any()
        bound = magnitude * whole_mixed[0].numel() * 2.0**-53
        difference = (output - whole_output).abs()
        assert (difference <= bound).all(), f"rank {rank}, step {step}: output differs by {difference.max()}"
        assert output[0].any() and not output[1].any()
        largest = max(largest, difference.max().item())
    assert torch.equal(part.state, whole.state[:, first : first + part.heads])
    kinds = {"gloo": "the CPU", "nccl": torch.cuda.get_device_name(device) if backend == "nccl" else ""}
    print(
        f"rank {rank} on {kinds[backend]}: {STEPS} steps of {ROWS} rows, {part.heads} of {whole.heads} heads: heads equal bit for bit, "
        f"output within {largest:.1e} of the single process",
        flush=True,
    )
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo")
    backend = parser.parse_args().backend
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run, args=(backend, folder), nprocs=RANKS)


if __name__ == "__main__":
    main()
