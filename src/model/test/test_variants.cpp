// Every variant of the family as a small synthetic checkpoint, against the naive double-precision forward.
#include "model/test/naive_decoder.hpp"
#include "model/test/support.hpp"

namespace silt {
namespace {

std::vector<int32_t> some_tokens(size_t count) {
  std::vector<int32_t> tokens = {256};
  Random random(77);
  while (tokens.size() < count) tokens.push_back(static_cast<int32_t>(random.below(256)));
  return tokens;
}

/// How far roundings of this share move the logits of this model: the largest of three tries.
Difference moved(const SyntheticModel& model, const std::vector<int32_t>& tokens, const std::vector<double>& exact,
                 double noise) {
  Difference most;
  for (const uint64_t seed : {1U, 2U, 3U}) {
    const Difference d = difference(naive_logits(model, tokens, noise, seed), exact);
    most.worst = std::max(most.worst, d.worst);
    most.rms = std::max(most.rms, d.rms);
  }
  return most;
}

// A random model may magnify small errors (a norm of a small sum, a close choice of experts), so the bounds are taken
// from the model itself: what its double-precision forward does when every product and norm is off by the rounding that
// the precision stands for. fp32: the error of a sum over the widest row. bf16: one rounding to 8 bits.
constexpr int64_t kWidest = 256;
const double kFp32Noise = sum_error(kWidest);
constexpr double kBf16Noise = 0x1p-8;
/// Three tries do not show the largest movement; this many times as much is allowed.
constexpr double kMargin = 2;

class Variants : public testing::TestWithParam<Variant> {};

TEST_P(Variants, PrefillAndDecodeMatchDoublePrecision) {
  const SyntheticModel synthetic(GetParam(), 11);
  const TemporaryFolder folder;
  synthetic.write(folder);
  const std::vector<int32_t> tokens = some_tokens(70);  // more than one tile of the attention cache
  const std::vector<double> want = naive_logits(synthetic, tokens);
  const double bound = kMargin * moved(synthetic, tokens, want, kFp32Noise).worst;

  const auto session = open_session(load(folder.path(), Precision::f32), {.slots = 2});
  const std::vector<float> prefill = logits_of(*session, tokens);
  EXPECT_LE(difference(prefill, want).worst, bound);

  std::vector<float> stepped;
  int32_t slot = -1;
  ASSERT_TRUE(session->open(&slot).ok());
  std::vector<StepLogits> logits;
  for (const int32_t token : tokens) {
    const StepInput input{slot, std::span(&token, 1)};
    ASSERT_TRUE(session->step(std::span(&input, 1), &logits).ok());
    stepped.insert(stepped.end(), logits[0].values.begin(), logits[0].values.end());
  }
  EXPECT_LE(difference(stepped, want).worst, bound);
}

TEST_P(Variants, Bf16StaysNear) {
  const SyntheticModel synthetic(GetParam(), 12);
  const TemporaryFolder folder;
  synthetic.write(folder);
  const std::vector<int32_t> tokens = some_tokens(20);
  const std::vector<double> want = naive_logits(synthetic, tokens);
  const auto session = open_session(load(folder.path(), Precision::bf16), {.slots = 1});
  EXPECT_LE(difference(logits_of(*session, tokens), want).rms,
            kMargin * moved(synthetic, tokens, want, kBf16Noise).rms);
}

INSTANTIATE_TEST_SUITE_P(Model, Variants, testing::ValuesIn(synthetic_variants()),
                         [](const auto& param) { return param.param.name; });

TEST(Oracle, APlantedErrorShows) {
  // One weight of every kind of layer moved by a tenth: the bound of the comparison must be left.
  const SyntheticModel synthetic({.name = "kimi_k3"}, 11);
  const TemporaryFolder folder;
  synthetic.write(folder);
  const std::vector<int32_t> tokens = some_tokens(12);
  const auto session = open_session(load(folder.path(), Precision::f32), {.slots = 1});
  const std::vector<float> got = logits_of(*session, tokens);
  for (const char* name :
       {"model.layers.0.self_attn.A_log", "model.layers.1.self_attn.kv_a_layernorm.weight",
        "model.layers.2.mlp_res_proj.weight", "model.layers.3.block_sparse_moe.routed_expert_norm.weight",
        "model.output_attn_res_proj.weight"}) {
    SyntheticModel wrong = synthetic;
    wrong.values[name][1] += 0.1;
    const std::vector<double> want = naive_logits(wrong, tokens);
    EXPECT_FALSE(difference(got, want).worst <= kMargin * moved(wrong, tokens, want, kFp32Noise).worst) << name;
  }
}

}  // namespace
}  // namespace silt
