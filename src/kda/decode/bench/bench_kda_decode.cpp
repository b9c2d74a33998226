// kda_decode as silt-bench measures it: K sets of everything, weights included, as every layer of a decoder has its
// own. Slots are a random permutation of the pool, so that no two neighbouring rows lie in neighbouring memory.
#include "kda/decode/bench/bench_kda_decode.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "bench/gpu_protocol.hpp"
#include "bench/movers.hpp"
#include "bench/set_arena.hpp"
#include "core/status.hpp"
#include "core/workers.hpp"
#include "kda/decode/bench/bench_kda_chain.hpp"
#include "kda/decode/cases.hpp"
#include "kda/decode/problem.hpp"
#include "proof/random.hpp"

// The plain kernel compiled once more without vectorisation (bench/CMakeLists.txt): the baseline of the SIMD kernels.
namespace silt::kda_decode_cpu_scalar_rows {
Status launch(const KdaDecodeProblem& problem, const KdaDecodeArgs& args, const Launch& launch);
}  // namespace silt::kda_decode_cpu_scalar_rows

namespace silt::bench {
namespace {

constexpr int64_t kVerifiedHeads = 96;  // rows are compared until about that many heads were
constexpr int64_t kHeadElements = kda::kDim * kda::kDim;
constexpr float kNormEpsilon = 1e-5F;

class KdaDecodeSubject : public Subject {
 public:
  explicit KdaDecodeSubject(const KdaDecodeProblem& problem);

  [[nodiscard]] std::string line() const override { return p_.line(); }
  [[nodiscard]] int64_t bytes() const override { return silt::bytes(p_); }
  [[nodiscard]] int64_t flops() const override { return silt::flops(p_); }
  [[nodiscard]] int64_t calls_per_step() const override { return 69; }  // KDA layers of Kimi-K3
  [[nodiscard]] int64_t live_bytes() const override { return p_.b * head_bytes() * p_.h; }
  [[nodiscard]] int64_t set_bytes() const override { return arena_.set_bytes(); }

  Status share_activations() override;
  Status make_sets(Device device, int64_t count) override;
  Status launch(std::string_view kernel, int64_t set, const Launch& launch) override;
  Status verify(std::string_view kernel, const Launch& launch, Verified* verified) override;
  [[nodiscard]] std::vector<Mover> movers(DeviceKind device) override;

 private:
  [[nodiscard]] int64_t act(int64_t elements) const { return elements * static_cast<int64_t>(size_of(p_.dtype)); }
  [[nodiscard]] int64_t head_bytes() const { return kHeadElements * static_cast<int64_t>(size_of(p_.state)); }
  [[nodiscard]] int64_t slot_stride_bytes() const {
    return p_.state_slot_stride * static_cast<int64_t>(size_of(p_.state));
  }
  [[nodiscard]] int64_t history_elements() const { return kda::kHistory * kda::kParts * p_.p(); }
  [[nodiscard]] TensorView tensor(int number, int64_t set, DType dtype, std::initializer_list<int64_t> shape,
                                  std::initializer_list<int64_t> stride = {}) const;
  [[nodiscard]] KdaDecodeArgs args(int64_t set) const;
  Status make_indices();
  Status move_on_cpu(int64_t set, int threads, bool next_head) const;

  // Rows of set 0 to and from a case of the same rows: what the oracle looks at.
  [[nodiscard]] std::vector<int64_t> rows_to_verify() const;
  [[nodiscard]] KdaDecodeProblem few_rows(int64_t count) const;
  Status read(int number, int64_t offset, CaseTensor& into, int64_t into_offset, int64_t bytes) const;
  Status read_row(int number, int64_t stride, int64_t row, CaseTensor& into, int64_t into_row, int64_t elements) const;
  Status read_slot(int64_t row, KdaDecodeCase& c, int64_t into_row) const;
  Status read_inputs(const std::vector<int64_t>& rows, KdaDecodeCase& c) const;

  KdaDecodeProblem p_;
  SetArena arena_;
  int x_, conv_weight_, conv_bias_, conv_state_, raw_gate_, raw_beta_, A_log_, dt_bias_, indices_, state_, output_gate_,
      norm_weight_, output_, chain_qkv_, chain_o_;
  std::vector<std::vector<int32_t>> slots_;  ///< of every set
};

KdaDecodeSubject::KdaDecodeSubject(const KdaDecodeProblem& problem) : p_(problem) {
  const int64_t p = p_.p();
  x_ = arena_.add(act(p_.b * p_.x_stride));
  conv_weight_ = arena_.add(4 * kda::kParts * kda::kTaps * p);
  conv_bias_ = arena_.add(p_.bias ? 4 * kda::kParts * p : 0);
  conv_state_ = arena_.add(act(p_.slots * p_.conv_slot_stride));
  raw_gate_ = arena_.add(act(p_.b * p_.gate_stride));
  raw_beta_ = arena_.add(act(p_.b * p_.beta_stride));
  A_log_ = arena_.add(4 * p_.h);
  dt_bias_ = arena_.add(4 * p);
  indices_ = arena_.add(4 * p_.b);
  state_ = arena_.add(p_.slots * slot_stride_bytes());
  output_gate_ = arena_.add(p_.norm ? act(p_.b * p_.output_gate_stride) : 0);
  norm_weight_ = arena_.add(p_.norm ? 4 * kda::kDim : 0);
  output_ = arena_.add(act(p_.b * p_.output_stride));
  chain_qkv_ = arena_.add(4 * p_.b * kda::kParts * p);
  chain_o_ = arena_.add(4 * p_.b * p);
}

TensorView KdaDecodeSubject::tensor(int number, int64_t set, DType dtype, std::initializer_list<int64_t> shape,
                                    std::initializer_list<int64_t> stride) const {
  TensorView v = view(reinterpret_cast<float*>(arena_.at(number, set)), shape, stride, arena_.device());
  v.dtype = dtype;
  return v;
}

KdaDecodeArgs KdaDecodeSubject::args(int64_t set) const {
  const int64_t p = p_.p();
  const int64_t channels = kda::kParts * p;
  const bool sd = p_.layout == kda::History::sd;
  const auto heads = [&](int number, int64_t row_stride) {
    return tensor(number, set, p_.dtype, {p_.b, p_.h, kda::kDim}, {row_stride, kda::kDim, 1});
  };
  KdaDecodeArgs a;
  a.x = tensor(x_, set, p_.dtype, {p_.b, channels}, {p_.x_stride, 1});
  a.conv_weight = tensor(conv_weight_, set, DType::f32, {kda::kParts, kda::kTaps, p});
  if (p_.bias) a.conv_bias = tensor(conv_bias_, set, DType::f32, {channels});
  a.conv_state = tensor(conv_state_, set, p_.dtype, {p_.slots, channels, kda::kHistory},
                        {p_.conv_slot_stride, sd ? 1 : kda::kHistory, sd ? channels : 1});
  a.raw_gate = heads(raw_gate_, p_.gate_stride);
  a.raw_beta = tensor(raw_beta_, set, p_.dtype, {p_.b, p_.h}, {p_.beta_stride, 1});
  a.A_log = tensor(A_log_, set, DType::f32, {p_.h});
  a.dt_bias = tensor(dt_bias_, set, DType::f32, {p_.h, kda::kDim});
  a.state_indices = tensor(indices_, set, DType::i32, {p_.b});
  a.state = tensor(state_, set, p_.state, {p_.slots, p_.h, kda::kDim, kda::kDim},
                   {p_.state_slot_stride, kHeadElements, kda::kDim, 1});
  a.safe_gate = p_.gate == kda::Gate::safe;
  a.lower_bound = p_.lower_bound;
  if (p_.norm) {
    a.output_gate = heads(output_gate_, p_.output_gate_stride);
    a.norm_weight = tensor(norm_weight_, set, DType::f32, {kda::kDim});
  }
  a.norm_eps = kNormEpsilon;
  a.output = heads(output_, p_.output_stride);
  a.null_slot = static_cast<int32_t>(p_.null_slot);
  return a;
}

Status KdaDecodeSubject::make_indices() {
  slots_.assign(static_cast<size_t>(arena_.sets()), {});
  Random random(20);
  for (int64_t set = 0; set < arena_.sets(); ++set) {
    std::vector<int32_t>& slots = slots_[static_cast<size_t>(set)];
    slots.resize(static_cast<size_t>(p_.slots - p_.null_slot - 1));
    std::iota(slots.begin(), slots.end(), static_cast<int32_t>(p_.null_slot + 1));
    for (size_t i = slots.size(); i-- > 1;) {
      std::swap(slots[i], slots[static_cast<size_t>(random.below(static_cast<int64_t>(i) + 1))]);
    }
    slots.resize(static_cast<size_t>(p_.b));
    SILT_TRY(arena_.upload(indices_, set, 0, slots.data(), 4 * p_.b));
  }
  return {};
}

Status KdaDecodeSubject::share_activations() {
  for (const int tensor : {x_, raw_gate_, raw_beta_, output_gate_, output_, chain_qkv_, chain_o_}) arena_.share(tensor);
  return {};
}

Status KdaDecodeSubject::make_sets(Device device, int64_t count) {
  SILT_TRY(arena_.allocate(device, count));
  struct Range {
    int tensor;
    DType dtype;
    float low;
    float high;
  };
  // The ranges of the room's cases: decay factors from nearly 0 to nearly 1.
  const Range ranges[] = {
      {x_, p_.dtype, -1.5F, 1.5F},
      {conv_weight_, DType::f32, -0.7F, 0.7F},
      {conv_bias_, DType::f32, -0.5F, 0.5F},
      {conv_state_, p_.dtype, -1.5F, 1.5F},
      {raw_gate_, p_.dtype, -3.0F, 3.0F},
      {raw_beta_, p_.dtype, -3.0F, 3.0F},
      {A_log_, DType::f32, -1.5F, 1.5F},
      {dt_bias_, DType::f32, -2.0F, 2.0F},
      {state_, p_.state, -1.0F, 1.0F},
      {output_gate_, p_.dtype, -3.0F, 3.0F},
      {norm_weight_, DType::f32, 0.3F, 1.7F},
      {output_, p_.dtype, -1.0F, 1.0F},
  };
  uint64_t seed = 10;
  for (const Range& r : ranges) SILT_TRY(arena_.fill(r.tensor, r.dtype, r.low, r.high, ++seed));
  return make_indices();
}

Status KdaDecodeSubject::launch(std::string_view kernel, int64_t set, const Launch& launch) {
  if (kernel == kChain || kernel == kChainPlain) {
    const ChainBuffers between{reinterpret_cast<float*>(arena_.at(chain_qkv_, set)),
                               reinterpret_cast<float*>(arena_.at(chain_o_, set))};
    return launch_kda_chain(args(set), between, kernel, launch);
  }
  if (kernel == kScalarRows) return kda_decode_cpu_scalar_rows::launch(p_, args(set), launch);
  Launch named = launch;
  named.policy = Policy::require(kernel);
  return kda_decode(args(set), named);
}

// ---------------------------------------------------------------- verification

std::vector<int64_t> KdaDecodeSubject::rows_to_verify() const {
  const int64_t count = std::min(p_.b, std::max<int64_t>(2, kVerifiedHeads / p_.h));
  std::vector<int64_t> rows;
  if (count == p_.b) {
    for (int64_t row = 0; row < p_.b; ++row) rows.push_back(row);
    return rows;
  }
  rows = {0, p_.b - 1};
  Random random(21);
  while (static_cast<int64_t>(rows.size()) < count) {
    const int64_t row = random.below(p_.b);
    if (std::find(rows.begin(), rows.end(), row) == rows.end()) rows.push_back(row);
  }
  return rows;
}

/// The same call on `count` rows, contiguous.
KdaDecodeProblem KdaDecodeSubject::few_rows(int64_t count) const {
  KdaDecodeProblem few = p_;
  few.b = count;
  few.slots = count + 1;
  few.x_stride = kda::kParts * p_.p();
  few.gate_stride = few.output_stride = p_.p();
  few.beta_stride = p_.h;
  few.output_gate_stride = p_.norm ? p_.p() : 0;
  few.conv_slot_stride = history_elements();
  few.state_slot_stride = p_.h * kHeadElements;
  return few;
}

Status KdaDecodeSubject::read(int number, int64_t offset, CaseTensor& into, int64_t into_offset, int64_t bytes) const {
  if (!into.present()) return {};
  return arena_.download(number, 0, offset, into.host<std::byte>() + into_offset, bytes);
}

Status KdaDecodeSubject::read_row(int number, int64_t stride, int64_t row, CaseTensor& into, int64_t into_row,
                                  int64_t elements) const {
  return read(number, act(row * stride), into, act(into_row * elements), act(elements));
}

/// State and history of a row's slot, into the slot that the case gave its row.
Status KdaDecodeSubject::read_slot(int64_t row, KdaDecodeCase& c, int64_t into_row) const {
  const int64_t slot = slots_[0][static_cast<size_t>(row)];
  const int64_t into_slot = c.state_indices.get_int(into_row);
  const int64_t payload = p_.h * head_bytes();
  SILT_TRY(read(state_, slot * slot_stride_bytes(), c.state, into_slot * payload, payload));
  const int64_t history = act(history_elements());
  return read(conv_state_, act(slot * p_.conv_slot_stride), c.conv_state, into_slot * history, history);
}

Status KdaDecodeSubject::read_inputs(const std::vector<int64_t>& rows, KdaDecodeCase& c) const {
  const int64_t p = p_.p();
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto into = static_cast<int64_t>(i);
    SILT_TRY(read_row(x_, p_.x_stride, rows[i], c.x, into, kda::kParts * p));
    SILT_TRY(read_row(raw_gate_, p_.gate_stride, rows[i], c.raw_gate, into, p));
    SILT_TRY(read_row(raw_beta_, p_.beta_stride, rows[i], c.raw_beta, into, p_.h));
    SILT_TRY(read_row(output_gate_, p_.output_gate_stride, rows[i], c.output_gate, into, p));
    SILT_TRY(read_slot(rows[i], c, into));
  }
  SILT_TRY(read(conv_weight_, 0, c.conv_weight, 0, 4 * kda::kParts * kda::kTaps * p));
  SILT_TRY(read(conv_bias_, 0, c.conv_bias, 0, 4 * kda::kParts * p));
  SILT_TRY(read(A_log_, 0, c.A_log, 0, 4 * p_.h));
  SILT_TRY(read(dt_bias_, 0, c.dt_bias, 0, 4 * p));
  return read(norm_weight_, 0, c.norm_weight, 0, 4 * kda::kDim);
}

Status KdaDecodeSubject::verify(std::string_view kernel, const Launch& launch_options, Verified* verified) {
  const std::vector<int64_t> rows = rows_to_verify();
  KdaDecodeCase c(few_rows(static_cast<int64_t>(rows.size())), 22);
  c.norm_eps = kNormEpsilon;
  SILT_TRY(read_inputs(rows, c));
  SILT_TRY(c.upload({}));  // keeps the inputs, poisons the output
  const std::vector<std::byte> poison(static_cast<size_t>(act(p_.p())), std::byte{0xff});
  for (const int64_t row : rows) {
    SILT_TRY(arena_.upload(output_, 0, act(row * p_.output_stride), poison.data(), act(p_.p())));
  }
  SILT_TRY(launch(kernel, 0, launch_options));
  SILT_TRY(synchronize(arena_.device(), launch_options.stream));
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto into = static_cast<int64_t>(i);
    SILT_TRY(read_row(output_, p_.output_stride, rows[i], c.output, into, p_.p()));
    SILT_TRY(read_slot(rows[i], c, into));
  }
  verified->verdict = c.verify();
  const auto count = static_cast<int64_t>(rows.size());
  verified->what = count == p_.b ? "all rows" : fmt::format("{} of {} rows", count, p_.b);
  return {};
}

// ---------------------------------------------------------------- movers: the state in place, slot by slot, in row
// order

Status KdaDecodeSubject::move_on_cpu(int64_t set, int threads, bool next_head) const {
  std::byte* state = arena_.at(state_, set);
  const std::vector<int32_t>& slots = slots_[static_cast<size_t>(set)];
  const auto head = [&](int64_t task) {
    return state + slots[static_cast<size_t>(task / p_.h)] * slot_stride_bytes() + task % p_.h * head_bytes();
  };
  parallel_ranges(p_.b * p_.h, threads, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const std::byte* next = task + 1 < end ? head(task + 1) : nullptr;
      if (next_head) {
        update_in_place_next(head(task), head_bytes(), next);
      } else {
        update_in_place_ahead(head(task), head_bytes(), next);
      }
    }
  });
  return {};
}

std::vector<Mover> KdaDecodeSubject::movers(DeviceKind device) {
  std::vector<Mover> movers;
  const auto bytes = static_cast<double>(2 * live_bytes());
  if (device == DeviceKind::cuda) {
    if (slot_stride_bytes() % 16 != 0) return movers;
    for (int variant = 0; variant < gpu::kSlotMovers; ++variant) {
      if (p_.h * head_bytes() % gpu::slot_mover_piece(variant) != 0) continue;
      movers.push_back({gpu::slot_mover_name(variant), bytes, [this, variant](int64_t set, const Launch& launch) {
                          gpu::SlotMover m;
                          m.state = arena_.at(state_, set);
                          m.indices = reinterpret_cast<const int32_t*>(arena_.at(indices_, set));
                          m.slot_stride = slot_stride_bytes();
                          m.slot_payload = p_.h * head_bytes();
                          m.rows = p_.b;
                          return gpu::launch_slot_mover(m, variant, arena_.device(), launch);
                        }});
    }
    return movers;
  }
  if (slot_stride_bytes() % 64 != 0) return movers;
  for (const bool next_head : {false, true}) {
    movers.push_back(
        {next_head ? "mover_next" : "mover_ahead", bytes,
         [this, next_head](int64_t set, const Launch& launch) { return move_on_cpu(set, launch.threads, next_head); }});
  }
  return movers;
}

Status make(const ProblemLine& line, std::unique_ptr<Subject>* subject) {
  KdaDecodeProblem problem;
  SILT_TRY(KdaDecodeProblem::parse(line, &problem));
  if (problem.b < 1) return invalid("kda_decode: b: has {}, needs at least 1 to be measured", problem.b);
  if (problem.align != 16 || problem.state_align != 16) {
    return invalid("kda_decode: align, state_align: has {}, {}, needs 16 (silt-bench measures aligned tensors)",
                   problem.align, problem.state_align);
  }
  if (problem.padded != 0) {
    return invalid("kda_decode: padded: has {}, needs 0 (silt-bench measures full batches)", problem.padded);
  }
  *subject = std::make_unique<KdaDecodeSubject>(problem);
  return {};
}

}  // namespace

Room kda_decode_room() {
  return {"kda_decode",
          {{kScalarRows, DeviceKind::cpu, nullptr, true},
           {kChain, DeviceKind::cpu, chain_accepts},
           {kChainPlain, DeviceKind::cpu, chain_accepts},
           {kChain, DeviceKind::cuda, chain_accepts}},
          make};
}

}  // namespace silt::bench
