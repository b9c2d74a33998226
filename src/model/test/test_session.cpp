// Sequences in flight: chunks, batches, slots, threads, errors; and generation and scoring on top of them.
#include <thread>

#include "model/test/checkpoint_writer.hpp"
#include "model/test/support.hpp"

namespace silt {
namespace {

constexpr size_t kVocab = 320;
constexpr int64_t kLayers = 9;
constexpr int64_t kWidest = 768;

std::vector<int32_t> text_tokens(const Model& model, size_t count, size_t offset = 0) {
  static const std::string text =
      "In the beginning of the year the ships lay in the harbour, and the captain walked along the quay with his hands "
      "behind "
      "him. 'It will rain before night,' said the mate; 'I can smell it.' The old man looked at the sky for a while "
      "and did not "
      "answer, for he had seen a great many skies in his life, and none of them had asked him for his opinion.";
  return model.encode(text.substr(offset, count - 1));
}

/// Feeds `tokens` in pieces; all logits.
std::vector<float> in_pieces(Session& session, const std::vector<int32_t>& tokens, size_t piece) {
  int32_t slot = -1;
  EXPECT_TRUE(session.open(&slot).ok());
  std::vector<float> all;
  std::vector<StepLogits> logits;
  for (size_t i = 0; i < tokens.size(); i += piece) {
    const StepInput input{slot, std::span(tokens).subspan(i, std::min(piece, tokens.size() - i)), LogitsOf::all};
    const Status status = session.step(std::span(&input, 1), &logits);
    EXPECT_TRUE(status.ok()) << status.message();
    all.insert(all.end(), logits[0].values.begin(), logits[0].values.end());
  }
  EXPECT_TRUE(session.release(slot).ok());
  return all;
}

/// Bit-equal where the same kernels ran; else within the formula of the precision.
void expect_same_logits(const std::vector<float>& got, const std::vector<float>& want, bool same_kernels,
                        Precision precision, const std::string& what) {
  if (same_kernels) {
    EXPECT_TRUE(got == want) << what << ": worst " << difference(got, want).worst;
    return;
  }
  const Difference d = difference(got, want);
  if (precision == Precision::f32) {
    EXPECT_LE(d.worst, exact_bound(kLayers, kWidest, d.largest)) << what;
  } else {
    const std::vector<double> values(want.begin(), want.end());
    EXPECT_LE(d.rms, bf16_rms_bound(kLayers, rms_of(values))) << what;
  }
}

class Sequences : public testing::TestWithParam<Precision> {
 protected:
  std::shared_ptr<const Model> model_ = shared_k3_mini(GetParam());
};

TEST_P(Sequences, PiecesGiveTheSameAsTheWhole) {
  const std::vector<int32_t> tokens = text_tokens(*model_, 150);
  const auto session = open_session(model_, {.slots = 2});
  const KernelsRun whole_kernels;
  const std::vector<float> whole = in_pieces(*session, tokens, 1000);
  const std::set<std::string> whole_names = whole_kernels.names();
  for (const size_t piece : {1U, 7U, 64U}) {
    const KernelsRun kernels;
    const std::vector<float> pieces = in_pieces(*session, tokens, piece);
    expect_same_logits(pieces, whole, kernels.names() == whole_names, GetParam(), fmt::format("pieces of {}", piece));
  }
  // The same cut made by the session: a prompt longer than a chunk.
  for (const int64_t chunk : {7, 64}) {
    const auto chunked = open_session(model_, {.slots = 2, .prefill_chunk = chunk});
    EXPECT_TRUE(in_pieces(*chunked, tokens, 1000) == in_pieces(*session, tokens, static_cast<size_t>(chunk))) << chunk;
  }
}

TEST_P(Sequences, PureDecodingUsesTheFusedKernelAndPrefillDoesNot) {
  const auto session = open_session(model_, {.slots = 2});
  int32_t a = -1;
  int32_t b = -1;
  ASSERT_TRUE(session->open(&a).ok());
  ASSERT_TRUE(session->open(&b).ok());
  const std::vector<int32_t> prompt = text_tokens(*model_, 20);
  const int32_t next = 97;
  std::vector<StepLogits> logits;
  const auto step = [&](const std::vector<StepInput>& inputs, uint64_t decodes, uint64_t prefills) {
    const KernelsRun kernels;
    ASSERT_TRUE(session->step(inputs, &logits).ok());
    EXPECT_EQ(kernels.runs("kda_decode"), decodes);
    EXPECT_EQ(kernels.runs("kda_prefill"), prefills);
    // Two per layer and one for every run of rows with logits.
    EXPECT_EQ(kernels.runs("attn_res"), 18 + (prefills > 0 ? inputs.size() : 1U));
  };
  step({{a, prompt}}, 0, 6);
  step({{b, std::span(prompt).first(1)}}, 0, 6);  // one token, but of a new sequence
  step({{a, std::span(&next, 1)}, {b, std::span(&next, 1)}}, 6, 0);
  step({{a, std::span(&next, 1)}, {b, std::span(prompt).first(2)}}, 0, 6);
}

TEST_P(Sequences, TogetherAndAloneGiveTheSame) {
  const auto session = open_session(model_, {.slots = 4});
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < 4; ++i) prompts.push_back(text_tokens(*model_, 9 + 13 * i, 10 * i));
  const int32_t next[] = {32, 101, 116, 10};

  const auto run = [&](const std::vector<size_t>& which) {
    std::vector<int32_t> slots(which.size());
    std::vector<StepInput> inputs;
    for (size_t i = 0; i < which.size(); ++i) {
      EXPECT_TRUE(session->open(&slots[i]).ok());
      inputs.push_back({slots[i], prompts[which[i]], LogitsOf::all});
    }
    std::vector<StepLogits> logits;
    std::vector<std::vector<float>> all(which.size());
    const auto step = [&] {
      const Status status = session->step(inputs, &logits);
      EXPECT_TRUE(status.ok()) << status.message();
      for (size_t i = 0; i < which.size(); ++i) {
        all[i].insert(all[i].end(), logits[i].values.begin(), logits[i].values.end());
      }
    };
    step();
    for (int decoded = 0; decoded < 3; ++decoded) {
      for (size_t i = 0; i < which.size(); ++i) inputs[i] = {slots[i], std::span(&next[which[i]], 1), LogitsOf::last};
      step();
    }
    for (const int32_t slot : slots) EXPECT_TRUE(session->release(slot).ok());
    return all;
  };

  const KernelsRun together_kernels;
  const auto together = run({0, 1, 2, 3});
  const std::set<std::string> names = together_kernels.names();
  const auto reversed = run({3, 1, 0});
  for (size_t i = 0; i < 4; ++i) {
    const KernelsRun kernels;
    const auto alone = run({i});
    expect_same_logits(alone[0], together[i], kernels.names() == names, GetParam(), fmt::format("prompt {}", i));
  }
  expect_same_logits(reversed[0], together[3], true, GetParam(), "another order and slot");
  expect_same_logits(reversed[2], together[0], true, GetParam(), "another order and slot");
}

TEST_P(Sequences, AUsedSlotIsAsGoodAsNew) {
  const std::vector<int32_t> tokens = text_tokens(*model_, 40);
  const auto fresh = open_session(model_, {.slots = 1});
  const std::vector<float> want = in_pieces(*fresh, tokens, 1000);
  const auto used = open_session(model_, {.slots = 1});
  for (const size_t piece : {1000U, 1U}) {
    in_pieces(*used, text_tokens(*model_, 130, 60), piece);
    EXPECT_TRUE(in_pieces(*used, tokens, 1000) == want);
  }
}

TEST_P(Sequences, ThreadsDoNotChangeABit) {
  const std::vector<int32_t> tokens = text_tokens(*model_, 100);
  const auto one = open_session(model_, {.slots = 1, .threads = 1});
  const std::vector<float> whole = in_pieces(*one, tokens, 1000);
  const std::vector<int32_t> few(tokens.begin(), tokens.begin() + 12);  // more threads than cores are slow, not wrong
  const std::vector<float> stepped = in_pieces(*one, few, 1);
  for (const int threads : {2, 3}) {
    const auto several = open_session(model_, {.slots = 1, .threads = threads});
    EXPECT_TRUE(in_pieces(*several, tokens, 1000) == whole) << threads;
    EXPECT_TRUE(in_pieces(*several, few, 1) == stepped) << threads;
  }
}

TEST_P(Sequences, TwoSessionsAtOnce) {
  const std::vector<int32_t> tokens = text_tokens(*model_, 60);
  const auto reference = open_session(model_, {.slots = 1, .threads = 1});
  const std::vector<float> want = in_pieces(*reference, tokens, 30);
  std::vector<float> got[2];
  std::vector<std::thread> threads;
  for (std::vector<float>& logits : got) {
    threads.emplace_back([&] {
      const auto session = open_session(model_, {.slots = 1, .threads = 2});
      logits = in_pieces(*session, tokens, 30);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(got[0] == want);
  EXPECT_TRUE(got[1] == want);
}

INSTANTIATE_TEST_SUITE_P(Session, Sequences, testing::Values(Precision::bf16, Precision::f32),
                         [](const auto& param) { return param.param == Precision::f32 ? "f32" : "bf16"; });

TEST(SessionErrors, SayWhatIsWrongAndChangeNothing) {
  const auto model = shared_k3_mini(Precision::f32);
  const auto session = open_session(model, {.slots = 2, .context = 40});
  int32_t a = -1;
  int32_t b = -1;
  int32_t none = -1;
  ASSERT_TRUE(session->open(&a).ok());
  ASSERT_TRUE(session->open(&b).ok());
  const Status full = session->open(&none);
  EXPECT_EQ(full.code(), StatusCode::exhausted);
  EXPECT_EQ(full.message(), "session: slots: has all 2 in use, needs a free one");
  EXPECT_EQ(session->free_slots(), 0);

  const std::vector<int32_t> tokens = text_tokens(*model, 30);
  std::vector<StepLogits> logits;
  const StepInput first{a, tokens};
  ASSERT_TRUE(session->step(std::span(&first, 1), &logits).ok());
  const std::vector<float> before(logits[0].values.begin(), logits[0].values.end());
  const int32_t wrong_token = 320;
  const int32_t right_token = 97;
  const std::span<const int32_t> right(&right_token, 1);
  const std::pair<std::vector<StepInput>, const char*> cases[] = {
      {{{b, right}, {2, right}}, "session: input 1: slot: has 2, needs an open one of 0..1"},
      {{{-1, right}}, "session: input 0: slot: has -1, needs an open one of 0..1"},
      {{{a, right}, {a, right}}, "session: input 1: slot: has 0 a second time, needs distinct slots"},
      {{{a, {}}}, "session: input 0: tokens: has none, needs at least one"},
      {{{b, right}, {a, std::span(&wrong_token, 1)}}, "session: input 1: tokens: has 320, needs 0..319 (vocab_size)"},
      {{{a, std::span(tokens).first(11)}},
       "session: input 0: tokens: has 11 behind 30, needs at most 40 in all (the context)"}};
  for (const auto& [inputs, text] : cases) {
    EXPECT_EQ(session->step(inputs, &logits).message(), text);
    EXPECT_EQ(session->length(a), 30);
    EXPECT_EQ(session->length(b), 0);
  }
  EXPECT_EQ(session->release(5).message(), "session: slot: has 5, needs an open one of 0..1");
  // The sequence goes on as if nothing had been asked.
  const StepInput more{a, std::span(tokens).first(10)};
  ASSERT_TRUE(session->step(std::span(&more, 1), &logits).ok());
  const auto other = open_session(model, {.slots = 1});
  ASSERT_TRUE(other->open(&a).ok());
  std::vector<StepLogits> expected;
  ASSERT_TRUE(other->step(std::span(&first, 1), &expected).ok());
  ASSERT_TRUE(other->step(std::span(&more, 1), &expected).ok());
  EXPECT_TRUE(std::equal(logits[0].values.begin(), logits[0].values.end(), expected[0].values.begin()));
}

TEST(SessionErrors, OptionsAreChecked) {
  const auto model = shared_k3_mini(Precision::f32);
  const std::pair<SessionOptions, const char*> cases[] = {
      {{.slots = 0}, "session: slots: has 0, needs 1..65536"},
      {{.context = -1}, "session: context: has -1, needs 0 (the model's) .. 2147483647"},
      {{.prefill_chunk = 0}, "session: prefill_chunk: has 0, needs 1..65536"},
      {{.threads = -2}, "session: threads: has -2, needs 0 (all cores) or more"}};
  for (const auto& [options, text] : cases) {
    std::unique_ptr<Session> session;
    EXPECT_EQ(Session::create(model, options, &session).message(), text);
  }
  std::unique_ptr<Session> session;
  EXPECT_EQ(Session::create(nullptr, {}, &session).code(), StatusCode::invalid_argument);
  const Status huge = Session::create(model, {.slots = 65536, .context = 2147483647}, &session);
  EXPECT_EQ(huge.code(), StatusCode::out_of_memory);
  EXPECT_NE(huge.message().find("needs fewer slots or a smaller context"), std::string::npos) << huge.message();
}

TEST(Generate, StreamsWhatItReturns) {
  const auto model = shared_k3_mini(Precision::f32);
  const auto session = open_session(model, {.slots = 2});
  const std::vector<std::vector<int32_t>> prompts = {model->encode("The whale"), model->encode("ROMEO:\n"),
                                                     model->encode("It was")};
  std::vector<std::string> streamed(3);
  int64_t prefilled = 0;
  GenerateOptions options;
  options.max_tokens = 40;
  options.on_text = [&](size_t index, std::string_view text) {
    streamed[index] += text;
    return true;
  };
  options.on_prefill = [&](int64_t done, int64_t total) {
    EXPECT_GT(done, prefilled);
    EXPECT_EQ(total, 10 + 8 + 7);
    prefilled = done;
    return true;
  };
  GenerateResult result;
  ASSERT_TRUE(generate(*session, prompts, options, &result).ok());
  EXPECT_EQ(prefilled, 25);
  EXPECT_EQ(result.statistics.prefill_tokens, 25);
  EXPECT_EQ(result.statistics.decode_tokens, 3 * 39);
  EXPECT_EQ(session->free_slots(), 2);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(result.completions[i].reason, StopReason::length);
    EXPECT_EQ(result.completions[i].tokens.size(), 40U);
    EXPECT_EQ(result.completions[i].text, streamed[i]);
    EXPECT_EQ(result.completions[i].text, model->decode(result.completions[i].tokens));
    // Alone: the third prompt had to wait for a slot above.
    GenerateResult alone;
    options.on_text = nullptr;
    options.on_prefill = nullptr;
    ASSERT_TRUE(generate(*session, std::span(prompts).subspan(i, 1), options, &alone).ok());
    EXPECT_EQ(alone.completions[0].tokens, result.completions[i].tokens);
  }
}

TEST(Generate, SamplingFollowsTheSeed) {
  const auto model = shared_k3_mini(Precision::bf16);
  const auto session = open_session(model, {.slots = 4});
  const std::vector<std::vector<int32_t>> prompts(3, model->encode("The whale"));
  const auto texts = [&](uint64_t seed) {
    GenerateResult result;
    const GenerateOptions options{.sampling = {.temperature = 0.7F, .top_k = 40, .top_p = 0.95F, .seed = seed},
                                  .max_tokens = 30};
    EXPECT_TRUE(generate(*session, prompts, options, &result).ok());
    return std::vector<std::string>{result.completions[0].text, result.completions[1].text, result.completions[2].text};
  };
  const auto first = texts(1);
  EXPECT_EQ(first, texts(1));
  EXPECT_NE(first, texts(2));
  EXPECT_NE(first[0], first[1]);
  EXPECT_EQ(model->sampling_defaults().temperature, 0.7F);
}

TEST(Generate, StopsWhereItShould) {
  const auto model = shared_k3_mini(Precision::f32);
  const auto session = open_session(model, {.slots = 1, .context = 30});
  const std::vector<std::vector<int32_t>> prompts = {model->encode("The whale")};
  GenerateResult whole;
  ASSERT_TRUE(generate(*session, prompts, {.max_tokens = 1000}, &whole).ok());
  EXPECT_EQ(whole.completions[0].reason, StopReason::context);
  EXPECT_EQ(whole.completions[0].tokens.size(), 30U - 10 + 1);
  const std::string& text = whole.completions[0].text;

  GenerateResult stopped;
  const std::string stop = text.substr(7, 4);
  ASSERT_TRUE(generate(*session, prompts, {.max_tokens = 1000, .stop = {"never", stop}}, &stopped).ok());
  EXPECT_EQ(stopped.completions[0].reason, StopReason::stop_string);
  EXPECT_EQ(stopped.completions[0].text, text.substr(0, text.find(stop)));

  int calls = 0;
  GenerateOptions cancelling{.max_tokens = 1000};
  cancelling.on_text = [&](size_t, std::string_view) { return ++calls < 3; };
  GenerateResult cancelled;
  ASSERT_TRUE(generate(*session, prompts, cancelling, &cancelled).ok());
  EXPECT_EQ(cancelled.completions[0].reason, StopReason::cancelled);
  EXPECT_EQ(cancelled.completions[0].tokens.size(), 3U);
  EXPECT_EQ(session->free_slots(), 1);
}

/// A synthetic model whose head always answers one token, whatever the input.
std::shared_ptr<const Model> single_minded_model(const TemporaryFolder& folder,
                                                 const std::vector<int32_t>& favourites) {
  SyntheticModel synthetic({.name = "kimi_k3"}, 3);
  // All-equal rows of the final norm's gain on a head whose rows are zero but for the favourites' would need a known
  // hidden state; instead the favourites get the rows +-1 of one channel, so that one of the two always wins.
  FileTensor& head = synthetic.files["language_model.lm_head.weight"];
  std::fill(head.bytes.begin(), head.bytes.end(), '\0');
  float sign = 1.0F;
  for (const int32_t token : favourites) {
    const bf16 value = to_bf16(sign);
    std::memcpy(head.bytes.data() + static_cast<size_t>(token) * Variant::kHidden * sizeof value, &value, sizeof value);
    sign = -sign;
  }
  synthetic.write(folder);
  return load(folder.path(), Precision::f32);
}

TEST(Generate, AnEndTokenEndsTheText) {
  const TemporaryFolder folder;
  const auto model = single_minded_model(folder, {257, 257});
  // Both favourites are the end token; its logit is -channel, so it wins where the channel is negative, and token 0
  // (the first of the zeros) where it is not. Prompts of both kinds exist.
  const auto session = open_session(model, {.slots = 1, .context = 64});
  bool ended = false;
  for (const char* prompt : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    const std::vector<std::vector<int32_t>> prompts = {model->encode(prompt)};
    GenerateResult result;
    ASSERT_TRUE(generate(*session, prompts, {.max_tokens = 20}, &result).ok());
    const Completion& completion = result.completions[0];
    if (completion.reason != StopReason::end_of_text) continue;
    ended = true;
    EXPECT_EQ(completion.tokens.back(), 257);
    EXPECT_EQ(std::count(completion.tokens.begin(), completion.tokens.end(), 257), 1);
    GenerateResult ignoring;
    ASSERT_TRUE(generate(*session, prompts, {.max_tokens = 20, .ignore_end = true}, &ignoring).ok());
    EXPECT_EQ(ignoring.completions[0].reason, StopReason::length);
    EXPECT_EQ(ignoring.completions[0].tokens.size(), 20U);
  }
  EXPECT_TRUE(ended);
}

TEST(Generate, OutputIsAlwaysValidUtf8) {
  const TemporaryFolder folder;
  const auto model = single_minded_model(folder, {0xE2, 0xC3});
  const auto session = open_session(model, {.slots = 1, .context = 64});
  const std::vector<std::vector<int32_t>> prompts = {model->encode("\xff\xfe not UTF-8")};
  GenerateResult result;
  std::string streamed;
  GenerateOptions options{.max_tokens = 20};
  options.on_text = [&](size_t, std::string_view text) {
    streamed += text;
    return true;
  };
  ASSERT_TRUE(generate(*session, prompts, options, &result).ok());
  EXPECT_EQ(streamed, result.completions[0].text);
  ASSERT_FALSE(streamed.empty());
  for (size_t i = 0; i < streamed.size(); i += 3) EXPECT_EQ(streamed.substr(i, 3), "\xEF\xBF\xBD");
}

TEST(Generate, WrongRequestsAreRefusedBeforeAnyWork) {
  const auto model = shared_k3_mini(Precision::f32);
  const auto session = open_session(model, {.slots = 1, .context = 20});
  const std::vector<int32_t> good = model->encode("The whale");
  struct Case {
    std::vector<std::vector<int32_t>> prompts;
    GenerateOptions options;
    const char* text;
  };
  const Case cases[] = {
      {{good, {}}, {}, "generate: prompt 1: has no tokens, needs at least one"},
      {{std::vector<int32_t>(21, 97)}, {}, "generate: prompt 0: has 21 tokens, needs at most 20 (the context)"},
      {{{97, 500}}, {}, "generate: prompt 0: has token 500, needs 0..319 (vocab_size)"},
      {{good}, {.max_tokens = 0}, "generate: max_tokens: has 0, needs at least 1"},
      {{good}, {.stop = {""}}, "generate: stop: has an empty string, needs text"},
      {{good}, {.sampling = {.temperature = -1}}, "sampling: temperature: has -1, needs a finite number >= 0"},
      {{good}, {.sampling = {.top_k = -1}}, "sampling: top_k: has -1, needs 0 (all) or more"},
      {{good}, {.sampling = {.top_p = 0}}, "sampling: top_p: has 0, needs a number in (0, 1]"}};
  for (const Case& c : cases) {
    GenerateResult result;
    EXPECT_EQ(generate(*session, c.prompts, c.options, &result).message(), c.text);
    EXPECT_EQ(session->statistics().prefill_tokens, 0);
  }
  int32_t slot = -1;
  ASSERT_TRUE(session->open(&slot).ok());
  GenerateResult result;
  const std::vector<std::vector<int32_t>> prompts = {good};
  EXPECT_EQ(generate(*session, prompts, {}, &result).code(), StatusCode::exhausted);
}

TEST(Score, WindowsAndErrors) {
  const auto model = shared_k3_mini(Precision::f32);
  const std::string text(model->decode(text_tokens(*model, 151)));
  const auto session = open_session(model, {.slots = 3, .context = 64, .prefill_chunk = 50});
  ScoreResult result;
  int64_t last = 0;
  const ScoreOptions options{.window = 40, .on_progress = [&](int64_t done, int64_t total) {
                               EXPECT_EQ(total, 150);
                               EXPECT_GT(done, last);
                               last = done;
                               return true;
                             }};
  ASSERT_TRUE(score(*session, text, options, &result).ok());
  EXPECT_EQ(last, 150);
  EXPECT_EQ(result.bytes, 150);
  ASSERT_EQ(result.bits_per_window.size(), 4U);
  // The second window by hand.
  const std::vector<int32_t> targets = model->encode(text.substr(40, 40), false);
  std::vector<int32_t> inputs = {256};
  inputs.insert(inputs.end(), targets.begin(), targets.end() - 1);
  const std::vector<float> logits = logits_of(*session, inputs);
  double bits = 0;
  for (size_t i = 0; i < 40; ++i) {
    double sum = 0;
    for (size_t v = 0; v < kVocab; ++v) sum += std::exp(static_cast<double>(logits[i * kVocab + v]));
    bits -= std::log2(std::exp(static_cast<double>(logits[i * kVocab + static_cast<size_t>(targets[i])])) / sum);
  }
  EXPECT_NEAR(result.bits_per_window[1], bits, 40 * exact_bound(kLayers, kWidest, 20));
  EXPECT_EQ(session->free_slots(), 3);

  EXPECT_EQ(score(*session, "", {}, &result).message(), "score: text: has 0 bytes, needs at least one");
  EXPECT_EQ(score(*session, "x", {.window = 0}, &result).message(), "score: window: has 0, needs at least 1");
  EXPECT_EQ(score(*session, "x", {.window = 65}, &result).message(),
            "score: window: has 65 tokens, needs at most 64 (the context)");
  const Status cancelled =
      score(*session, text, {.window = 40, .on_progress = [](int64_t, int64_t) { return false; }}, &result);
  EXPECT_EQ(cancelled.code(), StatusCode::exhausted);
  EXPECT_EQ(session->free_slots(), 3);
}

}  // namespace
}  // namespace silt
