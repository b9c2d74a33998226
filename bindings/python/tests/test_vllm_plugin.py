"""The plugin without vLLM: what it decides, and that it changes nothing where it should not. scripts/test-vllm has vLLM."""

import logging
import sys
import types

import pytest

torch = pytest.importorskip("torch")

from silt import vllm_plugin as plugin


def test_native_kernels():
    assert plugin.native("attn_res t=64 n=8 d=7168", "h200")
    assert not plugin.native("attn_res t=64 n=8 d=7168", "a100")  # the portable kernel
    assert not plugin.native("attn_res t=64 n=8 d=7168", "zen4")
    assert plugin.native("kda_decode b=32 h=32 state=bf16", "b200")
    assert not plugin.native("kda_prefill n=1 t=16 h=2", "h200")


def test_generations():
    capability = lambda major: types.SimpleNamespace(major=major)
    assert [plugin.device_name(capability(major)) for major in (8, 9, 10, 12)] == ["", "h200", "b200", ""]
    assert plugin.device_name(None) == ""


def test_nothing_happens_without_vllm(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "vllm", None)
    before = list(sys.meta_path)
    with caplog.at_level(logging.INFO, logger="vllm.silt"):
        monkeypatch.setenv("SILT_VLLM", "off")
        plugin.register()
        monkeypatch.delenv("SILT_VLLM")
        monkeypatch.setattr(plugin.importlib.metadata, "version", lambda name: "0.32.1")
        plugin.register()
    assert sys.meta_path == before
    assert [record.getMessage().split(": ", 2)[2] for record in caplog.records] == [
        "switched off by SILT_VLLM",
        "vLLM has version 0.32.1, needs one of 0.33.*",
    ]


def test_a_patch_runs_after_the_import(tmp_path, monkeypatch):
    (tmp_path / "patched_later.py").write_text("value = 1\n")
    (tmp_path / "other_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "there_already", types.ModuleType("there_already"))
    seen = []
    hook = plugin.AfterImport({name: seen.append for name in ("patched_later", "there_already", "never_imported")})
    hook.install()
    try:
        assert [module.__name__ for module in seen] == ["there_already"]
        import other_module
        import patched_later

        assert seen[1:] == [patched_later] and patched_later.value == other_module.value == 1
        assert set(hook.patches) == {"never_imported"}
    finally:
        sys.meta_path.remove(hook)
        for name in ("patched_later", "other_module"):
            sys.modules.pop(name, None)


def test_modules_that_hold_the_function_already(monkeypatch):
    exec_in = {}
    exec(f"def attn_res({plugin.ATTN_RES}):\n    return 'theirs'", exec_in)
    original = exec_in["attn_res"]
    ops, model, stranger = (types.ModuleType(name) for name in (f"{plugin.PACKAGE}.ops.attn_res", f"{plugin.PACKAGE}.model", "stranger"))
    for module in (ops, model, stranger):
        module.attn_res = original
        monkeypatch.setitem(sys.modules, module.__name__, module)
    assert plugin.patch_attn_res(ops, "h200")
    assert ops.attn_res is model.attn_res is not original and stranger.attn_res is original
    assert not plugin.patch_attn_res(ops, "h200")
    act = torch.randn(2, 256).bfloat16()
    bank, weight = torch.randn(2, 3, 256).bfloat16(), torch.randn(256).bfloat16()
    assert isinstance(model.attn_res(act, None, bank, weight, weight, None, 2, -1, 1e-5, 0.0), torch.Tensor)
    assert model.attn_res(act.float(), None, bank, weight, weight, None, 2, -1, 1e-5, 0.0) == "theirs"


def test_the_routed_function_compiles_as_one_graph():
    routed = plugin.routed_attn_res(lambda *arguments: None, "h200")
    act = torch.randn(2, 256).bfloat16()
    bank, weight = torch.randn(2, 3, 256).bfloat16(), torch.randn(256).bfloat16()
    arguments = (act, None, bank, weight, weight, weight, 2, -1, 1e-5, 1e-5)
    compiled = torch.compile(routed, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*arguments), routed(*arguments))
