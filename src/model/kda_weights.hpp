// Weights of one KDA layer: as the checkpoint has them, and prepared for the fused step on one tensor-parallel rank.
#pragma once

#include <cstdint>
#include <vector>

#include "silt/status.hpp"

#include "model/host_matrix.hpp"

namespace silt {

/// As stored. P = heads * 128 channels, D hidden size. An absent matrix has no rows.
struct KdaTensors {
  int64_t heads = 0;
  HostMatrix q, k, v;                         ///< [P, D]
  HostMatrix gate_a, gate_b;                  ///< f_a [128, D], f_b [P, 128]: the decay gate is f_b(f_a x)
  HostMatrix beta;                            ///< [H, D]
  HostMatrix output_gate;                     ///< g_proj [P, D], or absent
  HostMatrix output_gate_a, output_gate_b;    ///< g_a [128, D], g_b [P, 128] instead
  HostMatrix o;                               ///< [D, P]
  std::vector<float> conv_q, conv_k, conv_v;  ///< [P, 4], taps oldest..newest
  std::vector<float> a_log;                   ///< [H]
  std::vector<float> dt_bias;                 ///< [P]
  std::vector<float> norm;                    ///< [128]
};

/// What rank `rank` of `size` works with: heads [rank * H / size, (rank + 1) * H / size) and their channels.
/// Column-parallel (rows of these heads): q, k, v, beta, gate_b, output_gate, output_gate_b. Row-parallel (columns): o.
/// Replicated: gate_a, output_gate_a, norm.
struct KdaShard {
  KdaTensors weights;              ///< sliced, conv_* included
  std::vector<float> conv_weight;  ///< fp32 [3, 4, P_local] (part, tap, channel): the mirror that the operators read
};

/// Writes every field of `shard`, so that a second call with changed tensors leaves nothing of the first one.
/// Errors: size < 1, rank outside 0..size-1, heads not divisible by size.
Status shard_kda(const KdaTensors& whole, int32_t rank, int32_t size, KdaShard* shard);

}  // namespace silt
