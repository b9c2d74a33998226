// A meeting point for the participants of one region: nobody leaves before everybody has come.
#pragma once

#include <atomic>
#include <thread>

namespace silt {

/// For a fixed number of threads that all run already (the participants of one region of core/workers.hpp, one range
/// each). Waits by spinning: it is for joins a few microseconds apart.
class Join {
 public:
  explicit Join(int participants) : participants_(participants) {}

  /// What participants wrote before is visible to all after.
  void wait() {
    const int round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == participants_) {
      arrived_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    // Yielding matters where more threads run than there are cores.
    for (int spins = 0; round_.load(std::memory_order_acquire) == round; ++spins) {
      if (spins >= kSpinsBeforeYield) std::this_thread::yield();
    }
  }

 private:
  static constexpr int kSpinsBeforeYield = 2000;
  const int participants_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<int> round_{0};
};

}  // namespace silt
