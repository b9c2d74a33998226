// A warm step allocates nothing: every operator new of this program is counted.
#include <atomic>
#include <cstdlib>
#include <new>

#include "model/test/support.hpp"

namespace {

std::atomic<int64_t> allocations{0};

void* allocate(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes); }
void* operator new[](size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

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

}  // namespace
}  // namespace silt
