#include "kda/conv_update/cases.hpp"

#include "core/status.hpp"
#include "kda/conv_update/list.hpp"
#include "kda/conv_update/reference.hpp"
#include "kda/shared/case_pool.hpp"
#include "proof/operator_of.hpp"

namespace silt {

CausalConv1dUpdateCase::CausalConv1dUpdateCase(const CausalConv1dUpdateProblem& p, uint64_t seed) : problem(p) {
  const int64_t act = kda::case_shift(p.dtype, p.align);
  const int64_t real = kda::case_shift(DType::f32, p.align);
  x = CaseTensor(p.dtype, {p.b, p.n, p.c}, {p.x_stride, p.x_token_stride, 1}, act);
  weight = CaseTensor(DType::f32, {kda::kParts, kda::kTaps, p.c / kda::kParts}, {}, real);
  if (p.bias) bias = CaseTensor(DType::f32, {p.c}, {}, real);
  const bool sd = p.layout == kda::History::sd;
  conv_state = CaseTensor(p.dtype, {p.slots, p.c, kda::kHistory},
                          {p.conv_slot_stride, sd ? 1 : kda::kHistory, sd ? p.c : 1}, act);
  state_indices = CaseTensor(DType::i32, {p.b});
  output = CaseTensor(p.output, {p.b, p.n, p.c}, {p.output_stride, p.output_token_stride, 1},
                      kda::case_shift(p.output, p.align));

  Random random(seed);
  const std::vector<int32_t> indices = kda::case_indices(random, p.b, p.padded, p.null_slot, p.slots);
  for (int64_t row = 0; row < p.b; ++row) state_indices.set_int(row, indices[static_cast<size_t>(row)]);
  kda::fill_rows(x, random, -1.5F, 1.5F, p.c, [&](int64_t token) {
    return !kda::is_padding(indices[static_cast<size_t>(token / p.n)], p.null_slot, p.slots);
  });
  kda::fill_uniform(weight, random, -0.7F, 0.7F);
  kda::fill_uniform(bias, random, -0.5F, 0.5F);
  kda::fill_pool(conv_state, random, -1.5F, 1.5F, p.conv_slot_stride, kda::kHistory * p.c, indices);
}

std::vector<NamedTensor> CausalConv1dUpdateCase::tensors() {
  return {{"x", &x},
          {"weight", &weight},
          {"bias", &bias},
          {"conv_state", &conv_state, true},
          {"state_indices", &state_indices},
          {"output", &output, true}};
}

Status CausalConv1dUpdateCase::upload(Device device) {
  output.poison();
  for (const NamedTensor& named : tensors()) SILT_TRY(named.tensor->to_device(device));
  conv_state_before_ = conv_state;
  output_before_ = output.bytes();
  return {};
}

CausalConv1dUpdateArgs CausalConv1dUpdateCase::args() const {
  return {x.view(),
          weight.view(),
          bias.view(),
          conv_state.view(),
          state_indices.view(),
          output.view(),
          static_cast<int32_t>(problem.null_slot)};
}

Status CausalConv1dUpdateCase::download() {
  SILT_TRY(conv_state.from_device());
  return output.from_device();
}

Status CausalConv1dUpdateCase::run(Device device, const Launch& launch) {
  SILT_TRY(upload(device));
  SILT_TRY(causal_conv1d_update(args(), launch));
  SILT_TRY(synchronize(device, launch.stream));
  return download();
}

template <class Act>
Verdict CausalConv1dUpdateCase::verify_rows() {
  const CausalConv1dUpdateProblem& p = problem;
  const CausalConv1dUpdateArgs before = {x.host_view(),
                                         weight.host_view(),
                                         bias.host_view(),
                                         conv_state_before_.host_view(),
                                         state_indices.host_view(),
                                         output.host_view(),
                                         static_cast<int32_t>(p.null_slot)};
  CausalConv1dUpdateArgs after = before;
  after.conv_state = conv_state.host_view();
  const int64_t per_part = p.c / kda::kParts;
  CausalConv1dUpdateResult<double, Act> exact;
  Verdict verdict;
  for (int64_t row = 0; row < p.b; ++row) {
    const int64_t slot = causal_conv1d_update_index(before, row);
    const bool padding = kda::is_padding(slot, p.null_slot, p.slots);
    for (int64_t c = 0; c < p.c; ++c) {
      const auto got = [&](int64_t t) { return static_cast<double>(output.get((row * p.n + t) * p.c + c)); };
      if (padding) {
        for (int64_t t = 0; t < p.n; ++t) {
          if (!(got(t) == 0))
            verdict.fail(fmt::format("output[{}, {}, {}]: has {}, needs 0: padding", row, t, c, got(t)));
        }
        continue;
      }
      causal_conv1d_update_reference(p, before, row, c, slot, &exact);
      const auto z = [&](int64_t t) { return exact.z[static_cast<size_t>(t)]; };
      const auto slack = [&](int64_t t) { return kda::conv_error(exact.magnitude[static_cast<size_t>(t)], z(t)); };
      verdict.merge(expect_output(fmt::format("output of row {} channel {}", row, c), p.output, p.n, got, z, slack, 1));
      const auto history = causal_conv1d_update_history<Act>(p, after, slot);
      std::array<Act, static_cast<size_t>(kda::kHistory)> has;
      for (int64_t step = 0; step < kda::kHistory; ++step) {
        has[static_cast<size_t>(step)] = history.at(c / per_part, step, c % per_part);
      }
      verdict.merge(expect_bitwise(fmt::format("history of row {} channel {}", row, c), std::as_bytes(std::span(has)),
                                   std::as_bytes(std::span(exact.history))));
    }
  }
  return verdict;
}

Verdict CausalConv1dUpdateCase::verify() {
  const CausalConv1dUpdateProblem& p = problem;
  Verdict verdict = p.dtype == DType::bf16 ? verify_rows<bf16>() : verify_rows<float>();
  std::vector<int32_t> indices;
  for (int64_t row = 0; row < p.b; ++row) indices.push_back(state_indices.get_int(row));
  verdict.merge(kda::expect_only_live_slots("conv_state", conv_state, conv_state_before_.bytes(), indices, p.null_slot,
                                            p.conv_slot_stride, kda::kHistory * p.c));
  verdict.merge(output.outside_untouched("output", output_before_));
  return verdict;
}

std::vector<std::string> causal_conv1d_update_check_lines() {
  return {
      "causal_conv1d_update b=5 c=1152",
      "causal_conv1d_update b=1 c=384",
      "causal_conv1d_update b=2 c=36864",
      "causal_conv1d_update b=3 c=4608 layout=ds",
      "causal_conv1d_update b=67 c=384 padded=9 slots=97",
      "causal_conv1d_update b=13 c=384 padded=4 slots=40 null=-1",
      "causal_conv1d_update b=4 c=384 padded=4",
      // Channel counts that fill no vector and no block.
      "causal_conv1d_update b=4 c=3 align=2",
      "causal_conv1d_update b=4 c=51 layout=ds align=2",
      "causal_conv1d_update b=4 c=405 align=2",
      "causal_conv1d_update b=4 c=387 bias=1 align=2",
      // Parts around a vector of 16, a pair of 32 and a block of 128 channels, and a prime.
      "causal_conv1d_update b=2 c=45 align=2",
      "causal_conv1d_update b=2 c=48 align=2",
      "causal_conv1d_update b=2 c=93 bias=1 align=2",
      "causal_conv1d_update b=2 c=96",
      "causal_conv1d_update b=2 c=99 align=2",
      "causal_conv1d_update b=2 n=5 c=381 dtype=f32 align=4",
      "causal_conv1d_update b=2 c=774 output=f32 align=4",
      // Several tokens, fewer and more than the history holds.
      "causal_conv1d_update b=4 n=2 c=768",
      "causal_conv1d_update b=4 n=3 c=768 layout=ds",
      "causal_conv1d_update b=4 n=4 c=768 bias=1",
      "causal_conv1d_update b=3 n=9 c=405 padded=1 align=2",
      // Types: the chain may keep fp32 between its steps.
      "causal_conv1d_update b=4 c=768 output=f32",
      "causal_conv1d_update b=4 n=2 c=768 dtype=f32",
      "causal_conv1d_update b=4 c=768 dtype=f32 output=bf16 layout=ds",
      // Strides and alignments.
      "causal_conv1d_update b=4 c=384 x_stride=1024 output_stride=512 conv_slot_stride=4096",
      "causal_conv1d_update b=4 n=3 c=384 x_token_stride=391 output_token_stride=401 align=2",
      "causal_conv1d_update b=4 n=3 c=384 x_token_stride=391 x_stride=2001 output_stride=1999 conv_slot_stride=1155 "
      "layout=ds align=2",
      "causal_conv1d_update b=4 n=2 c=384 x_stride=384 x_token_stride=1536",
      "causal_conv1d_update b=4 c=384 align=4 bias=1",
      "causal_conv1d_update b=4 c=384 align=8",
  };
}

Operator causal_conv1d_update_operator() {
  return operator_of<CausalConv1dUpdateCase, causal_conv1d_update_list, causal_conv1d_update_check_lines>();
}

}  // namespace silt
