// Tokens through the layers: embedding, depth attention, KDA or MLA, feed-forward, head.
#pragma once

#include <span>

#include "silt/choose.hpp"

#include "model/pass.hpp"
#include "model/trace.hpp"
#include "model/weights.hpp"
#include "model/workspace.hpp"

namespace silt {

/// What every part of a layer needs.
struct LayerContext {
  const ModelConfig& config;
  const Pass& pass;
  Workspace& work;
  const Trace& trace;
  Launch launch;  ///< of the operators; `threads` is that of everything
  [[nodiscard]] int threads() const { return launch.threads; }
  [[nodiscard]] int64_t rows() const { return pass.rows(); }
};

/// work.hidden -> work.attended; advances the sequences of the pass in `pool`.
Status run_kda(const LayerContext& context, const KdaWeights& weights, SlotPools::Kda& pool, int64_t slots);
Status run_mla(const LayerContext& context, const MlaWeights& weights, Buffer& cache, int64_t capacity);
/// work.hidden -> work.delta.
Status run_dense(const LayerContext& context, const DenseWeights& weights);
Status run_moe(const LayerContext& context, const MoeWeights& weights);

/// Runs a pass. `logit_rows` are rows of the pass, ascending; logits [their number, vocab] are written.
Status run_pass(const ModelConfig& config, const ModelWeights& weights, const Pass& pass, Workspace& work,
                SlotPools& pools, Trace& trace, int threads, std::span<const int64_t> logit_rows, float* logits);

}  // namespace silt
