#include "model/decoder.hpp"

#include <cstring>
#include <utility>

#include "silt/attn_res.hpp"

#include "core/status.hpp"
#include "core/workers.hpp"
#include "model/glue.hpp"

namespace silt {
namespace {

void embed(const HostMatrix& table, const Pass& pass, Rows* prefix) {
  for (int64_t r = 0; r < pass.rows(); ++r) {
    std::memcpy(prefix->data.data() + static_cast<size_t>(r) * table.row_bytes(),
                table.row(pass.tokens[static_cast<size_t>(r)]), table.row_bytes());
  }
}

/// The calls of attn_res around the layers (operators: how the decoder uses it). `prefix` is the running sum inside the
/// current depth block, `delta` the last sublayer output not yet added, the bank holds the finished blocks. A model
/// without depth blocks makes the same calls with none: add, then norm.
class Residuals {
 public:
  Residuals(const LayerContext& context, bool depth) : context_(context), depth_(depth) {}

  Status before_attention(int64_t layer, const LayerWeights& weights) {
    const int64_t block = context_.config.attn_res_block;
    AttnResArgs args = base(weights.before_attention, weights.input_norm, weights_eps());
    args.output = context_.work.hidden.view(context_.rows());
    if (layer > 0) args.delta = context_.work.delta.view(context_.rows());
    boundary_ = depth_ && layer % block == 0;
    if (depth_) {
      blocks_ = (layer + block - 1) / block;
      if (boundary_) args.block_write_idx = layer / block;
      args.num_blocks = blocks_;
    }
    SILT_TRY(attn_res(args, context_.launch));
    context_.trace.emit("pre_attn_prefix", args.prefix);
    context_.trace.emit("attn_in", args.output);
    return {};
  }

  Status before_feed_forward(const LayerWeights& weights) {
    Workspace& work = context_.work;
    context_.trace.emit("attn_out", work.attended.view(context_.rows()));
    if (boundary_) {
      // A new block starts its sum from the attention output; the finished one is in the bank now.
      std::swap(work.prefix, work.attended);
      ++blocks_;
    }
    AttnResArgs args = base(weights.before_feed_forward, weights.post_attention_norm, weights_eps());
    args.output = work.hidden.view(context_.rows());
    if (!boundary_) args.delta = work.attended.view(context_.rows());
    if (depth_) args.num_blocks = blocks_;
    SILT_TRY(attn_res(args, context_.launch));
    context_.trace.emit("pre_mlp_prefix", args.prefix);
    context_.trace.emit("mlp_in", args.output);
    return {};
  }

  /// Rows [first, first + count), without an output norm; the model's own norm follows.
  Status finish(const ModelWeights& weights, int64_t first, int64_t count, const TensorView& output) {
    AttnResArgs args = base(weights.output, {}, 0.0F);
    args.prefix = part(args.prefix, first, count);
    args.delta = part(context_.work.delta.view(context_.rows()), first, count);
    if (depth_) {
      args.blocks = part(args.blocks, first, count);
      args.num_blocks = context_.config.depth_blocks();
    }
    args.output = output;
    return attn_res(args, context_.launch);
  }

 private:
  [[nodiscard]] float weights_eps() const { return context_.config.eps; }

  AttnResArgs base(const DepthWeights& depth, std::span<const bf16> output_norm, float output_eps) const {
    const ModelConfig& config = context_.config;
    const int64_t d = config.hidden;
    AttnResArgs args;
    args.prefix = context_.work.prefix.view(context_.rows());
    if (depth_) {
      TensorView bank = context_.work.bank.view(context_.rows());
      bank.rank = 3;
      bank.shape = {context_.rows(), config.depth_blocks(), d};
      bank.stride = {bank.stride[0], d, 1};
      args.blocks = bank;
      args.norm_weight = view(depth.norm.data(), {d});
      args.qk_weight = view(depth.query.data(), {d});
    }
    if (!output_norm.empty()) args.output_norm_weight = view(output_norm.data(), {d});
    args.eps = config.eps;
    args.output_norm_eps = output_eps;
    return args;
  }

  static TensorView part(TensorView view, int64_t first, int64_t count) {
    view.data = static_cast<std::byte*>(view.data) + static_cast<size_t>(first * view.stride[0]) * size_of(view.dtype);
    view.shape[0] = count;
    return view;
  }

  const LayerContext& context_;
  bool depth_;
  bool boundary_ = false;
  int64_t blocks_ = 0;
};

Status run_layer(const LayerContext& context, const LayerWeights& weights, int64_t index, SlotPools& pools,
                 Residuals& residuals) {
  SILT_TRY(residuals.before_attention(index, weights));
  const auto i = static_cast<size_t>(index);
  if (const auto* kda = std::get_if<KdaWeights>(&weights.attention)) {
    SILT_TRY(run_kda(context, *kda, pools.kda[i], pools.slots));
  } else {
    SILT_TRY(run_mla(context, std::get<MlaWeights>(weights.attention), pools.mla[i], pools.capacity));
  }
  SILT_TRY(residuals.before_feed_forward(weights));
  if (const auto* dense = std::get_if<DenseWeights>(&weights.feed_forward)) {
    SILT_TRY(run_dense(context, *dense));
  } else {
    SILT_TRY(run_moe(context, std::get<MoeWeights>(weights.feed_forward)));
  }
  context.trace.emit("mlp_out", context.work.delta.view(context.rows()));
  return {};
}

void trace_end(const LayerContext& context, int64_t wanted) {
  if (!context.trace.on()) return;
  Workspace& work = context.work;
  const int64_t rows = context.rows();
  context.trace.emit("final_hidden", work.final_hidden.view(wanted));
  context.trace.emit("final_normed", work.final_normed.view(wanted));
  context.trace.emit("bank", work.bank.view(rows));
  context.trace.emit("final_prefix", work.prefix.view(rows));
}

}  // namespace

Status run_pass(const ModelConfig& config, const ModelWeights& weights, const Pass& pass, Workspace& work,
                SlotPools& pools, Trace& trace, int threads, std::span<const int64_t> logit_rows, float* logits) {
  const LayerContext context{config, pass, work, trace, {.threads = threads}};
  embed(weights.embedding, pass, &work.prefix);
  trace.emit("embedding", work.prefix.view(pass.rows()));
  Residuals residuals(context, config.attn_res_block > 0);
  for (int64_t i = 0; i < config.layers(); ++i) {
    trace.begin_layer(i);
    SILT_TRY(run_layer(context, weights.layers[static_cast<size_t>(i)], i, pools, residuals));
  }
  trace.end_layers();
  // Only rows with logits go on, runs of consecutive ones together, packed from row 0 of final_hidden.
  int64_t done = 0;
  const auto wanted = static_cast<int64_t>(logit_rows.size());
  while (done < wanted) {
    const int64_t first = logit_rows[static_cast<size_t>(done)];
    int64_t count = 1;
    while (done + count < wanted && logit_rows[static_cast<size_t>(done + count)] == first + count) ++count;
    TensorView output = work.final_hidden.view(done + count);
    output.data =
        static_cast<std::byte*>(output.data) + static_cast<size_t>(done * config.hidden) * size_of(output.dtype);
    output.shape[0] = count;
    SILT_TRY(residuals.finish(weights, first, count, output));
    done += count;
  }
  if (wanted == 0) return {};
  const TensorView normed = work.final_normed.view(wanted);
  rms_norm(work.final_hidden.view(wanted), weights.final_norm, config.eps, normed, threads);
  trace_end(context, wanted);
  return multiply({&weights.head, normed, view(logits, {wanted, config.vocab})}, threads);
}

}  // namespace silt
