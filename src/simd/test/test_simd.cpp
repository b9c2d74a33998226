// The SIMD vocabulary on every target this CPU can run, against scalar code and double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <string>

#include "core/workers.hpp"
#include "proof/compare.hpp"
#include "proof/random.hpp"
#include "simd/test/functions.hpp"

namespace silt {

SimdFunctions simd_functions_avx2();
SimdFunctions simd_functions_avx512();
SimdFunctions simd_functions_avx512bf16();
SimdFunctions simd_functions_neon();

std::vector<SimdFunctions> simd_targets_here() {
  std::vector<SimdFunctions> all;
#if defined(__x86_64__)
  for (const SimdFunctions& f : {simd_functions_avx2(), simd_functions_avx512(), simd_functions_avx512bf16()}) {
    if (cpu_facts().has(f.feature)) all.push_back(f);
  }
#elif defined(__aarch64__)
  all.push_back(simd_functions_neon());
#endif
  return all;
}

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kSmallestNormal = std::numeric_limits<float>::min();
/// Results below this count absolutely: silu and sigmoid divide by e^-x, which is infinite from x = -88.7 down, where
/// their own values are still 3e-37.
constexpr double kTiny = 1e-29;

class Simd : public testing::TestWithParam<SimdFunctions> {
 protected:
  [[nodiscard]] const SimdFunctions& f() const { return GetParam(); }
  /// The BF16 conversion flushes denormals whatever the floating-point mode.
  [[nodiscard]] bool flushes() const { return f().name == "avx512bf16"; }
};

bool is_denormal(float x) { return x != 0 && std::abs(x) < kSmallestNormal; }

TEST_P(Simd, WidensAllBf16) {
  for (uint32_t base = 0; base < 65536; base += 32) {
    bf16 in[32];
    float out[32];
    for (uint32_t i = 0; i < 32; ++i) in[i].bits = static_cast<uint16_t>(base + i);
    f().widen(in, out);
    for (int i = 0; i < 32; ++i) EXPECT_EQ(std::bit_cast<uint32_t>(out[i]), uint32_t{in[i].bits} << 16);
    f().columns_bf16(in, out);
    for (int i = 0; i < 32; ++i) EXPECT_EQ(std::bit_cast<uint32_t>(out[i]), uint32_t{in[i].bits} << 16);
  }
}

/// Every bf16 and the values around it: just above, the halves to the next (ties), next to the ties.
TEST_P(Simd, NarrowsToNearestEven) {
  alignas(64) bf16 streamed[32];
  for (const uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
    for (uint32_t base = 0; base < 65536; base += 32) {
      float in[32];
      bf16 out[32];
      for (uint32_t i = 0; i < 32; ++i) in[i] = std::bit_cast<float>(((base + i) << 16) | low);
      f().narrow(in, out);
      f().stream(in, streamed);
      ASSERT_EQ(std::memcmp(out, streamed, sizeof out), 0);
      bf16 widened[32];
      f().narrow_widened(in, widened);
      for (int i = 0; i < 32; ++i) {
        if (!std::isnan(in[i])) {
          ASSERT_EQ(widened[i].bits, out[i].bits) << std::bit_cast<uint32_t>(in[i]);
        } else if (low == 0) {
          ASSERT_TRUE(std::isnan(to_float(widened[i]))) << std::bit_cast<uint32_t>(in[i]);
        }
        if (std::isnan(in[i])) {
          ASSERT_TRUE(std::isnan(to_float(out[i]))) << std::bit_cast<uint32_t>(in[i]);
        } else if (is_denormal(in[i]) && flushes()) {
          ASSERT_EQ(out[i].bits & 0x7fffu, 0u) << std::bit_cast<uint32_t>(in[i]);
        } else {
          ASSERT_EQ(out[i].bits, to_bf16(in[i]).bits) << std::bit_cast<uint32_t>(in[i]);
        }
      }
    }
  }
}

TEST_P(Simd, Fp32PairsKeepTheirOrder) {
  float in[32];
  float out[32];
  for (int i = 0; i < 32; ++i) in[i] = static_cast<float>(i) + 0.1F;
  f().copy_f32(in, out);
  EXPECT_EQ(std::memcmp(in, out, sizeof in), 0);
  std::fill(std::begin(out), std::end(out), kNaN);
  f().columns_f32(in, out);
  EXPECT_EQ(std::memcmp(in, out, sizeof in), 0);
}

TEST_P(Simd, PairsAreMadeOfColumns) {
  float in[32];
  bf16 out[32];
  float out_f32[32];
  for (int i = 0; i < 32; ++i) in[i] = static_cast<float>(i + 1);
  f().pair_bf16(in, out);
  f().pair_f32(in, out_f32);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(to_float(out[i]), in[i]);
    EXPECT_EQ(out_f32[i], in[i]);
  }
}

TEST_P(Simd, WeightsMeetTheirColumns) {
  bf16 in[32];
  float in_f32[32];
  bf16 weights[32];
  bf16 out[32];
  float out_f32[32];
  for (int i = 0; i < 32; ++i) {
    in_f32[i] = static_cast<float>(1 << (i % 8));
    in[i] = to_bf16(in_f32[i]);
    weights[i] = to_bf16(static_cast<float>(i + 1));
  }
  f().weigh_bf16(in, weights, out);
  f().weigh_f32(in_f32, weights, out_f32);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(to_float(out[i]), in_f32[i] * static_cast<float>(i + 1)) << i;
    EXPECT_EQ(out_f32[i], in_f32[i] * static_cast<float>(i + 1)) << i;
  }
}

/// Bit for bit the tree of lanes.inl.hpp, so that all targets agree.
TEST_P(Simd, SumIsTheFixedTree) {
  Random random(1);
  for (int run = 0; run < 1000; ++run) {
    float lanes[4][16];
    float want[4];
    for (int row = 0; row < 4; ++row) {
      float tree[16];
      for (int i = 0; i < 16; ++i) tree[i] = lanes[row][i] = random.uniform(-1e3F, 1e3F);
      for (int half = 8; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) tree[i] += tree[i + half];
      }
      want[row] = tree[0];
      ASSERT_EQ(f().sum(lanes[row]), want[row]);
    }
    float four[4];
    f().sums(lanes[0], four);
    ASSERT_EQ(std::memcmp(four, want, sizeof want), 0);
  }
}

/// Bit for bit: odd column first, then the even one, one rounding each. So the dot product instruction of BF16 and
/// fused multiply-adds are exchangeable.
TEST_P(Simd, SquaresAreAddedOddColumnFirst) {
  Random random(2);
  for (int run = 0; run < 20000; ++run) {
    bf16 in[32];
    float sums[16];
    float want[16];
    for (bf16& x : in) x = to_bf16(random.uniform(-4.0F, 4.0F));
    for (int i = 0; i < 16; ++i) {
      sums[i] = random.uniform(0.0F, 100.0F);
      const float odd = to_float(in[2 * i + 1]);
      const float even = to_float(in[2 * i]);
      want[i] = std::fma(even, even, std::fma(odd, odd, sums[i]));
    }
    f().add_squares(in, sums);
    ASSERT_EQ(std::memcmp(sums, want, sizeof sums), 0) << run;
  }
}

struct Function {
  const char* name;
  void (*SimdFunctions::*run)(const float*, float*);
  double (*exact)(double);
  double epsilons;  ///< bound relative to the exact value, in kFloatEpsilon (math.inl.hpp)
};

double exact_exp(double x) { return std::exp(x); }
double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double exact_silu(double x) { return x / (1 + std::exp(-x)); }
double exact_softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

constexpr Function kFunctions[] = {{"exp", &SimdFunctions::exp, exact_exp, 2},
                                   {"sigmoid", &SimdFunctions::sigmoid, exact_sigmoid, 3},
                                   {"silu", &SimdFunctions::silu, exact_silu, 3},
                                   {"softplus", &SimdFunctions::softplus, exact_softplus, 4}};

/// From -inf's side to where fp32 ends, every 4096th float and random ones.
TEST_P(Simd, FunctionsAreWithinTheirBounds) {
  for (const Function& function : kFunctions) {
    double worst = 0;
    const auto probe = [&](const float* in) {
      float out[16];
      (f().*function.run)(in, out);
      for (int i = 0; i < 16; ++i) {
        const double exact = function.exact(in[i]);
        if (std::abs(exact) > std::numeric_limits<float>::max()) {
          EXPECT_TRUE(std::isinf(out[i])) << function.name << "(" << in[i] << ") = " << out[i];
          continue;
        }
        const double error = std::abs(out[i] - exact) / std::max(std::abs(exact), kTiny);
        worst = std::max(worst, error);
        ASSERT_TRUE(error <= function.epsilons * kFloatEpsilon)
            << function.name << "(" << in[i] << ") = " << out[i] << ", exactly " << exact;
      }
    };
    float in[16];
    Random random(3);
    for (uint32_t bits = 0; bits < 0x42f00000u; bits += 16 * 4096) {  // up to 120
      for (uint32_t i = 0; i < 16; ++i) {
        const float x = std::bit_cast<float>(bits + 4096 * i);
        in[i] = (i & 1) != 0 ? -x : x;
      }
      probe(in);
      if (HasFatalFailure()) return;
    }
    for (int run = 0; run < 20000; ++run) {
      for (float& x : in) x = random.uniform(-90.0F, 90.0F);
      probe(in);
      if (HasFatalFailure()) return;
    }
    RecordProperty(std::string(function.name), std::to_string(worst / kFloatEpsilon));
  }
}

TEST_P(Simd, SeveralAreEachAsAlone) {
  Random random(3);
  std::vector<float> in(static_cast<size_t>(f().together) * 16);
  std::vector<float> out(in.size());
  std::vector<float> alone(in.size());
  for (int run = 0; run < 1000; ++run) {
    for (float& x : in) x = random.uniform(-110.0F, 110.0F);
    f().several(in.data(), out.data());
    for (size_t i = 0; i < in.size(); i += 16) f().silu_softplus(in.data() + i, alone.data() + i);
    ASSERT_EQ(std::memcmp(out.data(), alone.data(), out.size() * sizeof(float)), 0);
  }
}

TEST_P(Simd, FunctionsAtTheEnds) {
  const auto value = [&](void (*run)(const float*, float*), float x) {
    float in[16];
    float out[16];
    std::fill_n(in, 16, x);
    run(in, out);
    for (int i = 1; i < 16; ++i) EXPECT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(out[0]));
    return out[0];
  };
  for (const Function& function : kFunctions) EXPECT_TRUE(std::isnan(value(f().*function.run, kNaN))) << function.name;
  EXPECT_EQ(value(f().exp, -kInfinity), 0.0F);
  EXPECT_EQ(value(f().exp, kInfinity), kInfinity);
  EXPECT_EQ(value(f().exp, 0.0F), 1.0F);
  EXPECT_EQ(value(f().exp, -1e30F), 0.0F);
  EXPECT_EQ(value(f().exp, 1e30F), kInfinity);
  EXPECT_EQ(value(f().sigmoid, -kInfinity), 0.0F);
  EXPECT_EQ(value(f().sigmoid, kInfinity), 1.0F);
  EXPECT_EQ(value(f().softplus, -kInfinity), 0.0F);
  EXPECT_EQ(value(f().softplus, kInfinity), kInfinity);
  EXPECT_EQ(value(f().softplus, 25.0F), 25.0F);
  EXPECT_EQ(value(f().silu, 0.0F), 0.0F);
  EXPECT_EQ(value(f().silu, -200.0F), 0.0F);
}

/// A NaN in one lane stays in it.
TEST_P(Simd, ANaNStaysInItsLane) {
  float in[16] = {};
  float out[16];
  in[5] = kNaN;
  for (const Function& function : kFunctions) {
    (f().*function.run)(in, out);
    for (int i = 0; i < 16; ++i) EXPECT_EQ(std::isnan(out[i]), i == 5) << function.name << " " << i;
  }
}

/// FNV-1a of what a function writes.
class Checksum {
 public:
  template <class T, size_t kCount>
  void add(const T (&values)[kCount]) {
    for (const auto byte : std::as_bytes(std::span(values))) {
      hash_ = (hash_ ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3u;
    }
  }
  [[nodiscard]] uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

/// One set of bits on all targets, in the floating-point mode of the workers: what every target of every processor
/// gives, as checksums, because no processor runs them all.
TEST_P(Simd, AgreesWithAllTargetsBitForBit) {
  struct {
    const char* name;
    uint64_t expected;
    Checksum found;
  } results[] = {{"exp", 0x82b773c258dbb1e4u, {}},    {"sigmoid", 0x05a436c641926fefu, {}},
                 {"silu", 0x33bb05b4765a40ddu, {}},   {"softplus", 0x965a2fcc44ee0c8eu, {}},
                 {"narrow", 0x9ef2a7010d9cc973u, {}}, {"sums", 0xa07620c4ed1bb875u, {}}};
  Random random(4);
  parallel_ranges(1, 1, [&](int64_t, int64_t) {
    for (int run = 0; run < 5000; ++run) {
      float in[64];
      for (float& x : in) x = random.uniform(-120.0F, 120.0F);
      for (size_t i = 0; i < std::size(kFunctions); ++i) {
        float out[16];
        (f().*kFunctions[i].run)(in, out);
        results[i].found.add(out);
      }
      bf16 rounded[32];
      f().narrow(in, rounded);
      results[4].found.add(rounded);
      float four[4];
      f().sums(in, four);
      results[5].found.add(four);
    }
  });
  for (const auto& result : results) EXPECT_EQ(result.found.hash(), result.expected) << result.name;
}

INSTANTIATE_TEST_SUITE_P(Targets, Simd, testing::ValuesIn(simd_targets_here()),
                         [](const auto& param) { return std::string(param.param.name); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Simd);  // a CPU without any of the targets

}  // namespace
}  // namespace silt
