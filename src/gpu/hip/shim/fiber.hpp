// A thread of control with a stack of its own, switched by hand. x86-64 in eighteen instructions (a switch is some
// nanoseconds, and a workgroup takes about 40,000 of them); elsewhere by ucontext, which asks the kernel each time.
#pragma once

#include <cstddef>
#include <memory>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define SILT_SHIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SILT_SHIM_ASAN 1
#endif
#endif

namespace silt::hip::shim {

class Fiber {
 public:
  static constexpr size_t kStackBytes = size_t{256} << 10;  // touched only as far as it is used

  /// Makes `entry` the next thing that enter() runs. It must leave by exit() and never return.
  void prepare(void (*entry)());
  /// From the scheduler into the fiber, until it leaves.
  void enter();
  /// From the fiber to the scheduler that entered it. `last`: it is not entered again as it is now.
  void leave(bool last);
  /// First thing in `entry`.
  void arrived();

 private:
  std::unique_ptr<std::byte[]> stack_;
#if defined(__x86_64__)
  void* inside_ = nullptr;  // stack pointers of the one that does not run
  void* outside_ = nullptr;
#else
  ucontext_t inside_;
  ucontext_t outside_;
#endif
#if SILT_SHIM_ASAN
  void* fake_inside_ = nullptr;
  void* fake_outside_ = nullptr;
  const void* outer_stack_ = nullptr;
  size_t outer_bytes_ = 0;
#endif
};

}  // namespace silt::hip::shim
