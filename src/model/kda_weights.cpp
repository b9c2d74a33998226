#include "model/kda_weights.hpp"

#include "core/status.hpp"
#include "model/config.hpp"

namespace silt {
namespace {

HostMatrix rows_or_none(const HostMatrix& whole, int64_t first, int64_t count) {
  return whole.rows == 0 ? HostMatrix() : row_slice(whole, first, count);
}

std::vector<float> part(const std::vector<float>& whole, int64_t first, int64_t count) {
  return {whole.begin() + first, whole.begin() + first + count};
}

}  // namespace

Status shard_kda(const KdaTensors& whole, int32_t rank, int32_t size, KdaShard* shard) {
  if (size < 1) return invalid("shard_kda: size: has {}, needs at least 1", size);
  if (rank < 0 || rank >= size) return invalid("shard_kda: rank: has {}, needs 0..{}", rank, size - 1);
  if (whole.heads % size != 0)
    return invalid("shard_kda: heads: has {}, needs a multiple of size {}", whole.heads, size);
  const int64_t heads = whole.heads / size;
  const int64_t first_head = heads * rank;
  const int64_t channels = heads * kKdaWidth;
  const int64_t first = first_head * kKdaWidth;

  KdaShard made;
  KdaTensors& w = made.weights;
  w.heads = heads;
  w.q = row_slice(whole.q, first, channels);
  w.k = row_slice(whole.k, first, channels);
  w.v = row_slice(whole.v, first, channels);
  w.beta = row_slice(whole.beta, first_head, heads);
  w.gate_a = row_slice(whole.gate_a, 0, whole.gate_a.rows);
  w.gate_b = row_slice(whole.gate_b, first, channels);
  w.output_gate = rows_or_none(whole.output_gate, first, channels);
  w.output_gate_a = rows_or_none(whole.output_gate_a, 0, whole.output_gate_a.rows);
  w.output_gate_b = rows_or_none(whole.output_gate_b, first, channels);
  w.o = column_slice(whole.o, first, channels);
  w.conv_q = part(whole.conv_q, first * kConvTaps, channels * kConvTaps);
  w.conv_k = part(whole.conv_k, first * kConvTaps, channels * kConvTaps);
  w.conv_v = part(whole.conv_v, first * kConvTaps, channels * kConvTaps);
  w.a_log = part(whole.a_log, first_head, heads);
  w.dt_bias = part(whole.dt_bias, first, channels);
  w.norm = whole.norm;

  made.conv_weight.resize(static_cast<size_t>(3 * kConvTaps * channels));
  size_t next = 0;
  for (const std::vector<float>* conv : {&w.conv_q, &w.conv_k, &w.conv_v}) {
    for (int64_t tap = 0; tap < kConvTaps; ++tap) {
      for (int64_t c = 0; c < channels; ++c)
        made.conv_weight[next++] = (*conv)[static_cast<size_t>(c * kConvTaps + tap)];
    }
  }
  *shard = std::move(made);
  return {};
}

}  // namespace silt
