"""Two processes and gloo on the CPU; with two GPUs scripts/gpu-python runs the same script over NCCL."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")


def test_a_kda_layer_split_over_two_ranks():
    script = pathlib.Path(__file__).with_name("kda_layer_on_two_ranks.py")
    done = subprocess.run([sys.executable, "-B", script], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "heads equal bit for bit" in line]
    assert sorted(line[:6] for line in lines) == ["rank 0", "rank 1"], done.stdout
