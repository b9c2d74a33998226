"""Weights of a KDA layer, from a checkpoint to one rank of a tensor-parallel group.

Heads are split over `tp_size` ranks: q, k, v, g, b, f_b and the convolution by rows (column-parallel), o_proj by columns
(row-parallel), A_log and dt_bias by heads; f_a and the norm are whole on every rank. The fused step wants the convolution as
fp32 [3, width, channels] and the norm as fp32; those mirrors are written with the parameter, so that a reload refreshes them.

Every function copies into `param` and returns nothing. A parameter or a weight without memory (device "meta") is left alone.
"""

import torch


def _without_memory(*tensors: torch.Tensor | None) -> bool:
    return any(tensor is not None and tensor.is_meta for tensor in tensors)


def _need(name: str, condition: bool, has, needs) -> None:
    if not condition:
        raise ValueError(f"{name}: has {has}, needs {needs}")


def _slice(name: str, loaded: torch.Tensor, axis: int, size: int, tp_rank: int, tp_size: int) -> torch.Tensor:
    """The part of this rank, `size` long."""
    _need(f"{name}: tp_rank", 0 <= tp_rank < tp_size, tp_rank, f"0..{tp_size - 1}")
    _need(f"{name}: loaded: axis {axis}", loaded.shape[axis] == size * tp_size, loaded.shape[axis], f"{tp_size} x {size}")
    return loaded.narrow(axis, tp_rank * size, size)


@torch.no_grad()
def load_replicated(param: torch.Tensor, loaded: torch.Tensor) -> None:
    """f_a_proj, and whatever else every rank holds as a whole."""
    _need("load_replicated: loaded: shape", loaded.shape == param.shape, list(loaded.shape), list(param.shape))
    if not _without_memory(param, loaded):
        param.copy_(loaded)


@torch.no_grad()
def load_column_parallel(param: torch.Tensor, loaded: torch.Tensor, tp_rank: int, tp_size: int) -> None:
    """The rows of this rank: q, k, v, g, b, f_b projections."""
    part = _slice("load_column_parallel", loaded, 0, param.shape[0], tp_rank, tp_size)
    if not _without_memory(param, loaded):
        param.copy_(part)


@torch.no_grad()
def load_row_parallel(param: torch.Tensor, loaded: torch.Tensor, tp_rank: int, tp_size: int) -> None:
    """The columns of this rank: o_proj, whose products the ranks then add."""
    part = _slice("load_row_parallel", loaded, 1, param.shape[1], tp_rank, tp_size)
    if not _without_memory(param, loaded):
        param.copy_(part)


@torch.no_grad()
def load_conv(
    param: torch.Tensor, mirror: torch.Tensor | None, loaded: torch.Tensor, part: int, tp_rank: int, tp_size: int
) -> None:
    """One of q, k, v (part 0, 1, 2): [channels, 1, width] or [channels, width] of all ranks.

    param is the packed [3 * channels, 1, width] or [3 * channels, width] of this rank, mirror its fp32 [3, width, channels].
    """
    _need("load_conv: part", part in (0, 1, 2), part, "0, 1 or 2")
    width = param.shape[-1]
    _need("load_conv: loaded: width", loaded.shape[-1] == width, loaded.shape[-1], width)
    channels = param.shape[0] // 3
    _need("load_conv: param: rows", param.shape[0] == 3 * channels, param.shape[0], "a multiple of 3")
    rows = _slice("load_conv", loaded.reshape(-1, width), 0, channels, tp_rank, tp_size)
    if mirror is not None:
        shape = [3, width, channels]
        _need("load_conv: mirror: shape", list(mirror.shape) == shape, list(mirror.shape), shape)
    if not _without_memory(param, loaded):
        param.view(3, channels, width)[part].copy_(rows)
    if mirror is not None and not _without_memory(mirror, loaded):
        mirror[part].copy_(rows.t())


@torch.no_grad()
def load_norm(param: torch.Tensor, mirror: torch.Tensor | None, loaded: torch.Tensor) -> None:
    """o_norm, and its fp32 mirror."""
    load_replicated(param, loaded)
    if mirror is not None and not _without_memory(mirror, loaded):
        load_replicated(mirror, loaded)


@torch.no_grad()
def load_A_log(param: torch.Tensor, loaded: torch.Tensor, tp_rank: int, tp_size: int) -> None:
    """[L] or [1, 1, L, 1] with L at least the heads of all ranks: what is behind them is padding of the checkpoint."""
    heads = param.shape[0]
    flat = loaded.reshape(-1)
    _need("load_A_log: loaded: heads", flat.shape[0] >= heads * tp_size, flat.shape[0], f"at least {tp_size} x {heads}")
    part = _slice("load_A_log", flat[: heads * tp_size], 0, heads, tp_rank, tp_size)
    if not _without_memory(param, loaded):
        param.copy_(part)


@torch.no_grad()
def load_dt_bias(param: torch.Tensor, loaded: torch.Tensor, tp_rank: int, tp_size: int) -> None:
    """[H * 128] or [H, 128] of all ranks; param in either form."""
    part = _slice("load_dt_bias", loaded.reshape(-1), 0, param.numel(), tp_rank, tp_size)
    if not _without_memory(param, loaded):
        param.view(-1).copy_(part)
