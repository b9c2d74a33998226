// attn_res_partials and attn_res_merge on NVIDIA GPUs: what the tests over every kernel do not reach. The comments name
// the row of docs/cases.md. Without a device every test is skipped with the backend's reason.
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "attn_res/two_phase/cases.hpp"
#include "attn_res/two_phase/cuda/cuda_sm90_direct.hpp"
#include "attn_res/two_phase/cuda/cuda_sm90_tensor.hpp"
#include "device/backend.hpp"
#include "gpu/test/gpu_neighbours.hpp"
#include "proof/room_test.hpp"
#include "proof/stop_when_broken.hpp"

namespace silt {
namespace {

namespace direct = attn_res_merge_cuda_sm90_direct;
namespace tensor = attn_res_partials_cuda_sm90_tensor;
using Form = direct::Form;

constexpr Device kGpu = {DeviceKind::cuda, 0};
constexpr Pdl kOrders[] = {Pdl::off, Pdl::wait, Pdl::late};
constexpr const char* kSweep = "cuda_sm90_tensor";
constexpr const char* kMerge = "cuda_sm90_direct";
using Begin = direct::Begin;
constexpr direct::Plan kPlans[] = {{Form::narrow},
                                   {Form::narrow, true},
                                   {Form::narrow, true, Begin::prefetch},
                                   {Form::narrow, false, Begin::in_turn},
                                   {Form::one},
                                   {Form::one, false, Begin::prefetch},
                                   {Form::one, false, Begin::in_turn}};

template <class Case>
struct Op;
template <>
struct Op<AttnResPartialsCase> {
  using Problem = AttnResPartialsProblem;
  static constexpr std::string_view kName = "attn_res_partials";
};
template <>
struct Op<AttnResMergeCase> {
  using Problem = AttnResMergeProblem;
  static constexpr std::string_view kName = "attn_res_merge";
};
Status launch_call(const AttnResPartialsArgs& args, const Launch& launch) { return attn_res_partials(args, launch); }
Status launch_call(const AttnResMergeArgs& args, const Launch& launch) { return attn_res_merge(args, launch); }

template <class Case>
typename Op<Case>::Problem problem_of(const std::string& text) {
  return parsed<typename Op<Case>::Problem>(text);
}

template <class Case>
std::vector<std::string> cuda_kernels() {
  std::vector<std::string> names;
  for (const KernelHere& here : kernels_here(Op<Case>::kName)) {
    if (here.device.kind == DeviceKind::cuda) names.push_back(here.kernel);
  }
  return names;
}

const char* name_of(Pdl pdl) { return pdl == Pdl::off ? "off" : pdl == Pdl::wait ? "wait" : "late"; }

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    DeviceFacts facts;
    const Status status = device_facts(kGpu, &facts);
    if (!status.ok()) GTEST_SKIP() << status.message();
    hopper_ = facts.arch_number >= 90;
    pairs_ = facts.processors / tensor::kBlocks;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  void TearDown() override {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  [[nodiscard]] Launch launch(const std::string& kernel, Pdl pdl = Pdl::wait) const {
    Launch launch;
    launch.stream = stream_;
    launch.pdl = pdl;
    launch.policy = Policy::require(kernel);
    return launch;
  }

  /// Runs the line on the kernel and compares with the reference; false where the kernel refuses it.
  template <class Case>
  bool expect_right(const std::string& line, const std::string& kernel, Pdl pdl = Pdl::wait) {
    Case c(problem_of<Case>(line), 21);
    const Status status = c.run(kGpu, launch(kernel, pdl));
    if (status.code() == StatusCode::unsupported) return false;
    if (!status.ok()) {
      ADD_FAILURE() << kernel << " " << name_of(pdl) << ", " << line << ": " << status.message();
      return true;
    }
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << kernel << " " << name_of(pdl) << ", " << line << ": " << verdict.detail;
    return true;
  }

  /// Launches on uploaded tensors and brings the outputs back.
  template <class Case, class Args>
  void launch_and_download(Case& c, const Args& args, const std::string& kernel, Pdl pdl = Pdl::wait) {
    const Status status = launch_call(args, launch(kernel, pdl));
    ASSERT_TRUE(status.ok()) << kernel << ": " << status.message();
    ASSERT_TRUE(synchronize(kGpu, stream_).ok());
    ASSERT_TRUE(c.download().ok());
  }

  cudaStream_t stream_ = nullptr;
  bool hopper_ = false;
  int64_t pairs_ = 1;
};

/// A small list, also for compute-sanitizer (each tool well below a minute): every kernel, each phase and every tail
/// once, the orders in turn. 70 tokens are two for some pairs of blocks.
class CudaReduced : public Cuda {};

TEST_F(CudaReduced, EverySweep) {
  for (const std::string& kernel : cuda_kernels<AttnResPartialsCase>()) {
    int ran = 0;
    int turn = 0;
    for (const char* line : {"attn_res_partials t=2 q=8 n=8 d=7168", "attn_res_partials t=2 q=3 n=5 d=2304 partial=f32",
                             "attn_res_partials t=70 q=2 n=1 d=256", "attn_res_partials t=70 q=5 n=6 d=640",
                             "attn_res_partials t=2 q=8 n=3 d=1024 r=5 stable=3", "attn_res_partials t=2 q=8 n=9 d=264",
                             "attn_res_partials t=2 q=5 n=3 d=17 partial=f32"}) {
      ran += expect_right<AttnResPartialsCase>(line, kernel, turn++ % 2 == 0 ? Pdl::wait : Pdl::late) ? 1 : 0;
    }
    EXPECT_GE(ran, 4) << kernel;
  }
}

TEST_F(CudaReduced, EveryMerge) {
  for (const std::string& kernel : cuda_kernels<AttnResMergeCase>()) {
    int ran = 0;
    int turn = 0;
    for (const char* line : {"attn_res_merge t=3 d=7168", "attn_res_merge t=3 d=2304 write=1 partial=f32 stable=1",
                             "attn_res_merge t=2 d=8192 norm=0 delta=0", "attn_res_merge t=4 d=256",
                             "attn_res_merge t=3 d=4104", "attn_res_merge t=3 d=17 write=1"}) {
      ran += expect_right<AttnResMergeCase>(line, kernel, turn++ % 2 == 0 ? Pdl::wait : Pdl::late) ? 1 : 0;
    }
    EXPECT_GE(ran, 4) << kernel;
  }
}

TEST_F(CudaReduced, EveryMergePlan) {
  if (!hopper_) GTEST_SKIP() << "cuda_sm90_direct needs sm_90";
  for (const char* line : {"attn_res_merge t=2 d=4608 write=1 partial=f32"}) {
    for (const direct::Plan& plan : kPlans) {
      AttnResMergeCase c(problem_of<AttnResMergeCase>(line), 22);
      ASSERT_TRUE(c.upload(kGpu).ok());
      AttnResMergeProblem problem;
      ASSERT_TRUE(check(c.args(), &problem).ok());
      ASSERT_TRUE(direct::fits(plan, problem.d)) << to_string(plan);
      ASSERT_TRUE(direct::launch_plan(problem, c.args(), launch(""), plan).ok());
      ASSERT_TRUE(synchronize(kGpu, stream_).ok());
      ASSERT_TRUE(c.download().ok());
      const Verdict verdict = c.verify();
      EXPECT_TRUE(verdict.ok) << line << " " << to_string(plan) << ": " << verdict.detail;
    }
  }
}

/// Every number of blocks and queries runs natively, in every order, with both kinds of partials, and is right.
TEST_F(Cuda, EverySweepRunsNatively) {
  if (!hopper_) GTEST_SKIP() << "the native kernels need sm_90";
  for (int n = 1; n <= 8; ++n) {
    for (int q = 1; q <= 8; ++q) {
      const std::string line = fmt::format("attn_res_partials t=3 q={} n={} d={} r=9 partial={}", q, n,
                                           (n + q) % 2 == 0 ? 7168 : 1152, (n / 2 + q) % 2 == 0 ? "bf16" : "f32");
      EXPECT_TRUE(expect_right<AttnResPartialsCase>(line, kSweep, kOrders[(n + q) % 3])) << "refuses " << line;
    }
  }
}

TEST_F(Cuda, EveryMergeKeyRunsNatively) {
  if (!hopper_) GTEST_SKIP() << "the native kernels need sm_90";
  for (int key = 0; key < 16; ++key) {
    for (const int d : {256, 2304, 7168, 8192}) {
      const std::string line =
          fmt::format("attn_res_merge t=3 d={} delta={} norm={} write={} partial={} stable={}", d, key & 1,
                      key >> 1 & 1, key >> 2 & 1, (key & 8) != 0 ? "f32" : "bf16", (key + d / 256) % 2);
      for (const Pdl pdl : kOrders) {
        EXPECT_TRUE(expect_right<AttnResMergeCase>(line, kMerge, pdl)) << "refuses " << line;
      }
    }
  }
}

TEST_F(Cuda, LateWithEveryNumberOfStableRows) {
  if (!hopper_) GTEST_SKIP() << "the native kernels need sm_90";
  for (int stable = -1; stable <= 4; ++stable) {
    EXPECT_TRUE(expect_right<AttnResPartialsCase>(
        fmt::format("attn_res_partials t=150 q=3 n=4 d=1024 stable={}", stable), kSweep, Pdl::late));
  }
}

// 36f: tokens around the number of clusters and of stages; every hidden size
TEST_F(Cuda, TokensAroundTheGrid) {
  if (!hopper_) GTEST_SKIP() << "the native kernels need sm_90";
  for (const int64_t t : {pairs_ - 1, pairs_, pairs_ + 1, 2 * pairs_, 2 * pairs_ + 1, 17 * pairs_ + 3}) {
    EXPECT_TRUE(expect_right<AttnResPartialsCase>(fmt::format("attn_res_partials t={} q=2 n=7 d=256", t), kSweep));
  }
  EXPECT_TRUE(
      expect_right<AttnResPartialsCase>(fmt::format("attn_res_partials t={} q=2 n=8 d=7168", 4 * pairs_ + 1), kSweep));
  for (int64_t d = 128; d <= tensor::kMostColumns; d += 128) {
    const auto line = fmt::format("attn_res_partials t=2 q=1 n={} d={}", 1 + d / 128 % 8, d);
    EXPECT_TRUE(expect_right<AttnResPartialsCase>(line, kSweep)) << line;
  }
}

// 36b: all orders of a sweep on the same input, bit for bit: stages in use more than once, fewer columns than warps,
// absent queries and sources
TEST_F(Cuda, AllSweepOrdersGiveTheSameBits) {
  if (!hopper_) GTEST_SKIP() << "cuda_sm90_tensor needs sm_90";
  for (const std::string& line : {fmt::format("attn_res_partials t={} q=8 n=8 d=7168", 3 * pairs_ + 1),
                                  fmt::format("attn_res_partials t={} q=5 n=6 d=4992", 5 * pairs_ - 1),
                                  fmt::format("attn_res_partials t={} q=3 n=1 d=640", 9 * pairs_ + 3),
                                  fmt::format("attn_res_partials t={} q=7 n=8 d=7168 partial=f32", 3 * pairs_)}) {
    std::vector<std::byte> statistics;
    std::vector<std::byte> mix;
    for (const Pdl pdl : kOrders) {
      AttnResPartialsCase c(problem_of<AttnResPartialsCase>(line), 24);
      ASSERT_TRUE(c.upload(kGpu).ok());
      launch_and_download(c, c.args(), kSweep, pdl);
      const Verdict verdict = c.verify();
      EXPECT_TRUE(verdict.ok) << line << " " << name_of(pdl) << ": " << verdict.detail;
      if (mix.empty()) {
        statistics = c.statistics.bytes();
        mix = c.mix.bytes();
      }
      EXPECT_TRUE(expect_bitwise("statistics", c.statistics.bytes(), statistics).ok) << line << " " << name_of(pdl);
      EXPECT_TRUE(expect_bitwise("mix", c.mix.bytes(), mix).ok) << line << " " << name_of(pdl);
    }
  }
}

// 36b: all plans and orders of a merge on the same input, bit for bit
TEST_F(Cuda, AllMergePlansGiveTheSameBits) {
  if (!hopper_) GTEST_SKIP() << "cuda_sm90_direct needs sm_90";
  for (const int64_t d : {512, 1280, 2304, 4096, 6912, 7168}) {
    for (const char* partial : {"bf16", "f32"}) {
      const auto line = problem_of<AttnResMergeCase>(
          fmt::format("attn_res_merge t=19 d={} partial={} norm={}", d, partial, d == 1280 ? 0 : 1));
      std::vector<std::byte> first;
      for (const direct::Plan& plan : kPlans) {
        if (!direct::fits(plan, d)) continue;
        for (const Pdl pdl : kOrders) {
          AttnResMergeCase c(line, 23);
          ASSERT_TRUE(c.upload(kGpu).ok());
          AttnResMergeProblem problem;
          ASSERT_TRUE(check(c.args(), &problem).ok());
          ASSERT_TRUE(direct::launch_plan(problem, c.args(), launch("", pdl), plan).ok());
          ASSERT_TRUE(synchronize(kGpu, stream_).ok());
          ASSERT_TRUE(c.download().ok());
          if (first.empty()) first = c.output.bytes();
          const Verdict verdict = expect_bitwise("output", c.output.bytes(), first);
          ASSERT_TRUE(verdict.ok) << "d " << d << " " << to_string(plan) << " " << name_of(pdl) << ": "
                                  << verdict.detail;
        }
      }
    }
  }
}

// 27: a row's bits for any number of tokens (which cluster takes it, which plan the table names)
TEST_F(Cuda, ARowDoesNotDependOnTheNumberOfTokens) {
  for (const std::string& kernel : cuda_kernels<AttnResPartialsCase>()) {
    AttnResPartialsCase many(problem_of<AttnResPartialsCase>("attn_res_partials t=700 q=2 n=8 d=2304"), 24);
    ASSERT_TRUE(many.upload(kGpu).ok());
    std::vector<uint16_t> first(2304);
    for (const int64_t t : {1, 131, 133, 700}) {
      AttnResPartialsArgs args = many.args();
      args.blocks.shape[0] = args.statistics.shape[1] = args.mix.shape[1] = t;
      ASSERT_TRUE(attn_res_partials(args, launch(kernel)).ok());
      ASSERT_TRUE(synchronize(kGpu, stream_).ok());
      std::vector<uint16_t> row(2304);
      ASSERT_EQ(cudaMemcpy(row.data(), args.mix.data, row.size() * 2, cudaMemcpyDeviceToHost), cudaSuccess);
      if (t == 1) first = row;
      EXPECT_EQ(row, first) << kernel << ", " << t << " tokens";
    }
  }
  for (const std::string& kernel : cuda_kernels<AttnResMergeCase>()) {
    AttnResMergeCase many(problem_of<AttnResMergeCase>("attn_res_merge t=2100 d=7168 delta=0"), 24);
    ASSERT_TRUE(many.upload(kGpu).ok());
    std::vector<uint16_t> first(7168);
    for (const int64_t t : {1, 64, 600, 2100}) {
      AttnResMergeArgs args = many.args();
      for (TensorView* view : {&args.prefix, &args.output}) view->shape[0] = t;
      for (ConstTensorView* view : {&args.statistics, &args.mix}) view->shape[0] = t;
      ASSERT_TRUE(attn_res_merge(args, launch(kernel)).ok());
      ASSERT_TRUE(synchronize(kGpu, stream_).ok());
      std::vector<uint16_t> row(7168);
      ASSERT_EQ(cudaMemcpy(row.data(), args.output.data, row.size() * 2, cudaMemcpyDeviceToHost), cudaSuccess);
      if (t == 1) first = row;
      EXPECT_EQ(row, first) << kernel << ", " << t << " tokens";
    }
  }
}

// 2: more tokens than any grid axis but x holds
TEST_F(Cuda, MoreThan65535Tokens) {
  for (const std::string& kernel : cuda_kernels<AttnResPartialsCase>()) {
    EXPECT_TRUE(expect_right<AttnResPartialsCase>("attn_res_partials t=65537 q=1 n=1 d=256", kernel)) << kernel;
  }
  for (const std::string& kernel : cuda_kernels<AttnResMergeCase>()) {
    EXPECT_TRUE(expect_right<AttnResMergeCase>("attn_res_merge t=65537 d=256", kernel)) << kernel;
  }
}

// 1, 12: a slot-major bank, and partials, of more than 2^31 elements
TEST_F(Cuda, OffsetsAre64Bit) {
  constexpr int64_t kFar = (int64_t{1} << 30) + 4096;
  constexpr int64_t kD = 512;
  constexpr size_t kRows = 2 * kD * sizeof(bf16);
  DeviceBuffer bank;
  DeviceBuffer far_mix;
  for (DeviceBuffer* buffer : {&bank, &far_mix}) {
    ASSERT_TRUE(DeviceBuffer::make(kGpu, static_cast<size_t>(2 * kFar + 2 * kD) * sizeof(bf16), buffer).ok());
  }
  const auto far_offset = [](int64_t index) { return static_cast<size_t>(index * kFar) * sizeof(bf16); };
  for (const std::string& kernel : cuda_kernels<AttnResPartialsCase>()) {
    AttnResPartialsCase c(problem_of<AttnResPartialsCase>("attn_res_partials t=2 q=3 n=3 d=512"), 25);
    std::vector<bf16> rows(2 * kD);
    for (int64_t slot = 0; slot < 3; ++slot) {
      for (int64_t i = 0; i < 2 * kD; ++i) {
        rows[static_cast<size_t>(i)] = to_bf16(c.blocks.get((i / kD * 3 + slot) * kD + i % kD));
      }
      ASSERT_TRUE(bank.upload(far_offset(slot), rows.data(), kRows).ok());
    }
    ASSERT_TRUE(c.upload(kGpu).ok());
    AttnResPartialsArgs args = c.args();
    args.blocks = view(reinterpret_cast<bf16*>(bank.data()), {2, 3, kD}, {kD, kFar, 1}, kGpu);
    args.mix = view(reinterpret_cast<bf16*>(far_mix.data()), {3, 2, kD}, {kFar, kD, 1}, kGpu);
    launch_and_download(c, args, kernel);
    for (int64_t q = 0; q < 3; ++q) {  // what was written, to where verify looks
      ASSERT_TRUE(far_mix.download(far_offset(q), rows.data(), kRows).ok());
      for (int64_t i = 0; i < 2 * kD; ++i) c.mix.set(q * 2 * kD + i, to_float(rows[static_cast<size_t>(i)]));
    }
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << kernel << ": " << verdict.detail;
  }
  for (const std::string& kernel : cuda_kernels<AttnResMergeCase>()) {
    AttnResMergeCase c(problem_of<AttnResMergeCase>("attn_res_merge t=3 d=512 write=1"), 25);
    std::vector<bf16> row(kD);
    for (int64_t t = 0; t < 3; ++t) {
      for (int64_t i = 0; i < kD; ++i) row[static_cast<size_t>(i)] = to_bf16(c.mix.get(t * kD + i));
      ASSERT_TRUE(far_mix.upload(far_offset(t), row.data(), kRows / 2).ok());
    }
    ASSERT_TRUE(c.upload(kGpu).ok());
    AttnResMergeArgs args = c.args();
    args.mix = view(reinterpret_cast<bf16*>(far_mix.data()), {3, kD}, {kFar, 1}, kGpu);
    args.slot = view(reinterpret_cast<bf16*>(bank.data()), {3, kD}, {kFar, 1}, kGpu);
    launch_and_download(c, args, kernel);
    for (int64_t t = 0; t < 3; ++t) {
      ASSERT_TRUE(bank.download(far_offset(t), row.data(), kRows / 2).ok());
      for (int64_t i = 0; i < kD; ++i) c.slot.set(t * kD + i, to_float(row[static_cast<size_t>(i)]));
    }
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << kernel << ": " << verdict.detail;
  }
}

size_t payload(const CaseTensor& dense) { return static_cast<size_t>(dense.elements()) * size_of(dense.dtype()); }

/// The tensors of a case, to copy one's contents over another's.
std::vector<std::pair<const void*, size_t>> inputs_of(const AttnResPartialsCase& c) {
  const AttnResPartialsArgs a = c.args();
  return {{a.blocks.data, payload(c.blocks)},
          {a.norm_weight.data, payload(c.norm_weight)},
          {a.qk_weight.data, payload(c.qk_weight)}};
}
std::vector<std::pair<const void*, size_t>> inputs_of(const AttnResMergeCase& c) {
  const AttnResMergeArgs a = c.args();
  return {{a.prefix.data, payload(c.prefix)},
          {a.delta.data, payload(c.delta)},
          {a.statistics.data, payload(c.statistics)},
          {a.mix.data, payload(c.mix)},
          {a.norm_weight.data, payload(c.norm_weight)},
          {a.qk_weight.data, payload(c.qk_weight)},
          {a.output_norm_weight.data, payload(c.output_norm_weight)}};
}
std::vector<std::vector<std::byte>> outputs_of(const AttnResPartialsCase& c) {
  return {c.statistics.bytes(), c.mix.bytes()};
}
std::vector<std::vector<std::byte>> outputs_of(const AttnResMergeCase& c) {
  return {c.prefix.bytes(), c.slot.bytes(), c.output.bytes()};
}

class CudaReplay : public Cuda {
 protected:
  /// A captured launch gives for new contents of its tensors what a fresh launch gives.
  template <class Case>
  void expect_to_follow(const std::string& line) {
    for (const std::string& kernel : cuda_kernels<Case>()) {
      for (const Pdl pdl : kOrders) {
        Case c(problem_of<Case>(line), 26);
        ASSERT_TRUE(c.upload(kGpu).ok());
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t replay = nullptr;
        ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
        const Status status = launch_call(c.args(), launch(kernel, pdl));
        ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
        ASSERT_TRUE(status.ok()) << kernel << ": " << status.message();
        ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
        for (const uint64_t seed : {27U, 28U}) {
          Case fresh(c.problem, seed);  // other contents for the same device memory
          ASSERT_TRUE(fresh.upload(kGpu).ok());
          const auto to = inputs_of(c);
          const auto from = inputs_of(fresh);
          for (size_t i = 0; i < to.size(); ++i) {
            ASSERT_EQ(cudaMemcpy(const_cast<void*>(to[i].first), from[i].first, to[i].second, cudaMemcpyDeviceToDevice),
                      cudaSuccess);
          }
          ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
          ASSERT_EQ(cudaGraphLaunch(replay, stream_), cudaSuccess);
          launch_and_download(fresh, fresh.args(), kernel, pdl);
          EXPECT_TRUE(fresh.verify().ok);
          ASSERT_TRUE(c.download().ok());
          const auto got = outputs_of(c);
          const auto needed = outputs_of(fresh);
          for (size_t i = 0; i < got.size(); ++i) {
            EXPECT_TRUE(expect_bitwise(fmt::format("output {}", i), got[i], needed[i]).ok) << kernel << name_of(pdl);
          }
        }
        cudaGraphExecDestroy(replay);
        cudaGraphDestroy(graph);
      }
    }
  }
};

// 7: a captured graph follows inputs that change in place
TEST_F(CudaReplay, OfASweep) { expect_to_follow<AttnResPartialsCase>("attn_res_partials t=141 q=5 n=4 d=1024"); }
TEST_F(CudaReplay, OfAMerge) { expect_to_follow<AttnResMergeCase>("attn_res_merge t=21 d=1024 write=1"); }

/// A decoder's stream: for every number of blocks a sweep, then its merges with a producer of the next delta between
/// them; the last merge writes the slot that the next sweep reads as its last source.
struct Chain {
  int64_t t = 5;
  int64_t d = 7168;
  int64_t queries = 3;
  bool neighbour = true;
  test::Neighbour how{};
};

class CudaChain : public Cuda {
 protected:
  using Written = std::vector<std::vector<std::byte>>;

  /// Everything that was written, after the chain has run with this order on a copy of the cases.
  void run(const Chain& chain, AttnResPartialsCase sweep, AttnResMergeCase merge, const std::string& sweep_kernel,
           const std::string& merge_kernel, Pdl pdl, Written* written) {
    ASSERT_TRUE(sweep.upload(kGpu).ok());
    ASSERT_TRUE(merge.upload(kGpu).ok());
    test::Neighbour how = chain.how;
    how.dependent = pdl != Pdl::off && hopper_;
    const int64_t rows = chain.t * chain.d;
    for (int64_t n = 1; n <= 8; ++n) {
      AttnResPartialsArgs swept = sweep.args();
      swept.num_blocks = n;
      ASSERT_TRUE(attn_res_partials(swept, launch(sweep_kernel, pdl)).ok()) << n;
      for (int64_t q = 0; q < chain.queries; ++q) {
        AttnResMergeArgs args = merge.args();
        const auto of_query = [&](const TensorView& all, int64_t columns, int64_t element) {
          ConstTensorView part = all;
          part.data = static_cast<const std::byte*>(all.data) + q * all.stride[0] * element;
          part.rank = 2;
          part.shape[0] = chain.t;
          part.shape[1] = columns;
          part.stride[0] = all.stride[1];
          part.stride[1] = 1;
          return part;
        };
        args.statistics = of_query(swept.statistics, 2, sizeof(float));
        args.mix = of_query(swept.mix, chain.d, sizeof(bf16));
        args.stable_partials = q > 0;  // the first merge stands right behind the sweep
        if (q + 1 == chain.queries) {
          args.slot = view(static_cast<bf16*>(const_cast<void*>(swept.blocks.data)) + n * swept.blocks.stride[1],
                           {chain.t, chain.d}, {swept.blocks.stride[0], 1}, kGpu);
        }
        ASSERT_TRUE(attn_res_merge(args, launch(merge_kernel, pdl)).ok()) << n << " " << q;
        if (!chain.neighbour) continue;
        ASSERT_EQ(test::remix(static_cast<const uint16_t*>(args.output.data),
                              static_cast<uint16_t*>(const_cast<void*>(args.delta.data)), rows, how, stream_),
                  cudaSuccess);
      }
    }
    ASSERT_TRUE(synchronize(kGpu, stream_).ok());
    ASSERT_TRUE(sweep.download().ok());
    ASSERT_TRUE(merge.download().ok());
    *written = {sweep.blocks.bytes(), sweep.statistics.bytes(), sweep.mix.bytes(), merge.prefix.bytes(),
                merge.output.bytes()};
  }

  /// The chain writes with the attribute what it writes without.
  void expect_same_as_off(const Chain& chain) {
    const AttnResPartialsCase cases(problem_of<AttnResPartialsCase>(fmt::format("attn_res_partials t={} q={} n=9 d={}",
                                                                                chain.t, chain.queries, chain.d)),
                                    30);
    const AttnResMergeCase merges(
        problem_of<AttnResMergeCase>(fmt::format("attn_res_merge t={} d={}", chain.t, chain.d)), 31);
    constexpr const char* kWhat[] = {"blocks", "statistics", "mix", "prefix", "output"};
    for (const std::string& sweep : cuda_kernels<AttnResPartialsCase>()) {
      for (const std::string& merge : cuda_kernels<AttnResMergeCase>()) {
        Written off;
        run(chain, cases, merges, sweep, merge, Pdl::off, &off);
        for (const Pdl pdl : {Pdl::wait, Pdl::late}) {
          for (int repeat = 0; repeat < 3; ++repeat) {
            Written on;
            run(chain, cases, merges, sweep, merge, pdl, &on);
            ASSERT_EQ(on.size(), off.size());
            for (size_t i = 0; i < on.size(); ++i) {
              const Verdict verdict = expect_bitwise(kWhat[i], on[i], off[i]);
              ASSERT_TRUE(verdict.ok) << sweep << ", " << merge << " " << name_of(pdl) << " t " << chain.t << ": "
                                      << verdict.detail;
            }
          }
        }
      }
    }
  }
};

// 36a: nothing but sweeps and merges, back to back, on one set of tensors
TEST_F(CudaChain, OfItself) {
  for (const int64_t t : {1, 5, 64, 133, 300}) expect_same_as_off({.t = t, .neighbour = false});
  expect_same_as_off({.t = 700, .d = 1024, .queries = 8, .neighbour = false});
  expect_same_as_off({.t = 9, .queries = 1, .neighbour = false});
}

// 29: a producer that writes the next delta late, and lets the next launch start before or after it has
TEST_F(CudaChain, AroundASlowNeighbour) {
  for (const int64_t t : {1, 48, 133}) {
    for (const bool early : {false, true}) {
      for (const int microseconds : {0, 30}) expect_same_as_off({.t = t, .how = {false, early, microseconds}});
    }
  }
}

class CudaBusy : public Cuda {
 protected:
  /// A hundred runs beside a stream that keeps memory and processors busy.
  template <class Case>
  void expect_the_same_bits(const std::string& line) {
    DeviceBuffer load;
    cudaStream_t other = nullptr;
    ASSERT_TRUE(DeviceBuffer::make(kGpu, size_t{256} << 20, &load).ok());
    ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    for (const std::string& kernel : cuda_kernels<Case>()) {
      Case c(problem_of<Case>(line), 40);
      ASSERT_TRUE(c.upload(kGpu).ok());
      std::vector<std::vector<std::byte>> first;
      for (int run = 0; run < 100; ++run) {
        if (run % 10 == 0) {
          ASSERT_EQ(test::keep_busy(load.data(), load.bytes(), 20000, other), cudaSuccess);
        }
        launch_and_download(c, c.args(), kernel, kOrders[run % 3]);
        const auto now = outputs_of(c);
        if (run == 0) first = now;
        for (size_t i = 0; i < now.size(); ++i) {
          ASSERT_TRUE(expect_bitwise("output", now[i], first[i]).ok) << kernel << ", run " << run;
        }
      }
      EXPECT_TRUE(c.verify().ok);
      ASSERT_EQ(cudaStreamSynchronize(other), cudaSuccess);
    }
    cudaStreamDestroy(other);
  }
};

// 26
TEST_F(CudaBusy, AHundredSweeps) {
  expect_the_same_bits<AttnResPartialsCase>("attn_res_partials t=150 q=8 n=6 d=1024");
}
TEST_F(CudaBusy, AHundredMerges) { expect_the_same_bits<AttnResMergeCase>("attn_res_merge t=77 d=7168 delta=0"); }

TEST_F(Cuda, TwoDevices) {
  if (backend::cuda_backend().device_count() < 2) GTEST_SKIP() << "one device";
  int current = 0;
  ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
  for (const std::string& kernel : cuda_kernels<AttnResPartialsCase>()) {
    for (const int index : {1, 0}) {
      AttnResPartialsCase c(problem_of<AttnResPartialsCase>("attn_res_partials t=40 q=8 n=8 d=7168"), 41);
      ASSERT_TRUE(c.run({DeviceKind::cuda, index}, {.policy = Policy::require(kernel)}).ok());
      EXPECT_TRUE(c.verify().ok) << kernel << " on device " << index;
      int after = -1;
      ASSERT_EQ(cudaGetDevice(&after), cudaSuccess);
      EXPECT_EQ(after, current) << "the caller's device stays";
    }
  }
}

}  // namespace
}  // namespace silt
