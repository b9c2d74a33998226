"""Every operator through the module and through the C ABI: the same bits, the same complaints."""

import ml_dtypes
import numpy
import pytest

import problems
import silt

each_operator = pytest.mark.parametrize("op", problems.ALL, ids=lambda op: op.__name__)
each_activation = pytest.mark.parametrize("activation", [ml_dtypes.bfloat16, numpy.float32], ids=["bf16", "f32"])


def bits(array):
    """What memory holds, so that a NaN equals itself and -0 does not equal 0."""
    return numpy.ascontiguousarray(array).view(numpy.uint8)


@each_operator
@each_activation
def test_the_bits_are_those_of_the_c_abi(op, activation, library):
    ours, theirs, before = (problems.problem(op, activation=activation) for _ in range(3))
    assert getattr(silt, op.__name__)(**ours) is None
    assert library(op.__name__, **theirs) == (0, "")
    for name, array in ours.items():
        if not isinstance(array, numpy.ndarray):
            continue
        assert numpy.array_equal(bits(array), bits(theirs[name])), name
        changed = not numpy.array_equal(bits(array), bits(before[name]))
        assert changed == (name in problems.written(op)), name


@each_operator
def test_a_fault_is_a_value_error_with_the_text_of_the_library(op, library):
    arguments = problems.problem(op)
    before = {name: bits(arguments[name]).copy() for name in problems.written(op)}
    arguments["output" if "output" in arguments else "mix"] = numpy.zeros((7, 7), ml_dtypes.bfloat16)
    with pytest.raises(ValueError) as raised:
        getattr(silt, op.__name__)(**arguments)
    status, text = library(op.__name__, **arguments)
    assert (status, text) == (1, str(raised.value))
    assert text.startswith(f"{op.__name__}: ")
    for name, old in before.items():
        if arguments[name].shape != (7, 7):
            assert numpy.array_equal(bits(arguments[name]), old), name


@each_operator
def test_every_argument_is_passed_on(op):
    """No tensor is ignored: each is refused by its name where it has a type that no operator takes."""
    for name, value in problems.problem(op).items():
        if isinstance(value, numpy.ndarray):
            wrong = {**problems.problem(op), name: value.astype(numpy.float64)}
            with pytest.raises(ValueError, match=rf"^{op.__name__}: {name}: dtype: has float64, needs bfloat16"):
                getattr(silt, op.__name__)(**wrong)


@each_operator
def test_what_is_written_must_be_writable(op):
    for name in problems.written(op):
        arguments = problems.problem(op)
        arguments[name].flags.writeable = False
        with pytest.raises(ValueError, match=rf"^{op.__name__}: {name}: is read-only"):
            getattr(silt, op.__name__)(**arguments)


@each_operator
def test_what_is_read_may_be_read_only(op):
    arguments = problems.problem(op)
    for name, value in arguments.items():
        if isinstance(value, numpy.ndarray) and name not in problems.written(op):
            value.flags.writeable = False
    getattr(silt, op.__name__)(**arguments)


def test_without_delta_the_prefix_is_only_read():
    arguments = {**problems.problem(problems.attn_res), "delta": None, "block_write_idx": -1}
    arguments["prefix"].flags.writeable = arguments["blocks"].flags.writeable = False
    silt.attn_res(**arguments)


@each_operator
def test_a_kernel_by_name(op):
    silt.reset_counters()
    getattr(silt, op.__name__)(**problems.problem(op), kernel="cpu_reference")
    ran = {kernel["name"]: kernel["runs"] for kernel in silt.kernels(op.__name__) if kernel["runs"]}
    assert ran == {"cpu_reference": 1}
    with pytest.raises(ValueError, match="no_such"):
        getattr(silt, op.__name__)(**problems.problem(op), kernel="no_such")
    getattr(silt, op.__name__)(**problems.problem(op), prefer="cpu_reference")
    with pytest.raises(ValueError, match="kernel: is given together with prefer"):
        getattr(silt, op.__name__)(**problems.problem(op), kernel="cpu_reference", prefer="cpu_reference")
    with pytest.raises(ValueError, match='pdl: has "soon", needs off, wait or late'):
        getattr(silt, op.__name__)(**problems.problem(op), pdl="soon")
    for pdl in ("off", "wait", "late"):
        getattr(silt, op.__name__)(**problems.problem(op), pdl=pdl)


@each_operator
def test_the_debug_mode(op):
    function = getattr(silt, op.__name__)
    function(**problems.problem(op), debug=True)
    arguments = problems.problem(op)
    name = next(name for name in ("x", "q", "prefix", "blocks") if name in arguments)
    arguments[name][0] = numpy.nan
    with pytest.raises(ValueError, match=rf"^{op.__name__}: {name}\[0[0, ]*\]: has nan, needs a finite number$"):
        function(**arguments, debug=True)


def test_an_unknown_activation():
    with pytest.raises(ValueError, match='^rms_norm_gated: activation: has "relu", needs sigmoid or silu'):
        silt.rms_norm_gated(**problems.problem(problems.rms_norm_gated), activation="relu")
    sigmoid, silu = (problems.problem(problems.rms_norm_gated) for _ in range(2))
    silt.rms_norm_gated(**sigmoid)
    silt.rms_norm_gated(**silu, activation="silu")
    assert not numpy.array_equal(sigmoid["output"], silu["output"])


def test_accepted_is_refused_or_used():
    """The table of slots for verification: a sequence whose count of accepted tokens is out of range is padding."""
    arguments = problems.problem(problems.kda_recurrence)
    arguments["state_indices"] = numpy.array([[0, 1, 2], [3, 4, 0]], numpy.int32)
    arguments["accepted"] = numpy.array([9, 9], numpy.int32)
    before = arguments["state"].copy()
    silt.kda_recurrence(**arguments)
    assert not arguments["output"].astype(numpy.float32).any()
    assert numpy.array_equal(arguments["state"], before)
