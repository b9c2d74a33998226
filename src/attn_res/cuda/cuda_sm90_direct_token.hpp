// A token of cuda_sm90_direct in the registers of a cluster or block, from the loads to the store. The form of one
// block without dependent launch runs on every GPU: cuda_sm80_rows takes it from here. Device code.
#pragma once

#include "attn_res/cuda/cuda_sm90_direct_sums.hpp"
#include "attn_res/cuda/rows.hpp"
#include "gpu/memory.hpp"
#include "gpu/pdl.hpp"

namespace silt::attn_res_cuda_sm90_direct {

using attn_res_cuda::Rows;
using gpu::Load;

/// Orders in which no row is read before the dependency wait; kOrdinary: there is no wait, on any GPU.
constexpr int kNoneEarly = -1;
constexpr int kOrdinary = -2;

/// A token's registers: 8 columns of every row and of the weights, once or twice.
template <int kN, int kPer>
struct Columns {
  uint4 rows[kN + 1][kPer];  ///< the bank, then prefix (later p)
  uint4 delta[kPer];
  uint4 norm[kPer];
  uint4 qk[kPer];
};

template <Load kRows, int kPer>
SILT_DEVICE void load_pieces(uint4 (&to)[kPer], const uint16_t* row) {
#pragma unroll
  for (int k = 0; k < kPer; ++k) to[k] = gpu::load_16<kRows>(row + k * (kLeafColumns / 2));
}
template <int kPer>
SILT_DEVICE void store_pieces(uint16_t* row, const uint4 (&from)[kPer]) {
#pragma unroll
  for (int k = 0; k < kPer; ++k) gpu::store_16(row + k * (kLeafColumns / 2), from[k]);
}

/// Rows [first, last) of the bank; `row` is the address of the next.
template <Load kRows, int kN, int kPer>
SILT_DEVICE void load_bank(Columns<kN, kPer>& c, const uint16_t*& row, int64_t slot_stride, int first, int last) {
#pragma unroll
  for (int i = first; i < last; ++i) {
    load_pieces<kRows>(c.rows[i], row);
    row += slot_stride;
  }
}

/// Prefix and delta. Never read-only: the producer of a dependent launch may still run when this kernel starts.
template <Load kRows, int kN, int kPer>
SILT_DEVICE void load_moving(Columns<kN, kPer>& c, const uint16_t* prefix, const uint16_t* delta, bool has_delta) {
  load_pieces<kRows>(c.rows[kN], prefix);
  if (has_delta) load_pieces<kRows>(c.delta, delta);
}

/// Read-only loads: weights belong to no kernel of the stream. Plain ones would miss L1 in every block (its acquire of
/// the cluster barrier drops what they cached), and all SMs would ask L2 for the same lines: 20-35 % of the time at
/// T >= 512 for 1 to 6 blocks.
template <int kN, int kPer>
SILT_DEVICE void load_weights(Columns<kN, kPer>& c, const Rows& p, uint32_t column) {
  if constexpr (kN > 0) {
    load_pieces<Load::constant>(c.norm, p.norm_weight + column);
    load_pieces<Load::constant>(c.qk, p.qk_weight + column);
  }
}

/// Rows [first, kN + 2) of bank, prefix and delta of a token, a lane of the first warp a row: the columns of its block.
template <int kN, Form kForm>
SILT_DEVICE void prefetch_rows(const Rows& p, const Place& at, int64_t token, int first) {
  const int columns = kForm == Form::narrow ? kBlockColumns
                      : kForm == Form::two  ? static_cast<int>(blockDim.x / kWarpLanes) * kPairColumns
                                            : p.d;
  const int begin = static_cast<int>(blockIdx.y) * columns;
  const int i = first + at.lane;
  if (at.warp > 0 || i > (p.delta != nullptr ? kN + 1 : kN)) return;
  const uint16_t* row = i < kN    ? p.blocks + token * p.block_token_stride + i * p.block_slot_stride
                        : i == kN ? p.prefix + token * p.prefix_stride
                                  : p.delta + token * p.delta_stride;
  gpu::prefetch_l2(row + begin, static_cast<uint32_t>(min(columns, p.d - begin)) * 2);
}

template <int kN>
constexpr int kValuesOf = kN == 0 ? 0 : 2 * (kN + 1);  ///< statistics of a token

/// The token blockIdx.x. kEarly: rows of the bank that are read before the dependency wait, with the weights; or one of
/// the orders above.
template <int kN, bool kNorm, int kEarly, Form kForm, Load kRows, Begin kBegin>
SILT_DEVICE void one_token(const Rows& p, Exchange<kForm, kValuesOf<kN>>& exchange) {
  constexpr int kSources = kN + 1;
  constexpr int kValues = kValuesOf<kN>;
  constexpr int kPer = kPieces<kForm>;
  // Three blocks an SM with two pieces a lane leave no registers for delta beside the statistics, nor do five.
  constexpr bool kMoveFirst = kPer > 1 && (kN == 1 || kN == 3 || kN == 4);

  const Place at = place<kForm>(p.d);
  const int64_t token = blockIdx.x;
  const uint16_t* bank = p.blocks + token * p.block_token_stride + at.column;
  uint16_t* prefix = p.prefix + token * p.prefix_stride + at.column;
  const uint16_t* delta = p.delta + token * p.delta_stride + at.column;
  const bool has_delta = p.delta != nullptr;

  // Everything the token needs is asked for at once; statistics start with the first rows while the last are under way.
  Columns<kN, kPer> c;
  if constexpr (kEarly >= 0) {
    load_bank<kRows>(c, bank, p.block_slot_stride, 0, kEarly);
    load_weights(c, p, at.column);
    if constexpr (kBegin == Begin::prefetch) prefetch_rows<kN, kForm>(p, at, token, kEarly);
    open_exchange<kForm, kValues, kNorm>(exchange);
    if constexpr (kPer == 1) {
      gpu::dependency_wait_after(prefix, delta);
    } else {
      gpu::dependency_wait();  // no registers for the addresses
    }
    gpu::trigger_dependents();
    load_moving<kRows>(c, prefix, delta, has_delta);
    load_bank<kRows>(c, bank, p.block_slot_stride, kEarly, kN);
  } else if constexpr (kEarly == kOrdinary) {
    load_bank<kRows>(c, bank, p.block_slot_stride, 0, kN);
    load_moving<kRows>(c, prefix, delta, has_delta);
    load_weights(c, p, at.column);
    open_exchange<kForm, kValues, kNorm>(exchange);
  } else {
    if constexpr (kBegin == Begin::prefetch) prefetch_rows<kN, kForm>(p, at, token, 0);
    open_exchange<kForm, kValues, kNorm>(exchange);
    gpu::dependency_wait_after(prefix, bank + p.block_slot_stride, p.norm_weight + at.column, p.qk_weight + at.column);
    gpu::trigger_dependents();
    load_bank<kRows>(c, bank, p.block_slot_stride, 0, kN);
    load_moving<kRows>(c, prefix, delta, has_delta);
    load_weights(c, p, at.column);
  }
  // The peers' barriers exist; passes under the loads' latency.
  if constexpr (kCluster<kForm> && (kValues > 0 || kNorm)) gpu::cluster_wait();

  // Statistics of the bank, then p = prefix + delta and its own. The first of the additions over lanes follows at once:
  // one register a row survives.
  float w[kPer][8];
  float partial[kSources];
  const auto statistics = [&](int i) {
    float dot[kPer] = {};
    float squares[kPer] = {};
#pragma unroll
    for (int k = 0; k < kPer; ++k) attn_res_cuda::add_statistics(c.rows[i][k], w[k], dot[k], squares[k]);
    if constexpr (kPer == 1) {
      partial[i] = gpu::fold_pair<kWarpLanes / 2>(dot[0], squares[0], at.lane);
    } else {
      partial[i] = gpu::fold_pair<kWarpLanes / 4>(dot[0] + dot[1], squares[0] + squares[1], at.lane);
    }
  };
  const auto move = [&] {
    if (has_delta) {
#pragma unroll
      for (int k = 0; k < kPer; ++k) c.rows[kN][k] = gpu::add_bf16(c.rows[kN][k], c.delta[k]);
      if (at.active) store_pieces(prefix, c.rows[kN]);
    }
    if (p.written != nullptr && at.active) {
      store_pieces(p.written + token * p.block_token_stride + at.column, c.rows[kN]);
    }
  };
  if constexpr (kMoveFirst) move();
  if constexpr (kN > 0) {
#pragma unroll
    for (int k = 0; k < kPer; ++k) attn_res_cuda::weight_product(c.norm[k], c.qk[k], w[k]);
#pragma unroll
    for (int i = 0; i < kN; ++i) statistics(i);
  }
  if constexpr (!kMoveFirst) move();

  float mix[kPer][8] = {};
  uint4 g[kPer] = {};
  if constexpr (kNorm && kPer == 1) load_pieces<Load::constant>(g, p.output_norm_weight + at.column);
  if constexpr (kN > 0) {
    statistics(kN);
    gpu::reduce_scatter<kSources, kPer == 1 ? 8 : 4>(partial, at.lane);
    const float total = exchange_statistics(exchange, at, partial);
    const float e = attn_res_cuda::softmax_numerator<kSources>(total, at.lane, p.inverse_d, p.eps);
    float denominator = 0.0F;  // every lane adds up its own, beside the mixture
#pragma unroll
    for (int i = 0; i < kSources; ++i) {
      const float weight = __shfl_sync(gpu::kAllLanes, e, i);
      denominator += weight;
#pragma unroll
      for (int k = 0; k < kPer; ++k) attn_res_cuda::add_scaled(c.rows[i][k], weight, mix[k]);
    }
    const float inverse = attn_res_cuda::reciprocal_fast(denominator);
#pragma unroll
    for (int k = 0; k < kPer; ++k) {
#pragma unroll
      for (float& m : mix[k]) m *= inverse;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kPer; ++k) gpu::unpack_bf16(c.rows[0][k], mix[k]);
  }

  uint4 out[kPer];
  if constexpr (kNorm) {
    // With two pieces there are no registers for this weight until the rows are done with.
    if constexpr (kPer > 1) load_pieces<Load::constant>(g, p.output_norm_weight + at.column);
    float squares = attn_res_cuda::sum_of_squares(mix[0]);
    if constexpr (kPer > 1) squares += attn_res_cuda::sum_of_squares(mix[1]);
    const float scale = rsqrtf(fmaf(exchange_norm(exchange, at, squares), p.inverse_d, p.output_norm_eps));
#pragma unroll
    for (int k = 0; k < kPer; ++k) out[k] = attn_res_cuda::normalised(mix[k], scale, g[k]);
  } else {
#pragma unroll
    for (int k = 0; k < kPer; ++k) out[k] = gpu::pack_bf16(mix[k]);
  }
  if (at.active) store_pieces(p.output + token * p.output_stride + at.column, out);
}

}  // namespace silt::attn_res_cuda_sm90_direct
