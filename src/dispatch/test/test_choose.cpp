#include <gtest/gtest.h>

#include <array>

#include "dispatch/operator.hpp"

namespace silt {
namespace {

struct Toy {
  int64_t n = 0;
  static Status parse(const ProblemLine& line, Toy* toy) {
    LineParser parser(line);
    parser.size("n", toy->n);
    return parser.finish();
  }
  [[nodiscard]] std::string line() const { return fmt::format("toy n={}", n); }
};
struct ToyArgs {
  std::string_view* ran;
};

Reason small(const Toy& toy, const DeviceFacts&) { return toy.n <= 8 ? accept() : refuse("n", toy.n, "at most 8"); }
Reason wide(const Toy&, const DeviceFacts& facts) {
  return facts.has(kCpuAvx2) ? accept() : refuse("arch", facts.arch, "avx2");
}
Reason any(const Toy&, const DeviceFacts&) { return accept(); }

template <int kIndex>
Status launch(const Toy&, const ToyArgs& args, const Launch&) {
  constexpr std::string_view names[] = {"cuda_sm90_toy", "cpu_wide_toy", "cpu_small_toy", "cpu_reference"};
  *args.ran = names[kIndex];
  return {};
}

const std::array<Kernel<Toy, ToyArgs>, 4> kToys = {{
    {"cuda_sm90_toy", DeviceKind::cuda, KernelClass::native, any, nullptr, "needs nvcc"},
    {"cpu_wide_toy", DeviceKind::cpu, KernelClass::native, wide, launch<1>},
    {"cpu_small_toy", DeviceKind::cpu, KernelClass::native, small, launch<2>},
    {"cpu_reference", DeviceKind::cpu, KernelClass::reference, any, launch<3>},
}};
std::array<KernelCounter, 4> counters;

KernelList<Toy, ToyArgs> list() { return {"toy", kToys, counters}; }

DeviceFacts plain_cpu() {
  DeviceFacts facts;
  facts.name = "plain";
  facts.arch = "x86-64";
  return facts;
}

std::string chosen(int64_t n, const DeviceFacts& facts, const Policy& policy = {}) {
  Choice choice;
  const Status status = choose(list(), Toy{n}, facts, policy, &choice);
  return status.ok() ? std::string(kToys[choice.kernel].name) : status.message();
}

TEST(Choose, FirstFit) {
  DeviceFacts facts = plain_cpu();
  EXPECT_EQ(chosen(3, facts), "cpu_small_toy");
  EXPECT_EQ(chosen(9, facts), "cpu_reference");
  facts.cpu_features = kCpuAvx2;
  EXPECT_EQ(chosen(9, facts), "cpu_wide_toy");
}

TEST(Choose, ARequiredKernelKeepsItsPredicate) {
  const DeviceFacts facts = plain_cpu();
  EXPECT_EQ(chosen(3, facts, Policy::require("cpu_reference")), "cpu_reference");
  EXPECT_EQ(chosen(9, facts, Policy::require("cpu_small_toy")),
            "toy: kernel cpu_small_toy refuses: n: has 9, needs at most 8 (toy n=9)");
  EXPECT_EQ(
      chosen(9, facts, Policy::require("cpu_smal_toy")),
      "toy: kernel: has \"cpu_smal_toy\", needs one of cuda_sm90_toy, cpu_wide_toy, cpu_small_toy, cpu_reference");
}

TEST(Choose, APreferredKernelFallsBackAndSaysSo) {
  Choice choice;
  ASSERT_TRUE(choose(list(), Toy{9}, plain_cpu(), Policy::prefer("cpu_small_toy"), &choice).ok());
  EXPECT_EQ(kToys[choice.kernel].name, "cpu_reference");
  EXPECT_EQ(kToys[choice.fell_from].name, "cpu_small_toy");
}

TEST(Choose, UnbuiltKernelsAreRefusedHereAndCountOnCannedFacts) {
  DeviceFacts gpu = plain_cpu();
  gpu.kind = DeviceKind::cuda;
  EXPECT_NE(chosen(3, gpu).find("no kernel"), std::string::npos);
  gpu.canned = true;
  EXPECT_EQ(chosen(3, gpu), "cuda_sm90_toy");
}

TEST(Choose, RunCountsFallbacksToASlowerClassOnly) {
  reset(list());
  std::string_view ran;
  ASSERT_TRUE(run(list(), Toy{9}, ToyArgs{&ran}, {}, {.policy = Policy::require("cpu_reference")}).ok());
  EXPECT_EQ(ran, "cpu_reference");
  EXPECT_EQ(counters[3].runs, 1u);
  EXPECT_EQ(counters[3].fallbacks, 0u) << "asked for by name is no fallback";
  Choice choice;
  ASSERT_TRUE(choose(list(), Toy{9}, plain_cpu(), {}, &choice).ok());
  EXPECT_EQ(kToys[choice.fell_from].name, "cpu_small_toy") << "small refused, reference is slower";
  ASSERT_TRUE(choose(list(), Toy{3}, plain_cpu(), {}, &choice).ok());
  EXPECT_EQ(choice.fell_from, kNoKernel) << "another instruction set is not a fallback";
}

TEST(Choose, FewerThanNoThreadsAreAnError) {
  std::string_view ran;
  EXPECT_EQ(run(list(), Toy{9}, ToyArgs{&ran}, {}, {.threads = -1}).message(),
            "toy: threads: has -1, needs 0 (every core) or more");
  EXPECT_EQ(ran, "");
}

TEST(Explain, IsTheSameWalk) {
  Explanation explanation;
  ProblemLine line;
  ASSERT_TRUE(parse_line("toy n=9", &line).ok());
  ASSERT_TRUE(explain_line(list(), line, plain_cpu(), {}, &explanation).ok());
  EXPECT_EQ(explanation.kernel, "cpu_reference");
  EXPECT_EQ(explanation.table,
            "toy n=9 on plain (x86-64)\n"
            "  cuda_sm90_toy        refuses: device: has cpu, needs cuda\n"
            "  cpu_wide_toy         refuses: arch: has x86-64, needs avx2\n"
            "  cpu_small_toy        refuses: n: has 9, needs at most 8\n"
            "  cpu_reference        chosen\n");
}

}  // namespace
}  // namespace silt
