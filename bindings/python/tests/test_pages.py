"""The examples of the pages run as they stand, and print what stands behind them."""

import contextlib
import importlib.util
import io
import pathlib
import re
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "docs" / "python.md", ROOT / "docs" / "engines.md"]


def examples():
    """(page and number, code, expected output or None): a block of python, and a block of text directly behind it."""
    for page in PAGES:
        blocks = re.findall(r"```python\n(.*?)```\n*(?:[^\n`]+:\n)?(?:```text\n(.*?)```)?", page.read_text(), re.S)
        for number, (code, output) in enumerate(blocks):
            yield pytest.param(code, output, id=f"{page.name}-{number}")


@pytest.mark.parametrize(("code", "output"), list(examples()))
def test_example(code, output, monkeypatch):
    if "import torch" in code or "silt.torch" in code:
        pytest.importorskip("torch")
    monkeypatch.chdir(ROOT)
    # A module of its own: torch.compile looks for the names of a function in the module that it says it is from.
    module = types.ModuleType("silt_example")
    monkeypatch.setitem(sys.modules, "silt_example", module)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "example", "exec"), module.__dict__)
    assert printed.getvalue() == output


def test_there_are_examples():
    assert {page.name for page in PAGES} == {example.id.split("-")[0] for example in examples()}
    assert importlib.util.find_spec("silt")
