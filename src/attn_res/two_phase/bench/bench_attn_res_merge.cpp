// attn_res_merge as silt-bench measures it: K sets of prefix, delta, statistics, mix, slot and output; the weights are
// one set for all, as they stay in cache between the tokens of a batch and count no bytes (contract.md).
#include <cmath>

#include "attn_res/two_phase/bench/bench_attn_res_two_phase.hpp"
#include "attn_res/two_phase/cases.hpp"
#include "bench/gpu_protocol.hpp"
#include "bench/movers.hpp"
#include "bench/set_arena.hpp"
#include "core/status.hpp"
#include "core/workers.hpp"

namespace silt::bench {
namespace {

constexpr int64_t kVerifiedTokens = 32;
constexpr float kRange = 1.5F;

class MergeSubject : public Subject {
 public:
  explicit MergeSubject(const AttnResMergeProblem& problem)
      : p_(problem), element_(bytes_of(problem.dtype)), mix_element_(bytes_of(problem.partial)) {
    prefix_ = arena_.add(element_ * p_.t * p_.prefix_stride);
    delta_ = arena_.add(p_.delta ? element_ * p_.t * p_.delta_stride : 0);
    statistics_ = arena_.add(kFloat * p_.t * p_.statistics_stride);
    mix_ = arena_.add(mix_element_ * p_.t * p_.mix_stride);
    slot_ = arena_.add(p_.write ? element_ * p_.t * p_.slot_stride : 0);
    output_ = arena_.add(element_ * p_.t * p_.output_stride);
    norm_weight_ = arena_.add(kHalf * p_.d, true);
    qk_weight_ = arena_.add(kHalf * p_.d, true);
    output_norm_weight_ = arena_.add(kHalf * p_.d, true);
  }

  [[nodiscard]] std::string line() const override { return p_.line(); }
  [[nodiscard]] int64_t bytes() const override { return silt::bytes(p_); }
  [[nodiscard]] int64_t flops() const override { return silt::flops(p_); }
  [[nodiscard]] int64_t calls_per_step() const override { return 187; }  // two per layer and a final one
  [[nodiscard]] int64_t live_bytes() const override {
    return p_.t * p_.d * (element_ * (2 + (p_.delta ? 1 : 0) + (p_.write ? 1 : 0)) + mix_element_);
  }
  [[nodiscard]] int64_t set_bytes() const override { return arena_.set_bytes(); }

  Status make_sets(Device device, int64_t count) override;
  Status launch(std::string_view kernel, int64_t set, const Launch& launch) override;
  Status verify(std::string_view kernel, const Launch& launch, Verified* verified) override;
  [[nodiscard]] std::vector<Mover> movers(DeviceKind device) override;

 private:
  static constexpr int64_t kFloat = sizeof(float);
  static constexpr int64_t kHalf = sizeof(bf16);

  static int64_t bytes_of(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }
  [[nodiscard]] AttnResMergeArgs args(int64_t set) const;
  [[nodiscard]] TensorView rows(int tensor, int64_t set, DType dtype, int64_t columns, int64_t stride) const;
  /// Row t of set 0 to row `to` of a case's tensor.
  Status read_row(int tensor, int64_t t, int64_t stride, CaseTensor& into, int64_t to) const;
  Status read_inputs(const std::vector<int64_t>& tokens, AttnResMergeCase& c) const;
  Status read_outputs(const std::vector<int64_t>& tokens, AttnResMergeCase& c) const;
  [[nodiscard]] MovedToken moved_token(int64_t set, int64_t t) const;
  [[nodiscard]] gpu::RowMover gpu_mover(int64_t set) const;

  AttnResMergeProblem p_;
  int64_t element_;
  int64_t mix_element_;
  SetArena arena_;
  int prefix_, delta_, statistics_, mix_, slot_, output_, norm_weight_, qk_weight_, output_norm_weight_;
};

TensorView MergeSubject::rows(int tensor, int64_t set, DType dtype, int64_t columns, int64_t stride) const {
  TensorView v = view(reinterpret_cast<float*>(arena_.at(tensor, set)), {p_.t, columns}, {stride, 1}, arena_.device());
  v.dtype = dtype;
  return v;
}

AttnResMergeArgs MergeSubject::args(int64_t set) const {
  AttnResMergeArgs a;
  a.prefix = rows(prefix_, set, p_.dtype, p_.d, p_.prefix_stride);
  if (p_.delta) a.delta = rows(delta_, set, p_.dtype, p_.d, p_.delta_stride);
  a.statistics = rows(statistics_, set, DType::f32, 2, p_.statistics_stride);
  a.mix = rows(mix_, set, p_.partial, p_.d, p_.mix_stride);
  if (p_.write) a.slot = rows(slot_, set, p_.dtype, p_.d, p_.slot_stride);
  const auto weight = [&](int tensor) {
    return view(reinterpret_cast<bf16*>(arena_.at(tensor, 0)), {p_.d}, {}, arena_.device());
  };
  a.norm_weight = weight(norm_weight_);
  a.qk_weight = weight(qk_weight_);
  if (p_.norm) a.output_norm_weight = weight(output_norm_weight_);
  a.output = rows(output_, set, p_.dtype, p_.d, p_.output_stride);
  a.stable_partials = p_.stable;
  return a;
}

Status MergeSubject::make_sets(Device device, int64_t count) {
  SILT_TRY(arena_.allocate(device, count));
  SILT_TRY(arena_.fill(prefix_, p_.dtype, -kRange, kRange, 1));
  SILT_TRY(arena_.fill(delta_, p_.dtype, -kRange, kRange, 2));
  SILT_TRY(arena_.fill(statistics_, DType::f32, 1, 2, 3));  // a denominator is at least 1
  SILT_TRY(arena_.fill(mix_, p_.partial, -kRange, kRange, 4));
  SILT_TRY(arena_.fill(slot_, p_.dtype, -kRange, kRange, 5));
  SILT_TRY(arena_.fill(output_, p_.dtype, -kRange, kRange, 6));
  SILT_TRY(arena_.fill(norm_weight_, DType::bf16, 0.7F, 1.3F, 7));
  const float qk = 3.0F / std::sqrt(static_cast<float>(p_.d));  // logits with a standard deviation near 1.7
  SILT_TRY(arena_.fill(qk_weight_, DType::bf16, -qk, qk, 8));
  return arena_.fill(output_norm_weight_, DType::bf16, 0.3F, 1.7F, 9);
}

Status MergeSubject::launch(std::string_view kernel, int64_t set, const Launch& launch) {
  Launch named = launch;
  named.policy = Policy::require(kernel);
  return attn_res_merge(args(set), named);
}

Status MergeSubject::read_row(int tensor, int64_t t, int64_t stride, CaseTensor& into, int64_t to) const {
  if (!into.present()) return {};
  const auto element = static_cast<int64_t>(size_of(into.dtype()));
  const int64_t bytes = into.shape().back() * element;
  return arena_.download(tensor, 0, t * stride * element, into.host<std::byte>() + to * bytes, bytes);
}

Status MergeSubject::read_inputs(const std::vector<int64_t>& tokens, AttnResMergeCase& c) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto to = static_cast<int64_t>(i);
    SILT_TRY(read_row(prefix_, tokens[i], p_.prefix_stride, c.prefix, to));
    SILT_TRY(read_row(delta_, tokens[i], p_.delta_stride, c.delta, to));
    SILT_TRY(read_row(statistics_, tokens[i], p_.statistics_stride, c.statistics, to));
    SILT_TRY(read_row(mix_, tokens[i], p_.mix_stride, c.mix, to));
  }
  SILT_TRY(read_row(norm_weight_, 0, 0, c.norm_weight, 0));
  SILT_TRY(read_row(qk_weight_, 0, 0, c.qk_weight, 0));
  return read_row(output_norm_weight_, 0, 0, c.output_norm_weight, 0);
}

Status MergeSubject::read_outputs(const std::vector<int64_t>& tokens, AttnResMergeCase& c) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto to = static_cast<int64_t>(i);
    SILT_TRY(read_row(prefix_, tokens[i], p_.prefix_stride, c.prefix, to));
    SILT_TRY(read_row(slot_, tokens[i], p_.slot_stride, c.slot, to));
    SILT_TRY(read_row(output_, tokens[i], p_.output_stride, c.output, to));
  }
  return {};
}

Status MergeSubject::verify(std::string_view kernel, const Launch& launch_options, Verified* verified) {
  const std::vector<int64_t> tokens = two_phase_tokens(p_.t, kVerifiedTokens);
  AttnResMergeProblem few = p_;
  few.t = static_cast<int64_t>(tokens.size());
  few.prefix_stride = few.mix_stride = few.output_stride = p_.d;
  few.delta_stride = p_.delta ? p_.d : 0;
  few.slot_stride = p_.write ? p_.d : 0;
  few.statistics_stride = 2;
  AttnResMergeCase c(few, 1);
  SILT_TRY(read_inputs(tokens, c));
  SILT_TRY(c.upload({}));  // keeps the inputs, poisons the outputs
  const std::vector<std::byte> poison(static_cast<size_t>(p_.d * element_), std::byte{0xff});
  for (const int64_t t : tokens) {
    const auto bytes = static_cast<int64_t>(poison.size());
    SILT_TRY(arena_.upload(output_, 0, t * p_.output_stride * element_, poison.data(), bytes));
    if (p_.write) SILT_TRY(arena_.upload(slot_, 0, t * p_.slot_stride * element_, poison.data(), bytes));
  }
  SILT_TRY(launch(kernel, 0, launch_options));
  SILT_TRY(synchronize(arena_.device(), launch_options.stream));
  SILT_TRY(read_outputs(tokens, c));
  verified->verdict = c.verify();
  verified->what = few.t == p_.t ? "all rows" : fmt::format("{} of {} rows", few.t, p_.t);
  return {};
}

/// A merge moves what attn_res with one bank row moves; an fp32 mix beside bf16 activations is two rows.
MovedToken MergeSubject::moved_token(int64_t set, int64_t t) const {
  MovedToken token;
  token.row_bytes = p_.d * element_;
  token.bank = arena_.at(mix_, set) + t * p_.mix_stride * mix_element_;
  token.rows = mix_element_ / element_;
  token.slot_stride = token.row_bytes;
  token.prefix = arena_.at(prefix_, set) + t * p_.prefix_stride * element_;
  if (p_.delta) token.delta = arena_.at(delta_, set) + t * p_.delta_stride * element_;
  if (p_.write) token.slot = arena_.at(slot_, set) + t * p_.slot_stride * element_;
  token.output = arena_.at(output_, set) + t * p_.output_stride * element_;
  return token;
}

gpu::RowMover MergeSubject::gpu_mover(int64_t set) const {
  gpu::RowMover m;
  m.prefix = arena_.at(prefix_, set);
  if (p_.delta) m.delta = arena_.at(delta_, set);
  m.bank = arena_.at(mix_, set);
  if (p_.write) m.slot = reinterpret_cast<char*>(arena_.at(slot_, set));
  m.output = arena_.at(output_, set);
  m.prefix_stride = p_.prefix_stride * element_;
  m.delta_stride = p_.delta_stride * element_;
  m.bank_token_stride = p_.mix_stride * mix_element_;
  m.bank_slot_stride = p_.d * element_;
  m.output_stride = p_.output_stride * element_;
  m.tokens = p_.t;
  m.row_bytes = p_.d * element_;
  m.rows = static_cast<int>(mix_element_ / element_);
  return m;
}

std::vector<Mover> MergeSubject::movers(DeviceKind device) {
  std::vector<Mover> movers;
  const auto moved = static_cast<double>(bytes());
  // Movers load and store whole vectors: 64 bytes on a CPU, 16 on a GPU. The GPU's writes a slot where its bank is.
  const int64_t vector = device == DeviceKind::cpu ? 64 : 16;
  for (const int64_t bytes : {p_.d * element_, p_.prefix_stride * element_, p_.delta_stride * element_,
                              p_.mix_stride * mix_element_, p_.slot_stride * element_, p_.output_stride * element_}) {
    if (bytes % vector != 0) return movers;
  }
  if (device == DeviceKind::cuda) {
    if (p_.write && p_.slot_stride * element_ != p_.mix_stride * mix_element_) return movers;
    for (int variant = 0; variant < gpu::kRowMovers; ++variant) {
      movers.push_back({gpu::row_mover_name(variant), moved, [this, variant](int64_t set, const Launch& launch) {
                          return gpu::launch_row_mover(gpu_mover(set), variant, arena_.device(), launch);
                        }});
    }
    return movers;
  }
  for (const bool ahead : {false, true}) {
    movers.push_back({ahead ? "mover_ahead" : "mover", moved, [this, ahead](int64_t set, const Launch& launch) {
                        parallel_ranges(p_.t, launch.threads, [&](int64_t begin, int64_t end) {
                          for (int64_t t = begin; t < end; ++t) move_token(moved_token(set, t), ahead);
                        });
                        return Status{};
                      }});
  }
  return movers;
}

Status make(const ProblemLine& line, std::unique_ptr<Subject>* subject) {
  AttnResMergeProblem problem;
  SILT_TRY(AttnResMergeProblem::parse(line, &problem));
  if (problem.align != 16) {
    return invalid("attn_res_merge: align: has {}, needs 16 (silt-bench measures aligned tensors)", problem.align);
  }
  if (problem.t < 1) return invalid("attn_res_merge: t: has {}, needs at least 1 to be measured", problem.t);
  *subject = std::make_unique<MergeSubject>(problem);
  return {};
}

}  // namespace

Room attn_res_merge_room() { return {"attn_res_merge", {}, make}; }

}  // namespace silt::bench
