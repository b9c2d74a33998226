// The maths that the KDA rooms share, and the comparisons of their cases: each finds a planted fault.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kda/shared/case_pool.hpp"
#include "kda/shared/cpu_maths.hpp"
#include "kda/shared/cpu_steps.hpp"
#include "proof/compare.hpp"

namespace silt::kda {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Function {
  const char* name;
  float (*fast)(float);
  double (*exact)(double);
  float low;
  float high;
};

double exact_exp(double x) { return std::exp(x); }
float lane_exp(float x) { return cpu::exp(cpu::all(x))[1]; }
float lane_sigmoid(float x) { return cpu::sigmoid(cpu::all(x))[2]; }
float lane_silu(float x) { return cpu::silu(cpu::all(x))[3]; }
float lane_softplus(float x) { return cpu::softplus(cpu::all(x))[0]; }
double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double exact_silu(double x) { return x * exact_sigmoid(x); }
double exact_softplus(double x) { return std::log1p(std::exp(x)); }

const Function kFunctions[] = {{"exp", lane_exp, exact_exp, -87.0F, 88.7F},
                               {"sigmoid", lane_sigmoid, exact_sigmoid, -87.0F, 100.0F},
                               {"silu", lane_silu, exact_silu, -87.0F, 100.0F},
                               {"softplus", lane_softplus, exact_softplus, -87.0F, 100.0F}};

TEST(Maths, RelativeErrorIsWithinItsPromise) {
  for (const Function& f : kFunctions) {
    double worst = 0;
    for (int i = 0; i <= 400000; ++i) {
      const float x = f.low + (f.high - f.low) * static_cast<float>(i) / 400000.0F;
      const double want = f.exact(static_cast<double>(x));
      const double share = want == 0 ? 0 : std::abs(static_cast<double>(f.fast(x)) - want) / std::abs(want);
      if (!(share <= worst)) worst = share;
    }
    EXPECT_LE(worst, 5 * kFloatEpsilon) << f.name;
  }
}

// 36e, 16
TEST(Maths, SpecialValues) {
  for (const Function& f : kFunctions) EXPECT_TRUE(std::isnan(f.fast(kNaN))) << f.name;
  EXPECT_EQ(lane_exp(-kInf), 0.0F);
  EXPECT_EQ(lane_exp(-200.0F), 0.0F);
  EXPECT_EQ(lane_exp(kInf), kInf);
  EXPECT_EQ(lane_exp(89.5F), kInf);
  EXPECT_EQ(lane_exp(0.0F), 1.0F);
  EXPECT_EQ(lane_sigmoid(-kInf), 0.0F);
  EXPECT_EQ(lane_sigmoid(kInf), 1.0F);
  EXPECT_EQ(lane_sigmoid(0.0F), 0.5F);
  EXPECT_EQ(lane_softplus(-kInf), 0.0F);
  EXPECT_EQ(lane_softplus(kInf), kInf);
  EXPECT_EQ(lane_softplus(21.0F), 21.0F);  // the linear tail
  EXPECT_EQ(softplus(21.0), 21.0);
  EXPECT_TRUE(std::isnan(sigmoid(kNaN)) && std::isnan(softplus(kNaN)) && std::isnan(silu(kNaN)));
}

// bf16 rounding is to nearest even, in the vector loop as in to_bf16, for every upper half and tie
TEST(Maths, RoundingToHalves) {
  cpu::Vector values;
  bf16 got[kDim];
  for (uint32_t upper = 0; upper < 0x10000u; upper += kDim / 4) {
    for (uint32_t i = 0; i < kDim; ++i) {
      constexpr uint32_t kLower[] = {0, 0x7fff, 0x8000, 0x8001};
      values[i] = std::bit_cast<float>(((upper + i / 4) << 16) | kLower[i % 4]);
    }
    cpu::narrow(values, kDim, got);
    for (int64_t i = 0; i < kDim; ++i) ASSERT_EQ(got[i], to_bf16(values[i])) << upper << " " << i;
  }
}

TEST(Padding, OneRuleForBothNullSlots) {
  for (const int64_t index : {-2147483648LL, -7LL, -1LL, 0LL}) EXPECT_TRUE(is_padding(index, 0, 5)) << index;
  for (const int64_t index : {-2147483648LL, -7LL, -1LL}) EXPECT_TRUE(is_padding(index, -1, 5)) << index;
  EXPECT_FALSE(is_padding(0, -1, 5));
  EXPECT_FALSE(is_padding(1, 0, 5));
  EXPECT_FALSE(is_padding(4, 0, 5));
  EXPECT_TRUE(is_padding(5, 0, 5));
  EXPECT_TRUE(is_padding(2147483647, -1, 5));
}

TEST(CaseIndices, LiveOnesAreUniqueAndPaddingIsSpread) {
  for (const int64_t null_slot : {0, -1}) {
    Random random(3);
    const std::vector<int32_t> indices = case_indices(random, 40, 9, null_slot, 60);
    std::vector<int32_t> live;
    for (const int32_t index : indices) {
      if (!is_padding(index, null_slot, 60)) live.push_back(index);
    }
    EXPECT_EQ(live.size(), 31U);
    EXPECT_FALSE(std::is_sorted(live.begin(), live.end())) << "slots are not the identity";
    std::sort(live.begin(), live.end());
    EXPECT_EQ(std::adjacent_find(live.begin(), live.end()), live.end());
  }
}

/// A state, its exact values and a bound of one step.
struct StateCase {
  std::vector<double> want;
  std::vector<float> got;
  HeadBound bound;

  StateCase() {
    Random random(4);
    for (int64_t i = 0; i < kDim * kDim; ++i) {
      got.push_back(random.uniform(-1, 1));
      want.push_back(static_cast<double>(got.back()));
    }
  }
  [[nodiscard]] bool passes() const { return expect_state("state", DType::f32, got.data(), want, bound).ok; }
  [[nodiscard]] bool halves_pass() const {
    std::vector<bf16> halves;
    for (const float value : got) halves.push_back(to_bf16(value));
    return expect_state("state", DType::bf16, halves.data(), want, bound).ok;
  }
};

TEST(Planted, ExpectStateFindsWrongRows) {
  StateCase right;
  EXPECT_TRUE(right.passes());
  EXPECT_TRUE(right.halves_pass());
  StateCase element;
  element.got[777] += 1e-3F;
  EXPECT_FALSE(element.passes());
  StateCase half;
  half.got[777] *= 1.02F;
  EXPECT_FALSE(half.halves_pass());
  StateCase scaled;
  for (int64_t k = 0; k < kDim; ++k) scaled.got[static_cast<size_t>(5 * kDim + k)] *= 1 + 2e-5F;
  EXPECT_FALSE(scaled.passes());
  StateCase swapped;
  for (int64_t k = 0; k < kDim; ++k) {
    std::swap(swapped.got[static_cast<size_t>(k)], swapped.got[static_cast<size_t>(kDim + k)]);
  }
  EXPECT_FALSE(swapped.passes());
  EXPECT_FALSE(swapped.halves_pass());
  for (const float special : {kNaN, kInf}) {
    StateCase broken;
    broken.got[9] = special;
    EXPECT_FALSE(broken.passes());
    EXPECT_FALSE(broken.halves_pass());
    broken.want[9] = static_cast<double>(special);
    EXPECT_TRUE(broken.passes()) << "the same special value is right";
  }
  StateCase missing;
  missing.want[9] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(missing.passes());
  EXPECT_FALSE(missing.halves_pass());
}

TEST(Planted, ExpectUntouchedFindsEveryByteOutsideTheRanges) {
  const std::vector<std::byte> before(64, std::byte{1});
  const Ranges written = {{40, 8}, {8, 8}, {12, 8}};
  for (size_t at = 0; at < before.size(); ++at) {
    std::vector<std::byte> after = before;
    after[at] = std::byte{2};
    const bool inside = (at >= 8 && at < 20) || (at >= 40 && at < 48);
    EXPECT_EQ(expect_untouched("bytes", after, before, written).ok, inside) << at;
  }
}

TEST(Planted, ExpectHeadFindsWrongElements) {
  HeadVector<double> exact;
  for (size_t i = 0; i < exact.size(); ++i) exact[i] = 0.5 + 0.25 * static_cast<double>(i % 2);
  const HeadVector<double> slack{};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto right = [&](int64_t i) { return static_cast<float>(exact[static_cast<size_t>(i)]); };
    EXPECT_TRUE(expect_head("o", dtype, right, exact, slack).ok);
    EXPECT_FALSE(expect_head(
                     "o", dtype, [&](int64_t i) { return right(i) + (i == 70 ? 0.01F : 0.0F); }, exact, slack)
                     .ok);
    EXPECT_FALSE(expect_head(
                     "o", dtype, [&](int64_t i) { return i == 70 ? kNaN : right(i); }, exact, slack)
                     .ok);
    EXPECT_FALSE(expect_head(
                     "o", dtype, [&](int64_t i) { return right(i ^ 1); }, exact, slack)
                     .ok);
  }
}

// Both layouts hold the same history; a flipped bit and a swapped step are found
TEST(Planted, ExpectWindowFindsAFlippedBit) {
  for (const History layout : {History::sd, History::ds}) {
    const int64_t channels = 6 * kDim;
    std::vector<bf16> slot(static_cast<size_t>(channels * kHistory));
    const HistoryView<bf16> view{slot.data(), layout, channels, kDim};
    Window<bf16> window;
    Random random(5);
    for (auto& part : window) {
      for (auto& step : part) {
        for (bf16& value : step) value = to_bf16(random.uniform(-1, 1));
      }
    }
    store_window(view, window);
    EXPECT_TRUE(expect_window("history", view, window).ok);
    EXPECT_EQ(view.at(2, 1, 7), window[2][1][7]);
    const int64_t place = 4 * kDim + kDim + 7;
    EXPECT_EQ(slot[static_cast<size_t>(layout == History::sd ? channels + place : place * 3 + 1)], window[2][1][7]);
    view.at(2, 1, 7).bits ^= 1;
    EXPECT_FALSE(expect_window("history", view, window).ok);
    view.at(2, 1, 7).bits ^= 1;
    std::swap(window[0][0], window[0][1]);
    EXPECT_FALSE(expect_window("history", view, window).ok);
  }
}

// A NaN or inf in the exact values must not loosen the bound of other elements
TEST(Bounds, StayFiniteAndSmall) {
  TokenResult<double> token;
  Random random(6);
  std::vector<double> state;
  for (int64_t i = 0; i < kDim * kDim; ++i) state.push_back(random.uniform(-1, 1));
  std::vector<float> dt_bias(static_cast<size_t>(kDim), 0.5F);
  for (size_t part = 0; part < 3; ++part) {
    for (size_t i = 0; i < token.z[part].size(); ++i) {
      token.z[part][i] = random.uniform(-1, 1);
      token.magnitude[part][i] = 2;
    }
  }
  token.step.q = token.z[0];
  token.step.k = token.z[1];
  token.step.v = token.z[2];
  normalise(token.step.q, 1 / std::sqrt(128.0));
  normalise(token.step.k, 1.0);
  token.step.beta = 0.7;
  for (size_t i = 0; i < token.step.decay.size(); ++i) {
    token.raw_gate[i] = random.uniform(-3, 3);
    token.step.decay[i] = decay_of<double>(Gate::safe, -5.0F, 0.3F, 0.5F, static_cast<float>(token.raw_gate[i]));
  }
  HeadBound bound;
  const HeadVector<double> o =
      bound.step({Gate::safe, -5.0F, 0.3F, dt_bias.data()}, conv_errors(token), state.data(), token);
  for (int64_t v = 0; v < kDim; ++v) {
    EXPECT_GT(o[static_cast<size_t>(v)], 0);
    EXPECT_LT(o[static_cast<size_t>(v)], 1e-4);
    EXPECT_LT(bound.row(v), 1e-4) << "a row has a norm near 4";
  }
  token.raw_gate[3] = std::numeric_limits<double>::infinity();
  token.step.v[5] = std::numeric_limits<double>::quiet_NaN();
  HeadBound special;
  const HeadVector<double> again =
      special.step({Gate::softplus, 0.0F, 6.0F, dt_bias.data()}, conv_errors(token), state.data(), token);
  for (int64_t v = 0; v < kDim; ++v) {
    EXPECT_TRUE(std::isfinite(again[static_cast<size_t>(v)])) << v;
    EXPECT_TRUE(std::isfinite(special.row(v))) << v;
  }
}

// A kernel that takes denormals for zeros is within its bound where they are multiplied by more than they lose
TEST(Bounds, FlushedDenormalsAreCoveredWhereTheyAreMultiplied) {
  const std::vector<float> dt_bias(static_cast<size_t>(kDim), 0.0F);
  const GateRule rule{Gate::softplus, 0.0F, 0.0F, dt_bias.data()};
  const double elements = std::sqrt(static_cast<double>(kDim));
  const std::vector<double> zeros(static_cast<size_t>(kDim * kDim), 0.0);
  TokenResult<double> short_key;
  short_key.z[1].fill(3e-39);
  short_key.step.k.fill(3e-39 / std::sqrt(1e-6));
  short_key.step.v[0] = 1;
  short_key.step.beta = 1;
  HeadBound of_key;
  of_key.step(rule, {}, zeros.data(), short_key);
  EXPECT_GT(of_key.row(0), 3e-36 * elements) << "the correction that a key of zeros does not make";
  EXPECT_LT(of_key.row(0), 30e-36 * elements);
  EXPECT_LT(of_key.row(1), 2 * kFlushed) << "where nothing is corrected";

  const std::vector<double> large(static_cast<size_t>(kDim * kDim), 1e4);
  TokenResult<double> forgetting;
  forgetting.step.decay.fill(5e-39);
  for (const int64_t window : {1, 16}) {
    HeadBound of_decay(window);
    of_decay.step(rule, {}, large.data(), forgetting);
    EXPECT_GT(of_decay.row(0), 5e-35 * elements) << "the state that a decay of zero does not keep, window " << window;
    const double most = 2e4 * kDenormal * elements * (window == 1 ? 1 : 2 * static_cast<double>(window));
    EXPECT_LT(of_decay.row(0), most);
    of_decay.step(rule, {}, zeros.data(), forgetting);
    const double left = window == 1 ? 2 * kFlushed : most;
    EXPECT_LT(of_decay.row(0), left) << "what was flushed is forgotten with its window";
  }
}

// Of tokens taken together the parts count: a token that cancels the state leaves the parts that it was summed from
TEST(Bounds, PartsOfTokensTakenTogetherAreRemembered) {
  constexpr int64_t kTogether = 16;
  const std::vector<float> dt_bias(static_cast<size_t>(kDim), 0.0F);
  const GateRule rule{Gate::safe, -5.0F, 0.0F, dt_bias.data()};
  TokenResult<double> token;
  token.z[1][0] = 1;
  token.step.k[0] = 1;
  token.step.q = token.step.k;
  token.step.beta = 1;
  token.step.decay.fill(1);
  std::vector<double> state(static_cast<size_t>(kDim * kDim), 0.0);
  HeadBound apart;
  HeadBound together(kTogether);
  const InputErrors exact{};
  // The value of row 0 goes to 1000 and back to 0; then it is read again and again.
  double small = 0;
  double large = 0;
  for (int64_t i = 0; i < 3 * kTogether; ++i) {
    token.step.v[0] = i == 0 ? 1000 : 0;
    small = apart.step(rule, exact, state.data(), token)[0];
    large = together.step(rule, exact, state.data(), token)[0];
    state[0] = token.step.v[0];
    EXPECT_GE(large, small) << i;
    if (i > 1 && i < kTogether) {
      EXPECT_GT(large - small, 2000 * sum_error(kDim)) << i;
    }
  }
  const double before = together.row(0);
  together.step(rule, exact, state.data(), token);
  EXPECT_LT(together.row(0) - before, 1e-9) << "parts from before the chunk are forgotten";
}

}  // namespace
}  // namespace silt::kda
