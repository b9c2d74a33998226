// What is drawn at random: lines that their operator takes, all kinds of them, and special values where they belong.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "silt/check.hpp"

#include "dispatch/operator.hpp"
#include "proof/draw.hpp"

namespace silt {
namespace {

TEST(Draws, AreZeroBehindTheLastByte) {
  const uint8_t bytes[] = {7, 255};
  Draws draws(bytes);
  EXPECT_EQ(draws.below(4), 3);
  EXPECT_EQ(draws.below(256), 255);
  EXPECT_EQ(draws.below(256), 0);
}

TEST(RandomLine, IsTakenByItsOperatorWhateverTheSeed) {
  DeviceFacts facts;
  ASSERT_TRUE(device_facts({}, &facts).ok());
  for (const Operator& op : all_operators()) {
    std::set<std::string> lines;
    for (uint64_t seed = 0; seed < 500; ++seed) {
      const std::string line = random_line(op.name, seed);
      lines.insert(line);
      Explanation explanation;
      const Status status = explain(line, facts, Policy::require("cpu_reference"), &explanation);
      EXPECT_TRUE(status.ok()) << line << ": " << status.message();
    }
    EXPECT_GT(lines.size(), 450U) << op.name;
  }
  EXPECT_EQ(random_line("attn_ras", 1), "");
}

TEST(RandomLine, IsOfEveryKind) {
  std::string all;
  for (const Operator& op : all_operators()) {
    for (uint64_t seed = 0; seed < 500; ++seed) all += random_line(op.name, seed) + " ";
  }
  for (const char* part : {" b=0 ",
                           " t=0 ",
                           " n=0 ",
                           " seqs=0x0 ",
                           " padded=",
                           " null=-1",
                           " layout=ds",
                           " gate=softplus",
                           " state=bf16",
                           " dtype=f32",
                           " align=2 ",
                           " state_align=4",
                           " bank_slot_stride=",
                           " mix_token_stride=",
                           " offsets=0",
                           " columns=3",
                           " lengths=ragged",
                           " initial=1",
                           " act=silu",
                           " write=",
                           " stable=",
                           " lower_bound=-0.5"}) {
    EXPECT_NE(all.find(part), std::string::npos) << part;
  }
}

TEST(PlantSpecials, LeavesPoisonAndIntegersAlone) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    CaseTensor gate(DType::f32, {4, 200});
    CaseTensor indices(DType::i32, {4});
    CaseTensor statistics(DType::f32, {4, 2});
    for (int64_t i = 0; i < 400; ++i) gate.set(i, 0.25F);
    statistics.fill([](int64_t) { return 2.0F; });
    for (int64_t i = 0; i < 4; ++i) indices.set_int(i, 5);
    const std::vector<uint8_t> bytes = bytes_of(seed);
    Draws draws(bytes);
    plant_specials({{"raw_gate", &gate}, {"state_indices", &indices}, {"statistics", &statistics}}, draws);
    for (int64_t i = 0; i < 400; ++i) changed += gate.get(i) != 0.25F ? 1 : 0;
    for (int64_t i = 400; i < 800; ++i) ASSERT_TRUE(std::isnan(gate.get(i))) << seed;
    for (int64_t i = 0; i < 4; ++i) ASSERT_EQ(indices.get_int(i), 5);
    for (int64_t i = 0; i < 8; ++i) ASSERT_EQ(statistics.get(i), 2.0F);
  }
  EXPECT_GT(changed, 1000);
}

}  // namespace
}  // namespace silt
