"""Fused inference kernels for Attention Residuals and Kimi Delta Attention.

Every operator takes DLPack tensors (NumPy with ml_dtypes, PyTorch, CuPy, JAX) where they lie, writes its outputs in
place, and runs on the stream that is current in the framework of its tensors. docs/python.md has examples.
"""

from silt._silt import (
    __version__,
    attn_res,
    attn_res_merge,
    attn_res_partials,
    causal_conv1d_update,
    describe_devices,
    device_text,
    explain,
    kda_decode,
    kda_prefill,
    kda_recurrence,
    kernels,
    operators,
    reset_counters,
    rms_norm_gated,
)

__all__ = [
    "__version__",
    "attn_res",
    "attn_res_merge",
    "attn_res_partials",
    "causal_conv1d_update",
    "describe_devices",
    "device_text",
    "explain",
    "info",
    "kda_decode",
    "kda_prefill",
    "kda_recurrence",
    "kernels",
    "operators",
    "reset_counters",
    "rms_norm_gated",
]


def info() -> str:
    """What `silt info` prints of this build and machine: version, devices, kernels."""
    lines = [f"silt {__version__}", "", "devices", describe_devices().rstrip("\n"), "", "kernels, fastest first"]
    for op in operators():
        lines.append(f"  {op}")
        for kernel in kernels(op):
            state = "built" if kernel["built"] else f"not built: {kernel['why_not_built']}"
            lines.append(f"    {kernel['name']:<24} {state}")
    return "\n".join(lines) + "\n"
