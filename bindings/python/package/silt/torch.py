"""torch.ops.silt.*: every operator as a PyTorch operator, registered when this module is imported.

The arguments are those of silt.attn_res and its like, less `stream` (an operator runs on the current stream) and with
`kernel_name` for `kernel` (torch.compile of PyTorch 2.11 has a parameter of that name in its own way). What it writes
is marked in its schema, so that torch.compile keeps it in place and in order, and a call can be captured in a CUDA graph.
There is nothing compiled against PyTorch here; tensors pass through DLPack.
"""

import re

import torch

from silt import _silt

# What an operator writes; the rest it only reads.
_WRITTEN = {
    "attn_res": ("prefix", "blocks", "output"),
    "attn_res_partials": ("statistics", "mix"),
    "attn_res_merge": ("prefix", "slot", "output"),
    "kda_decode": ("conv_state", "state", "output"),
    "fused_kda_decode": ("conv_state", "state", "out"),
    "kda_prefill": ("conv_state", "state", "output"),
    "causal_conv1d_update": ("conv_state", "output"),
    "kda_recurrence": ("state", "output"),
    "rms_norm_gated": ("output",),
}

_TYPES = {"object": "Tensor", "int": "int", "float": "float", "bool": "bool", "str": "str"}


def _schema(op: str) -> str:
    """Of the function of the module, so that names, order and defaults stand in one place."""
    text, _, defaults = getattr(_silt, op).__nb_signature__[0]
    parts = []
    for part in re.fullmatch(r"def \w+\((.*)\) -> None", text)[1].split(", "):
        if part == "*":
            parts.append(part)
            continue
        name, kind, default = re.fullmatch(r"(\w+): (.+?)(?: = \\(\d+))?", part).groups()
        if name == "stream":
            continue
        name = "kernel_name" if name == "kernel" else name
        optional = "?" if kind.endswith(" | None") else ""
        kind = _TYPES[kind.removesuffix(" | None")]
        if name in _WRITTEN[op]:
            kind += f"({chr(ord('a') + _WRITTEN[op].index(name))}!)"
        value = ""
        if default is not None:
            value = defaults[int(default)]
            value = f'="{value}"' if isinstance(value, str) else f"={value}"
        parts.append(f"{kind}{optional} {name}{value}")
    return f"{op}({', '.join(parts)}) -> ()"


def _implementation(op: str):
    function = getattr(_silt, op)
    if "kernel_name" not in _schema(op):
        return function

    def run(*args, kernel_name=None, **kwargs):
        function(*args, kernel=kernel_name, **kwargs)

    return run


def _writes_only(*args, **kwargs) -> None:
    """An operator without results, as far as shapes go."""


# Compiled code must hand over strides as they are: a transposed history is another layout, not another tensor.
_tags = (getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order), torch.Tag.pt2_compliant_tag)
_library = torch.library.Library("silt", "DEF")
for _op in _WRITTEN:
    _library.define(_schema(_op), tags=_tags)
    for _key in ("CPU", "CUDA"):  # PyTorch's builds for ROCm say CUDA as well
        _library.impl(_op, _implementation(_op), _key)
    torch.library.register_fake(f"silt::{_op}", _writes_only, lib=_library)


# Private names of PyTorch: where one is missing, every call takes the dispatcher.
_modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
_transforms = getattr(torch._C, "_are_functorch_transforms_active", None)


def call(op: str, tensor: torch.Tensor):
    """The function to call for `op` with arguments like `tensor`: the operator of the module itself where nothing watches,
    else torch.ops.silt. The dispatcher takes several times as long as the call."""
    if torch.compiler.is_compiling() or _modes is None or _transforms is None:
        return getattr(torch.ops.silt, op)
    if type(tensor) in (torch.Tensor, torch.nn.Parameter) and _modes() == 0 and not _transforms():
        return getattr(_silt, op)
    return getattr(torch.ops.silt, op)
