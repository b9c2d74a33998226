"""vLLM's Kimi-K3 layers on silt's kernels, where silt has a native one for the GPU and vLLM has none.

vLLM calls `register` in each of its processes (entry point group vllm.general_plugins). It looks before it changes anything:
the version, the GPU, and the signature of every function it replaces; where something is not as expected it says so in one line
of the log and leaves vLLM as it is. SILT_VLLM=off switches it off. docs/vllm.md has the list of what is routed.
"""

import functools
import importlib.metadata
import inspect
import logging
import os
import re
import sys

import torch

import silt
from silt import engines

VERSIONS = ("0.33",)  # whose sources scripts/test-vllm checks
PACKAGE = "vllm.models.kimi_k3.nvidia"
ATTN_RES = (
    "prefix, delta, blocks, norm_weight, qk_weight, output_norm_weight, num_blocks, block_write_idx, eps, output_norm_eps"
)
KDA_DECODE = (
    "x, weight, bias, conv_state, raw_g, raw_beta, A_log, dt_bias, state_indices, state, out, lower_bound, output_gate, "
    "norm_weight, norm_eps"
)
KDA_SUPPORTED = "num_heads, head_dim, conv_width, num_spec, input_dtype, conv_state_dtype, recurrent_state_dtype"

logger = logging.getLogger("vllm.silt")


@functools.cache
def native(problem: str, device: str) -> bool:
    """Whether a kernel of this GPU's own generation takes the problem; cuda_sm80_* run everywhere and are native nowhere."""
    try:
        chosen = re.search(r"^ +(\S+) +chosen", silt.explain(problem, device), re.M)
    except ValueError:
        return False
    return chosen is not None and chosen[1].startswith("cuda_") and not chosen[1].startswith("cuda_sm80_")


@functools.cache
def _say_once(text: str) -> None:
    logger.warning(text)


def _has_parameters(function, names: str) -> bool:
    has = ", ".join(inspect.signature(function).parameters)
    if has != names:
        logger.warning("silt: leaves vLLM's %s as it is: it has the parameters (%s), needs (%s)", function.__name__, has, names)
    return has == names


def _known_layout(prefix, delta, blocks, norm_weight, qk_weight, output_norm_weight) -> str:
    """Empty, or what is not as attn_res takes it."""
    rows = {"prefix": prefix, "delta": delta}
    weights = {"norm_weight": norm_weight, "qk_weight": qk_weight, "output_norm_weight": output_norm_weight}
    for name, tensor in {**rows, "blocks": blocks, **weights}.items():
        if tensor is None:
            continue
        axes = 2 if name in rows else 3 if name == "blocks" else 1
        if tensor.dim() != axes or tensor.dtype != torch.bfloat16 or tensor.stride(-1) != 1:
            return f"{name} has {tensor.dtype} {tuple(tensor.shape)}, strides {tensor.stride()}"
    return ""


def routed_attn_res(original, device: str):
    """What replaces vLLM's attn_res."""

    def attn_res(
        prefix, delta, blocks, norm_weight, qk_weight, output_norm_weight, num_blocks, block_write_idx, eps, output_norm_eps
    ):
        unknown = _known_layout(prefix, delta, blocks, norm_weight, qk_weight, output_norm_weight)
        if unknown:
            _say_once(f"silt: attn_res stays with vLLM: {unknown}")
            return original(
                prefix, delta, blocks, norm_weight, qk_weight, output_norm_weight, num_blocks, block_write_idx, eps, output_norm_eps
            )
        return engines.attn_res(
            prefix, delta, blocks, norm_weight, qk_weight, output_norm_weight, num_blocks, block_write_idx, eps, output_norm_eps
        )

    functools.update_wrapper(attn_res, original)
    attn_res.silt_device = device
    return attn_res


def patch_attn_res(module, device: str) -> bool:
    """`module` is vLLM's ops.attn_res. Modules that hold the function already get the other one."""
    original = module.attn_res
    if hasattr(original, "silt_device") or not _has_parameters(original, ATTN_RES):
        return False
    routed = routed_attn_res(original, device)
    for name, other in list(sys.modules.items()):
        if name.startswith(PACKAGE) and other.__dict__.get("attn_res") is original:
            other.attn_res = routed
    module.attn_res = routed
    logger.info("silt %s: AttnRes of Kimi-K3 runs on silt, with its kernels for %s (SILT_VLLM=off leaves it to vLLM)", silt.__version__, device)
    return True


def patch_kda(module, device: str) -> bool:
    """`module` is vLLM's nvidia.kda: where vLLM has no fused decode step for a layer and silt has, it says that there is one,
    and the step goes to silt."""
    supported, step = module.is_fused_kda_decode_supported, module.ops.fused_kda_decode
    if hasattr(supported, "silt_device"):
        return False
    if not (_has_parameters(supported, KDA_SUPPORTED) and _has_parameters(step, KDA_DECODE)):
        return False
    vllm_has = functools.cache(supported)

    def is_fused_kda_decode_supported(
        num_heads, head_dim, conv_width, num_spec, input_dtype, conv_state_dtype, recurrent_state_dtype
    ):
        if vllm_has(num_heads, head_dim, conv_width, num_spec, input_dtype, conv_state_dtype, recurrent_state_dtype):
            return True
        states = {torch.float32: "f32", torch.bfloat16: "bf16"}
        if (head_dim, conv_width, num_spec) != (128, 4, 0) or recurrent_state_dtype not in states:
            return False
        if input_dtype != torch.bfloat16 or conv_state_dtype != torch.bfloat16:
            return False
        if not native(f"kda_decode b=32 h={num_heads} state={states[recurrent_state_dtype]}", device):
            return False
        logger.info(
            "silt %s: the fused KDA decode step of %d heads with a %s state runs on silt, with its kernels for %s (SILT_VLLM=off leaves it to vLLM)",
            silt.__version__,
            num_heads,
            states[recurrent_state_dtype],
            device,
        )
        return True

    def fused_kda_decode(
        x, weight, bias, conv_state, raw_g, raw_beta, A_log, dt_bias, state_indices, state, out=None, lower_bound=None,
        output_gate=None, norm_weight=None, norm_eps=1e-5,
    ):  # fmt: skip
        own = vllm_has(A_log.shape[0], 128, 4, 0, x.dtype, conv_state.dtype, state.dtype)
        return (step if own else engines.fused_kda_decode)(
            x, weight, bias, conv_state, raw_g, raw_beta, A_log, dt_bias, state_indices, state, out, lower_bound, output_gate,
            norm_weight, norm_eps,
        )  # fmt: skip

    functools.update_wrapper(is_fused_kda_decode_supported, supported)
    functools.update_wrapper(fused_kda_decode, step)
    is_fused_kda_decode_supported.silt_device = fused_kda_decode.silt_device = device
    module.is_fused_kda_decode_supported = is_fused_kda_decode_supported
    module.ops.fused_kda_decode = fused_kda_decode
    return True


class AfterImport:
    """Runs a function on a module right after it is imported: vLLM's model files are large, and most processes need none."""

    def __init__(self, patches):
        self.patches = dict(patches)

    def install(self) -> None:
        for name in [name for name in self.patches if name in sys.modules]:
            self.patches.pop(name)(sys.modules[name])
        if self.patches:
            sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name not in self.patches:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None and spec.loader is not None:
                execute, patch = spec.loader.exec_module, self.patches.pop(name)

                def exec_module(module):
                    execute(module)
                    patch(module)

                spec.loader.exec_module = exec_module
                return spec
        return None


def why_not() -> str:
    """Empty, or why this process is left alone."""
    if os.environ.get("SILT_VLLM", "on").lower() in ("off", "0", "no"):
        return "switched off by SILT_VLLM"
    try:
        version = importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return "vLLM is not installed"
    if ".".join(version.split(".")[:2]) not in VERSIONS:
        return f"vLLM has version {version}, needs one of {', '.join(f'{known}.*' for known in VERSIONS)}"
    from vllm.platforms import current_platform

    if not current_platform.is_cuda():
        return "vLLM's platform is not CUDA"
    return ""


def device_name(capability) -> str:
    """A known GPU of that generation: this process must not open the GPU yet, and the choice of a kernel is the same."""
    return {9: "h200", 10: "b200"}.get(capability.major, "") if capability is not None else ""


def register() -> None:
    """The entry point. It may be called more than once."""
    reason = why_not()
    if reason:
        logger.info("silt: leaves vLLM as it is: %s", reason)
        return
    from vllm.platforms import current_platform

    device = device_name(current_platform.get_device_capability())
    built = {kernel["op"] for kernel in silt.kernels() if kernel["device"] == "cuda" and kernel["built"]}
    if not device or not {"attn_res", "kda_decode"} <= built:
        what = "this silt was built without CUDA kernels" if device else "silt has no native kernels for this GPU"
        logger.info("silt: leaves vLLM as it is: %s", what)
        return
    patches = {f"{PACKAGE}.kda": functools.partial(patch_kda, device=device)}
    # vLLM's own AttnRes kernel is for the family of sm_100.
    if native("attn_res t=64 n=8 d=7168", device) and not current_platform.is_device_capability_family(100):
        patches[f"{PACKAGE}.ops.attn_res"] = functools.partial(patch_attn_res, device=device)
    AfterImport(patches).install()
