#include "kda/decode/cases.hpp"

#include "core/status.hpp"
#include "kda/decode/list.hpp"
#include "kda/decode/reference.hpp"
#include "kda/decode/rows.hpp"
#include "kda/shared/case_pool.hpp"
#include "proof/operator_of.hpp"

namespace silt {

KdaDecodeCase::KdaDecodeCase(const KdaDecodeProblem& p, uint64_t seed) : problem(p) {
  const int64_t act = kda::case_shift(p.dtype, p.align);
  const int64_t weight = kda::case_shift(DType::f32, p.state_align);
  const int64_t channels = kda::kParts * p.p();
  x = CaseTensor(p.dtype, {p.b, channels}, {p.x_stride, 1}, act);
  conv_weight = CaseTensor(DType::f32, {kda::kParts, kda::kTaps, p.p()}, {}, weight);
  if (p.bias) conv_bias = CaseTensor(DType::f32, {channels}, {}, weight);
  const bool sd = p.layout == kda::History::sd;
  conv_state = CaseTensor(p.dtype, {p.slots, channels, kda::kHistory},
                          {p.conv_slot_stride, sd ? 1 : kda::kHistory, sd ? channels : 1}, act);
  raw_gate = CaseTensor(p.dtype, {p.b, p.h, kda::kDim}, {p.gate_stride, kda::kDim, 1}, act);
  raw_beta = CaseTensor(p.dtype, {p.b, p.h}, {p.beta_stride, 1});
  A_log = CaseTensor(DType::f32, {p.h});
  dt_bias = CaseTensor(DType::f32, {p.h, kda::kDim}, {}, weight);
  state_indices = CaseTensor(DType::i32, {p.b});
  state =
      CaseTensor(p.state, {p.slots, p.h, kda::kDim, kda::kDim},
                 {p.state_slot_stride, kda::kDim * kda::kDim, kda::kDim, 1}, kda::case_shift(p.state, p.state_align));
  if (p.norm) {
    output_gate = CaseTensor(p.dtype, {p.b, p.h, kda::kDim}, {p.output_gate_stride, kda::kDim, 1}, act);
    norm_weight = CaseTensor(DType::f32, {kda::kDim}, {}, weight);
  }
  output = CaseTensor(p.dtype, {p.b, p.h, kda::kDim}, {p.output_stride, kda::kDim, 1}, act);

  Random random(seed);
  const std::vector<int32_t> indices = kda::case_indices(random, p.b, p.padded, p.null_slot, p.slots);
  for (int64_t row = 0; row < p.b; ++row) state_indices.set_int(row, indices[static_cast<size_t>(row)]);
  const auto live = [&](int64_t row) {
    return !kda::is_padding(indices[static_cast<size_t>(row)], p.null_slot, p.slots);
  };
  kda::fill_rows(x, random, -1.5F, 1.5F, channels, live);
  kda::fill_uniform(conv_weight, random, -0.7F, 0.7F);
  kda::fill_uniform(conv_bias, random, -0.5F, 0.5F);
  kda::fill_pool(conv_state, random, -1.5F, 1.5F, p.conv_slot_stride, kda::kHistory * channels, indices);
  // Decay factors from nearly 0 to nearly 1, different in every head and channel.
  kda::fill_rows(raw_gate, random, -3.0F, 3.0F, p.p(), live);
  kda::fill_rows(raw_beta, random, -3.0F, 3.0F, p.h, live);
  kda::fill_uniform(A_log, random, -1.5F, 1.5F);
  kda::fill_uniform(dt_bias, random, -2.0F, 2.0F);
  kda::fill_pool(state, random, -1.0F, 1.0F, p.state_slot_stride, p.p() * kda::kDim, indices);
  kda::fill_rows(output_gate, random, -3.0F, 3.0F, p.p(), live);
  kda::fill_uniform(norm_weight, random, 0.3F, 1.7F);
}

std::vector<NamedTensor> KdaDecodeCase::tensors() {
  return {{"x", &x},
          {"conv_weight", &conv_weight},
          {"conv_bias", &conv_bias},
          {"conv_state", &conv_state, true},
          {"raw_gate", &raw_gate},
          {"raw_beta", &raw_beta},
          {"A_log", &A_log},
          {"dt_bias", &dt_bias},
          {"state_indices", &state_indices},
          {"state", &state, true},
          {"output_gate", &output_gate},
          {"norm_weight", &norm_weight},
          {"output", &output, true}};
}

Status KdaDecodeCase::upload(Device device) {
  output.poison();
  for (const NamedTensor& named : tensors()) SILT_TRY(named.tensor->to_device(device));
  conv_state_before_ = conv_state;
  state_before_ = state;
  output_before_ = output.bytes();
  return {};
}

namespace {

/// Everything of the arguments that is no tensor.
void set_numbers(const KdaDecodeCase& c, KdaDecodeArgs* args) {
  args->safe_gate = c.problem.gate == kda::Gate::safe;
  args->lower_bound = c.problem.lower_bound;
  args->norm_eps = c.norm_eps;
  args->null_slot = static_cast<int32_t>(c.problem.null_slot);
}

}  // namespace

KdaDecodeArgs KdaDecodeCase::args() const {
  KdaDecodeArgs args;
  args.x = x.view();
  args.conv_weight = conv_weight.view();
  args.conv_bias = conv_bias.view();
  args.conv_state = conv_state.view();
  args.raw_gate = raw_gate.view();
  args.raw_beta = raw_beta.view();
  args.A_log = A_log.view();
  args.dt_bias = dt_bias.view();
  args.state_indices = state_indices.view();
  args.state = state.view();
  args.output_gate = output_gate.view();
  args.norm_weight = norm_weight.view();
  args.output = output.view();
  set_numbers(*this, &args);
  return args;
}

KdaDecodeArgs KdaDecodeCase::host_args_before() {
  KdaDecodeArgs args;
  args.x = x.host_view();
  args.conv_weight = conv_weight.host_view();
  args.conv_bias = conv_bias.host_view();
  args.conv_state = conv_state_before_.host_view();
  args.raw_gate = raw_gate.host_view();
  args.raw_beta = raw_beta.host_view();
  args.A_log = A_log.host_view();
  args.dt_bias = dt_bias.host_view();
  args.state_indices = state_indices.host_view();
  args.state = state_before_.host_view();
  args.output_gate = output_gate.host_view();
  args.norm_weight = norm_weight.host_view();
  args.output = output.host_view();
  set_numbers(*this, &args);
  return args;
}

Status KdaDecodeCase::download() {
  for (const NamedTensor& named : tensors()) {
    if (named.written) SILT_TRY(named.tensor->from_device());
  }
  return {};
}

Status KdaDecodeCase::run(Device device, const Launch& launch) {
  SILT_TRY(upload(device));
  SILT_TRY(kda_decode(args(), launch));
  SILT_TRY(synchronize(device, launch.stream));
  return download();
}

namespace {

/// Before and after a run in host memory.
struct Sides {
  const KdaDecodeProblem& problem;
  KdaDecodeArgs before;
  KdaDecodeArgs after;
};

template <class Act>
Verdict verify_head(const Sides& sides, int64_t row, int64_t head, int64_t slot) {
  const KdaDecodeProblem& p = sides.problem;
  KdaDecodeResult<double, Act> exact;
  kda_decode_reference(p, sides.before, row, head, slot, &exact);
  std::vector<double> state_before;
  kda::load_state(kda_decode_state(p, sides.before, slot, head), p.state, &state_before);

  const kda::HeadWeights weights = kda_decode_weights(p, sides.before, head);
  kda::HeadBound bound;
  kda::HeadVector<double> slack = bound.step({weights.gate, weights.lower_bound, weights.A_log, weights.dt_bias},
                                             kda::conv_errors(exact.token), state_before.data(), exact.token);
  if (p.norm) {
    slack = kda::norm_error(exact.token.o, slack, exact.token.output, exact.token.output_gate, weights.norm_weight,
                            weights.norm_eps, GateActivation::sigmoid);
  }
  const std::string where = fmt::format("row {} head {}", row, head);
  const Act* output = kda_decode_output<Act>(p, sides.after, row, head);
  Verdict verdict = kda::expect_head(
      where + " output", p.dtype, [&](int64_t i) { return to_float(output[i]); }, exact.token.output, slack);
  verdict.merge(
      kda::expect_state(where + " state", p.state, kda_decode_state(p, sides.after, slot, head), exact.state, bound));
  verdict.merge(
      kda::expect_window(where + " history", kda_decode_history<Act>(p, sides.after, slot, head), exact.window));
  return verdict;
}

template <class Act>
Verdict verify_rows(const Sides& sides) {
  const KdaDecodeProblem& p = sides.problem;
  Verdict verdict;
  for (int64_t row = 0; row < p.b; ++row) {
    const int64_t slot = kda_decode_index(sides.before, row);
    const bool padding = kda::is_padding(slot, p.null_slot, p.slots);
    for (int64_t head = 0; head < p.h; ++head) {
      if (!padding) verdict.merge(verify_head<Act>(sides, row, head, slot));
      if (padding) {
        verdict.merge(kda::expect_zero_head(fmt::format("row {} head {} output", row, head), p.dtype,
                                            sides.after.output.data, row * p.output_stride + head * kda::kDim));
      }
    }
  }
  return verdict;
}

}  // namespace

Verdict KdaDecodeCase::verify() {
  const KdaDecodeProblem& p = problem;
  Sides sides{p, host_args_before(), host_args_before()};
  sides.after.conv_state = conv_state.host_view();
  sides.after.state = state.host_view();
  Verdict verdict = p.dtype == DType::bf16 ? verify_rows<bf16>(sides) : verify_rows<float>(sides);
  std::vector<int32_t> indices;
  for (int64_t row = 0; row < p.b; ++row) indices.push_back(state_indices.get_int(row));
  verdict.merge(kda::expect_only_live_slots("conv_state", conv_state, conv_state_before_.bytes(), indices, p.null_slot,
                                            p.conv_slot_stride, kda::kHistory * kda::kParts * p.p()));
  verdict.merge(kda::expect_only_live_slots("state", state, state_before_.bytes(), indices, p.null_slot,
                                            p.state_slot_stride, p.p() * kda::kDim));
  verdict.merge(kda::expect_only_rows("output", output, output_before_, p.b, p.output_stride, p.p()));
  return verdict;
}

std::vector<std::string> kda_decode_check_lines() {
  return {
      // Head counts: of models and their shards, and ones whose rows are no multiple of 16 bytes.
      "kda_decode b=1 h=1",
      "kda_decode b=5 h=2",
      "kda_decode b=5 h=3",
      "kda_decode b=3 h=5",
      "kda_decode b=3 h=6",
      "kda_decode b=3 h=12",
      "kda_decode b=2 h=24",
      "kda_decode b=2 h=32",
      "kda_decode b=1 h=48",
      "kda_decode b=1 h=64",
      "kda_decode b=2 h=96 padded=1",
      // Many rows; padding in the middle; slots to spare; every row padding.
      "kda_decode b=67 h=1 padded=9 slots=97",
      "kda_decode b=13 h=3 padded=4 slots=40 null=-1",
      "kda_decode b=4 h=2 padded=4",
      "kda_decode b=4 h=2 padded=4 slots=0 null=-1",
      // Call keys.
      "kda_decode b=4 h=3 norm=0",
      "kda_decode b=4 h=3 bias=1",
      "kda_decode b=4 h=3 gate=softplus",
      "kda_decode b=4 h=3 gate=softplus norm=0 bias=1 layout=ds",
      "kda_decode b=4 h=3 lower_bound=-0.5",
      "kda_decode b=4 h=3 layout=ds null=-1",
      "kda_decode b=4 h=3 state=bf16",
      "kda_decode b=7 h=6 state=bf16 gate=softplus layout=ds bias=1 padded=2",
      // Slices of one projection buffer, pages that hold more than a slot, odd padding, lower alignments.
      "kda_decode b=5 h=3 x_stride=2048 gate_stride=2048 beta_stride=2048 output_gate_stride=2048 output_stride=512",
      "kda_decode b=5 h=3 x_stride=1159 gate_stride=401 beta_stride=20 output_gate_stride=385 output_stride=401 "
      "align=2",
      "kda_decode b=4 h=2 conv_slot_stride=40000 state_slot_stride=65536 slots=9",
      "kda_decode b=4 h=2 conv_slot_stride=2321 state_slot_stride=32775 layout=ds align=2 "
      "state_align=4",
      "kda_decode b=4 h=2 state=bf16 state_slot_stride=32769 state_align=2",
      "kda_decode b=4 h=2 align=4 state_align=4",
      "kda_decode b=4 h=2 align=8",
      "kda_decode b=4 h=2 align=8 state_align=8 layout=ds state=bf16",
      // Exact mode.
      "kda_decode b=4 h=3 dtype=f32",
      "kda_decode b=4 h=3 dtype=f32 gate=softplus layout=ds bias=1 norm=0",
      "kda_decode b=4 h=3 dtype=f32 x_stride=1153 output_stride=385 align=4 state=bf16",
  };
}

Operator kda_decode_operator() { return operator_of<KdaDecodeCase, kda_decode_list, kda_decode_check_lines>(); }

}  // namespace silt
