"""Tensors of others: capsules old and new, what is refused, and that nothing is copied or kept."""

import concurrent.futures
import gc
import sys
import weakref

import ml_dtypes
import numpy
import pytest

import problems
import silt


class Producer:
    """A framework that has DLPack alone."""

    def __init__(self, array, versions=True):
        self.array = array
        self.versions = versions

    def __dlpack__(self, *, max_version=None, **options):
        if options or (max_version is not None and not self.versions):
            raise TypeError("unknown options")
        self.max_version = max_version
        return self.array.__dlpack__(max_version=max_version)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def norm(wrap, **changed):
    arguments = {**problems.problem(problems.rms_norm_gated, activation=numpy.float32), **changed}
    kept = dict(arguments)
    silt.rms_norm_gated(**{k: wrap(v) if isinstance(v, numpy.ndarray) else v for k, v in arguments.items()})
    return kept["output"]


@pytest.mark.parametrize("versions", [True, False])
def test_capsules_of_both_kinds(versions):
    expected = norm(lambda array: array)
    assert numpy.array_equal(norm(lambda array: Producer(array, versions)), expected)


def test_the_newer_kind_is_asked_for_first():
    producer = Producer(problems.problem(problems.rms_norm_gated, activation=numpy.float32)["weight"])
    norm(lambda array: array, weight=producer)
    assert producer.max_version == (1, 1)


def test_a_read_only_capsule_is_read_and_not_written():
    arguments = problems.problem(problems.rms_norm_gated, activation=numpy.float32)
    arguments["weight"].flags.writeable = False
    norm(lambda array: array, weight=Producer(arguments["weight"]))
    arguments["output"].flags.writeable = False
    with pytest.raises(ValueError, match="^rms_norm_gated: output: is read-only"):
        norm(lambda array: array, output=Producer(arguments["output"]))


def test_nothing_is_kept():
    array = problems.problem(problems.rms_norm_gated, activation=numpy.float32)["weight"]
    producer = Producer(array)
    before = sys.getrefcount(array)
    for _ in range(3):
        norm(lambda other: other, weight=producer)
        with pytest.raises(ValueError):
            norm(lambda other: other, weight=producer, output=numpy.zeros(3, numpy.float32))
    assert sys.getrefcount(array) == before
    gone = weakref.ref(producer)
    del producer
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (3, "has a int, needs a tensor with __dlpack__"),
        (numpy.zeros((1,) * 5, numpy.float32), r"rank: has 5, needs 1\.\.4"),
        (numpy.zeros((), numpy.float32), r"rank: has 0, needs 1\.\.4"),
        (numpy.zeros(128, ">f4"), "dtype: has >f4, needs bfloat16, float32 or int32"),
        (numpy.zeros(128, numpy.float16), "dtype: has float16, needs"),
        (numpy.zeros(128, numpy.uint32), "dtype: has uint32, needs"),
        (numpy.zeros(128, ml_dtypes.float8_e4m3), "dtype: has float8_e4m3, needs"),
        (numpy.zeros(128, "V2"), r"dtype: has \|V2, needs"),
        (numpy.zeros(128, [("a", "f4"), ("b", "u1")])["a"], "strides: axis 0 has 5 bytes, needs a multiple of 4"),
        (Producer(numpy.zeros(128, numpy.float64)), "dtype: has float64, needs bfloat16, float32 or int32"),
        (Producer(numpy.zeros(128, numpy.bool_)), "dtype: has bool8, needs"),
        (Producer(numpy.zeros((1,) * 5, numpy.float32)), "rank: has 5"),
    ],
    ids=lambda value: "" if not isinstance(value, str) else value[:24],
)
def test_what_is_no_view(wrong, text):
    with pytest.raises(ValueError, match=f"^rms_norm_gated: weight: {text}"):
        norm(lambda array: array, weight=wrong)


def test_an_error_of_the_producer_comes_through():
    class Broken:
        def __dlpack__(self, **options):
            raise RuntimeError("not today")

    with pytest.raises(RuntimeError, match="not today"):
        norm(lambda array: array, weight=Broken())


def test_every_number_of_arguments_is_known():
    with pytest.raises(TypeError):
        silt.rms_norm_gated(**problems.problem(problems.rms_norm_gated), no_such_argument=1)
    with pytest.raises(TypeError):
        silt.rms_norm_gated()


def test_many_types_of_tensors():
    """More types than the module remembers."""
    expected = norm(lambda array: array)
    for number in range(40):
        kind = type(f"Producer{number}", (Producer,), {})
        assert numpy.array_equal(norm(kind), expected)


def test_many_threads_at_once():
    expected = norm(lambda array: array)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda number: norm([Producer, lambda array: array][number % 2]), range(200)))
    assert all(numpy.array_equal(result, expected) for result in results)
