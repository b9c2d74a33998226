// k3-mini against the golden outputs of the fp32 reference: logits, greedy texts, intermediate tensors, held-out bits.
// The bounds are those that the model's goldens/README.md derives: exact mode within 1e-3 of fp32 (measured below
// 1e-4); bf16 within a root mean square of 0.1, where another bf16 implementation lands at 0.04 to 0.09.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/cpu/cpu_parts.hpp"
#include "model/test/support.hpp"

namespace silt {
namespace {

constexpr double kExactLogits = 1e-3;
constexpr double kBf16Rms = 0.1;
constexpr double kBf16SameBest = 0.99;
constexpr double kExactRelative = 1e-4;
constexpr double kExactBits = 0.0005;
constexpr double kBf16Bits = 0.002;
constexpr size_t kVocab = 320;
const char* const kPrompts[] = {"p001", "p017", "p064", "p300"};

/// Logits at the golden positions (p300 has the last one alone).
std::vector<float> golden_rows(const std::vector<float>& all, size_t golden) {
  return {all.end() - static_cast<std::ptrdiff_t>(golden), all.end()};
}

TEST(Golden, ExactLogits) {
  const auto session = open_session(shared_k3_mini(Precision::f32));
  for (const char* name : kPrompts) {
    const Goldens goldens(name);
    const std::vector<float> want = goldens.floats("logits");
    const Difference d = difference(golden_rows(logits_of(*session, goldens.ints("input_ids")), want.size()), want);
    EXPECT_LE(d.worst, kExactLogits) << name;
    RecordProperty(name, fmt::format("{:.3g}", d.worst));
  }
}

/// One set of packed weights, read by every instruction set: the same bits from all, and the plain loops in the bounds.
TEST(Golden, EveryInstructionSet) {
  const Goldens goldens("p017");
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const auto session = open_session(shared_k3_mini(precision));
    const std::vector<float> best = logits_of(*session, goldens.ints("input_ids"));
    const std::vector<float> want = goldens.floats("logits");
    for (const CpuParts* parts : cpu_parts_here()) {
      const ForceCpuParts force(*parts);
      const std::vector<float> got = logits_of(*session, goldens.ints("input_ids"));
      if (parts->name != "cpu_plain") {
        EXPECT_EQ(difference(got, best).worst, 0.0) << parts->name;
      }
      const Difference d = difference(golden_rows(got, want.size()), want);
      EXPECT_LE(precision == Precision::f32 ? d.worst : d.rms, precision == Precision::f32 ? kExactLogits : kBf16Rms)
          << parts->name;
    }
  }
}

/// Feeds the golden continuation, so that a step that differs does not end the comparison; counts the same best tokens.
TEST(Golden, ExactGreedyContinuations) {
  const auto session = open_session(shared_k3_mini(Precision::f32));
  for (const char* name : kPrompts) {
    const Goldens goldens(name);
    const std::vector<int32_t> prompt = goldens.ints("input_ids");
    const std::vector<int32_t> want = goldens.ints("greedy_ids");
    GenerateResult result;
    const std::vector<std::vector<int32_t>> prompts = {prompt};
    const Status status = generate(*session, prompts, {.max_tokens = 64, .ignore_end = true}, &result);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::vector<float> margins = goldens.floats("greedy_margin");
    for (size_t i = 0; i < want.size() && result.completions[0].tokens[i] != want[i]; ++i) {
      EXPECT_LE(margins[i], kExactLogits) << name << ": token " << i;
    }
    EXPECT_EQ(result.completions[0].tokens, want) << name;
  }
}

/// Feeds the golden continuations. A prompt is compared up to the first token for which some layer chose its experts by
/// less than two roundings of a score: there fp32 does not decide, and one implementation's expert is another's loser
/// (p064 has such a token, its 42nd: 3e-8 in layer 6).
TEST(Golden, ExactLogitsWhileDecoding) {
  constexpr float kUndecided = 0x1p-23F;
  float margin = 0;
  SessionOptions options;
  options.trace = [&](const TraceTensor& tensor) {
    if (!tensor.name.ends_with("moe_choice_margin")) return;
    margin = std::min(margin, tensor.data[tensor.shape[0] - 1]);
  };
  std::unique_ptr<Session> session;
  ASSERT_TRUE(Session::create(shared_k3_mini(Precision::f32), options, &session).ok());
  size_t compared = 0;
  double worst = 0;
  for (const char* name : kPrompts) {
    const Goldens goldens(name);
    const std::vector<float> want = goldens.floats("greedy_logits");
    std::vector<int32_t> tokens = goldens.ints("input_ids");
    const std::vector<int32_t> greedy = goldens.ints("greedy_ids");
    int32_t slot = -1;
    ASSERT_TRUE(session->open(&slot).ok());
    std::vector<StepLogits> logits;
    for (size_t i = 0; i < greedy.size(); ++i, ++compared) {
      const StepInput input{slot, tokens};
      margin = 1;
      ASSERT_TRUE(session->step(std::span(&input, 1), &logits).ok());
      if (margin < kUndecided) break;
      const Difference d = difference(logits[0].values, std::span(want).subspan(i * kVocab, kVocab));
      EXPECT_LE(d.worst, kExactLogits) << name << ": token " << i;
      worst = std::max(worst, d.worst);
      tokens = {greedy[i]};
    }
    ASSERT_TRUE(session->release(slot).ok());
  }
  EXPECT_GE(compared, size_t{3 * 64 + 40}) << "more undecided tokens than the model has";
  RecordProperty("worst", fmt::format("{:.3g}", worst));
}

TEST(Golden, Bf16Logits) {
  const auto session = open_session(shared_k3_mini(Precision::bf16));
  size_t same = 0;
  size_t rows = 0;
  for (const char* name : kPrompts) {
    const Goldens goldens(name);
    const std::vector<float> want = goldens.floats("logits");
    const std::vector<float> got = golden_rows(logits_of(*session, goldens.ints("input_ids")), want.size());
    const Difference d = difference(got, want);
    EXPECT_LE(d.rms, kBf16Rms) << name;
    EXPECT_FALSE(std::isnan(d.worst)) << name;
    RecordProperty(name, fmt::format("rms {:.3g} worst {:.3g}", d.rms, d.worst));
    for (size_t r = 0; r < want.size() / kVocab; ++r, ++rows) {
      same +=
          best_of(std::span(got).subspan(r * kVocab, kVocab)) == best_of(std::span(want).subspan(r * kVocab, kVocab))
              ? 1U
              : 0U;
    }
  }
  EXPECT_GE(static_cast<double>(same), kBf16SameBest * static_cast<double>(rows));
}

/// Same best token along the golden continuations, which are fed whatever the run would have chosen.
TEST(Golden, Bf16GreedyChoices) {
  const auto session = open_session(shared_k3_mini(Precision::bf16));
  size_t same = 0;
  size_t rows = 0;
  for (const char* name : kPrompts) {
    const Goldens goldens(name);
    std::vector<int32_t> tokens = goldens.ints("input_ids");
    const std::vector<int32_t> greedy = goldens.ints("greedy_ids");
    const size_t prompt = tokens.size();
    tokens.insert(tokens.end(), greedy.begin(), greedy.end() - 1);
    const std::vector<float> logits = logits_of(*session, tokens);
    for (size_t i = 0; i < greedy.size(); ++i, ++rows) {
      const size_t best = best_of(std::span(logits).subspan((prompt - 1 + i) * kVocab, kVocab));
      same += best == static_cast<size_t>(greedy[i]) ? 1U : 0U;
    }
  }
  EXPECT_GE(static_cast<double>(same), kBf16SameBest * static_cast<double>(rows));
}

/// Everything that a traced step emitted.
using Emitted = std::map<std::string, std::vector<float>>;

Emitted traced_step(const std::vector<std::vector<int32_t>>& steps) {
  Emitted emitted;
  SessionOptions options;
  options.slots = 1;
  options.trace = [&](const TraceTensor& tensor) {
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    emitted[std::string(tensor.name)].assign(tensor.data, tensor.data + count);
  };
  const auto session = open_session(shared_k3_mini(Precision::f32), options);
  int32_t slot = -1;
  EXPECT_TRUE(session->open(&slot).ok());
  std::vector<StepLogits> logits;
  for (const std::vector<int32_t>& tokens : steps) {
    const StepInput input{slot, tokens, LogitsOf::all};
    EXPECT_TRUE(session->step(std::span(&input, 1), &logits).ok());
  }
  return emitted;
}

/// Error relative to the largest value of the tensor.
double relative(const std::vector<float>& got, const std::vector<float>& want) {
  const Difference d = difference(got, want);
  return d.worst / d.largest;
}

TEST(Golden, IntermediateTensors) {
  const Goldens goldens("p017");
  const Goldens layers("p017_layers");
  const Emitted emitted = traced_step({goldens.ints("input_ids")});
  // What the operators keep inside themselves never reaches memory.
  const std::set<std::string> inside = {"kda_conv_out",  "kda_q",    "kda_k",        "kda_v",
                                        "kda_log_decay", "kda_beta", "kda_core_out", "moe_scores"};
  size_t compared = 0;
  double worst = 0;
  for (const auto& [name, tensor] : layers.tensors()) {
    const std::string last = name.substr(name.rfind('.') + 1);
    if (name.starts_with("after_greedy.") || inside.contains(last) || last.starts_with("moe_topk")) continue;
    const auto found = emitted.find(name);
    ASSERT_NE(found, emitted.end()) << name << " was not traced";
    const double error = relative(found->second, layers.floats(name));
    EXPECT_LE(error, kExactRelative) << name;
    worst = std::max(worst, error);
    ++compared;
  }
  EXPECT_EQ(compared, 5U + 9 * 6 + 6 * 6 + 3 * 5 + 8 * 3);
  RecordProperty("worst", fmt::format("{:.3g}", worst));
}

TEST(Golden, ExpertChoices) {
  const Goldens goldens("p017");
  const Goldens layers("p017_layers");
  const Emitted emitted = traced_step({goldens.ints("input_ids")});
  for (int layer = 1; layer <= 8; ++layer) {
    const std::string name = fmt::format("layers.{}.moe_topk_", layer);
    const std::vector<float> got_ids = emitted.at(name + "ids");
    const std::vector<float> got_weights = emitted.at(name + "weights");
    const std::vector<float> want_ids = layers.floats(name + "ids");
    const std::vector<float> want_weights = layers.floats(name + "weights");
    ASSERT_EQ(got_ids.size(), want_ids.size());
    for (size_t t = 0; t < want_ids.size(); t += 2) {
      const std::map<float, float> got = {{got_ids[t], got_weights[t]}, {got_ids[t + 1], got_weights[t + 1]}};
      const std::map<float, float> want = {{want_ids[t], want_weights[t]}, {want_ids[t + 1], want_weights[t + 1]}};
      for (const auto& [expert, weight] : want) {
        ASSERT_TRUE(got.contains(expert)) << name << " token " << t / 2;
        EXPECT_NEAR(got.at(expert), weight, kExactRelative);
      }
    }
  }
}

TEST(Golden, StatesAfterDecoding) {
  const Goldens goldens("p017");
  const Goldens layers("p017_layers");
  std::vector<std::vector<int32_t>> steps = {goldens.ints("input_ids")};
  const std::vector<int32_t> greedy = goldens.ints("greedy_ids");
  for (size_t i = 0; i + 1 < greedy.size(); ++i) steps.push_back({greedy[i]});
  const Emitted emitted = traced_step(steps);
  for (const int layer : {0, 1, 2, 4, 5, 6}) {
    for (const char* part : {"kda_conv_state", "kda_recurrent_state"}) {
      const std::string name = fmt::format("layers.{}.{}", layer, part);
      EXPECT_LE(relative(emitted.at(name), layers.floats("after_greedy." + name)), kExactRelative) << name;
    }
  }
}

/// Some windows of the held-out text against their fp32 bits; the whole text is the command line's.
void check_bits(Precision precision, size_t first, size_t windows, double bound) {
  std::ifstream text_file(k3_mini() + "/heldout.txt", std::ios::binary);
  std::stringstream text;
  text << text_file.rdbuf();
  std::ifstream json_file(k3_mini() + "/goldens/heldout.json");
  const nlohmann::json json = nlohmann::json::parse(json_file);
  const auto session = open_session(shared_k3_mini(precision));
  ScoreResult result;
  const Status status = score(*session, text.str().substr(first * 1024, windows * 1024), {}, &result);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(result.bits_per_window.size(), windows);
  double want = 0;
  for (size_t i = 0; i < windows; ++i) want += json["bits_per_window_fp32"][first + i].get<double>();
  EXPECT_NEAR(result.bits_per_byte(), want / (static_cast<double>(windows) * 1024), bound);
  if (precision == Precision::f32) {
    for (size_t i = 0; i < windows; ++i) {
      EXPECT_NEAR(result.bits_per_window[i], json["bits_per_window_fp32"][first + i].get<double>(), bound * 1024);
    }
  }
}

TEST(Golden, ExactHeldOutBits) { check_bits(Precision::f32, 0, 8, kExactBits); }
TEST(Golden, Bf16HeldOutBits) { check_bits(Precision::bf16, 0, 16, kBf16Bits); }

}  // namespace
}  // namespace silt
