"""What the library says of itself: the same words here, in the program and in the stubs."""

import ast
import pathlib
import re
import subprocess

import pytest

import silt

ROOT = pathlib.Path(__file__).parents[3]
LINES = ["attn_res t=64 n=8 d=7168", "kda_decode b=32 h=12", "attn_res_partials t=1 n=8 d=7168 q=8", "rms_norm_gated t=4 h=8"]


def run(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("device", ["cpu", "h200", "b200", "a100", "mi300x", "zen4", "neon"])
@pytest.mark.parametrize("line", LINES)
def test_explain_is_the_text_of_the_program(line, device, program):
    said = run(program, "explain", line, "--device", device)
    assert line.split()[0] in said
    try:
        assert silt.explain(line, device) == said
    except ValueError as error:
        assert f"{error}" and "chosen" not in said


def test_explain_a_required_kernel(program):
    said = run(program, "explain", LINES[0], "--device", "h200", "--kernel", "cuda_sm80_rows")
    assert silt.explain(LINES[0], "h200", "cuda_sm80_rows") == said
    assert re.search(r"cuda_sm80_rows +chosen", said)


def test_explain_refuses():
    for arguments, word in [(("no_such t=1",), "no_such"), ((LINES[0], "no_such"), "no_such"), ((LINES[0], "cpu", "x"), "x")]:
        with pytest.raises(ValueError, match=word):
            silt.explain(*arguments)


def test_info_is_the_text_of_the_program(program):
    said = run(program, "info")
    assert silt.info().strip() and said.startswith(silt.info())
    assert said[len(silt.info()) :].startswith("\nenvironment\n")


def test_version(program):
    stated = re.search(r"project\(silt VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert silt.__version__ == stated == run(program, "--version").strip()
    from importlib.metadata import version

    assert version("silt") == stated


def test_device_text():
    assert silt.device_text() == silt.device_text("cpu")
    assert silt.device_text() in silt.info() or "cpu" in silt.info()
    assert "sm_90" in silt.device_text("h200")


def test_kernels():
    assert {kernel["op"] for kernel in silt.kernels()} == set(silt.operators())
    assert [kernel for op in silt.operators() for kernel in silt.kernels(op)] == silt.kernels()
    assert silt.kernels("no_such") == []
    for kernel in silt.kernels():
        assert kernel["device"] in ("cpu", "cuda", "hip")
        assert kernel["built"] == (kernel["why_not_built"] == "")


def test_stubs_name_everything():
    folder = pathlib.Path(silt.__file__).parent
    assert (folder / "py.typed").exists()
    stub = ast.parse((folder / "_silt.pyi").read_text())
    named = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    from_module = {name for name in silt.__all__ if name not in ("__version__", "info")}
    assert from_module <= named
    for name in from_module:
        assert getattr(silt, name).__doc__
