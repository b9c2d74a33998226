"""Fixtures of all tests. SILT_LIBRARY (libsilt.so) and SILT_PROGRAM (silt) name what the module is compared with."""

import os
import pathlib

import pytest

from clibrary import Library


def from_environment(variable):
    path = os.environ.get(variable)
    if not path:
        pytest.skip(f"{variable} is not set")
    return path


@pytest.fixture(scope="session")
def library():
    return Library(from_environment("SILT_LIBRARY"), pathlib.Path(__file__).parents[3] / "include" / "silt" / "silt.h")


@pytest.fixture(scope="session")
def program():
    return from_environment("SILT_PROGRAM")
