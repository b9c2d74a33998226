#include "kda/decode/bench/bench_kda_chain.hpp"

#include "silt/causal_conv1d_update.hpp"
#include "silt/kda_recurrence.hpp"
#include "silt/rms_norm_gated.hpp"

#include "core/status.hpp"
#include "kda/decode/problem.hpp"

namespace silt::bench {
namespace {

Policy policy_of(std::string_view chain) { return chain == kChainPlain ? Policy::require("cpu_plain_rows") : Policy{}; }

/// [B, length] of a row-strided tensor as [B, 1, length]: one token per sequence.
template <class V>
V one_token(const V& rows) {
  V v = rows;
  v.rank = 3;
  v.shape = {rows.shape[0], 1, rows.shape[1]};
  v.stride = {rows.stride[0], rows.stride[0], 1};
  return v;
}

}  // namespace

Status launch_kda_chain(const KdaDecodeArgs& args, const ChainBuffers& between, std::string_view chain,
                        const Launch& options) {
  Launch launch = options;
  launch.policy = policy_of(chain);
  const int64_t b = args.raw_gate.shape[0];
  const int64_t h = args.raw_gate.shape[1];
  const int64_t p = h * kda::kDim;
  const Device device = args.x.device;

  CausalConv1dUpdateArgs conv;
  conv.x = one_token(args.x);
  conv.weight = args.conv_weight;
  conv.bias = args.conv_bias;
  conv.conv_state = args.conv_state;
  conv.state_indices = args.state_indices;
  conv.output = view(between.qkv, {b, 1, kda::kParts * p}, {}, device);
  conv.null_slot = args.null_slot;
  SILT_TRY(causal_conv1d_update(conv, launch));

  KdaRecurrenceArgs step;
  const auto part = [&](int64_t number) {
    return view(between.qkv + number * p, {b, h, kda::kDim}, {kda::kParts * p, kda::kDim, 1}, device);
  };
  step.q = part(0);
  step.k = part(1);
  step.v = part(2);
  step.raw_gate = args.raw_gate;
  step.raw_beta = args.raw_beta;
  step.A_log = args.A_log;
  step.dt_bias = args.dt_bias;
  step.state_indices = args.state_indices;
  step.state = args.state;
  step.safe_gate = args.safe_gate;
  step.lower_bound = args.lower_bound;
  const bool norm = args.norm_weight.present();
  step.output = norm ? view(between.o, {b, h, kda::kDim}, {}, device) : args.output;
  step.null_slot = args.null_slot;
  SILT_TRY(kda_recurrence(step, launch));
  if (!norm) return {};

  RmsNormGatedArgs last;
  last.x = step.output;
  last.gate = args.output_gate;
  last.weight = args.norm_weight;
  last.eps = args.norm_eps;
  last.output = args.output;
  return rms_norm_gated(last, launch);
}

Status chain_accepts(std::string_view chain, std::string_view text, const DeviceFacts& facts) {
  ProblemLine line;
  SILT_TRY(parse_line(text, &line));
  KdaDecodeProblem p;
  SILT_TRY(KdaDecodeProblem::parse(line, &p));
  const std::string_view state = to_string(p.state);
  const std::string_view act = to_string(p.dtype);
  const std::string_view result = p.norm ? "f32" : act;
  const std::string steps[] = {
      fmt::format("causal_conv1d_update b={} c={} dtype={} output=f32 layout={} bias={}", p.b, kda::kParts * p.p(), act,
                  p.layout == kda::History::sd ? "sd" : "ds", p.bias ? 1 : 0),
      fmt::format("kda_recurrence seqs={}x1 h={} state={} qkv=f32 dtype={} output={} gate={} offsets=0 q_stride={} "
                  "k_stride={} v_stride={}",
                  p.b, p.h, state, act, result, p.gate == kda::Gate::safe ? "safe" : "softplus", kda::kParts * p.p(),
                  kda::kParts * p.p(), kda::kParts * p.p()),
      fmt::format("rms_norm_gated t={} h={} x=f32 gate={} output={}", p.b, p.h, act, act)};
  for (const std::string& step : steps) {
    Explanation explanation;
    const Status status = explain(step, facts, policy_of(chain), &explanation);
    if (!status.ok()) {
      return failed(StatusCode::unsupported, "kda_decode: {} refuses: {}", chain, status.message());
    }
  }
  return {};
}

}  // namespace silt::bench
