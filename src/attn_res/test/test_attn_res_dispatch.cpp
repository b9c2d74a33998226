// Which kernel attn_res takes on devices that are not here: golden tables, and "native never falls back".
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "silt/choose.hpp"

#include "attn_res/cases.hpp"
#include "attn_res/cuda/cuda_sm90_direct.hpp"

namespace silt {
namespace {

/// (blocks, delta, write, output norm) of a decoder, every number of blocks.
std::vector<std::string> call_keys() {
  std::vector<std::string> lines;
  for (int n = 0; n <= 8; ++n) {
    for (int delta = 0; delta <= 1; ++delta) {
      for (int write = 0; write <= 1; ++write) {
        for (int norm = 0; norm <= 1; ++norm) {
          lines.push_back(fmt::format("n={} delta={} norm={} write={} r=9", n, delta, norm, write == 1 ? n : -1));
        }
      }
    }
  }
  return lines;
}

std::string chosen(const std::string& line, const char* device) {
  DeviceFacts facts;
  EXPECT_TRUE(canned_facts(device, &facts).ok());
  Explanation explanation;
  const Status status = explain(line, facts, {}, &explanation);
  return status.ok() ? explanation.kernel : status.message();
}

// 35
TEST(AttnResDispatch, NativeNeverFallsBack) {
  for (const char* device : {"h100", "h200", "b200", "b300"}) {
    for (const std::string& key : call_keys()) {
      for (const int d : {256, 512, 2304, 4096, 5120, 7168, 8192}) {
        for (const int t : {1, 48, 133, 8192}) {
          const std::string line = fmt::format("attn_res t={} d={} {}", t, d, key);
          ASSERT_EQ(chosen(line, device), "cuda_sm90_direct") << device << " " << line;
        }
      }
    }
  }
}

TEST(AttnResDispatch, OlderAndForeignShapesGoPortable) {
  EXPECT_EQ(chosen("attn_res t=5 n=8 d=7168", "a100"), "cuda_sm80_rows");
  EXPECT_EQ(chosen("attn_res t=5 n=9 d=7168", "h200"), "cuda_sm80_rows");
  EXPECT_EQ(chosen("attn_res t=5 n=8 d=7168 align=8", "h200"), "cuda_sm80_rows");
  EXPECT_EQ(chosen("attn_res t=5 n=8 d=4104", "h200"), "cuda_sm90_bulk");
  EXPECT_NE(chosen("attn_res t=5 n=8 d=7168 dtype=f32", "h200").find("no kernel"), std::string::npos);
}

TEST(AttnResDispatch, EveryPlanFits) {
  using namespace attn_res_cuda_sm90_direct;  // NOLINT(google-build-using-namespace)
  for (int64_t d = kLeafColumns; d <= kMostColumns; d += kLeafColumns) {
    for (int n = 0; n <= kMostSources; ++n) {
      for (const int64_t t : {1, 47, 48, 96, 132, 133, 256, 1024, 8192, 65537}) {
        for (const Pdl pdl : {Pdl::off, Pdl::wait, Pdl::late}) {
          AttnResProblem problem;
          problem.t = t;
          problem.n = n;
          problem.d = d;
          const Plan plan = choose_plan(problem, pdl);
          EXPECT_TRUE(fits(plan, n, d)) << "n " << n << " d " << d << " t " << t;
          const int64_t lanes = int64_t{blocks_per_token(plan, d)} * threads_per_block(plan, d);
          EXPECT_GE(lanes * pieces(plan.form) * kPieceColumns, d);
          EXPECT_LE(blocks_per_token(plan, d), kMostBlocks);
          EXPECT_TRUE(plan.form == Form::one || blocks_per_token(plan, d) >= 2) << "a cluster of one block";
          EXPECT_LE(threads_per_block(plan, d), 32 * most_warps(plan.form));
        }
      }
    }
  }
}

/// The tables a reader would ask for, per device.
std::string tables(const char* device) {
  DeviceFacts facts;
  EXPECT_TRUE(canned_facts(device, &facts).ok());
  std::string text;
  for (const char* line : {
           "attn_res t=1 n=8 d=7168",
           "attn_res t=64 n=8 d=7168",
           "attn_res t=8192 n=8 d=7168",
           "attn_res t=256 n=4 d=7168",
           "attn_res t=64 n=1 d=7168",
           "attn_res t=16 n=0 d=7168 delta=0 write=0",
           "attn_res t=1 n=8 d=7168 norm=0",
           "attn_res t=16 n=3 d=2304 write=3",
           "attn_res t=16 n=8 d=4104",
           "attn_res t=16 n=12 d=7168",
           "attn_res t=16 n=8 d=7168 align=2",
           "attn_res t=16 n=8 d=16384",
       }) {
    Explanation explanation;
    EXPECT_TRUE(explain(line, facts, {}, &explanation).ok()) << line;
    std::istringstream lines(explanation.table);
    for (std::string row; std::getline(lines, row);) {
      // Other backends refuse the device; whether this build has the kernel is not the table's matter.
      if (row.find("device: has") != std::string::npos) continue;
      text += row.substr(0, row.find(" (not built here")) + "\n";
    }
  }
  return text;
}

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, TablesAreAsCommitted) {
  const std::string name = fmt::format("attn_res_{}.txt", GetParam());
  const std::string path = fmt::format("{}/tests/dispatch/{}", SILT_SOURCE_DIR, name);
  std::ifstream file(path);
  std::ostringstream committed;
  committed << file.rdbuf();
  const std::string now = tables(GetParam());
  if (committed.str() == now) return;
  std::ofstream(name) << now;
  ADD_FAILURE() << path << " differs; what it is now was written to ./" << name << ":\n" << now;
}

INSTANTIATE_TEST_SUITE_P(AttnResDispatch, Golden, testing::Values("a100", "h100", "h200", "b200", "b300"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace silt
