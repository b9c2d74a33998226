"""What silt.vllm_plugin relies on in an installed vLLM, and its routed functions against vLLM's own kernels.

Run by scripts/test-vllm, in an environment with vLLM's package but without its dependencies: files that need them are read, not
imported. vLLM's Triton kernels run on CPU tensors by Triton's interpreter (TRITON_INTERPRET=1).
"""

import ast
import importlib
import importlib.metadata
import logging
import math
import os
import pathlib
import sys
import types

import torch

import silt
from silt import vllm_plugin as plugin

CHECKS = []


def check(work):
    CHECKS.append(work)
    return work


def need(condition, text):
    if not condition:
        raise AssertionError(text)


class Lines(logging.Handler):
    """What the plugin logs meanwhile."""

    def __enter__(self):
        self.lines = []
        plugin.logger.addHandler(self)
        plugin.logger.setLevel(logging.INFO)
        return self.lines

    def emit(self, record):
        self.lines.append(record.getMessage())

    def __exit__(self, *error):
        plugin.logger.removeHandler(self)


def source_of(name):
    root = pathlib.Path(importlib.util.find_spec("vllm").origin).parent
    return ast.parse((root / "models" / "kimi_k3" / "nvidia" / name).read_text())


def calls_of(tree, name):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == name:
            yield node


def bare_packages():
    """vLLM's packages down to the layers, without what their __init__ imports."""
    vllm = importlib.import_module("vllm")
    for name in ("vllm.models", "vllm.models.kimi_k3", plugin.PACKAGE):
        package = types.ModuleType(name)
        package.__path__ = [str(pathlib.Path(vllm.__file__).parent.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package


@check
def version():
    has = importlib.metadata.version("vllm")
    need(has.startswith(tuple(f"{known}." for known in plugin.VERSIONS)), f"vLLM {has} is none of {plugin.VERSIONS}")
    return f"vllm {has}, torch {torch.__version__}, silt {silt.__version__}, Python {sys.version.split()[0]}"


@check
def entry_point():
    from vllm.plugins import DEFAULT_PLUGINS_GROUP, load_plugins_by_group

    need(load_plugins_by_group(DEFAULT_PLUGINS_GROUP)["silt"] is plugin.register, "another function")
    return f"vLLM's own loader finds register() in the group {DEFAULT_PLUGINS_GROUP}"


@check
def left_alone_here():
    with Lines() as lines:
        plugin.register()
        os.environ["SILT_VLLM"] = "off"
        plugin.register()
        del os.environ["SILT_VLLM"]
        known, plugin.VERSIONS = plugin.VERSIONS, ("0.1",)
        plugin.register()
        plugin.VERSIONS = known
    words = ("platform is not CUDA", "switched off by SILT_VLLM", "needs one of 0.1.*")
    need(len(lines) == 3 and all(word in line for word, line in zip(words, lines)), f"{lines}")
    return "register() changes nothing without a CUDA platform, with SILT_VLLM=off, with an unknown version; one line each"


@check
def attn_res_calls():
    tree = source_of("model.py")
    imports = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    need(f"from {plugin.PACKAGE}.ops import attn_res" in imports, "model.py takes attn_res from elsewhere")
    names, calls = plugin.ATTN_RES.split(", "), list(calls_of(tree, "attn_res"))
    for call in calls:
        given = names[: len(call.args)] + [keyword.arg for keyword in call.keywords]
        need(given == names, f"line {call.lineno}: {given}")
    need(len(calls) >= 3, f"{len(calls)} calls")
    return f"model.py imports attn_res from ops and calls it {len(calls)} times with these ten arguments in this order"


@check
def attn_res_is_routed():
    bare_packages()
    with Lines() as lines:
        plugin.AfterImport({f"{plugin.PACKAGE}.ops.attn_res": lambda module: plugin.patch_attn_res(module, "h200")}).install()
        ops = importlib.import_module(f"{plugin.PACKAGE}.ops")
    need(ops.attn_res.silt_device == "h200" and len(lines) == 1, f"{lines}")
    need(not plugin.patch_attn_res(sys.modules[f"{plugin.PACKAGE}.ops.attn_res"], "h200"), "patched twice")
    return f"the import of vLLM's ops routes it; log: {lines[0]}"


def exact_attn_res(sources, norm_weight, qk_weight, output_norm_weight):
    """The output in double precision, and the contract's bound of a bf16 result (src/attn_res/contract.md)."""
    v, w = sources.double(), norm_weight.double() * qk_weight.double()
    root = (v.square().mean(-1) + 1e-5).rsqrt()
    share = ((v * w).sum(-1) * root).softmax(0)
    y = (share[..., None] * v).sum(0)
    d = (8 + 4 * math.sqrt(v.shape[-1])) * 2.0**-24 * ((v * w).abs().sum(-1) * root).amax(0)[:, None]
    moved = 2 * d * v.abs().amax(0)
    if output_norm_weight is not None:
        g, r = output_norm_weight.double(), (y.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        y = y * r * g
        moved = r * g.abs() * moved + y.abs() * r * moved.square().mean(-1, keepdim=True).sqrt()
    return y, y.abs() * 2.0**-7 + 1e-6 + moved


@check
def attn_res_against_vllm():
    """Every kind of call a decoder makes. Triton's interpreter cuts fp32 off to bf16 where a GPU rounds, so prefix and delta are
    eighths, whose sums are exact; the bound of an output, one unit in the last place, holds for both."""
    ops = importlib.import_module(f"{plugin.PACKAGE}.ops")
    tokens, slots, hidden = 3, 9, 512
    worst = [0.0, 0.0]
    kinds = [(0, False, 0, True), (2, True, 2, True), (3, False, -1, True), (5, True, -1, True), (8, True, -1, False), (1, True, -1, True)]
    for number, (blocks, has_delta, write, norm) in enumerate(kinds):
        torch.manual_seed(number)
        wide = (torch.randint(-15, 16, (tokens, 2 * hidden)) / 8).bfloat16()
        made = [wide[:, :hidden], wide[:, hidden:] if has_delta else None, torch.randn(tokens, slots, hidden).bfloat16()]
        weights = [torch.randn(hidden).bfloat16() for _ in range(3)]
        results = []
        for function in (ops.attn_res, ops.attn_res.__wrapped__):
            prefix, delta, bank = (None if t is None else t.clone() for t in made)
            output = function(prefix, delta, bank, weights[0], weights[1], weights[2] if norm else None, blocks, write, 1e-5, 1e-5)
            results.append((output, prefix, bank))
        (ours, *ours_written), (theirs, *theirs_written) = results
        for a, b in zip(ours_written, theirs_written):
            need(torch.equal(a.view(torch.int16), b.view(torch.int16)), f"{kinds[number]}: prefix or bank differs")
        prefix, bank = ours_written
        sources = torch.cat([bank[:, :blocks], prefix[:, None]], 1).transpose(0, 1)
        exact, bound = exact_attn_res(sources, weights[0], weights[1], weights[2] if norm else None)
        shares = [((output.double() - exact).abs() / bound).max().item() for output in (ours, theirs)]
        need(max(shares) <= 1, f"{kinds[number]}: {shares} of the bound")
        worst = [max(pair) for pair in zip(worst, shares)]
    return (
        f"{len(kinds)} kinds of calls on the CPU: prefix and bank equal bit for bit; of the contract's bound around the exact output "
        f"silt takes {worst[0]:.2f}, vLLM's kernel in the interpreter {worst[1]:.2f}"
    )


@check
def attn_res_stays_where_the_layout_is_unknown():
    called = []
    routed = plugin.routed_attn_res(lambda *arguments: called.append(arguments) or "vLLM's", "h200")
    act = torch.zeros(2, 8, dtype=torch.bfloat16)
    bank, weight = torch.zeros(2, 3, 8, dtype=torch.bfloat16), torch.zeros(8, dtype=torch.bfloat16)
    good = [act, None, bank, weight, weight, weight, 1, -1, 1e-5, 1e-5]
    with Lines() as lines:
        for place, wrong in [(0, act.float()), (1, act.t()), (2, bank[0]), (3, weight.float()), (4, weight[None]), (5, weight.float())]:
            need(routed(*good[:place], wrong, *good[place + 1 :]) == "vLLM's", f"argument {place}")
            need(called[-1][place] is wrong, "other arguments")
    need(len(lines) == 6 and isinstance(routed(*good), torch.Tensor) and len(called) == 6, f"{lines}")
    return f"a dtype, rank or stride that is not known goes to vLLM's function; log: {lines[0]}"


def kda_functions():
    """The functions of kda.py that choose the step, without the rest of that file."""
    wanted = ("is_fused_kda_decode_supported", "is_flashinfer_fused_kda_decode_supported", "resolve_kda_decode_backend")
    tree = source_of("kda.py")
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in wanted]
    need(len(tree.body) == len(wanted), "kda.py has not all of " + ", ".join(wanted))
    from vllm import _custom_ops
    from vllm.platforms import current_platform

    module = types.ModuleType("kda")
    module.ops, module.torch, module.current_platform = types.SimpleNamespace(fused_kda_decode=_custom_ops.fused_kda_decode), torch, current_platform
    module.logger = types.SimpleNamespace(info_once=lambda *text: None)
    module.has_flashinfer_fused_kda_decode = lambda: False
    exec(compile(tree, "kda.py", "exec"), module.__dict__)
    return module


@check
def kda_calls():
    tree = source_of("kda.py")
    imports = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    need("from vllm import _custom_ops as ops" in imports, "kda.py takes its operators from elsewhere")
    (call,) = calls_of(tree, "ops.fused_kda_decode")
    given = [keyword.arg for keyword in call.keywords]
    need(not call.args and given == plugin.KDA_DECODE.split(", "), f"{given}")
    need(len(list(calls_of(tree, "is_fused_kda_decode_supported"))) == 1, "the choice is made elsewhere")
    return f"kda.py calls ops.fused_kda_decode once with these {len(given)} arguments, where is_fused_kda_decode_supported says so"


@check
def kda_is_routed():
    module = kda_functions()
    b16, f32 = torch.bfloat16, torch.float32
    need(module.resolve_kda_decode_backend("auto", 32, 128, 4, 0, b16, b16, f32) == "triton", "vLLM has a step for 32 heads")
    own = module.is_fused_kda_decode_supported
    module.is_fused_kda_decode_supported = lambda num_heads, head_dim, conv_width, num_spec, input_dtype, conv_state_dtype, recurrent_state_dtype: (
        num_heads in (12, 24, 48, 96) and recurrent_state_dtype == f32 and num_spec == 0
    )  # as on a GPU of sm_90
    module.is_fused_kda_decode_supported.__name__ = own.__name__
    with Lines() as lines:
        need(plugin.patch_kda(module, "h200") and not plugin.patch_kda(module, "h200"), "patched not once")
        choices = {
            name: module.resolve_kda_decode_backend("auto", *shape)
            for name, shape in {
                "12 heads": (12, 128, 4, 0, b16, b16, f32),
                "32 heads": (32, 128, 4, 0, b16, b16, f32),
                "bf16 state": (12, 128, 4, 0, b16, b16, b16),
                "speculation": (32, 128, 4, 2, b16, b16, f32),
                "fp16": (32, 128, 4, 0, torch.float16, b16, f32),
                "head of 64": (32, 64, 4, 0, b16, b16, f32),
            }.items()
        }
    need(list(choices.values()) == ["native"] * 3 + ["triton"] * 3, f"{choices}")
    need(len(lines) == 2, f"{lines}")
    return "vLLM's own step stays for 12 heads; silt takes 32 heads and bf16 states; " + f"log: {lines[0]}"


@check
def kda_against_vllm():
    """The routed step against vLLM's recurrence, with silt's convolution before it and the norm in double precision behind it;
    fp32 between the steps."""
    recurrent = importlib.import_module(f"{plugin.PACKAGE}.ops.third_party.kda.fused_recurrent")
    language = recurrent.tl  # the interpreter replaces functions of this module, which other names for them do not see
    recurrent.exp, recurrent.log = (lambda x: language.exp(x)), (lambda x: language.log(x))
    rows, heads, slots = 3, 2, 5
    p = 128 * heads
    worst_state = worst_output = 0.0
    for lower_bound in (-5.0, None):
        torch.manual_seed(1)
        module = kda_functions()
        need(plugin.patch_kda(module, "h200"), "not patched")
        fused = torch.randn(rows, 4 * p + heads).bfloat16()
        x, g2, beta = fused.split([3 * p, p, heads], -1)
        raw_g = torch.randn(1, rows, heads, 128).bfloat16()
        weight, a_log, dt_bias, norm = torch.randn(3, 4, p), torch.randn(heads), torch.randn(p), torch.randn(128)
        cache, state = torch.randn(slots, 3, 3 * p).bfloat16(), torch.randn(slots, heads, 128, 128)
        index = torch.tensor([2, 0, 4], dtype=torch.int32)
        cache_theirs, state_theirs = cache.clone(), state.clone()

        ours = module.ops.fused_kda_decode(
            x=x, weight=weight, bias=None, conv_state=cache.transpose(-1, -2), raw_g=raw_g, raw_beta=beta.unsqueeze(0), A_log=a_log,
            dt_bias=dt_bias, state_indices=index, state=state, out=None, lower_bound=lower_bound,
            output_gate=g2.unflatten(-1, (heads, 128)), norm_weight=norm, norm_eps=1e-5,
        )[0].float()  # fmt: skip

        mixed = torch.empty(rows, 1, 3 * p)
        silt.causal_conv1d_update(x.unsqueeze(1), weight, cache_theirs.transpose(-1, -2), index, output=mixed)
        o, _ = recurrent.fused_recurrent_kda_packed_decode(
            mixed.squeeze(1), raw_g, beta.unsqueeze(0), a_log, dt_bias, lower_bound, state_theirs, index
        )
        o, gate = o[0].double(), g2.unflatten(-1, (heads, 128)).double().sigmoid()
        r = (o.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        theirs = o * r * norm.double() * gate

        need(torch.equal(cache.view(torch.int16), cache_theirs.view(torch.int16)), "histories differ")
        # Each state row has the contract's 1e-5 of its size against the exact one, so two may differ by twice that; a query is
        # 128^-0.5 long, the sum over it rounds; then the norm carries it, and one rounding to bf16.
        size = state_theirs.double().norm(dim=-1)
        share = ((state - state_theirs).abs().amax(-1) / (2e-5 * size)).max().item()
        moved = (2e-5 + (8 + 4 * math.sqrt(128)) * 2.0**-24) * 128**-0.5 * size[index.long()]
        moved = r * (norm.double() * gate).abs() * moved + theirs.abs() * r * moved.square().mean(-1, keepdim=True).sqrt()
        output_share = ((ours - theirs).abs() / (theirs.abs() * 2.0**-7 + 1e-6 + moved)).max().item()
        need(share <= 1 and output_share <= 1, f"state {share}, output {output_share} of the bound")
        need(not ours[1].any() and ours[0].any() and torch.equal(state[1], state_theirs[1]), "padding")
        worst_state, worst_output = max(worst_state, share), max(worst_output, output_share)
    return f"safe and softplus gate on the CPU: histories equal, states within {worst_state:.2f} and outputs within {worst_output:.2f} of the bound"


@check
def another_signature_is_left_alone():
    module = types.SimpleNamespace(attn_res=lambda prefix, delta: None)
    original = module.attn_res
    kda = kda_functions()
    step = kda.ops.fused_kda_decode = lambda x, weight: None
    with Lines() as lines:
        need(not plugin.patch_attn_res(module, "h200") and module.attn_res is original, "patched")
        need(not plugin.patch_kda(kda, "h200") and kda.ops.fused_kda_decode is step, "patched")
    need(len(lines) == 2, f"{lines}")
    return f"log: {lines[0][:70]}..."


def main():
    failed = 0
    for work in CHECKS:
        try:
            print(f"ok    {work.__name__}: {work()}", flush=True)
        except Exception as error:
            failed += 1
            print(f"WRONG {work.__name__}: {type(error).__name__}: {error}", flush=True)
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
