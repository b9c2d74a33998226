"""AttnRes and the fused KDA step with the signatures and layouts of serving engines, on PyTorch tensors.

Only views are made: an engine's leading axis of 1 is dropped, a flat [..., H * 128] gets its heads. Everything else an
operator takes as it stands: transposed histories, slices of one projection's output, slots of pages.
"""

import torch

import silt.torch


def attn_res(
    prefix: torch.Tensor,
    delta: torch.Tensor | None,
    blocks: torch.Tensor,
    norm_weight: torch.Tensor,
    qk_weight: torch.Tensor,
    output_norm_weight: torch.Tensor | None,
    num_blocks: int,
    block_write_idx: int,
    eps: float,
    output_norm_eps: float,
) -> torch.Tensor:
    """Returns the output; with delta, prefix becomes their sum, and with block_write_idx >= 0 that sum is stored in blocks."""
    output = torch.empty_like(prefix, memory_format=torch.contiguous_format)
    silt.torch.call("attn_res", prefix)(
        prefix,
        blocks,
        norm_weight,
        qk_weight,
        output=output,
        delta=delta,
        output_norm_weight=output_norm_weight,
        num_blocks=num_blocks,
        block_write_idx=block_write_idx,
        eps=eps,
        output_norm_eps=output_norm_eps,
    )
    return output


def fused_kda_decode(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    conv_state: torch.Tensor,
    raw_g: torch.Tensor,
    raw_beta: torch.Tensor,
    A_log: torch.Tensor,
    dt_bias: torch.Tensor,
    state_indices: torch.Tensor,
    state: torch.Tensor,
    out: torch.Tensor | None = None,
    lower_bound: float | None = None,
    output_gate: torch.Tensor | None = None,
    norm_weight: torch.Tensor | None = None,
    norm_eps: float = 1e-5,
) -> torch.Tensor:
    """Returns out, [1, B, H, 128] where it is not given. Without lower_bound the gate is softplus. Index 0 is padding."""
    if out is None:
        out = torch.empty(1, x.shape[0], A_log.shape[0], 128, dtype=x.dtype, device=x.device)
    silt.torch.call("fused_kda_decode", x)(
        x,
        weight,
        bias,
        conv_state,
        raw_g,
        raw_beta,
        A_log,
        dt_bias,
        state_indices,
        state,
        out,
        lower_bound,
        output_gate,
        norm_weight,
        norm_eps,
    )
    return out
