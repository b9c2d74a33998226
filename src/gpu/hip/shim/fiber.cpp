#include "gpu/hip/shim/fiber.hpp"

#include <cstdint>

#if SILT_SHIM_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// silt_hip_switch(void** from, void* to): saves what a call must preserve, and goes on where `to` was saved.
asm(R"(
.pushsection .text
.type silt_hip_switch, @function
silt_hip_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size silt_hip_switch, . - silt_hip_switch
.popsection
)");
extern "C" void silt_hip_switch(void** from, void* to) __attribute__((visibility("hidden")));
#endif

namespace silt::hip::shim {

void Fiber::prepare(void (*entry)()) {
  if (stack_ == nullptr) stack_ = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
#if defined(__x86_64__)
  constexpr int kSaved = 6;
  // The ABI wants rsp + 8 aligned to 16 where a function begins: as if `entry` had been called.
  auto** top = reinterpret_cast<void**>(stack_.get() + kStackBytes - 64);
  *--top = nullptr;  // the address `entry` would return to
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSaved; ++i) *--top = nullptr;
  inside_ = static_cast<void*>(top);
#else
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  makecontext(&inside_, entry, 0);
#endif
#if SILT_SHIM_ASAN
  fake_inside_ = nullptr;
#endif
}

void Fiber::enter() {
#if SILT_SHIM_ASAN
  __sanitizer_start_switch_fiber(&fake_outside_, stack_.get(), kStackBytes);
#endif
#if defined(__x86_64__)
  silt_hip_switch(&outside_, inside_);
#else
  swapcontext(&outside_, &inside_);
#endif
#if SILT_SHIM_ASAN
  __sanitizer_finish_switch_fiber(fake_outside_, nullptr, nullptr);
#endif
}

void Fiber::leave([[maybe_unused]] bool last) {
#if SILT_SHIM_ASAN
  __sanitizer_start_switch_fiber(last ? nullptr : &fake_inside_, outer_stack_, outer_bytes_);
#endif
#if defined(__x86_64__)
  silt_hip_switch(&inside_, outside_);
#else
  swapcontext(&inside_, &outside_);
#endif
#if SILT_SHIM_ASAN
  __sanitizer_finish_switch_fiber(fake_inside_, &outer_stack_, &outer_bytes_);
#endif
}

void Fiber::arrived() {
#if SILT_SHIM_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &outer_stack_, &outer_bytes_);
#endif
}

}  // namespace silt::hip::shim
