// The small parts: arithmetic between products, MXFP4, UTF-8, stop strings, sampling, the weights of a KDA layer.
#include <gtest/gtest.h>

#include <map>

#include "model/cpu/cpu_parts.hpp"
#include "model/glue.hpp"
#include "model/kda_weights.hpp"
#include "model/mxfp4.hpp"
#include "model/sampling.hpp"
#include "model/test/support.hpp"
#include "model/tokenizer.hpp"
#include "model/utf8.hpp"
#include "proof/random.hpp"

namespace silt {
namespace {

/// The decoder's rows on every instruction set that this CPU has.
class Rows : public testing::TestWithParam<const CpuParts*> {
 protected:
  ForceCpuParts force_{*GetParam()};
  const RowKernels& kernels_ = GetParam()->rows;

  /// Largest error of y = row(x) against `exact` over [low, high], in units of the last place of the exact value.
  template <class Row, class Exact>
  static double worst_ulp(Row row, Exact exact, float low, float high) {
    constexpr int64_t kPoints = 20001;
    std::vector<float> x(kPoints);
    std::vector<float> y(kPoints, std::nanf(""));
    for (size_t i = 0; i < x.size(); ++i) x[i] = low + (high - low) * static_cast<float>(i) / 20000.0F;
    row(x.data(), y.data(), kPoints);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = exact(static_cast<double>(x[i]));
      const double ulp = std::max(std::abs(want) * 0x1p-23, 0x1p-126);
      const double error = std::abs(static_cast<double>(y[i]) - want) / ulp;
      if (!(error <= worst)) worst = error;
    }
    return worst;
  }
  /// beta * tanh(gate / beta) * sigmoid(gate) * linear_beta * tanh(up / linear_beta) with a gate that leaves 4 *
  /// tanh(up).
  void tanh_row(const float* x, float* y, int64_t n) const {
    const std::vector<float> gate(static_cast<size_t>(n), 200.0F);
    kernels_.situ[type_index(DType::f32)](gate.data(), x, 4.0F, 1.0F, y, n);
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, Rows, testing::ValuesIn(cpu_parts_here().begin(), cpu_parts_here().end()),
                         [](const auto& param) { return std::string(param.param->name); });

TEST_P(Rows, FunctionsWithinTheirUnits) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  EXPECT_LE(worst_ulp(kernels_.sigmoid, sigmoid, -80.0F, 30.0F), 4.0);
  const auto tanh4 = [](double x) { return 4 * std::tanh(x); };
  const auto row = [this](const float* x, float* y, int64_t n) { tanh_row(x, y, n); };
  EXPECT_LE(worst_ulp(row, tanh4, -10.0F, 10.0F), 5.0);
  EXPECT_LE(worst_ulp(row, tanh4, -0.4F, 0.4F), 5.0);
  // A function that is wrong in its fourth digit is found.
  const auto wrong = [](double x) { return 4.001 * std::tanh(x); };
  EXPECT_FALSE(worst_ulp(row, wrong, -10.0F, 10.0F) <= 5.0);
}

TEST_P(Rows, Extremes) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {inf, -inf, 0.0F};
  for (const uint32_t bits : {0x7fc00000U, 0xffc00001U, 0x7f812345U}) x.push_back(std::bit_cast<float>(bits));
  std::vector<float> y(x.size());
  kernels_.sigmoid(x.data(), y.data(), static_cast<int64_t>(x.size()));
  EXPECT_EQ(y[0], 1.0F);
  EXPECT_LT(y[1], 1e-37F);
  EXPECT_EQ(y[2], 0.5F);
  for (size_t i = 3; i < x.size(); ++i) EXPECT_TRUE(std::isnan(y[i]));
  tanh_row(x.data(), y.data(), static_cast<int64_t>(x.size()));
  EXPECT_EQ(y[0], 4.0F);
  EXPECT_EQ(y[1], -4.0F);
  EXPECT_EQ(y[2], 0.0F);
  for (size_t i = 3; i < x.size(); ++i) EXPECT_TRUE(std::isnan(y[i]));
}

TEST_P(Rows, EveryLengthEndsWhereItShould) {
  for (const int64_t n : {1, 15, 16, 31, 32, 33, 100}) {
    const auto size = static_cast<size_t>(n);
    std::vector<float> a(size);
    std::vector<float> b(size);
    for (size_t i = 0; i < size; ++i) {
      a[i] = 0.5F + static_cast<float>(i);
      b[i] = 1.0F / a[i];
    }
    std::vector<float> y(size + 1, -7.0F);
    kernels_.sum[type_index(DType::f32)](a.data(), b.data(), y.data(), n);
    std::vector<bf16> narrow(size + 1, to_bf16(-7.0F));
    kernels_.convert[type_index(DType::f32)][type_index(DType::bf16)](a.data(), narrow.data(), n);
    std::vector<float> wide(size + 1, -7.0F);
    kernels_.convert[type_index(DType::bf16)][type_index(DType::f32)](narrow.data(), wide.data(), n);
    std::vector<float> gated(size + 1, -7.0F);
    std::copy(b.begin(), b.end(), gated.begin());
    kernels_.sigmoid_gate[type_index(DType::f32)](a.data(), gated.data(), n);
    std::vector<float> scaled(size + 1, -7.0F);
    std::copy(b.begin(), b.end(), scaled.begin());
    kernels_.add_scaled(a.data(), 0.25F, scaled.data(), n);
    for (size_t i = 0; i < size; ++i) {
      EXPECT_EQ(y[i], a[i] + b[i]);
      EXPECT_EQ(narrow[i], to_bf16(a[i]));
      EXPECT_EQ(wide[i], to_float(to_bf16(a[i])));
      const double a_i = static_cast<double>(a[i]);
      const double b_i = static_cast<double>(b[i]);
      EXPECT_NEAR(static_cast<double>(gated[i]), b_i / (1 + std::exp(-a_i)), 8 * kFloatEpsilon * b_i);
      EXPECT_NEAR(static_cast<double>(scaled[i]), b_i + 0.25 * a_i, 2 * kFloatEpsilon * (b_i + 0.25 * a_i));
    }
    EXPECT_EQ(y[size], -7.0F);
    EXPECT_EQ(narrow[size], to_bf16(-7.0F));
    EXPECT_EQ(wide[size], -7.0F);
    EXPECT_EQ(gated[size], -7.0F);
    EXPECT_EQ(scaled[size], -7.0F);
  }
}

TEST_P(Rows, RmsNormOfStridedRows) {
  for (const int64_t n : {1, 15, 16, 17, 128, 257}) {
    Random random(1);
    std::vector<bf16> x(static_cast<size_t>(3 * (n + 7)));
    std::vector<float> weight(static_cast<size_t>(n));
    for (bf16& v : x) v = to_bf16(random.uniform(-2.0F, 2.0F));
    for (float& v : weight) v = random.uniform(0.5F, 1.5F);
    std::vector<float> y(static_cast<size_t>(3 * n), std::nanf(""));
    rms_norm(view(x.data(), {3, n}, {n + 7, 1}), weight, 1e-5F, view(y.data(), {3, n}), 2);
    for (int64_t r = 0; r < 3; ++r) {
      double squares = 0;
      const auto value = [&](int64_t c) {
        return static_cast<double>(to_float(x[static_cast<size_t>(r * (n + 7) + c)]));
      };
      for (int64_t c = 0; c < n; ++c) squares += value(c) * value(c);
      for (int64_t c = 0; c < n; ++c) {
        const double want = value(c) / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(1e-5F)) *
                            static_cast<double>(weight[static_cast<size_t>(c)]);
        EXPECT_NEAR(static_cast<double>(y[static_cast<size_t>(r * n + c)]), want, sum_error(n) * std::abs(want));
      }
    }
  }
}

TEST_P(Rows, Activations) {
  const std::vector<float> x = {-3, -0.01F, 0.5F, 20, /**/ 2, -30, 0.25F, 7};
  FeedForwardConfig config;
  std::vector<float> y(4);
  config.activation = Activation::swiglu;
  gated_activation(view(x.data(), {1, 8}), config, view(y.data(), {1, 4}), 1);
  for (size_t i = 0; i < 4; ++i) {
    const double g = static_cast<double>(x[i]);
    EXPECT_NEAR(static_cast<double>(y[i]), g / (1 + std::exp(-g)) * static_cast<double>(x[4 + i]),
                1e-6 * std::abs(static_cast<double>(y[i])));
  }
  config.activation = Activation::situ;
  config.situ_beta = 4;
  config.situ_linear_beta = 25;
  gated_activation(view(x.data(), {1, 8}), config, view(y.data(), {1, 4}), 1);
  for (size_t i = 0; i < 4; ++i) {
    const double g = static_cast<double>(x[i]);
    const double want = 4 * std::tanh(g / 4) / (1 + std::exp(-g)) * 25 * std::tanh(static_cast<double>(x[4 + i]) / 25);
    EXPECT_NEAR(static_cast<double>(y[i]), want, 1e-6 * std::abs(want));
  }
}

TEST(Mxfp4, EveryValueAndTheOrderOfNibbles) {
  const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  std::vector<uint8_t> packed(16);
  for (size_t i = 0; i < 16; ++i) packed[i] = static_cast<uint8_t>(i | (15 - i) << 4U);
  for (const int scale : {0, 1, 126, 127, 130, 252}) {
    const uint8_t scales[] = {static_cast<uint8_t>(scale)};
    std::vector<float> row(32);
    std::vector<bf16> narrow(32);
    expand_mxfp4_row(packed, scales, row.data());
    expand_mxfp4_row(packed, scales, narrow.data());
    for (size_t c = 0; c < 32; ++c) {
      const size_t nibble = c % 2 == 0 ? c / 2 : 15 - c / 2;
      const double want = std::ldexp(nibble >= 8 ? -values[nibble - 8] : values[nibble], scale - 127);
      EXPECT_EQ(static_cast<double>(row[c]), want);
      EXPECT_EQ(static_cast<double>(to_float(narrow[c])), want);
    }
  }
}

std::string streamed(std::string_view bytes, size_t piece) {
  Utf8Stream stream;
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += piece) stream.push(bytes.substr(i, piece), &text);
  stream.finish(&text);
  return text;
}

TEST(Utf8, PiecesOfAnySizeGiveTheSame) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"plain", "plain"},
      {"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80!", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80!"},
      {"\xFF", "\xEF\xBF\xBD"},
      {"a\x80z", "a\xEF\xBF\xBDz"},
      {"\xE2\x82", "\xEF\xBF\xBD"},                              // cut at the end: one beginning, one mark
      {"\xE2\x82x", "\xEF\xBF\xBDx"},                            // cut by another character
      {"\xC3\xC3\xA4", "\xEF\xBF\xBD\xC3\xA4"},                  // cut by a new beginning
      {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},                  // long form
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // surrogate
      {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // above U+10FFFF
      {std::string_view("\0x", 2), std::string_view("\0x", 2)},
  };
  for (const auto& [bytes, want] : cases) {
    for (const size_t piece : {1U, 2U, 3U, 100U}) EXPECT_EQ(streamed(bytes, piece), want);
  }
}

TEST(Utf8, AnIncompleteCharacterIsHeldBack) {
  Utf8Stream stream;
  std::string text;
  stream.push("a\xE2", &text);
  EXPECT_EQ(text, "a");
  stream.push("\x82", &text);
  EXPECT_EQ(text, "a");
  stream.push("\xAC", &text);
  EXPECT_EQ(text, "a\xE2\x82\xAC");
}

TEST(StopStrings, TheFirstOneEndsTheText) {
  struct Case {
    std::vector<std::string> stops;
    std::string text, want;
    bool found;
  };
  const Case cases[] = {{{"END"}, "so ENDs", "so ", true},     {{"END"}, "so EN", "so EN", false},
                        {{"aab"}, "aaab", "a", true},          {{"xyz", "y"}, "wxyz", "wx", true},
                        {{"\n\n"}, "a\nb\n\nc", "a\nb", true}, {{}, "free", "free", false},
                        {{"abc", "bcd"}, "abd", "abd", false}};
  for (const Case& c : cases) {
    for (const size_t piece : {1U, 2U, 100U}) {
      StopFilter filter(c.stops);
      std::string out;
      bool found = false;
      for (size_t i = 0; i < c.text.size() && !found; i += piece) {
        found = filter.push(std::string_view(c.text).substr(i, piece), &out);
      }
      if (!found) filter.finish(&out);
      EXPECT_EQ(found, c.found) << c.text;
      // A longer piece may hold two stops of which the second would have been seen first byte by byte.
      if (piece == 1 || c.stops.size() < 2) {
        EXPECT_EQ(out, c.want) << c.text << " in pieces of " << piece;
      }
    }
  }
}

int32_t take(Sampler& sampler, std::span<const float> logits) {
  int32_t token = -1;
  EXPECT_TRUE(sampler.take(logits, &token).ok());
  return token;
}

TEST(Sampling, GreedyTakesTheFirstOfTheBest) {
  Sampler sampler({}, 0);
  EXPECT_EQ(take(sampler, std::vector<float>{1, 3, 2, 3}), 1);
}

TEST(Sampling, FrequenciesFollowTheDistribution) {
  const std::vector<float> logits = {0, 1, 2, -1};
  struct Case {
    Sampling sampling;
    std::vector<double> weights;
  };
  const auto e = [](double x) { return std::exp(x); };
  const Case cases[] = {{{.temperature = 1.0F, .seed = 5}, {e(0), e(1), e(2), e(-1)}},
                        {{.temperature = 0.5F, .seed = 6}, {e(0), e(2), e(4), e(-2)}},
                        {{.temperature = 1.0F, .top_k = 2, .seed = 7}, {0, e(1), e(2), 0}},
                        {{.temperature = 1.0F, .top_p = 0.7F, .seed = 8}, {0, e(1), e(2), 0}},
                        {{.temperature = 1.0F, .top_p = 0.6F, .seed = 9}, {0, 0, e(2), 0}}};
  constexpr int kDraws = 20000;
  for (const Case& c : cases) {
    Sampler sampler(c.sampling, 0);
    std::vector<int> counts(4);
    for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(take(sampler, logits))];
    double sum = 0;
    for (const double w : c.weights) sum += w;
    for (size_t i = 0; i < 4; ++i) {
      const double p = c.weights[i] / sum;
      // Five standard deviations of a binomial count.
      EXPECT_NEAR(counts[i], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)));
    }
  }
}

TEST(Sampling, StreamsAndSeedsDiffer) {
  const std::vector<float> logits(100, 0.0F);
  const auto draws = [&](uint64_t seed, uint64_t stream) {
    Sampler sampler({.temperature = 1.0F, .seed = seed}, stream);
    std::vector<int32_t> tokens;
    for (int i = 0; i < 20; ++i) tokens.push_back(take(sampler, logits));
    return tokens;
  };
  EXPECT_EQ(draws(1, 0), draws(1, 0));
  EXPECT_NE(draws(1, 0), draws(2, 0));
  EXPECT_NE(draws(1, 0), draws(1, 1));
  EXPECT_NE(draws(0, 1), draws(1, 0));
}

TEST(Sampling, NaNIsAnError) {
  Sampler sampler({.temperature = 1.0F}, 0);
  int32_t token = 0;
  EXPECT_NE(sampler.take(std::vector<float>{1, std::nanf(""), 0}, &token).message().find("token 1 has NaN"),
            std::string::npos);
}

TEST(Tokenizer, BytesAndSpecialTokens) {
  Tokenizer tokenizer;
  ASSERT_TRUE(
      parse_tokenizer(R"({"type": "bytes", "bos_token_id": 256, "eos_token_id": 257})", "t", 320, &tokenizer).ok());
  EXPECT_EQ(tokenizer.encode("a\xff", true), (std::vector<int32_t>{256, 97, 255}));
  EXPECT_EQ(tokenizer.encode("", false), std::vector<int32_t>{});
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{256, 97, 255, 257, 300}), "a\xff");
  ASSERT_TRUE(parse_tokenizer(R"({"type": "bytes", "add_bos_token": false})", "t", 256, &tokenizer).ok());
  EXPECT_EQ(tokenizer.encode("a", true), std::vector<int32_t>{97});
}

/// Distinct values everywhere, so that a wrong slice shows.
KdaTensors numbered_tensors(int64_t heads, int64_t hidden, bool full_rank, float offset) {
  const int64_t p = heads * 128;
  float next = offset;
  const auto matrix = [&](int64_t rows, int64_t cols) {
    HostMatrix made(DType::f32, rows, cols);
    for (int64_t i = 0; i < rows * cols; ++i) made.data.as<float>()[i] = next++;
    return made;
  };
  const auto vector = [&](int64_t size) {
    std::vector<float> made(static_cast<size_t>(size));
    for (float& value : made) value = next++;
    return made;
  };
  KdaTensors t;
  t.heads = heads;
  t.q = matrix(p, hidden);
  t.k = matrix(p, hidden);
  t.v = matrix(p, hidden);
  t.gate_a = matrix(128, hidden);
  t.gate_b = matrix(p, 4);
  t.beta = matrix(heads, hidden);
  if (full_rank) {
    t.output_gate = matrix(p, hidden);
  } else {
    t.output_gate_a = matrix(128, hidden);
    t.output_gate_b = matrix(p, 4);
  }
  t.o = matrix(hidden, p);
  t.conv_q = vector(p * 4);
  t.conv_k = vector(p * 4);
  t.conv_v = vector(p * 4);
  t.a_log = vector(heads);
  t.dt_bias = vector(p);
  t.norm = vector(128);
  return t;
}

std::string bytes_of(const HostMatrix& matrix) {
  return matrix.rows == 0 ? std::string()
                          : std::string(reinterpret_cast<const char*>(matrix.data.data()), matrix.data.bytes());
}

/// Ranks one after the other give the whole again, and the fp32 mirror holds every tap at its place.
void expect_whole(const KdaTensors& whole, int32_t size) {
  std::vector<KdaShard> shards(static_cast<size_t>(size));
  for (int32_t rank = 0; rank < size; ++rank) {
    ASSERT_TRUE(shard_kda(whole, rank, size, &shards[static_cast<size_t>(rank)]).ok());
  }
  for (auto member : {&KdaTensors::q, &KdaTensors::k, &KdaTensors::v, &KdaTensors::gate_b, &KdaTensors::beta,
                      &KdaTensors::output_gate, &KdaTensors::output_gate_b}) {
    std::string rows;
    for (const KdaShard& shard : shards) rows += bytes_of(shard.weights.*member);
    EXPECT_EQ(rows, bytes_of(whole.*member));
  }
  for (auto member :
       {&KdaTensors::conv_q, &KdaTensors::conv_k, &KdaTensors::conv_v, &KdaTensors::a_log, &KdaTensors::dt_bias}) {
    std::vector<float> values;
    for (const KdaShard& shard : shards) {
      values.insert(values.end(), (shard.weights.*member).begin(), (shard.weights.*member).end());
    }
    EXPECT_EQ(values, whole.*member);
  }
  const int64_t channels = whole.heads / size * 128;
  for (size_t rank = 0; rank < shards.size(); ++rank) {
    const KdaShard& shard = shards[rank];
    EXPECT_EQ(bytes_of(shard.weights.gate_a), bytes_of(whole.gate_a));
    EXPECT_EQ(bytes_of(shard.weights.output_gate_a), bytes_of(whole.output_gate_a));
    EXPECT_EQ(shard.weights.norm, whole.norm);
    EXPECT_EQ(shard.weights.heads, whole.heads / size);
    const auto first = static_cast<int64_t>(rank) * channels;
    ASSERT_EQ(shard.weights.o.cols, channels);
    for (int64_t r = 0; r < whole.o.rows; ++r) {
      for (int64_t c = 0; c < channels; ++c) ASSERT_EQ(shard.weights.o.at(r, c), whole.o.at(r, first + c));
    }
    ASSERT_EQ(shard.conv_weight.size(), static_cast<size_t>(12 * channels));
    const std::vector<float>* parts[] = {&whole.conv_q, &whole.conv_k, &whole.conv_v};
    for (int64_t i = 0; i < 12 * channels; ++i) {
      const int64_t part = i / (4 * channels);
      const int64_t tap = i / channels % 4;
      const int64_t channel = first + i % channels;
      ASSERT_EQ(shard.conv_weight[static_cast<size_t>(i)], (*parts[part])[static_cast<size_t>(channel * 4 + tap)]);
    }
  }
}

TEST(KdaWeights, RanksTogetherAreTheWhole) {
  for (const bool full_rank : {true, false}) {
    const KdaTensors whole = numbered_tensors(8, 3, full_rank, 0);
    for (const int32_t size : {1, 2, 4, 8}) expect_whole(whole, size);
  }
}

TEST(KdaWeights, AReloadRefreshesEveryMirror) {
  const KdaTensors first = numbered_tensors(2, 3, true, 0);
  const KdaTensors second = numbered_tensors(2, 3, true, 100000);
  KdaShard reloaded;
  KdaShard fresh;
  ASSERT_TRUE(shard_kda(first, 1, 2, &reloaded).ok());
  ASSERT_TRUE(shard_kda(second, 1, 2, &reloaded).ok());
  ASSERT_TRUE(shard_kda(second, 1, 2, &fresh).ok());
  EXPECT_EQ(reloaded.conv_weight, fresh.conv_weight);
  EXPECT_EQ(reloaded.weights.norm, second.norm);
  for (auto member : {&KdaTensors::q, &KdaTensors::gate_a, &KdaTensors::gate_b, &KdaTensors::beta,
                      &KdaTensors::output_gate, &KdaTensors::o}) {
    EXPECT_EQ(bytes_of(reloaded.weights.*member), bytes_of(fresh.weights.*member));
  }
}

TEST(KdaWeights, WrongRanksAreRefused) {
  const KdaTensors whole = numbered_tensors(2, 3, true, 0);
  KdaShard shard;
  EXPECT_EQ(shard_kda(whole, 0, 0, &shard).message(), "shard_kda: size: has 0, needs at least 1");
  EXPECT_EQ(shard_kda(whole, 2, 2, &shard).message(), "shard_kda: rank: has 2, needs 0..1");
  EXPECT_EQ(shard_kda(whole, 0, 3, &shard).message(), "shard_kda: heads: has 2, needs a multiple of size 3");
}

}  // namespace
}  // namespace silt
