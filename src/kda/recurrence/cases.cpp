#include "kda/recurrence/cases.hpp"

#include "core/status.hpp"
#include "kda/recurrence/list.hpp"
#include "kda/recurrence/reference.hpp"
#include "kda/shared/case_pool.hpp"
#include "kda/shared/sequences.hpp"
#include "proof/operator_of.hpp"

namespace silt {
namespace {

/// Slots as `indices` says without a table. With one: unique slots everywhere, accepted counts all over the columns; a
/// padding sequence has a padding index where it is read, or every second one a count outside the table; every third
/// sequence has a column that is not stored.
void set_slots(Random& random, const std::vector<int32_t>& indices, KdaRecurrenceCase* c) {
  const KdaRecurrenceProblem& p = c->problem;
  if (p.columns == 0) {
    for (int64_t i = 0; i < p.n; ++i) c->state_indices.set_int(i, indices[static_cast<size_t>(i)]);
    return;
  }
  const std::vector<int32_t> table = kda::case_indices(random, p.n * p.columns, 0, p.null_slot, p.slots);
  int64_t padding = 0;
  for (int64_t i = 0; i < p.n; ++i) {
    const int32_t index = indices[static_cast<size_t>(i)];
    const int64_t accepted = 1 + random.below(p.columns);
    c->accepted.set_int(i, static_cast<int32_t>(accepted));
    for (int64_t j = 0; j < p.columns; ++j) {
      c->state_indices.set_int(i * p.columns + j, table[static_cast<size_t>(i * p.columns + j)]);
    }
    if (kda::is_padding(index, p.null_slot, p.slots)) {
      if (++padding % 2 == 1) {
        c->state_indices.set_int(i * p.columns + accepted - 1, index);
      } else {
        c->accepted.set_int(i, padding % 4 == 0 ? 0 : static_cast<int32_t>(p.columns + 1));
      }
    } else if (i % 3 == 1 && p.columns > 1) {
      c->state_indices.set_int(i * p.columns + accepted % p.columns, -1);
    }
  }
}

}  // namespace

KdaRecurrenceCase::KdaRecurrenceCase(const KdaRecurrenceProblem& p, uint64_t seed) : problem(p) {
  const auto rows = [&](DType dtype, int64_t stride) {
    return CaseTensor(dtype, {p.t, p.h, kda::kDim}, {stride, kda::kDim, 1}, kda::case_shift(dtype, p.align));
  };
  q = rows(p.qkv, p.q_stride);
  k = rows(p.qkv, p.k_stride);
  v = rows(p.qkv, p.v_stride);
  raw_gate = rows(p.dtype, p.gate_stride);
  output = rows(p.output, p.output_stride);
  raw_beta = CaseTensor(p.dtype, {p.t, p.h}, {p.beta_stride, 1});
  A_log = CaseTensor(DType::f32, {p.h});
  dt_bias = CaseTensor(DType::f32, {p.h, kda::kDim}, {}, kda::case_shift(DType::f32, p.align));
  if (p.offsets) offsets = CaseTensor(DType::i32, {p.n + 1});
  state_indices = p.columns == 0 ? CaseTensor(DType::i32, {p.n}) : CaseTensor(DType::i32, {p.n, p.columns});
  if (p.columns > 0) accepted = CaseTensor(DType::i32, {p.n});
  state = CaseTensor(p.state, {p.slots, p.h, kda::kDim, kda::kDim},
                     {p.state_slot_stride, kda::kDim * kda::kDim, kda::kDim, 1}, kda::case_shift(p.state, p.align));

  Random random(seed);
  const std::vector<int32_t> indices = kda::case_indices(random, p.n, p.padded, p.null_slot, p.slots);
  set_slots(random, indices, this);
  const std::vector<int32_t> bounds = kda::case_offsets(random, p.n, p.t, p.lengths);
  for (int64_t i = 0; p.offsets && i <= p.n; ++i) offsets.set_int(i, bounds[static_cast<size_t>(i)]);
  const std::vector<bool> live = kda::live_rows(bounds, indices, p.t, p.null_slot, p.slots);
  const auto is_live = [&](int64_t row) { return live[static_cast<size_t>(row)]; };
  for (CaseTensor* tensor : {&q, &k, &v}) kda::fill_rows(*tensor, random, -1.0F, 1.0F, p.p(), is_live);
  kda::fill_rows(raw_gate, random, -3.0F, 3.0F, p.p(), is_live);
  kda::fill_rows(raw_beta, random, -3.0F, 3.0F, p.h, is_live);
  kda::fill_uniform(A_log, random, -1.5F, 1.5F);
  kda::fill_uniform(dt_bias, random, -2.0F, 2.0F);
  KdaRecurrenceArgs host;
  host.state_indices = state_indices.host_view();
  host.accepted = accepted.host_view();
  std::vector<int32_t> read;
  for (int64_t i = 0; i < p.n; ++i) read.push_back(static_cast<int32_t>(kda_recurrence_index(host, i)));
  kda::fill_pool(state, random, -1.0F, 1.0F, p.state_slot_stride, p.p() * kda::kDim, read);
}

std::vector<NamedTensor> KdaRecurrenceCase::tensors() {
  return {{"q", &q},
          {"k", &k},
          {"v", &v},
          {"raw_gate", &raw_gate},
          {"raw_beta", &raw_beta},
          {"A_log", &A_log},
          {"dt_bias", &dt_bias},
          {"offsets", &offsets},
          {"state_indices", &state_indices},
          {"accepted", &accepted},
          {"state", &state, true},
          {"output", &output, true}};
}

Status KdaRecurrenceCase::upload(Device device) {
  output.poison();
  for (const NamedTensor& named : tensors()) SILT_TRY(named.tensor->to_device(device));
  state_before_ = state;
  output_before_ = output.bytes();
  return {};
}

KdaRecurrenceArgs KdaRecurrenceCase::args() const {
  KdaRecurrenceArgs args;
  args.q = q.view();
  args.k = k.view();
  args.v = v.view();
  args.raw_gate = raw_gate.view();
  args.raw_beta = raw_beta.view();
  args.A_log = A_log.view();
  args.dt_bias = dt_bias.view();
  args.offsets = offsets.view();
  args.state_indices = state_indices.view();
  args.accepted = accepted.view();
  args.state = state.view();
  args.safe_gate = problem.gate == kda::Gate::safe;
  args.lower_bound = problem.lower_bound;
  args.output = output.view();
  args.null_slot = static_cast<int32_t>(problem.null_slot);
  return args;
}

Status KdaRecurrenceCase::download() {
  SILT_TRY(state.from_device());
  return output.from_device();
}

Status KdaRecurrenceCase::run(Device device, const Launch& launch) {
  SILT_TRY(upload(device));
  SILT_TRY(kda_recurrence(args(), launch));
  SILT_TRY(synchronize(device, launch.stream));
  return download();
}

namespace {

/// One head of one live sequence: every output row, and the state it leaves.
Verdict verify_head(const KdaRecurrenceProblem& p, const KdaRecurrenceArgs& before, const KdaRecurrenceArgs& after,
                    int64_t sequence, int64_t head) {
  const int64_t slot = kda_recurrence_index(before, sequence);
  const kda::HeadWeights weights = kda_recurrence_weights(p, before, head);
  std::vector<double> state;
  kda::load_state(kda_recurrence_state(p, before, slot, head), p.state, &state);
  kda::HeadBound bound;
  Verdict verdict;
  const kda::Rows rows = kda::rows_of(before.offsets, sequence);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const std::vector<double> state_before = state;
    kda::TokenResult<double> exact;
    kda_recurrence_reference(p, before, row, head, state.data(), &exact);
    const kda::HeadVector<double> slack =
        bound.step({weights.gate, weights.lower_bound, weights.A_log, weights.dt_bias}, {}, state_before.data(), exact);
    const auto got = kda::load_head<float>(after.output.data, p.output, row * p.output_stride + head * kda::kDim);
    verdict.merge(kda::expect_head(
        fmt::format("row {} head {} output", row, head), p.output,
        [&](int64_t i) { return got[static_cast<size_t>(i)]; }, exact.o, slack));
    if (p.columns == 0) continue;
    const int64_t token = row - rows.begin;
    const int64_t target = kda_recurrence_target(before, sequence, token);
    if (kda::is_padding(target, p.null_slot, p.slots)) continue;
    verdict.merge(kda::expect_state(fmt::format("sequence {} head {} state after token {}", sequence, head, token),
                                    p.state, kda_recurrence_state(p, after, target, head), state, bound));
  }
  if (p.columns > 0) return verdict;
  verdict.merge(kda::expect_state(fmt::format("sequence {} head {} state", sequence, head), p.state,
                                  kda_recurrence_state(p, after, slot, head), state, bound));
  return verdict;
}

}  // namespace

Verdict KdaRecurrenceCase::verify() {
  const KdaRecurrenceProblem& p = problem;
  KdaRecurrenceArgs before;
  before.q = q.host_view();
  before.k = k.host_view();
  before.v = v.host_view();
  before.raw_gate = raw_gate.host_view();
  before.raw_beta = raw_beta.host_view();
  before.A_log = A_log.host_view();
  before.dt_bias = dt_bias.host_view();
  before.offsets = offsets.host_view();
  before.state_indices = state_indices.host_view();
  before.accepted = accepted.host_view();
  before.state = state_before_.host_view();
  before.output = output.host_view();
  KdaRecurrenceArgs after = before;
  after.state = state.host_view();

  Verdict verdict;
  std::vector<int32_t> targets;  // slots that may be written
  std::vector<int64_t> written;
  for (int64_t sequence = 0; sequence < p.n; ++sequence) {
    const kda::Rows rows = kda::rows_of(before.offsets, sequence);
    if (rows.count() == 0) continue;
    for (int64_t row = rows.begin; row < rows.end; ++row) written.push_back(row);
    const int64_t index = kda_recurrence_index(before, sequence);
    const bool padding = kda::is_padding(index, p.null_slot, p.slots);
    if (p.columns == 0) targets.push_back(static_cast<int32_t>(index));
    for (int64_t token = 0; p.columns > 0 && !padding && token < rows.count(); ++token) {
      targets.push_back(static_cast<int32_t>(kda_recurrence_target(before, sequence, token)));
    }
    for (int64_t head = 0; head < p.h; ++head) {
      if (!padding) verdict.merge(verify_head(p, before, after, sequence, head));
      for (int64_t row = rows.begin; padding && row < rows.end; ++row) {
        verdict.merge(kda::expect_zero_head(fmt::format("row {} head {} output", row, head), p.output,
                                            after.output.data, row * p.output_stride + head * kda::kDim));
      }
    }
  }
  verdict.merge(kda::expect_only_live_slots("state", state, state_before_.bytes(), targets, p.null_slot,
                                            p.state_slot_stride, p.p() * kda::kDim));
  verdict.merge(kda::expect_only_rows("output", output, output_before_, written, p.output_stride, p.p()));
  return verdict;
}

std::vector<std::string> kda_recurrence_check_lines() {
  return {
      // One token each: the chain of a decode step.
      "kda_recurrence seqs=5x1 h=3 offsets=0",
      "kda_recurrence seqs=31x1 h=2 offsets=0 padded=4 slots=40 null=-1",
      "kda_recurrence seqs=2x1 h=96 offsets=0",
      "kda_recurrence seqs=3x1 h=12 offsets=0 output=f32",
      "kda_recurrence seqs=3x1 h=12 offsets=0 qkv=f32",
      "kda_recurrence seqs=3x1 h=12 offsets=0 qkv=f32 output=bf16 state=bf16",
      // Runs of tokens: even, ragged with empty sequences and rows outside, one long sequence.
      "kda_recurrence seqs=4x5 h=2",
      "kda_recurrence seqs=6x4 h=3 t=29 lengths=ragged padded=2",
      "kda_recurrence seqs=6x4 h=1 t=24 lengths=ragged null=-1 state=bf16",
      "kda_recurrence seqs=1x70 h=2",
      "kda_recurrence seqs=1x70 h=2 state=bf16 gate=softplus",
      "kda_recurrence seqs=2x33 h=1 gate=softplus",
      "kda_recurrence seqs=1x3 h=48",
      "kda_recurrence seqs=2x2 h=5 lower_bound=-0.5",
      // Tables of slots: fewer, as many and more columns than tokens; padding.
      "kda_recurrence seqs=4x3 h=2 columns=4",
      "kda_recurrence seqs=5x4 h=3 columns=3 t=23 lengths=ragged padded=2 slots=30 state=bf16",
      "kda_recurrence seqs=3x1 h=2 offsets=0 columns=2 null=-1 gate=softplus",
      "kda_recurrence seqs=6x2 h=1 columns=2 padded=3 qkv=f32",
      // Exact mode and mixed types.
      "kda_recurrence seqs=3x4 h=2 qkv=f32 dtype=f32",
      "kda_recurrence seqs=3x4 h=2 qkv=f32 dtype=f32 output=bf16 gate=softplus",
      "kda_recurrence seqs=3x4 h=2 dtype=f32",
      // Slices of one buffer, odd padding, lower alignments.
      "kda_recurrence seqs=3x4 h=2 q_stride=768 k_stride=768 v_stride=768 gate_stride=1024 output_stride=512",
      "kda_recurrence seqs=3x4 h=3 q_stride=391 k_stride=401 v_stride=385 gate_stride=389 beta_stride=10 "
      "output_stride=387 align=2",
      "kda_recurrence seqs=3x2 h=2 state_slot_stride=40000 slots=9",
      "kda_recurrence seqs=3x2 h=2 state_slot_stride=32769 state=bf16 align=2",
      "kda_recurrence seqs=3x2 h=2 align=4",
      "kda_recurrence seqs=3x2 h=2 align=8 qkv=f32",
  };
}

Operator kda_recurrence_operator() {
  return operator_of<KdaRecurrenceCase, kda_recurrence_list, kda_recurrence_check_lines>();
}

}  // namespace silt
