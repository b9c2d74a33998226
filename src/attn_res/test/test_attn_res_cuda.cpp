// attn_res on NVIDIA GPUs: what the tests over every kernel do not reach. The comments name the row of docs/cases.md.
// Without a device every test is skipped with the backend's reason.
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "attn_res/cases.hpp"
#include "attn_res/cuda/cuda_sm90_direct.hpp"
#include "device/backend.hpp"
#include "gpu/test/gpu_neighbours.hpp"
#include "proof/random.hpp"
#include "proof/room_test.hpp"
#include "proof/stop_when_broken.hpp"

namespace silt {
namespace {

namespace direct = attn_res_cuda_sm90_direct;

constexpr Device kGpu = {DeviceKind::cuda, 0};
using Form = direct::Form;
using Begin = direct::Begin;
/// Every form, hint and way to begin that there is for these rows and columns.
std::vector<direct::Plan> plans(int64_t n, int64_t d) {
  std::vector<direct::Plan> all;
  for (const Form form : {Form::narrow, Form::two, Form::one}) {
    for (const bool stream : {false, true}) {
      for (const Begin begin : {Begin::rows, Begin::prefetch, Begin::in_turn}) {
        if (direct::fits({form, stream, begin}, n, d)) all.push_back({form, stream, begin});
      }
    }
  }
  return all;
}
constexpr Pdl kOrders[] = {Pdl::off, Pdl::wait, Pdl::late};

constexpr auto problem_of = parsed<AttnResProblem>;

std::vector<std::string> cuda_kernels() {
  std::vector<std::string> names;
  for (const KernelHere& here : kernels_here("attn_res")) {
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
  bool expect_right(const std::string& line, const std::string& kernel, Pdl pdl = Pdl::wait) {
    AttnResCase c(problem_of(line), 21);
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

  cudaStream_t stream_ = nullptr;
  bool hopper_ = false;
};

/// A small list, also for compute-sanitizer: every kernel, each phase and every tail once.
class CudaReduced : public Cuda {};

TEST_F(CudaReduced, EveryKernel) {
  for (const std::string& kernel : cuda_kernels()) {
    int ran = 0;
    for (const char* line : {"attn_res t=3 n=0 d=7168 delta=0 write=0", "attn_res t=3 n=2 d=2304 write=2",
                             "attn_res t=5 n=8 d=7168", "attn_res t=2 n=8 d=8192 norm=0 delta=0",
                             "attn_res t=4 n=1 d=256", "attn_res t=3 n=3 d=4104", "attn_res t=3 n=3 d=17"}) {
      for (const Pdl pdl : {Pdl::wait, Pdl::late}) ran += expect_right(line, kernel, pdl) ? 1 : 0;
    }
    EXPECT_GE(ran, 8) << kernel;
  }
}

TEST_F(CudaReduced, EveryForm) {
  if (!hopper_) GTEST_SKIP() << "cuda_sm90_direct needs sm_90";
  for (const char* line : {"attn_res t=3 n=8 d=7168", "attn_res t=3 n=1 d=4608 write=1", "attn_res t=2 n=0 d=7168",
                           "attn_res t=2 n=3 d=768"}) {
    const AttnResProblem wanted = problem_of(line);
    for (const direct::Plan& plan : plans(wanted.n, wanted.d)) {
      AttnResCase c(wanted, 22);
      ASSERT_TRUE(c.upload(kGpu).ok());
      AttnResProblem problem;
      ASSERT_TRUE(check(c.args(), &problem).ok());
      ASSERT_TRUE(direct::launch_plan(problem, c.args(), launch(""), plan).ok());
      ASSERT_TRUE(synchronize(kGpu, stream_).ok());
      ASSERT_TRUE(c.download().ok());
      const Verdict verdict = c.verify();
      EXPECT_TRUE(verdict.ok) << line << " " << to_string(plan) << ": " << verdict.detail;
    }
  }
}

/// Every call key runs natively, in every order, and is right.
TEST_F(Cuda, EveryCallKey) {
  if (!hopper_) GTEST_SKIP() << "the native kernels need sm_90";
  for (const char* kernel : {"cuda_sm90_direct", "cuda_sm90_bulk"}) {
    for (int n = 0; n <= 8; ++n) {
      for (int key = 0; key < 8; ++key) {
        const std::string line = fmt::format("attn_res t=3 n={} d={} delta={} norm={} write={} r=9", n,
                                             n % 2 == 0 ? 7168 : 2304, key & 1, key >> 1 & 1, (key & 4) != 0 ? n : -1);
        EXPECT_TRUE(expect_right(line, kernel, kOrders[(n + key) % 3])) << kernel << " refuses " << line;
      }
    }
  }
}

TEST_F(Cuda, LateWithEveryNumberOfStableRows) {
  if (!hopper_) GTEST_SKIP() << "the native kernels need sm_90";
  for (const char* kernel : {"cuda_sm90_direct", "cuda_sm90_bulk"}) {
    for (int stable = -1; stable <= 4; ++stable) {
      EXPECT_TRUE(expect_right(fmt::format("attn_res t=7 n=4 d=1024 stable={}", stable), kernel, Pdl::late));
    }
  }
}

// 36b: all forms, hints and orders on the same input, bit for bit
TEST_F(Cuda, AllFormsGiveTheSameBits) {
  if (!hopper_) GTEST_SKIP() << "cuda_sm90_direct needs sm_90";
  for (const int64_t d : {512, 1280, 2304, 4096, 5120, 6912, 7168}) {
    for (int n = 0; n <= 8; ++n) {
      const AttnResProblem line =
          problem_of(fmt::format("attn_res t=19 n={} d={} norm={} write={}", n, d, n % 3 == 1 ? 0 : 1, n));
      std::vector<std::byte> first;
      for (const direct::Plan& plan : plans(n, d)) {
        for (const Pdl pdl : kOrders) {
          AttnResCase c(line, 23);
          ASSERT_TRUE(c.upload(kGpu).ok());
          AttnResProblem problem;
          ASSERT_TRUE(check(c.args(), &problem).ok());
          ASSERT_TRUE(direct::launch_plan(problem, c.args(), launch("", pdl), plan).ok());
          ASSERT_TRUE(synchronize(kGpu, stream_).ok());
          ASSERT_TRUE(c.download().ok());
          if (first.empty()) first = c.output.bytes();
          const Verdict verdict = expect_bitwise("output", c.output.bytes(), first);
          ASSERT_TRUE(verdict.ok) << "n " << n << " d " << d << " " << to_string(plan) << " " << name_of(pdl) << ": "
                                  << verdict.detail;
        }
      }
    }
  }
}

// 27: the forms that the table takes at 1, 64, 600 and 2100 tokens give a row the same bits
TEST_F(Cuda, ARowDoesNotDependOnTheNumberOfTokens) {
  for (const std::string& kernel : cuda_kernels()) {
    AttnResCase many(problem_of("attn_res t=2100 n=8 d=7168 r=8"), 24);
    ASSERT_TRUE(many.upload(kGpu).ok());
    std::vector<uint16_t> first(7168);
    for (const int64_t t : {1, 64, 600, 2100}) {
      AttnResArgs args = many.args();
      args.delta = {};  // so that prefix keeps its value from run to run
      for (TensorView* view : {&args.prefix, &args.blocks, &args.output}) view->shape[0] = t;
      ASSERT_TRUE(attn_res(args, launch(kernel)).ok());
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
  for (const std::string& kernel : cuda_kernels()) {
    EXPECT_TRUE(expect_right("attn_res t=65537 n=1 d=256", kernel)) << kernel;
  }
}

// 1, 12: a slot-major bank of more than 2^31 elements
TEST_F(Cuda, OffsetsAre64Bit) {
  constexpr int64_t kFar = (int64_t{1} << 30) + 4096;
  constexpr int64_t kD = 512;
  DeviceBuffer bank;
  ASSERT_TRUE(DeviceBuffer::make(kGpu, static_cast<size_t>(3 * kFar + 2 * kD) * sizeof(bf16), &bank).ok());
  for (const std::string& kernel : cuda_kernels()) {
    AttnResCase c(problem_of("attn_res t=2 n=3 d=512 write=3"), 25);
    std::vector<bf16> rows(2 * kD);
    for (int64_t slot = 0; slot < 3; ++slot) {
      for (int64_t i = 0; i < 2 * kD; ++i) {
        rows[static_cast<size_t>(i)] = to_bf16(c.blocks.get((i / kD * 4 + slot) * kD + i % kD));
      }
      ASSERT_TRUE(bank.upload(static_cast<size_t>(slot * kFar) * 2, rows.data(), rows.size() * 2).ok());
    }
    ASSERT_TRUE(c.upload(kGpu).ok());
    AttnResArgs args = c.args();
    args.blocks = view(reinterpret_cast<bf16*>(bank.data()), {2, 4, kD}, {kD, kFar, 1}, kGpu);
    ASSERT_TRUE(attn_res(args, launch(kernel)).ok());
    ASSERT_TRUE(synchronize(kGpu, stream_).ok());
    ASSERT_TRUE(c.download().ok());
    ASSERT_TRUE(bank.download(static_cast<size_t>(3 * kFar) * 2, rows.data(), rows.size() * 2).ok());
    for (int64_t i = 0; i < 2 * kD; ++i) {  // what was written, to where verify looks
      c.blocks.set((i / kD * 4 + 3) * kD + i % kD, to_float(rows[static_cast<size_t>(i)]));
    }
    const Verdict verdict = c.verify();
    EXPECT_TRUE(verdict.ok) << kernel << ": " << verdict.detail;
  }
}

// 7: a captured graph follows inputs that change in place
TEST_F(Cuda, GraphReplay) {
  for (const std::string& kernel : cuda_kernels()) {
    for (const Pdl pdl : kOrders) {
      AttnResCase c(problem_of("attn_res t=21 n=4 d=1024 write=4"), 26);
      ASSERT_TRUE(c.upload(kGpu).ok());
      const AttnResArgs args = c.args();
      cudaGraph_t graph = nullptr;
      cudaGraphExec_t replay = nullptr;
      ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
      const Status status = attn_res(args, launch(kernel, pdl));
      ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
      ASSERT_TRUE(status.ok()) << kernel << ": " << status.message();
      ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
      for (const uint64_t seed : {27u, 28u}) {
        AttnResCase fresh(c.problem, seed);  // other contents in the same device memory
        ASSERT_TRUE(fresh.upload(kGpu).ok());
        const AttnResArgs from = fresh.args();
        const auto copy = [&](const void* to, const void* source, const CaseTensor& like) {
          return cudaMemcpy(const_cast<void*>(to), source, static_cast<size_t>(like.elements()) * 2,
                            cudaMemcpyDeviceToDevice);
        };
        ASSERT_EQ(copy(args.prefix.data, from.prefix.data, c.prefix), cudaSuccess);
        ASSERT_EQ(copy(args.delta.data, from.delta.data, c.delta), cudaSuccess);
        ASSERT_EQ(copy(args.blocks.data, from.blocks.data, c.blocks), cudaSuccess);
        ASSERT_EQ(copy(args.qk_weight.data, from.qk_weight.data, c.qk_weight), cudaSuccess);
        ASSERT_EQ(copy(args.norm_weight.data, from.norm_weight.data, c.norm_weight), cudaSuccess);
        ASSERT_EQ(copy(args.output_norm_weight.data, from.output_norm_weight.data, c.output_norm_weight), cudaSuccess);
        ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        ASSERT_EQ(cudaGraphLaunch(replay, stream_), cudaSuccess);
        ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
        ASSERT_TRUE(attn_res(fresh.args(), launch(kernel, pdl)).ok());
        ASSERT_TRUE(synchronize(kGpu, stream_).ok());
        ASSERT_TRUE(fresh.download().ok());
        EXPECT_TRUE(fresh.verify().ok);
        ASSERT_TRUE(c.download().ok());
        EXPECT_TRUE(expect_bitwise("output", c.output.bytes(), fresh.output.bytes()).ok) << kernel << name_of(pdl);
        EXPECT_TRUE(expect_bitwise("blocks", c.blocks.bytes(), fresh.blocks.bytes()).ok) << kernel << name_of(pdl);
      }
      cudaGraphExecDestroy(replay);
      cudaGraphDestroy(graph);
    }
  }
}

/// A decoder's stream on a few sets of tensors: attn_res that fills its bank slot after slot, and, where there is a
/// neighbour, a kernel that makes the next delta of the outputs.
struct Chain {
  int64_t sets = 2;
  int64_t t = 5;
  int64_t d = 7168;
  bool neighbour = true;
  test::Neighbour how{};
  int steps = 36;
};

class CudaChain : public Cuda {
 protected:
  static std::vector<AttnResCase> make_cases(const Chain& chain) {
    std::vector<AttnResCase> cases;
    for (int64_t set = 0; set < chain.sets; ++set) {
      cases.emplace_back(problem_of(fmt::format("attn_res t={} n=8 d={} r=9 write=8", chain.t, chain.d)),
                         static_cast<uint64_t>(30 + set));
    }
    return cases;
  }

  using Written = std::vector<std::vector<std::byte>>;
  using Call = std::function<Status(const AttnResArgs&, Pdl)>;

  [[nodiscard]] Call call(const std::string& kernel) const {
    return [this, kernel](const AttnResArgs& args, Pdl pdl) { return attn_res(args, launch(kernel, pdl)); };
  }
  /// The nearest plan where there is no code for a number of rows.
  [[nodiscard]] Call call(const direct::Plan& plan) const {
    return [this, plan](const AttnResArgs& args, Pdl pdl) {
      AttnResProblem problem;
      const Status status = check(args, &problem);
      const direct::Plan own = direct::nearest(plan, problem.n, problem.d);
      return status.ok() ? direct::launch_plan(problem, args, launch("", pdl), own) : status;
    };
  }

  /// Everything that was written, after the chain has run with this order on a copy of the cases.
  void run(const Chain& chain, std::vector<AttnResCase> cases, const Call& call, Pdl pdl, Written* written) {
    for (AttnResCase& c : cases) ASSERT_TRUE(c.upload(kGpu).ok());
    test::Neighbour how = chain.how;
    how.dependent = pdl != Pdl::off && hopper_;
    for (int step = 0; step < chain.steps; ++step) {
      const auto set = static_cast<size_t>(step % chain.sets);
      AttnResArgs args = cases[set].args();
      // Two calls per layer: one writes slot n, the next reads it as its last source.
      const int64_t round = step / chain.sets;
      args.num_blocks = (round + 1) / 2 % 9;
      args.block_write_idx = round % 2 == 0 ? args.num_blocks : -1;
      ASSERT_TRUE(call(args, pdl).ok()) << step;
      if (!chain.neighbour) continue;
      const AttnResArgs next = cases[static_cast<size_t>((step + 1) % chain.sets)].args();
      ASSERT_EQ(
          test::remix(static_cast<const uint16_t*>(args.output.data),
                      static_cast<uint16_t*>(const_cast<void*>(next.delta.data)), chain.t * chain.d, how, stream_),
          cudaSuccess);
    }
    ASSERT_TRUE(synchronize(kGpu, stream_).ok());
    written->clear();
    for (AttnResCase& c : cases) {
      ASSERT_TRUE(c.download().ok());
      for (const CaseTensor* tensor : {&c.prefix, &c.blocks, &c.output}) written->push_back(tensor->bytes());
    }
  }

  /// The chain writes with the attribute what it writes without.
  void expect_same_as_off(const Chain& chain, const Call& call, const std::string& name, int repeats = 3) {
    const std::vector<AttnResCase> cases = make_cases(chain);
    Written off;
    run(chain, cases, call, Pdl::off, &off);
    for (const Pdl pdl : {Pdl::wait, Pdl::late}) {
      for (int repeat = 0; repeat < repeats; ++repeat) {
        Written on;
        run(chain, cases, call, pdl, &on);
        ASSERT_EQ(on.size(), off.size());
        for (size_t i = 0; i < on.size(); ++i) {
          const Verdict verdict = expect_bitwise(i % 3 == 0   ? "prefix"
                                                 : i % 3 == 1 ? "blocks"
                                                              : "output",
                                                 on[i], off[i]);
          ASSERT_TRUE(verdict.ok) << name << " " << name_of(pdl) << " t " << chain.t << ", set " << i / 3 << ": "
                                  << verdict.detail;
        }
      }
    }
  }
  void expect_same_as_off(const Chain& chain) {
    for (const std::string& kernel : cuda_kernels()) expect_same_as_off(chain, call(kernel), kernel);
  }
};

// 36a: nothing but attn_res, back to back, on one, two and three sets
TEST_F(CudaChain, OfItself) {
  for (const int64_t sets : {1, 2, 3}) {
    for (const int64_t t : {1, 5, 64, 133}) expect_same_as_off({.sets = sets, .t = t, .neighbour = false});
  }
  expect_same_as_off({.sets = 2, .t = 700, .d = 1024, .neighbour = false});
}

// 36a, 29: the same for every form and way to begin of cuda_sm90_direct, alone and around a neighbour
TEST_F(CudaChain, EveryForm) {
  if (!hopper_) GTEST_SKIP() << "cuda_sm90_direct needs sm_90";
  for (const direct::Plan& plan : plans(8, 7168)) {
    expect_same_as_off({.sets = 2, .t = 9, .neighbour = false}, call(plan), to_string(plan), 1);
    for (const bool early : {false, true}) {
      expect_same_as_off({.sets = 1, .t = 9, .how = {false, early, 20}}, call(plan), to_string(plan), 1);
    }
  }
}

// 29: a producer that writes the next delta late, and lets attn_res start before or after it has
TEST_F(CudaChain, AroundASlowNeighbour) {
  for (const int64_t sets : {1, 2}) {
    for (const int64_t t : {1, 48, 133}) {
      for (const bool early : {false, true}) {
        for (const int microseconds : {0, 30}) {
          expect_same_as_off({.sets = sets, .t = t, .how = {false, early, microseconds}, .steps = 24});
        }
      }
    }
  }
}

// 26: a hundred runs on a busy GPU
TEST_F(Cuda, AHundredRunsOnABusyGpu) {
  DeviceBuffer load;
  cudaStream_t other = nullptr;
  ASSERT_TRUE(DeviceBuffer::make(kGpu, size_t{256} << 20, &load).ok());
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  for (const std::string& kernel : cuda_kernels()) {
    AttnResCase c(problem_of("attn_res t=77 n=6 d=7168 delta=0"), 40);
    ASSERT_TRUE(c.upload(kGpu).ok());
    std::vector<std::byte> first;
    for (int run = 0; run < 100; ++run) {
      if (run % 10 == 0) {
        ASSERT_EQ(test::keep_busy(load.data(), load.bytes(), 20000, other), cudaSuccess);
      }
      ASSERT_TRUE(attn_res(c.args(), launch(kernel, kOrders[run % 3])).ok());
      ASSERT_TRUE(synchronize(kGpu, stream_).ok());
      ASSERT_TRUE(c.download().ok());
      if (run == 0) first = c.output.bytes();
      ASSERT_TRUE(expect_bitwise("output", c.output.bytes(), first).ok) << kernel << ", run " << run;
    }
    EXPECT_TRUE(c.verify().ok);
    ASSERT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  }
  cudaStreamDestroy(other);
}

// 28: two threads, two streams
TEST_F(Cuda, TwoStreamsAtOnce) {
  for (const std::string& kernel : cuda_kernels()) {
    std::vector<std::thread> callers;
    for (uint64_t caller = 0; caller < 2; ++caller) {
      callers.emplace_back([&kernel, caller] {
        cudaStream_t stream = nullptr;
        ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
        for (uint64_t run = 0; run < 10; ++run) {
          AttnResCase c(problem_of(caller == 0 ? "attn_res t=40 n=4 d=512" : "attn_res t=23 n=7 d=2304 write=7"),
                        caller + run);
          Launch launch;
          launch.stream = stream;
          launch.policy = Policy::require(kernel);
          ASSERT_TRUE(c.run(kGpu, launch).ok());
          EXPECT_TRUE(c.verify().ok);
        }
        cudaStreamDestroy(stream);
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
}

TEST_F(Cuda, TwoDevices) {
  if (backend::cuda_backend().device_count() < 2) GTEST_SKIP() << "one device";
  int current = 0;
  ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
  for (const std::string& kernel : cuda_kernels()) {
    for (const int index : {1, 0}) {
      AttnResCase c(problem_of("attn_res t=40 n=8 d=7168"), 41);
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
