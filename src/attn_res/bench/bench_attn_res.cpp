// attn_res as silt-bench measures it: K sets of prefix, delta, bank and output; the weights are one set for all, as
// they stay in cache between the tokens of a batch and count no bytes (contract.md).
#include "attn_res/bench/bench_attn_res.hpp"

#include <algorithm>
#include <cmath>

#include "attn_res/cases.hpp"
#include "attn_res/problem.hpp"
#include "bench/gpu_protocol.hpp"
#include "bench/movers.hpp"
#include "bench/set_arena.hpp"
#include "core/status.hpp"
#include "core/workers.hpp"
#include "proof/random.hpp"

// The plain kernel compiled once more without vectorisation (bench/CMakeLists.txt): the baseline of the SIMD kernels.
namespace silt::attn_res_cpu_scalar_rows {
Status launch(const AttnResProblem& problem, const AttnResArgs& args, const Launch& launch);
}  // namespace silt::attn_res_cpu_scalar_rows

namespace silt::bench {
namespace {

constexpr int64_t kVerifiedRows = 32;
constexpr float kRange = 1.5F;
constexpr float kEpsilon = 1e-5F;

class AttnResSubject : public Subject {
 public:
  explicit AttnResSubject(const AttnResProblem& problem) : p_(problem), element_(size_of(problem.dtype)) {
    const auto bytes = [&](int64_t elements) { return elements * static_cast<int64_t>(element_); };
    prefix_ = arena_.add(bytes(p_.t * p_.prefix_stride));
    delta_ = arena_.add(bytes(p_.delta ? p_.t * p_.delta_stride : 0));
    blocks_ = arena_.add(bytes(p_.slots > 0 ? bank_elements() : 0));
    output_ = arena_.add(bytes(p_.t * p_.output_stride));
    norm_weight_ = arena_.add(p_.d * 2, true);
    qk_weight_ = arena_.add(p_.d * 2, true);
    output_norm_weight_ = arena_.add(p_.d * 2, true);
  }

  [[nodiscard]] std::string line() const override { return p_.line(); }
  [[nodiscard]] int64_t bytes() const override { return silt::bytes(p_); }
  [[nodiscard]] int64_t flops() const override { return silt::flops(p_); }
  [[nodiscard]] int64_t calls_per_step() const override { return 187; }  // two per layer and a final one
  [[nodiscard]] int64_t live_bytes() const override {
    return p_.t * p_.d * static_cast<int64_t>(element_) * (p_.n + 2 + (p_.delta ? 1 : 0) + (p_.write >= 0 ? 1 : 0));
  }
  [[nodiscard]] int64_t set_bytes() const override { return arena_.set_bytes(); }

  Status make_sets(Device device, int64_t count) override;
  Status launch(std::string_view kernel, int64_t set, const Launch& launch) override;
  Status verify(std::string_view kernel, const Launch& launch, Verified* verified) override;
  [[nodiscard]] std::vector<Mover> movers(DeviceKind device) override;

 private:
  [[nodiscard]] int64_t bank_elements() const {
    return (p_.t - 1) * p_.block_token_stride + (p_.slots - 1) * p_.block_slot_stride + p_.d;
  }
  [[nodiscard]] AttnResArgs args(int64_t set) const;
  [[nodiscard]] TensorView rows(int tensor, int64_t set, int64_t stride) const;
  [[nodiscard]] gpu::RowMover gpu_mover(int64_t set) const;
  Status move_on_cpu(int64_t set, int threads, bool ahead) const;

  // Rows of set 0 to and from a case of the same rows: what the oracle looks at.
  [[nodiscard]] std::vector<int64_t> rows_to_verify() const;
  Status read_row(int tensor, int64_t offset, CaseTensor& into, int64_t row) const;
  Status read_inputs(const std::vector<int64_t>& tokens, AttnResCase& c) const;
  Status read_outputs(const std::vector<int64_t>& tokens, AttnResCase& c) const;
  Status read_weight(int tensor, CaseTensor& into) const;

  AttnResProblem p_;
  size_t element_;
  SetArena arena_;
  int prefix_, delta_, blocks_, output_, norm_weight_, qk_weight_, output_norm_weight_;
};

TensorView AttnResSubject::rows(int tensor, int64_t set, int64_t stride) const {
  TensorView v = view(reinterpret_cast<float*>(arena_.at(tensor, set)), {p_.t, p_.d}, {stride, 1}, arena_.device());
  v.dtype = p_.dtype;
  return v;
}

AttnResArgs AttnResSubject::args(int64_t set) const {
  AttnResArgs a;
  a.prefix = rows(prefix_, set, p_.prefix_stride);
  if (p_.delta) a.delta = rows(delta_, set, p_.delta_stride);
  if (p_.slots > 0) {
    a.blocks = view(reinterpret_cast<float*>(arena_.at(blocks_, set)), {p_.t, p_.slots, p_.d},
                    {p_.block_token_stride, p_.block_slot_stride, 1}, arena_.device());
    a.blocks.dtype = p_.dtype;
  }
  const auto weight = [&](int tensor) {
    return view(reinterpret_cast<bf16*>(arena_.at(tensor, 0)), {p_.d}, {}, arena_.device());
  };
  a.norm_weight = weight(norm_weight_);
  a.qk_weight = weight(qk_weight_);
  if (p_.norm) a.output_norm_weight = weight(output_norm_weight_);
  a.num_blocks = p_.n;
  a.block_write_idx = p_.write;
  a.eps = kEpsilon;
  a.output_norm_eps = kEpsilon;
  a.output = rows(output_, set, p_.output_stride);
  a.stable_blocks = p_.stable;
  return a;
}

Status AttnResSubject::make_sets(Device device, int64_t count) {
  SILT_TRY(arena_.allocate(device, count));
  SILT_TRY(arena_.fill(prefix_, p_.dtype, -kRange, kRange, 1));
  SILT_TRY(arena_.fill(delta_, p_.dtype, -kRange, kRange, 2));
  SILT_TRY(arena_.fill(blocks_, p_.dtype, -kRange, kRange, 3));
  SILT_TRY(arena_.fill(output_, p_.dtype, -kRange, kRange, 4));
  SILT_TRY(arena_.fill(norm_weight_, DType::bf16, 0.7F, 1.3F, 5));
  const float qk = 3.0F / std::sqrt(static_cast<float>(p_.d));  // logits with a standard deviation near 1.7
  SILT_TRY(arena_.fill(qk_weight_, DType::bf16, -qk, qk, 6));
  return arena_.fill(output_norm_weight_, DType::bf16, 0.3F, 1.7F, 7);
}

Status AttnResSubject::launch(std::string_view kernel, int64_t set, const Launch& launch) {
  const AttnResArgs a = args(set);
  if (kernel == kScalarRows) return attn_res_cpu_scalar_rows::launch(p_, a, launch);
  Launch named = launch;
  named.policy = Policy::require(kernel);
  return attn_res(a, named);
}

// ---------------------------------------------------------------- verification

std::vector<int64_t> AttnResSubject::rows_to_verify() const {
  std::vector<int64_t> tokens;
  if (p_.t <= kVerifiedRows) {
    for (int64_t t = 0; t < p_.t; ++t) tokens.push_back(t);
    return tokens;
  }
  // Both ends, where grids and thread ranges are cut, and random ones between.
  Random random(8);
  for (int64_t t = 0; t < 8; ++t) tokens.insert(tokens.end(), {t, p_.t - 1 - t});
  while (static_cast<int64_t>(tokens.size()) < kVerifiedRows) {
    const int64_t t = random.below(p_.t);
    if (std::find(tokens.begin(), tokens.end(), t) == tokens.end()) tokens.push_back(t);
  }
  return tokens;
}

Status AttnResSubject::read_row(int tensor, int64_t offset, CaseTensor& into, int64_t row) const {
  const int64_t bytes = p_.d * static_cast<int64_t>(element_);
  return arena_.download(tensor, 0, offset * static_cast<int64_t>(element_), into.host<std::byte>() + row * bytes,
                         bytes);
}

Status AttnResSubject::read_weight(int tensor, CaseTensor& into) const {
  if (!into.present()) return {};
  return arena_.download(tensor, 0, 0, into.host<std::byte>(), p_.d * 2);
}

Status AttnResSubject::read_inputs(const std::vector<int64_t>& tokens, AttnResCase& c) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    const int64_t t = tokens[i];
    SILT_TRY(read_row(prefix_, t * p_.prefix_stride, c.prefix, row));
    if (p_.delta) SILT_TRY(read_row(delta_, t * p_.delta_stride, c.delta, row));
    for (int64_t slot = 0; slot < p_.n; ++slot) {
      SILT_TRY(read_row(blocks_, t * p_.block_token_stride + slot * p_.block_slot_stride, c.blocks,
                        row * c.problem.slots + slot));
    }
  }
  SILT_TRY(read_weight(norm_weight_, c.norm_weight));
  SILT_TRY(read_weight(qk_weight_, c.qk_weight));
  return read_weight(output_norm_weight_, c.output_norm_weight);
}

Status AttnResSubject::read_outputs(const std::vector<int64_t>& tokens, AttnResCase& c) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    const int64_t t = tokens[i];
    SILT_TRY(read_row(prefix_, t * p_.prefix_stride, c.prefix, row));
    SILT_TRY(read_row(output_, t * p_.output_stride, c.output, row));
    if (p_.write >= 0) {
      SILT_TRY(read_row(blocks_, t * p_.block_token_stride + p_.write * p_.block_slot_stride, c.blocks,
                        row * c.problem.slots + p_.write));
    }
  }
  return {};
}

Status AttnResSubject::verify(std::string_view kernel, const Launch& launch_options, Verified* verified) {
  const std::vector<int64_t> tokens = rows_to_verify();
  AttnResProblem few;
  few.t = static_cast<int64_t>(tokens.size());
  few.n = p_.n;
  few.d = p_.d;
  few.delta = p_.delta;
  few.norm = p_.norm;
  few.write = p_.write;
  few.dtype = p_.dtype;
  few.slots = few.least_slots();
  few.prefix_stride = few.delta_stride = few.block_slot_stride = few.output_stride = p_.d;
  few.block_token_stride = few.slots * p_.d;
  AttnResCase c(few, 1);
  c.eps = kEpsilon;
  c.output_norm_eps = kEpsilon;
  SILT_TRY(read_inputs(tokens, c));
  SILT_TRY(c.upload({}));  // keeps the inputs, poisons the output
  const std::vector<std::byte> poison(static_cast<size_t>(p_.d) * element_, std::byte{0xff});
  for (const int64_t t : tokens) {
    SILT_TRY(arena_.upload(output_, 0, t * p_.output_stride * static_cast<int64_t>(element_), poison.data(),
                           static_cast<int64_t>(poison.size())));
  }
  SILT_TRY(launch(kernel, 0, launch_options));
  SILT_TRY(synchronize(arena_.device(), launch_options.stream));
  SILT_TRY(read_outputs(tokens, c));
  verified->verdict = c.verify();
  verified->what = few.t == p_.t ? "all rows" : fmt::format("{} of {} rows", few.t, p_.t);
  return {};
}

// ---------------------------------------------------------------- movers

Status AttnResSubject::move_on_cpu(int64_t set, int threads, bool ahead) const {
  const auto bytes = [&](int64_t elements) { return elements * static_cast<int64_t>(element_); };
  parallel_ranges(p_.t, threads, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      MovedToken token;
      token.bank = arena_.at(blocks_, set) + bytes(t * p_.block_token_stride);
      token.slot_stride = bytes(p_.block_slot_stride);
      token.rows = p_.n;
      token.prefix = arena_.at(prefix_, set) + bytes(t * p_.prefix_stride);
      if (p_.delta) token.delta = arena_.at(delta_, set) + bytes(t * p_.delta_stride);
      if (p_.write >= 0) {
        token.slot = arena_.at(blocks_, set) + bytes(t * p_.block_token_stride + p_.write * p_.block_slot_stride);
      }
      token.output = arena_.at(output_, set) + bytes(t * p_.output_stride);
      token.row_bytes = bytes(p_.d);
      move_token(token, ahead);
    }
  });
  return {};
}

gpu::RowMover AttnResSubject::gpu_mover(int64_t set) const {
  const auto bytes = [&](int64_t elements) { return elements * static_cast<int64_t>(element_); };
  gpu::RowMover m;
  m.prefix = arena_.at(prefix_, set);
  if (p_.delta) m.delta = arena_.at(delta_, set);
  m.bank = arena_.at(blocks_, set);
  if (p_.write >= 0) m.slot = reinterpret_cast<char*>(arena_.at(blocks_, set) + bytes(p_.write * p_.block_slot_stride));
  m.output = arena_.at(output_, set);
  m.prefix_stride = bytes(p_.prefix_stride);
  m.delta_stride = bytes(p_.delta_stride);
  m.bank_token_stride = bytes(p_.block_token_stride);
  m.bank_slot_stride = bytes(p_.block_slot_stride);
  m.output_stride = bytes(p_.output_stride);
  m.tokens = p_.t;
  m.row_bytes = bytes(p_.d);
  m.rows = static_cast<int>(p_.n);
  return m;
}

std::vector<Mover> AttnResSubject::movers(DeviceKind device) {
  std::vector<Mover> movers;
  const auto moved = static_cast<double>(bytes());
  // Movers load and store whole vectors: 64 bytes on a CPU, 16 on a GPU.
  const int64_t vector = (device == DeviceKind::cpu ? 64 : 16) / static_cast<int64_t>(element_);
  for (const int64_t elements :
       {p_.d, p_.prefix_stride, p_.delta_stride, p_.block_token_stride, p_.block_slot_stride, p_.output_stride}) {
    if (elements % vector != 0) return movers;
  }
  if (device == DeviceKind::cuda) {
    if (p_.n > gpu::kMaxMoverRows) return movers;
    for (int variant = 0; variant < gpu::kRowMovers; ++variant) {
      movers.push_back({gpu::row_mover_name(variant), moved, [this, variant](int64_t set, const Launch& launch) {
                          return gpu::launch_row_mover(gpu_mover(set), variant, arena_.device(), launch);
                        }});
    }
    return movers;
  }
  for (const bool ahead : {false, true}) {
    movers.push_back({ahead ? "mover_ahead" : "mover", moved, [this, ahead](int64_t set, const Launch& launch) {
                        return move_on_cpu(set, launch.threads, ahead);
                      }});
  }
  return movers;
}

Status make(const ProblemLine& line, std::unique_ptr<Subject>* subject) {
  AttnResProblem problem;
  SILT_TRY(AttnResProblem::parse(line, &problem));
  if (problem.align != 16) {
    return invalid("attn_res: align: has {}, needs 16 (silt-bench measures aligned tensors)", problem.align);
  }
  if (problem.t < 1) return invalid("attn_res: t: has {}, needs at least 1 to be measured", problem.t);
  *subject = std::make_unique<AttnResSubject>(problem);
  return {};
}

}  // namespace

Room attn_res_room() { return {"attn_res", {{kScalarRows, DeviceKind::cpu, nullptr, true}}, make}; }

}  // namespace silt::bench
