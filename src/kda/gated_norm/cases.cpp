#include "kda/gated_norm/cases.hpp"

#include "core/status.hpp"
#include "kda/gated_norm/list.hpp"
#include "kda/gated_norm/reference.hpp"
#include "kda/shared/case_pool.hpp"
#include "proof/operator_of.hpp"

namespace silt {

RmsNormGatedCase::RmsNormGatedCase(const RmsNormGatedProblem& p, uint64_t seed) : problem(p) {
  x = CaseTensor(p.x, {p.t, p.h, kda::kDim}, {p.x_stride, kda::kDim, 1}, kda::case_shift(p.x, p.align));
  gate = CaseTensor(p.gate, {p.t, p.h, kda::kDim}, {p.gate_stride, kda::kDim, 1}, kda::case_shift(p.gate, p.align));
  weight = CaseTensor(DType::f32, {kda::kDim}, {}, kda::case_shift(DType::f32, p.align));
  output =
      CaseTensor(p.output, {p.t, p.h, kda::kDim}, {p.output_stride, kda::kDim, 1}, kda::case_shift(p.output, p.align));
  Random random(seed);
  kda::fill_uniform(x, random, -1.5F, 1.5F);
  kda::fill_uniform(gate, random, -3.0F, 3.0F);
  kda::fill_uniform(weight, random, 0.3F, 1.7F);
}

std::vector<NamedTensor> RmsNormGatedCase::tensors() {
  return {{"x", &x}, {"gate", &gate}, {"weight", &weight}, {"output", &output, true}};
}

Status RmsNormGatedCase::upload(Device device) {
  output.poison();
  for (const NamedTensor& named : tensors()) SILT_TRY(named.tensor->to_device(device));
  output_before_ = output.bytes();
  return {};
}

RmsNormGatedArgs RmsNormGatedCase::args() const {
  return {x.view(), gate.view(), weight.view(), eps, problem.activation, output.view()};
}

Status RmsNormGatedCase::download() { return output.from_device(); }

Status RmsNormGatedCase::run(Device device, const Launch& launch) {
  SILT_TRY(upload(device));
  SILT_TRY(rms_norm_gated(args(), launch));
  SILT_TRY(synchronize(device, launch.stream));
  return download();
}

Verdict RmsNormGatedCase::verify() {
  const RmsNormGatedProblem& p = problem;
  const RmsNormGatedArgs host = {x.host_view(), gate.host_view(), weight.host_view(),
                                 eps,           p.activation,     output.host_view()};
  Verdict verdict;
  for (int64_t row = 0; row < p.t; ++row) {
    for (int64_t head = 0; head < p.h; ++head) {
      const auto exact = rms_norm_gated_reference<double>(p, host, row, head);
      const auto in = kda::load_head<double>(host.x.data, p.x, rms_norm_gated_at(p.x_stride, row, head));
      const auto open = kda::load_head<double>(host.gate.data, p.gate, rms_norm_gated_at(p.gate_stride, row, head));
      const auto slack =
          kda::norm_error(in, {}, exact, open, static_cast<const float*>(host.weight.data), eps, p.activation);
      const auto got = kda::load_head<float>(host.output.data, p.output, rms_norm_gated_at(p.output_stride, row, head));
      verdict.merge(kda::expect_head(
          fmt::format("row {} head {} output", row, head), p.output,
          [&](int64_t i) { return got[static_cast<size_t>(i)]; }, exact, slack));
    }
  }
  verdict.merge(kda::expect_only_rows("output", output, output_before_, p.t, p.output_stride, p.p()));
  return verdict;
}

std::vector<std::string> rms_norm_gated_check_lines() {
  return {
      "rms_norm_gated t=5 h=12",
      "rms_norm_gated t=5 h=12 act=silu",
      "rms_norm_gated t=1 h=1",
      "rms_norm_gated t=7 h=3 act=silu",
      "rms_norm_gated t=2 h=96",
      "rms_norm_gated t=3 h=32 act=silu",
      "rms_norm_gated t=257 h=2",
      // Every pair of types that the chain uses, and exact mode.
      "rms_norm_gated t=4 h=3 x=f32",
      "rms_norm_gated t=4 h=3 x=f32 output=f32",
      "rms_norm_gated t=4 h=3 output=f32",
      "rms_norm_gated t=4 h=3 gate=f32",
      "rms_norm_gated t=4 h=3 x=f32 gate=f32 output=f32",
      "rms_norm_gated t=4 h=3 x=f32 gate=f32 output=f32 act=silu",
      "rms_norm_gated t=4 h=3 x=f32 gate=f32",
      "rms_norm_gated t=4 h=3 gate=f32 output=f32",
      // Strides and alignments.
      "rms_norm_gated t=6 h=3 x_stride=512 gate_stride=1024 output_stride=640",
      "rms_norm_gated t=6 h=3 x_stride=391 gate_stride=401 output_stride=385 align=2",
      "rms_norm_gated t=6 h=3 x=f32 x_stride=385 gate_stride=386 align=4",
      "rms_norm_gated t=6 h=3 align=4",
      "rms_norm_gated t=6 h=3 align=8",
      "rms_norm_gated t=6 h=3 x_stride=0 gate_stride=0",
  };
}

Operator rms_norm_gated_operator() {
  return operator_of<RmsNormGatedCase, rms_norm_gated_list, rms_norm_gated_check_lines>();
}

}  // namespace silt
