#include "kda/prefill/cases.hpp"

#include "core/status.hpp"
#include "kda/prefill/list.hpp"
#include "kda/prefill/reference.hpp"
#include "kda/prefill/rows.hpp"
#include "kda/shared/case_pool.hpp"
#include "proof/operator_of.hpp"

namespace silt {

KdaPrefillCase::KdaPrefillCase(const KdaPrefillProblem& p, uint64_t seed) : problem(p) {
  const int64_t act = kda::case_shift(p.dtype, p.align);
  const int64_t weight = kda::case_shift(DType::f32, p.align);
  const int64_t channels = kda::kParts * p.p();
  x = CaseTensor(p.dtype, {p.t, channels}, {p.x_stride, 1}, act);
  conv_weight = CaseTensor(DType::f32, {kda::kParts, kda::kTaps, p.p()}, {}, weight);
  if (p.bias) conv_bias = CaseTensor(DType::f32, {channels}, {}, weight);
  const bool sd = p.layout == kda::History::sd;
  conv_state = CaseTensor(p.dtype, {p.slots, channels, kda::kHistory},
                          {p.conv_slot_stride, sd ? 1 : kda::kHistory, sd ? channels : 1}, act);
  raw_gate = CaseTensor(p.dtype, {p.t, p.h, kda::kDim}, {p.gate_stride, kda::kDim, 1}, act);
  raw_beta = CaseTensor(p.dtype, {p.t, p.h}, {p.beta_stride, 1});
  A_log = CaseTensor(DType::f32, {p.h});
  dt_bias = CaseTensor(DType::f32, {p.h, kda::kDim}, {}, weight);
  offsets = CaseTensor(DType::i32, {p.n + 1});
  state_indices = CaseTensor(DType::i32, {p.n});
  if (p.initial) has_initial_state = CaseTensor(DType::i32, {p.n});
  state = CaseTensor(p.state, {p.slots, p.h, kda::kDim, kda::kDim},
                     {p.state_slot_stride, kda::kDim * kda::kDim, kda::kDim, 1}, kda::case_shift(p.state, p.align));
  if (p.norm) {
    output_gate = CaseTensor(p.dtype, {p.t, p.h, kda::kDim}, {p.output_gate_stride, kda::kDim, 1}, act);
    norm_weight = CaseTensor(DType::f32, {kda::kDim}, {}, weight);
  }
  output = CaseTensor(p.dtype, {p.t, p.h, kda::kDim}, {p.output_stride, kda::kDim, 1}, act);

  Random random(seed);
  const std::vector<int32_t> indices = kda::case_indices(random, p.n, p.padded, p.null_slot, p.slots);
  for (int64_t i = 0; i < p.n; ++i) state_indices.set_int(i, indices[static_cast<size_t>(i)]);
  const std::vector<int32_t> bounds = kda::case_offsets(random, p.n, p.t, p.lengths);
  for (int64_t i = 0; i <= p.n; ++i) offsets.set_int(i, bounds[static_cast<size_t>(i)]);
  const std::vector<bool> live = kda::live_rows(bounds, indices, p.t, p.null_slot, p.slots);
  const auto is_live = [&](int64_t row) { return live[static_cast<size_t>(row)]; };
  kda::fill_rows(x, random, -1.5F, 1.5F, channels, is_live);
  kda::fill_uniform(conv_weight, random, -0.7F, 0.7F);
  kda::fill_uniform(conv_bias, random, -0.5F, 0.5F);
  kda::fill_pool(conv_state, random, -1.5F, 1.5F, p.conv_slot_stride, kda::kHistory * channels, indices);
  kda::fill_rows(raw_gate, random, -3.0F, 3.0F, p.p(), is_live);
  kda::fill_rows(raw_beta, random, -3.0F, 3.0F, p.h, is_live);
  kda::fill_uniform(A_log, random, -1.5F, 1.5F);
  kda::fill_uniform(dt_bias, random, -2.0F, 2.0F);
  kda::fill_pool(state, random, -1.0F, 1.0F, p.state_slot_stride, p.p() * kda::kDim, indices);
  kda::fill_rows(output_gate, random, -3.0F, 3.0F, p.p(), is_live);
  kda::fill_uniform(norm_weight, random, 0.3F, 1.7F);
  // Every third sequence starts from nothing, with NaN in its slot.
  for (int64_t i = 0; p.initial && i < p.n; ++i) {
    has_initial_state.set_int(i, i % 3 == 0 ? 0 : 1);
    const int64_t slot = indices[static_cast<size_t>(i)];
    if (i % 3 != 0 || kda::is_padding(slot, p.null_slot, p.slots)) continue;
    kda::poison_slot(state, slot, p.state_slot_stride, p.p() * kda::kDim);
    kda::poison_slot(conv_state, slot, p.conv_slot_stride, kda::kHistory * channels);
  }
}

std::vector<NamedTensor> KdaPrefillCase::tensors() {
  return {{"x", &x},
          {"conv_weight", &conv_weight},
          {"conv_bias", &conv_bias},
          {"conv_state", &conv_state, true},
          {"raw_gate", &raw_gate},
          {"raw_beta", &raw_beta},
          {"A_log", &A_log},
          {"dt_bias", &dt_bias},
          {"offsets", &offsets},
          {"state_indices", &state_indices},
          {"has_initial_state", &has_initial_state},
          {"state", &state, true},
          {"output_gate", &output_gate},
          {"norm_weight", &norm_weight},
          {"output", &output, true}};
}

Status KdaPrefillCase::upload(Device device) {
  output.poison();
  for (const NamedTensor& named : tensors()) SILT_TRY(named.tensor->to_device(device));
  conv_state_before_ = conv_state;
  state_before_ = state;
  output_before_ = output.bytes();
  return {};
}

namespace {

/// Everything of the arguments that is no tensor.
void set_numbers(const KdaPrefillCase& c, KdaPrefillArgs* args) {
  args->safe_gate = c.problem.gate == kda::Gate::safe;
  args->lower_bound = c.problem.lower_bound;
  args->norm_eps = c.norm_eps;
  args->null_slot = static_cast<int32_t>(c.problem.null_slot);
}

}  // namespace

KdaPrefillArgs KdaPrefillCase::args() const {
  KdaPrefillArgs args;
  args.x = x.view();
  args.conv_weight = conv_weight.view();
  args.conv_bias = conv_bias.view();
  args.conv_state = conv_state.view();
  args.raw_gate = raw_gate.view();
  args.raw_beta = raw_beta.view();
  args.A_log = A_log.view();
  args.dt_bias = dt_bias.view();
  args.offsets = offsets.view();
  args.state_indices = state_indices.view();
  args.has_initial_state = has_initial_state.view();
  args.state = state.view();
  args.output_gate = output_gate.view();
  args.norm_weight = norm_weight.view();
  args.output = output.view();
  set_numbers(*this, &args);
  return args;
}

KdaPrefillArgs KdaPrefillCase::host_args_before() {
  KdaPrefillArgs args;
  args.x = x.host_view();
  args.conv_weight = conv_weight.host_view();
  args.conv_bias = conv_bias.host_view();
  args.conv_state = conv_state_before_.host_view();
  args.raw_gate = raw_gate.host_view();
  args.raw_beta = raw_beta.host_view();
  args.A_log = A_log.host_view();
  args.dt_bias = dt_bias.host_view();
  args.offsets = offsets.host_view();
  args.state_indices = state_indices.host_view();
  args.has_initial_state = has_initial_state.host_view();
  args.state = state_before_.host_view();
  args.output_gate = output_gate.host_view();
  args.norm_weight = norm_weight.host_view();
  args.output = output.host_view();
  set_numbers(*this, &args);
  return args;
}

Status KdaPrefillCase::download() {
  for (const NamedTensor& named : tensors()) {
    if (named.written) SILT_TRY(named.tensor->from_device());
  }
  return {};
}

Status KdaPrefillCase::run(Device device, const Launch& launch) {
  SILT_TRY(upload(device));
  SILT_TRY(kda_prefill(args(), launch));
  SILT_TRY(synchronize(device, launch.stream));
  return download();
}

namespace {

/// Before and after a run in host memory.
struct Sides {
  const KdaPrefillProblem& problem;
  KdaPrefillArgs before;
  KdaPrefillArgs after;
};

/// One token; the carry and the bound move on.
template <class Act>
Verdict verify_token(const Sides& sides, int64_t row, int64_t head, KdaPrefillCarry<double, Act>* carry,
                     kda::HeadBound* bound) {
  const KdaPrefillProblem& p = sides.problem;
  const kda::HeadWeights weights = kda_prefill_weights(p, sides.before, head);
  const std::vector<double> state_before = carry->state;
  kda::TokenResult<double> exact;
  kda_prefill_reference(p, sides.before, row, head, carry, &exact);
  kda::HeadVector<double> slack = bound->step({weights.gate, weights.lower_bound, weights.A_log, weights.dt_bias},
                                              kda::conv_errors(exact), state_before.data(), exact);
  if (p.norm) {
    slack = kda::norm_error(exact.o, slack, exact.output, exact.output_gate, weights.norm_weight, weights.norm_eps,
                            GateActivation::sigmoid);
  }
  const Act* output = kda_prefill_output<Act>(p, sides.after, row, head);
  return kda::expect_head(
      fmt::format("row {} head {} output", row, head), p.dtype, [&](int64_t i) { return to_float(output[i]); },
      exact.output, slack);
}

/// One head of one live sequence: every output row, and the state and history it leaves.
template <class Act>
Verdict verify_head(const Sides& sides, int64_t sequence, int64_t head) {
  const KdaPrefillProblem& p = sides.problem;
  const int64_t slot = kda_prefill_index(sides.before, sequence);
  const kda::Rows rows = kda::rows_of(sides.before.offsets, sequence);
  KdaPrefillCarry<double, Act> carry;
  kda_prefill_start(p, sides.before, sequence, head, slot, &carry);
  kda::HeadBound bound(kKdaPrefillTogether);
  Verdict verdict;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    verdict.merge(verify_token(sides, row, head, &carry, &bound));
  }
  const std::string where = fmt::format("sequence {} head {}", sequence, head);
  verdict.merge(
      kda::expect_state(where + " state", p.state, kda_prefill_state(p, sides.after, slot, head), carry.state, bound));
  verdict.merge(
      kda::expect_window(where + " history", kda_prefill_history<Act>(p, sides.after, slot, head), carry.window));
  return verdict;
}

template <class Act>
Verdict verify_sequences(const Sides& sides) {
  const KdaPrefillProblem& p = sides.problem;
  Verdict verdict;
  for (int64_t sequence = 0; sequence < p.n; ++sequence) {
    const kda::Rows rows = kda::rows_of(sides.before.offsets, sequence);
    if (rows.count() == 0) continue;
    const bool padding = kda::is_padding(kda_prefill_index(sides.before, sequence), p.null_slot, p.slots);
    for (int64_t head = 0; head < p.h; ++head) {
      if (!padding) verdict.merge(verify_head<Act>(sides, sequence, head));
      for (int64_t row = rows.begin; padding && row < rows.end; ++row) {
        verdict.merge(kda::expect_zero_head(fmt::format("row {} head {} output", row, head), p.dtype,
                                            sides.after.output.data, row * p.output_stride + head * kda::kDim));
      }
    }
  }
  return verdict;
}

}  // namespace

Verdict KdaPrefillCase::verify_untouched() {
  const KdaPrefillProblem& p = problem;
  std::vector<int32_t> indices;  // of sequences that have tokens
  std::vector<int64_t> written;
  for (int64_t sequence = 0; sequence < p.n; ++sequence) {
    const kda::Rows rows = kda::rows_of(offsets.host_view(), sequence);
    for (int64_t row = rows.begin; row < rows.end; ++row) written.push_back(row);
    if (rows.count() > 0) indices.push_back(state_indices.get_int(sequence));
  }
  Verdict verdict = kda::expect_only_rows("output", output, output_before_, written, p.output_stride, p.p());
  verdict.merge(kda::expect_only_live_slots("conv_state", conv_state, conv_state_before_.bytes(), indices, p.null_slot,
                                            p.conv_slot_stride, kda::kHistory * kda::kParts * p.p()));
  verdict.merge(kda::expect_only_live_slots("state", state, state_before_.bytes(), indices, p.null_slot,
                                            p.state_slot_stride, p.p() * kda::kDim));
  return verdict;
}

Verdict KdaPrefillCase::verify() {
  Sides sides{problem, host_args_before(), host_args_before()};
  sides.after.conv_state = conv_state.host_view();
  sides.after.state = state.host_view();
  Verdict verdict = problem.dtype == DType::bf16 ? verify_sequences<bf16>(sides) : verify_sequences<float>(sides);
  verdict.merge(verify_untouched());
  return verdict;
}

std::vector<std::string> kda_prefill_check_lines() {
  return {
      // Even and ragged batches; empty sequences, rows outside the offsets, padding, sequences that start from nothing.
      "kda_prefill seqs=1x1 h=1",
      "kda_prefill seqs=4x5 h=2",
      "kda_prefill seqs=6x4 h=3 t=29 lengths=ragged padded=2 initial=1",
      "kda_prefill seqs=7x4 h=1 t=31 lengths=ragged initial=1 layout=ds null=-1 slots=19",
      "kda_prefill seqs=3x4 h=2 padded=3",
      "kda_prefill seqs=1x131 h=1",
      "kda_prefill seqs=1x131 h=1 gate=softplus initial=1",
      "kda_prefill seqs=2x64 h=1 state=bf16",
      "kda_prefill seqs=9x2 h=1 initial=1 bias=1",
      // Head counts.
      "kda_prefill seqs=1x3 h=5",
      "kda_prefill seqs=2x3 h=6",
      "kda_prefill seqs=2x3 h=12",
      "kda_prefill seqs=1x3 h=24",
      "kda_prefill seqs=1x3 h=32",
      "kda_prefill seqs=1x2 h=48",
      "kda_prefill seqs=1x2 h=64",
      "kda_prefill seqs=1x2 h=96",
      // Around chunks of 16 tokens: one short of it, full, one over; sequences of several, and of mixed lengths.
      "kda_prefill seqs=2x15 h=1",
      "kda_prefill seqs=2x16 h=1",
      "kda_prefill seqs=2x17 h=1 initial=1",
      "kda_prefill seqs=1x16 h=2 state=bf16",
      "kda_prefill seqs=3x33 h=1 state=bf16 layout=ds bias=1 initial=1",
      "kda_prefill seqs=1x64 h=1 dtype=f32 norm=0 gate=softplus",
      "kda_prefill seqs=2x31 h=3 dtype=f32 state=bf16 initial=1 x_stride=1159 output_stride=401 align=4",
      "kda_prefill seqs=9x16 h=2 t=150 lengths=ragged padded=2 initial=1",
      // Call keys.
      "kda_prefill seqs=3x5 h=2 norm=0",
      "kda_prefill seqs=3x5 h=2 gate=softplus norm=0 bias=1 layout=ds",
      "kda_prefill seqs=3x5 h=2 lower_bound=-0.5 null=-1",
      "kda_prefill seqs=3x5 h=3 state=bf16 gate=softplus layout=ds bias=1 padded=1 initial=1",
      // Slices of one projection buffer, pages that hold more than a slot, odd padding, lower alignments.
      "kda_prefill seqs=3x5 h=3 x_stride=2048 gate_stride=2048 beta_stride=2048 output_gate_stride=2048 "
      "output_stride=512",
      "kda_prefill seqs=3x5 h=3 x_stride=1159 gate_stride=401 beta_stride=20 output_gate_stride=385 output_stride=401 "
      "align=2",
      "kda_prefill seqs=3x4 h=2 conv_slot_stride=40000 state_slot_stride=65536 slots=9",
      "kda_prefill seqs=3x4 h=2 conv_slot_stride=2321 state_slot_stride=32775 layout=ds align=2",
      "kda_prefill seqs=3x4 h=2 align=4",
      "kda_prefill seqs=3x4 h=2 align=8 state=bf16",
      // Exact mode.
      "kda_prefill seqs=3x9 h=2 dtype=f32",
      "kda_prefill seqs=3x9 h=2 dtype=f32 gate=softplus layout=ds bias=1 norm=0 initial=1",
      "kda_prefill seqs=3x5 h=2 dtype=f32 x_stride=769 output_stride=257 align=4 state=bf16",
  };
}

Operator kda_prefill_operator() { return operator_of<KdaPrefillCase, kda_prefill_list, kda_prefill_check_lines>(); }

}  // namespace silt
