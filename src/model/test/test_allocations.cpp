// A warm step allocates nothing, and where memory ends the decoder says so: every operator new of this program is
// counted, and there are no more bytes than a test allows.
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

#include "model/json.hpp"
#include "model/test/support.hpp"

namespace {

std::atomic<int64_t> allocations{0};
std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> most_bytes{INT64_MAX};

void* allocate(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (live_bytes.load(std::memory_order_relaxed) + static_cast<int64_t>(bytes) > most_bytes.load())
    throw std::bad_alloc();
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  live_bytes.fetch_add(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  return memory;
}

void release(void* memory) {
  live_bytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes); }
void* operator new[](size_t bytes) { return allocate(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return allocate(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }

namespace silt {
namespace {

TEST(Allocations, AreCounted) {
  const int64_t before = allocations.load();
  const std::vector<int> some(100, 1);
  EXPECT_EQ(allocations.load(), before + 1) << some.size();
}

/// Two sequences: a chunk of both, then tokens one by one. The first round warms up what grows, the second is counted.
TEST(Allocations, AWarmStepMakesNone) {
  for (const Precision precision : {Precision::bf16, Precision::f32}) {
    for (const int threads : {1, 2}) {
      const auto session = open_session(shared_k3_mini(precision), {.slots = 2, .threads = threads});
      const std::vector<int32_t> tokens =
          session->model().encode("It was the best of times, it was the worst of times");
      std::vector<StepInput> inputs(2);
      std::vector<StepLogits> logits;
      bool ok = true;
      const auto round = [&] {
        int32_t slots[2] = {-1, -1};
        for (size_t i = 0; i < 2; ++i) {
          ok = ok && session->open(&slots[i]).ok();
          inputs[i] = {slots[i], tokens, LogitsOf::last};
        }
        ok = ok && session->step(inputs, &logits).ok();
        for (size_t i = 0; i < 2; ++i) inputs[i].tokens = std::span(tokens).subspan(5, 1);
        for (int step = 0; step < 8; ++step) ok = ok && session->step(inputs, &logits).ok();
        for (const int32_t slot : slots) ok = ok && session->release(slot).ok();
      };
      round();
      const int64_t before = allocations.load();
      round();
      EXPECT_EQ(allocations.load() - before, 0) << threads << " threads";
      EXPECT_TRUE(ok);
    }
  }
}

/// Runs `body` with no more memory than it holds now, then with a little more, until it is enough. `prepare` comes
/// before each run.
template <class Prepare, class Body>
void with_more_and_more(Prepare&& prepare, Body&& body) {
  int64_t refused = 0;
  Status status(StatusCode::out_of_memory, "");
  for (int64_t bytes = 0; !status.ok(); bytes += 16 + bytes / 32) {
    prepare();
    status = {};
    most_bytes = live_bytes.load() + bytes;
    status = body();
    most_bytes = INT64_MAX;
    if (status.ok()) break;
    ++refused;
    ASSERT_EQ(status.code(), StatusCode::out_of_memory) << bytes << ": " << status.message();
    EXPECT_FALSE(status.message().empty());
  }
  EXPECT_GT(refused, 5);
}

/// A list of the same element, or an object of the same value under different keys.
std::string long_json(const std::string& element, int count) {
  const bool keys = element.starts_with(':');
  std::string text = keys ? "{" : "[";
  for (int i = 0; i < count; ++i) text += (i > 0 ? "," : "") + (keys ? fmt::format("\"{}\"", i) : "") + element;
  return text + (keys ? "}" : "]");
}

// The parser takes memory where it must not fail: what json.cpp asks for before is enough for both, and is asked for.
TEST(OutOfMemory, OfJsonIsToldBeforeItIsParsed) {
  for (const char* element : {"0", "{}", "[]", "\"\"", "[0]", "{\"\":0}", ":0", ":{}", ":[{}]", ":{\"\":[]}"}) {
    const std::string text = long_json(element, 4000);
    for (const bool enough : {false, true}) {
      auto document = std::make_unique<JsonDocument>();
      const auto bytes = static_cast<int64_t>((24 + 48) * text.size() + (enough ? 81U << 10 : 79U << 10));
      most_bytes = live_bytes.load() + bytes;
      const Status status = parse_json(text, "f", document.get());
      most_bytes = live_bytes.load();
      document.reset();
      most_bytes = INT64_MAX;
      EXPECT_EQ(status.code(), enough ? StatusCode::ok : StatusCode::out_of_memory) << element << status.message();
      EXPECT_EQ(status.message().starts_with("f: has no memory for "), !enough) << status.message();
    }
  }
}

TEST(OutOfMemory, OfLoadingLeavesNoModel) {
  const std::string folder = k3_mini();
  std::shared_ptr<const Model> model;
  with_more_and_more([&] { EXPECT_EQ(model, nullptr); }, [&] { return Model::load(folder, {.threads = 1}, &model); });
  EXPECT_NE(model, nullptr);
}

TEST(OutOfMemory, OfASessionLeavesNone) {
  const auto model = shared_k3_mini(Precision::bf16);
  std::unique_ptr<Session> session;
  with_more_and_more([&] { EXPECT_EQ(session, nullptr); },
                     [&] { return Session::create(model, {.slots = 1, .context = 64, .threads = 1}, &session); });
  EXPECT_NE(session, nullptr);
}

TEST(OutOfMemory, OfAStepOrACallLeavesASessionThatWorks) {
  const auto model = shared_k3_mini(Precision::bf16);
  const std::vector<std::vector<int32_t>> prompts = {model->encode("It was the best of times")};
  const SessionOptions options{.slots = 1, .context = 64, .threads = 1};
  const std::vector<float> want = logits_of(*open_session(model, options), prompts[0]);
  std::unique_ptr<Session> session;
  int32_t slot = -1;
  std::vector<StepLogits> logits;
  bool first = true;
  const auto after = [&] {  // what a failure before has left
    if (!std::exchange(first, false)) {
      if (slot >= 0) {
        EXPECT_TRUE(session->release(slot).ok());
      }
      EXPECT_EQ(session->free_slots(), 1);
      EXPECT_TRUE(logits_of(*session, prompts[0]) == want);
    }
    session = open_session(model, options);
  };
  with_more_and_more(
      [&] {
        after();
        EXPECT_TRUE(session->open(&slot).ok());
        logits = {};
      },
      [&] {
        const StepInput input{slot, prompts[0], LogitsOf::all};
        return session->step({&input, 1}, &logits);
      });
  EXPECT_TRUE(std::equal(want.begin(), want.end(), logits[0].values.begin(), logits[0].values.end()));
  slot = -1;
  first = true;
  GenerateResult result;
  with_more_and_more(after, [&] { return generate(*session, prompts, {.max_tokens = 3}, &result); });
  EXPECT_EQ(result.completions[0].tokens.size(), 3U);
  ScoreResult score_result;
  first = true;
  with_more_and_more(after, [&] { return score(*session, "It was the worst", {.window = 8}, &score_result); });
  EXPECT_GT(score_result.bits, 0);
}

}  // namespace
}  // namespace silt
