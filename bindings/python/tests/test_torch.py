"""torch.ops.silt: on the CPU, and on a GPU where there is one."""

import gc

import numpy
import pytest

torch = pytest.importorskip("torch")

import problems
import silt
import silt.torch

each_operator = pytest.mark.parametrize("op", problems.ALL, ids=lambda op: op.__name__)
GPU = pytest.param(
    "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU here")
)
each_device = pytest.mark.parametrize("device", ["cpu", GPU])
gpu_only = pytest.mark.parametrize("device", [GPU])
# Kernels for NVIDIA GPUs that do not exist yet: the operator says so.
NOT_ON_GPU = {"kda_prefill"}


def to_torch(array, device):
    """The same memory layout; a CPU tensor shares the memory."""
    steps = [step // array.dtype.itemsize for step in array.strides]
    extent = 1 + sum((n - 1) * step for n, step in zip(array.shape, steps))
    flat = numpy.lib.stride_tricks.as_strided(array, (extent,), (array.dtype.itemsize,))
    if array.dtype.name == "bfloat16":
        tensor = torch.from_numpy(flat.view(numpy.int16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(flat)
    return tensor.to(device).as_strided(array.shape, steps)


def on_device(op, device, **changed):
    if device == "cuda" and op.__name__ in NOT_ON_GPU:
        pytest.skip(f"{op.__name__} has no kernel for NVIDIA GPUs yet")
    arguments = {**problems.problem(op), **changed}
    return {k: to_torch(v, device) if isinstance(v, numpy.ndarray) else v for k, v in arguments.items()}


def bits(tensor):
    return tensor.detach().cpu().contiguous().view(torch.uint8)


def assert_same(ours, theirs):
    for name, tensor in ours.items():
        if isinstance(tensor, torch.Tensor):
            assert torch.equal(bits(tensor), bits(theirs[name])), name


@each_operator
@each_device
def test_a_torch_tensor_gives_the_bits_of_a_numpy_array(op, device):
    """On a GPU: of the function without PyTorch, given a stream by hand."""
    ours, theirs = on_device(op, device), on_device(op, device)
    assert getattr(torch.ops.silt, op.__name__)(**ours) is None
    if device == "cpu":
        arrays = problems.problem(op)
        getattr(silt, op.__name__)(**arrays)
        theirs = {k: to_torch(v, device) if isinstance(v, numpy.ndarray) else v for k, v in arrays.items()}
    else:
        torch.cuda.synchronize()  # the default stream of PyTorch is the legacy one: 0
        getattr(silt, op.__name__)(**theirs, stream=0)
        torch.cuda.synchronize()
    before = on_device(op, device)
    assert_same(ours, theirs)
    for name in problems.written(op):
        assert not torch.equal(bits(ours[name]), bits(before[name])), name


@each_operator
@each_device
def test_opcheck(op, device):
    """Schema, fake, autograd and dynamic shapes, as PyTorch checks them."""
    torch.library.opcheck(getattr(torch.ops.silt, op.__name__).default, (), on_device(op, device))


@each_operator
def test_the_schema_says_what_is_written(op):
    schema = getattr(torch.ops.silt, op.__name__).default._schema
    assert {a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write} == set(problems.written(op))
    assert not schema.returns


def test_defaults_are_those_of_the_module():
    for op in problems.ALL:
        text, _, defaults = getattr(silt, op.__name__).__nb_signature__[0]
        schema = getattr(torch.ops.silt, op.__name__).default._schema
        ours = [a.default_value for a in schema.arguments if a.has_default_value()]
        names = [a.name for a in schema.arguments]
        assert "stream" in text and "stream" not in names
        assert len(ours) == len(defaults) - 1
        assert ours == list(defaults[: len(ours) - 4] + defaults[len(ours) - 3 :])  # less that of stream


@each_operator
@each_device
def test_compiled_as_one_graph(op, device):
    """Functionalised by torch.compile: with work before and behind it that must keep its place."""
    name = op.__name__

    def work(arguments, factor):
        for written in problems.written(op):
            arguments[written].mul_(factor)
        getattr(torch.ops.silt, name)(**arguments)
        return [arguments[written] * 1.0 for written in problems.written(op)]

    eager, compiled = on_device(op, device), on_device(op, device)
    factor = torch.tensor(0.5, device=device)
    expected = work(eager, factor)
    torch.compiler.reset()
    # On the CPU without code generation, which needs a compiler; on the GPU with it.
    backend = "inductor" if device == "cuda" else "aot_eager"
    got = torch.compile(work, fullgraph=True, backend=backend)(compiled, factor)
    assert_same(eager, compiled)
    for ours, theirs in zip(got, expected):
        assert torch.equal(bits(ours), bits(theirs))


class Step(torch.nn.Module):
    def forward(self, x, gate, weight, output):
        torch.ops.silt.rms_norm_gated(x, gate, weight, output=output, eps=1e-3)
        return output + 0


@each_device
def test_functionalised(device):
    """An exported program holds no mutation: the operator stands in it in its functional form."""
    arguments, expected = (on_device(problems.rms_norm_gated, device) for _ in range(2))
    torch.ops.silt.rms_norm_gated(**expected)
    tensors = tuple(arguments[name] for name in ("x", "gate", "weight", "output"))
    program = torch.export.export(Step(), tensors).run_decompositions()
    called = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert any("auto_functionalized" in target for target in called) and not any("silt" in target for target in called)
    assert torch.equal(bits(program.module()(*tensors)), bits(expected["output"]))
    assert torch.equal(bits(arguments["output"]), bits(expected["output"]))


@each_operator
@gpu_only
def test_captured_in_a_graph(op, device):
    """A replay repeats the call on what memory holds then; capture itself runs nothing."""
    captured, eager = on_device(op, device), on_device(op, device)
    run = getattr(torch.ops.silt, op.__name__)
    warm = on_device(op, device)
    run(**warm)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(**captured)
    untouched = on_device(op, device)
    assert_same(captured, untouched)
    for _ in range(3):
        graph.replay()
        run(**eager)
    torch.cuda.synchronize()
    assert_same(captured, eager)


@gpu_only
def test_the_current_stream_is_used(device):
    """Behind a long wait on a side stream, output is not there until that stream has come to it."""
    arguments = on_device(problems.rms_norm_gated, device)
    expected = on_device(problems.rms_norm_gated, device)
    silt.rms_norm_gated(**expected)
    before = arguments["output"].clone()
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        silt.rms_norm_gated(**arguments)
        early = torch.empty_like(before)
    early.copy_(arguments["output"])  # on the default stream, which does not wait for `side`
    torch.cuda.default_stream().synchronize()
    assert torch.equal(bits(early), bits(before))
    side.synchronize()
    assert torch.equal(bits(arguments["output"]), bits(expected["output"]))


class OlderTensor:
    """What a tensor was before PyTorch handed out views and streams by C functions."""

    def __init__(self, tensor):
        self.tensor, self.is_cuda = tensor, tensor.is_cuda

    def __dlpack__(self, *, stream=None):
        return self.tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


@each_operator
@each_device
def test_an_older_torch(op, device):
    ours, theirs = on_device(op, device), on_device(op, device)
    getattr(silt, op.__name__)(**theirs)
    if device == "cuda":
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(50_000_000)
            for name in problems.written(op):
                ours[name].mul_(1)  # behind the wait: a kernel on another stream would come before it
            getattr(silt, op.__name__)(**{k: OlderTensor(v) if isinstance(v, torch.Tensor) else v for k, v in ours.items()})
        torch.cuda.synchronize()
    else:
        getattr(silt, op.__name__)(**{k: OlderTensor(v) if isinstance(v, torch.Tensor) else v for k, v in ours.items()})
    assert_same(ours, theirs)


@each_device
def test_a_fault_is_a_value_error_through_the_dispatcher(device):
    arguments = on_device(problems.attn_res, device, num_blocks=9)
    for call in (silt.attn_res, torch.ops.silt.attn_res):
        with pytest.raises(ValueError, match=r"^attn_res: num_blocks: has 9, needs 0\.\.4"):
            call(**arguments)


@gpu_only
def test_what_has_no_kernel_says_so(device):
    """And where one comes, NOT_ON_GPU gets shorter."""
    for op in problems.ALL:
        if op.__name__ in NOT_ON_GPU:
            arguments = {k: to_torch(v, device) if isinstance(v, numpy.ndarray) else v for k, v in problems.problem(op).items()}
            with pytest.raises(ValueError, match=f"^{op.__name__}"):
                getattr(silt, op.__name__)(**arguments)


@gpu_only
def test_two_devices_in_one_call(device):
    arguments = on_device(problems.attn_res, device)
    arguments["delta"] = arguments["delta"].cpu()
    with pytest.raises(ValueError, match="^attn_res: delta: device"):
        silt.attn_res(**arguments)


def test_inside_a_mode_the_dispatcher_is_called():
    tensor = torch.ones(2)
    assert silt.torch.call("attn_res", tensor) is silt.attn_res
    assert silt.torch.call("attn_res", torch.nn.Parameter(tensor)) is silt.attn_res
    with torch._subclasses.fake_tensor.FakeTensorMode():
        assert silt.torch.call("attn_res", tensor) is torch.ops.silt.attn_res
    fake = torch._subclasses.fake_tensor.FakeTensorMode().from_tensor(tensor)
    assert silt.torch.call("attn_res", fake) is torch.ops.silt.attn_res

    def inside(x):
        assert silt.torch.call("attn_res", x) is torch.ops.silt.attn_res
        return x

    torch.func.functionalize(inside)(tensor)


def test_parameters_that_want_gradients():
    arguments = on_device(problems.rms_norm_gated, "cpu")
    expected = on_device(problems.rms_norm_gated, "cpu")
    torch.ops.silt.rms_norm_gated(**expected)
    arguments["weight"] = torch.nn.Parameter(arguments["weight"])
    silt.rms_norm_gated(**arguments)
    assert torch.equal(bits(arguments["output"]), bits(expected["output"]))
    gc.collect()
