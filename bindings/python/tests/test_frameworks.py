"""CuPy and JAX, where they are installed; PyTorch has its own file."""

import os

import numpy
import pytest

import problems
import silt

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def reference():
    arguments = problems.problem(problems.rms_norm_gated)
    arguments["output"] = numpy.zeros((problems.ROWS, problems.HEADS, 128), numpy.float32)
    return arguments


def test_jax():
    """JAX's arrays are inputs: bfloat16 and float32. On a GPU the output is PyTorch's."""
    jax = pytest.importorskip("jax")
    arguments, expected = reference(), reference()
    silt.rms_norm_gated(**expected)
    inputs = {name: jax.numpy.asarray(arguments[name]) for name in ("x", "gate", "weight")}
    if jax.default_backend() == "gpu":
        torch = pytest.importorskip("torch")
        output = torch.zeros(arguments["output"].shape, device="cuda")
        torch.cuda.synchronize()
        silt.rms_norm_gated(**inputs, output=output, eps=arguments["eps"])
        got = output.cpu().numpy()  # the default stream of PyTorch is the one that the kernel ran on
        numpy.testing.assert_allclose(got, expected["output"], rtol=1e-4, atol=1e-5)
    else:
        silt.rms_norm_gated(**inputs, output=arguments["output"], eps=arguments["eps"])
        assert numpy.array_equal(arguments["output"], expected["output"])


def test_jax_arrays_after_work_that_is_not_done_yet():
    jax = pytest.importorskip("jax")
    arguments, expected = reference(), reference()
    large = jax.numpy.ones((1024, 1024)) / 1024
    for _ in range(20):
        large = large @ large
    x = jax.numpy.asarray(arguments["x"], jax.numpy.float32) * large[0, 0]
    expected["x"] = numpy.asarray(x)
    arguments["gate"] = arguments["gate"].astype(numpy.float32)
    expected["gate"] = arguments["gate"]
    if jax.default_backend() == "gpu":
        pytest.skip("float32 gates are for the CPU")
    silt.rms_norm_gated(**{**arguments, "x": x})
    silt.rms_norm_gated(**expected)
    assert numpy.array_equal(arguments["output"], expected["output"])


def test_cupy():
    """float32 arrays of CuPy beside a gate of PyTorch, on a stream of CuPy's."""
    cupy = pytest.importorskip("cupy")
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU here")
    arguments, expected = reference(), reference()
    silt.rms_norm_gated(**expected)
    gate = torch.from_numpy(numpy.ascontiguousarray(arguments["gate"]).view(numpy.int16)).view(torch.bfloat16).cuda()
    torch.cuda.synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x = cupy.asarray(arguments["x"].astype(numpy.float32))
        weight, output = cupy.asarray(arguments["weight"]), cupy.zeros(arguments["output"].shape, cupy.float32)
        silt.rms_norm_gated(x, gate, weight, output=output, eps=arguments["eps"])
        got = cupy.asnumpy(output, stream=stream)
        stream.synchronize()
    numpy.testing.assert_allclose(got, expected["output"], rtol=1e-4, atol=1e-5)
