// attn_res_partials as silt-bench measures it: K sets of bank, statistics and mix; the weights are one set for all, as
// they stay in cache between the tokens of a batch and count no bytes (contract.md).
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

constexpr int64_t kVerifiedTokens = 16;
constexpr float kRange = 1.5F;

class PartialsSubject : public Subject {
 public:
  explicit PartialsSubject(const AttnResPartialsProblem& problem)
      : p_(problem), element_(bytes_of(problem.dtype)), mix_element_(bytes_of(problem.partial)) {
    blocks_ =
        arena_.add(element_ * ((p_.t - 1) * p_.block_token_stride + (p_.slots - 1) * p_.block_slot_stride + p_.d));
    statistics_ =
        arena_.add(kFloat * ((p_.q - 1) * p_.statistics_query_stride + (p_.t - 1) * p_.statistics_token_stride + 2));
    mix_ = arena_.add(mix_element_ * ((p_.q - 1) * p_.mix_query_stride + (p_.t - 1) * p_.mix_token_stride + p_.d));
    norm_weight_ = arena_.add(kHalf * (p_.q - 1) * p_.norm_weight_stride + kHalf * p_.d, true);
    qk_weight_ = arena_.add(kHalf * (p_.q - 1) * p_.qk_weight_stride + kHalf * p_.d, true);
  }

  [[nodiscard]] std::string line() const override { return p_.line(); }
  [[nodiscard]] int64_t bytes() const override { return silt::bytes(p_); }
  [[nodiscard]] int64_t flops() const override { return silt::flops(p_); }
  [[nodiscard]] int64_t calls_per_step() const override { return 24; }  // three per depth block of Kimi-K3
  [[nodiscard]] int64_t live_bytes() const override { return silt::bytes(p_); }
  [[nodiscard]] int64_t set_bytes() const override { return arena_.set_bytes(); }

  Status make_sets(Device device, int64_t count) override;
  Status launch(std::string_view kernel, int64_t set, const Launch& launch) override;
  Status verify(std::string_view kernel, const Launch& launch, Verified* verified) override;
  [[nodiscard]] std::vector<Mover> movers(DeviceKind device) override;

 private:
  static constexpr int64_t kFloat = sizeof(float);
  static constexpr int64_t kHalf = sizeof(bf16);

  static int64_t bytes_of(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }
  [[nodiscard]] AttnResPartialsArgs args(int64_t set) const;
  [[nodiscard]] TensorView view_of(int tensor, int64_t set, DType dtype, std::initializer_list<int64_t> shape,
                                   std::initializer_list<int64_t> stride) const;
  /// The few tokens of set 0 to a case that the oracle compares, and back.
  Status read_inputs(const std::vector<int64_t>& tokens, AttnResPartialsCase& c) const;
  Status poison_outputs(const std::vector<int64_t>& tokens) const;
  Status read_outputs(const std::vector<int64_t>& tokens, AttnResPartialsCase& c) const;
  void move_token(int64_t set, int64_t t) const;
  [[nodiscard]] gpu::SweepMover gpu_mover(int64_t set) const;

  AttnResPartialsProblem p_;
  int64_t element_;
  int64_t mix_element_;
  SetArena arena_;
  int blocks_, statistics_, mix_, norm_weight_, qk_weight_;
};

TensorView PartialsSubject::view_of(int tensor, int64_t set, DType dtype, std::initializer_list<int64_t> shape,
                                    std::initializer_list<int64_t> stride) const {
  TensorView v = view(reinterpret_cast<float*>(arena_.at(tensor, set)), shape, stride, arena_.device());
  v.dtype = dtype;
  return v;
}

AttnResPartialsArgs PartialsSubject::args(int64_t set) const {
  AttnResPartialsArgs a;
  a.blocks = view_of(blocks_, set, p_.dtype, {p_.t, p_.slots, p_.d}, {p_.block_token_stride, p_.block_slot_stride, 1});
  a.norm_weight = view_of(norm_weight_, 0, DType::bf16, {p_.q, p_.d}, {p_.norm_weight_stride, 1});
  a.qk_weight = view_of(qk_weight_, 0, DType::bf16, {p_.q, p_.d}, {p_.qk_weight_stride, 1});
  a.num_blocks = p_.n;
  a.statistics = view_of(statistics_, set, DType::f32, {p_.q, p_.t, 2},
                         {p_.statistics_query_stride, p_.statistics_token_stride, 1});
  a.mix = view_of(mix_, set, p_.partial, {p_.q, p_.t, p_.d}, {p_.mix_query_stride, p_.mix_token_stride, 1});
  a.stable_blocks = p_.stable;
  return a;
}

Status PartialsSubject::make_sets(Device device, int64_t count) {
  SILT_TRY(arena_.allocate(device, count));
  SILT_TRY(arena_.fill(blocks_, p_.dtype, -kRange, kRange, 1));
  SILT_TRY(arena_.fill(statistics_, DType::f32, -kRange, kRange, 2));
  SILT_TRY(arena_.fill(mix_, p_.partial, -kRange, kRange, 3));
  SILT_TRY(arena_.fill(norm_weight_, DType::bf16, 0.7F, 1.3F, 4));
  const float qk = 3.0F / std::sqrt(static_cast<float>(p_.d));  // logits with a standard deviation near 1.7
  return arena_.fill(qk_weight_, DType::bf16, -qk, qk, 5);
}

Status PartialsSubject::launch(std::string_view kernel, int64_t set, const Launch& launch) {
  Launch named = launch;
  named.policy = Policy::require(kernel);
  return attn_res_partials(args(set), named);
}

Status PartialsSubject::read_inputs(const std::vector<int64_t>& tokens, AttnResPartialsCase& c) const {
  const int64_t row = p_.d * element_;
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (int64_t slot = 0; slot < p_.n; ++slot) {
      const int64_t from = tokens[i] * p_.block_token_stride + slot * p_.block_slot_stride;
      std::byte* to = c.blocks.host<std::byte>() + (static_cast<int64_t>(i) * p_.n + slot) * row;
      SILT_TRY(arena_.download(blocks_, 0, from * element_, to, row));
    }
  }
  for (int64_t q = 0; q < p_.q; ++q) {
    SILT_TRY(arena_.download(norm_weight_, 0, kHalf * q * p_.norm_weight_stride, c.norm_weight.host<bf16>() + q * p_.d,
                             kHalf * p_.d));
    SILT_TRY(arena_.download(qk_weight_, 0, kHalf * q * p_.qk_weight_stride, c.qk_weight.host<bf16>() + q * p_.d,
                             kHalf * p_.d));
  }
  return {};
}

Status PartialsSubject::poison_outputs(const std::vector<int64_t>& tokens) const {
  const std::vector<std::byte> poison(static_cast<size_t>(p_.d * mix_element_), std::byte{0xff});
  for (const int64_t t : tokens) {
    for (int64_t q = 0; q < p_.q; ++q) {
      SILT_TRY(arena_.upload(mix_, 0, (q * p_.mix_query_stride + t * p_.mix_token_stride) * mix_element_, poison.data(),
                             p_.d * mix_element_));
      const float nan = std::nanf("");
      const float pair[] = {nan, nan};
      SILT_TRY(arena_.upload(statistics_, 0, kFloat * (q * p_.statistics_query_stride + t * p_.statistics_token_stride),
                             pair, sizeof pair));
    }
  }
  return {};
}

Status PartialsSubject::read_outputs(const std::vector<int64_t>& tokens, AttnResPartialsCase& c) const {
  const auto count = static_cast<int64_t>(tokens.size());
  for (int64_t q = 0; q < p_.q; ++q) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t t = tokens[static_cast<size_t>(i)];
      const int64_t at = q * count + i;
      SILT_TRY(arena_.download(mix_, 0, (q * p_.mix_query_stride + t * p_.mix_token_stride) * mix_element_,
                               c.mix.host<std::byte>() + at * p_.d * mix_element_, p_.d * mix_element_));
      SILT_TRY(arena_.download(statistics_, 0,
                               kFloat * (q * p_.statistics_query_stride + t * p_.statistics_token_stride),
                               c.statistics.host<float>() + at * 2, 2 * kFloat));
    }
  }
  return {};
}

Status PartialsSubject::verify(std::string_view kernel, const Launch& launch_options, Verified* verified) {
  const std::vector<int64_t> tokens = two_phase_tokens(p_.t, kVerifiedTokens);
  AttnResPartialsProblem few;
  few.t = static_cast<int64_t>(tokens.size());
  few.q = p_.q;
  few.n = few.slots = p_.n;
  few.d = few.block_slot_stride = few.norm_weight_stride = few.qk_weight_stride = few.mix_token_stride = p_.d;
  few.dtype = p_.dtype;
  few.partial = p_.partial;
  few.block_token_stride = p_.n * p_.d;
  few.statistics_token_stride = 2;
  few.statistics_query_stride = 2 * few.t;
  few.mix_query_stride = few.t * p_.d;
  AttnResPartialsCase c(few, 1);
  SILT_TRY(read_inputs(tokens, c));
  SILT_TRY(c.upload({}));  // keeps the inputs, poisons the outputs
  SILT_TRY(poison_outputs(tokens));
  SILT_TRY(launch(kernel, 0, launch_options));
  SILT_TRY(synchronize(arena_.device(), launch_options.stream));
  SILT_TRY(read_outputs(tokens, c));
  verified->verdict = c.verify();
  verified->what = few.t == p_.t ? "all rows" : fmt::format("{} of {} tokens", few.t, p_.t);
  return {};
}

/// Every bank row read, every mix row written past the caches; a bank row that is copied twice is in cache by then.
void PartialsSubject::move_token(int64_t set, int64_t t) const {
  const std::byte* bank = arena_.at(blocks_, set) + t * p_.block_token_stride * element_;
  std::byte* mix = arena_.at(mix_, set) + t * p_.mix_token_stride * mix_element_;
  for (int64_t i = 0; i < std::max(p_.q, p_.n); ++i) {
    const std::byte* source = bank + i % p_.n * p_.block_slot_stride * element_;
    if (i < p_.q) {
      std::byte* target = mix + i * p_.mix_query_stride * mix_element_;
      for (int64_t at = 0; at < p_.d * mix_element_; at += p_.d * element_) {
        copy_nontemporal(target + at, source, p_.d * element_);
      }
    } else {
      read_only(source, p_.d * element_);
    }
  }
}

gpu::SweepMover PartialsSubject::gpu_mover(int64_t set) const {
  gpu::SweepMover m;
  m.bank = arena_.at(blocks_, set);
  m.mix = arena_.at(mix_, set);
  m.bank_token_stride = p_.block_token_stride * element_;
  m.bank_slot_stride = p_.block_slot_stride * element_;
  m.mix_query_stride = p_.mix_query_stride * mix_element_;
  m.mix_token_stride = p_.mix_token_stride * mix_element_;
  m.tokens = p_.t;
  m.row_bytes = p_.d * element_;
  m.rows = static_cast<int>(p_.n);
  m.queries = static_cast<int>(p_.q);
  m.widths = static_cast<int>(mix_element_ / element_);
  return m;
}

std::vector<Mover> PartialsSubject::movers(DeviceKind device) {
  // Movers load and store whole vectors: 64 bytes on a CPU, 16 on a GPU.
  const int64_t vector = device == DeviceKind::cpu ? 64 : 16;
  for (const int64_t bytes : {p_.d * element_, p_.block_token_stride * element_, p_.block_slot_stride * element_,
                              p_.mix_query_stride * mix_element_, p_.mix_token_stride * mix_element_}) {
    if (bytes % vector != 0) return {};
  }
  if (device == DeviceKind::cuda) {
    std::vector<Mover> movers;
    if (p_.n > gpu::kMaxMoverRows) return movers;
    for (int variant = 0; variant < gpu::kSweepMovers; ++variant) {
      movers.push_back({gpu::sweep_mover_name(variant), static_cast<double>(bytes()),
                        [this, variant](int64_t set, const Launch& launch) {
                          return gpu::launch_sweep_mover(gpu_mover(set), variant, arena_.device(), launch);
                        }});
    }
    return movers;
  }
  return {{"mover", static_cast<double>(bytes()), [this](int64_t set, const Launch& launch) {
             parallel_ranges(p_.t, launch.threads, [&](int64_t begin, int64_t end) {
               for (int64_t t = begin; t < end; ++t) move_token(set, t);
             });
             return Status{};
           }}};
}

Status make(const ProblemLine& line, std::unique_ptr<Subject>* subject) {
  AttnResPartialsProblem problem;
  SILT_TRY(AttnResPartialsProblem::parse(line, &problem));
  if (problem.align != 16) {
    return invalid("attn_res_partials: align: has {}, needs 16 (silt-bench measures aligned tensors)", problem.align);
  }
  if (problem.t < 1) return invalid("attn_res_partials: t: has {}, needs at least 1 to be measured", problem.t);
  *subject = std::make_unique<PartialsSubject>(problem);
  return {};
}

}  // namespace

Room attn_res_partials_room() { return {"attn_res_partials", {}, make}; }

}  // namespace silt::bench
