#include "attn_res/cases.hpp"

#include <algorithm>
#include <cmath>

#include "attn_res/bounds.hpp"
#include "attn_res/list.hpp"
#include "attn_res/reference.hpp"
#include "attn_res/rows.hpp"
#include "core/status.hpp"
#include "proof/operator_of.hpp"
#include "proof/random.hpp"

namespace silt {
namespace {

constexpr float kActivationRange = 1.5F;

void fill_uniform(CaseTensor& tensor, Random& random, float low, float high) {
  if (tensor.present()) tensor.fill([&](int64_t) { return random.uniform(low, high); });
}

}  // namespace

AttnResCase::AttnResCase(const AttnResProblem& p, uint64_t seed) : problem(p) {
  const int64_t element = static_cast<int64_t>(size_of(p.dtype));
  const int64_t shift = p.align < 16 ? p.align / element : 0;
  prefix = CaseTensor(p.dtype, {p.t, p.d}, {p.prefix_stride, 1}, shift);
  output = CaseTensor(p.dtype, {p.t, p.d}, {p.output_stride, 1}, shift);
  if (p.delta) delta = CaseTensor(p.dtype, {p.t, p.d}, {p.delta_stride, 1}, shift);
  if (p.slots > 0) {
    blocks = CaseTensor(p.dtype, {p.t, p.slots, p.d}, {p.block_token_stride, p.block_slot_stride, 1}, shift);
  }
  norm_weight = CaseTensor(DType::bf16, {p.d});
  qk_weight = CaseTensor(DType::bf16, {p.d});
  if (p.norm) output_norm_weight = CaseTensor(DType::bf16, {p.d});

  Random random(seed);
  fill_uniform(prefix, random, -kActivationRange, kActivationRange);
  fill_uniform(delta, random, -kActivationRange, kActivationRange);
  // Valid slots only: the others keep their poison (NaN), which must never reach an output.
  for (int64_t i = 0; p.slots > 0 && i < p.t * p.slots * p.d; ++i) {
    if (i / p.d % p.slots < p.n) blocks.set(i, random.uniform(-kActivationRange, kActivationRange));
  }
  fill_uniform(norm_weight, random, 0.7F, 1.3F);
  // Logits with a standard deviation near 1.7, so that every source matters.
  const float qk = 3.0F / std::sqrt(static_cast<float>(p.d));
  fill_uniform(qk_weight, random, -qk, qk);
  fill_uniform(output_norm_weight, random, 0.3F, 1.7F);
}

std::vector<NamedTensor> AttnResCase::tensors() {
  return {{"prefix", &prefix, true},     {"delta", &delta},         {"blocks", &blocks, true},
          {"norm_weight", &norm_weight}, {"qk_weight", &qk_weight}, {"output_norm_weight", &output_norm_weight},
          {"output", &output, true}};
}

Status AttnResCase::upload(Device device) {
  output.poison();
  for (const NamedTensor& named : tensors()) SILT_TRY(named.tensor->to_device(device));
  prefix_before_ = prefix;
  blocks_before_ = blocks;
  output_before_ = output.bytes();
  return {};
}

AttnResArgs AttnResCase::args() const {
  AttnResArgs args;
  args.prefix = prefix.view();
  args.delta = delta.view();
  args.blocks = blocks.view();
  args.norm_weight = norm_weight.view();
  args.qk_weight = qk_weight.view();
  args.output_norm_weight = output_norm_weight.view();
  args.num_blocks = problem.n;
  args.block_write_idx = problem.write;
  args.eps = eps;
  args.output_norm_eps = output_norm_eps;
  args.output = output.view();
  args.stable_blocks = problem.stable;
  return args;
}

Status AttnResCase::download() {
  for (const NamedTensor& named : tensors()) {
    if (named.written) SILT_TRY(named.tensor->from_device());
  }
  return {};
}

Status AttnResCase::run(Device device, const Launch& launch) {
  SILT_TRY(upload(device));
  SILT_TRY(attn_res(args(), launch));
  SILT_TRY(synchronize(device, launch.stream));
  return download();
}

namespace {

/// Compares one token; `slack` follows contract.md, tolerance.
template <class Act>
Verdict verify_token(const AttnResCase& c, int64_t t, const AttnResRow<Act>& row) {
  const AttnResProblem& p = c.problem;
  AttnResResult<double, Act> exact;
  attn_res_reference(row, &exact);
  const int64_t at = t * p.d;
  const auto index = [](int64_t i) { return static_cast<size_t>(i); };

  const double moved = attn_res_moved(sum_error(p.d) * exact.logit_spread);
  std::vector<double> mix_error;
  for (int64_t i = 0; i < p.d; ++i) {
    double largest = std::abs(to_float(exact.prefix[index(i)]));
    for (const Act* block : row.blocks) largest = std::max<double>(largest, std::abs(to_float(block[i])));
    mix_error.push_back(moved * largest);
  }
  const std::vector<double> slack =
      attn_res_output_slack({exact.mix, exact.output, exact.scale, row.output_norm_weight}, mix_error);
  return expect_output(
      fmt::format("output row {}", t), p.dtype, p.d, [&](int64_t i) { return c.output.get(at + i); },
      [&](int64_t i) { return exact.output[index(i)]; }, [&](int64_t i) { return slack[index(i)]; }, 1);
}

template <class Act>
Verdict verify_rows(const AttnResCase& c, const AttnResArgs& before) {
  Verdict verdict;
  const AttnResProblem& p = c.problem;
  for (int64_t t = 0; t < p.t; ++t) {
    const AttnResRow<Act> row = attn_res_row<Act>(p, before, t);
    verdict.merge(verify_token<Act>(c, t, row));
    // p, bit for bit, in the prefix and in the written slot.
    for (int64_t i = 0; i < p.d; ++i) {
      const float sum = to_float(row.prefix[i]) + (p.delta ? to_float(row.delta[i]) : 0.0F);
      const float want = !p.delta ? to_float(row.prefix[i]) : p.dtype == DType::bf16 ? to_float(to_bf16(sum)) : sum;
      const float slot = p.write < 0 ? want : c.blocks.get((t * p.slots + p.write) * p.d + i);
      if (attn_res_is_sum(c.prefix.get(t * p.d + i), want) && attn_res_is_sum(slot, want)) continue;
      verdict.fail(fmt::format("prefix[{}, {}]: has {}, slot has {}, needs {} exactly", t, i, c.prefix.get(t * p.d + i),
                               slot, want));
    }
  }
  return verdict;
}

}  // namespace

Verdict AttnResCase::verify_untouched() const {
  Verdict verdict;
  verdict.merge(prefix.outside_untouched("prefix", prefix_before_.bytes()));
  verdict.merge(output.outside_untouched("output", output_before_));
  verdict.merge(blocks.outside_untouched("blocks", blocks_before_.bytes()));
  for (int64_t row = 0; row < problem.t * problem.slots; ++row) {
    if (row % problem.slots == problem.write) continue;
    verdict.merge(blocks.range_untouched("blocks", blocks_before_, row * problem.d, (row + 1) * problem.d));
  }
  if (!problem.delta) {
    verdict.merge(prefix.range_untouched("prefix", prefix_before_, 0, problem.t * problem.d));
  }
  return verdict;
}

Verdict AttnResCase::verify() const {
  AttnResCase before = *this;  // the same inputs in host memory, as they were before the run
  before.prefix = prefix_before_;
  before.blocks = blocks_before_;
  AttnResArgs host;
  host.prefix = before.prefix.host_view();
  host.delta = before.delta.host_view();
  host.blocks = before.blocks.host_view();
  host.norm_weight = before.norm_weight.host_view();
  host.qk_weight = before.qk_weight.host_view();
  host.output_norm_weight = before.output_norm_weight.host_view();
  host.eps = eps;
  host.output_norm_eps = output_norm_eps;
  Verdict verdict = problem.dtype == DType::bf16 ? verify_rows<bf16>(*this, host) : verify_rows<float>(*this, host);
  verdict.merge(verify_untouched());
  return verdict;
}

std::vector<std::string> attn_res_check_lines() {
  return {
      // Call keys of the decoder: (0,no,yes,yes) (k,yes,yes,yes) (k,no,no,yes) (nb,yes,no,yes) (8,yes,no,no).
      "attn_res t=5 n=0 d=7168 delta=0 write=0",
      "attn_res t=5 n=3 d=7168 write=3",
      "attn_res t=5 n=4 d=7168 delta=0",
      "attn_res t=5 n=8 d=7168",
      "attn_res t=5 n=8 d=7168 norm=0",
      "attn_res t=3 n=0 d=7168",
      "attn_res t=3 n=0 d=7168 norm=0 delta=0",
      // Hidden sizes: of models, and around vector and tile widths.
      "attn_res t=4 n=1 d=256 r=8",
      "attn_res t=4 n=5 d=1024 write=6",
      "attn_res t=4 n=2 d=2304 r=3",
      "attn_res t=2 n=8 d=8192 write=8",
      "attn_res t=3 n=7 d=4104",
      "attn_res t=3 n=2 d=1",
      "attn_res t=3 n=2 d=17",
      "attn_res t=3 n=3 d=31 write=3",
      "attn_res t=3 n=3 d=257 norm=0",
      // Many tokens, one token, more blocks than a model has.
      "attn_res t=1 n=8 d=7168 delta=0 norm=0",
      "attn_res t=133 n=8 d=512 r=8",
      "attn_res t=1031 n=4 d=256",
      "attn_res t=2 n=23 d=256 write=23 r=29",
      // Strides: padded rows, odd padding, a slot-major bank, holes between tokens; addresses aligned to 2, 4 and 8
      // bytes.
      "attn_res t=6 n=4 d=256 prefix_stride=512 delta_stride=768 output_stride=264",
      "attn_res t=6 n=4 d=256 prefix_stride=263 delta_stride=257 output_stride=273 align=2",
      "attn_res t=6 n=4 d=1024 r=5 bank_token_stride=1024 bank_slot_stride=6144 write=4",
      "attn_res t=6 n=4 d=256 r=4 bank_token_stride=2048 bank_slot_stride=263 align=2",
      "attn_res t=6 n=3 d=256 align=4 write=3",
      "attn_res t=6 n=3 d=1024 align=8",
      // Exact mode.
      "attn_res t=5 n=8 d=7168 dtype=f32",
      "attn_res t=5 n=3 d=257 write=3 dtype=f32",
      "attn_res t=5 n=0 d=256 dtype=f32",
      "attn_res t=5 n=4 d=1024 norm=0 delta=0 dtype=f32",
  };
}

Operator attn_res_operator() { return operator_of<AttnResCase, attn_res_list, attn_res_check_lines>(); }

}  // namespace silt
