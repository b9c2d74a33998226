#include "core/workers.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/log.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace silt {
namespace {

// Longer than the serial code between two operators of a decoder. Starting a region on sleeping workers takes 60 to 200
// times what it takes on spinning ones (docs/cpu.md).
constexpr std::chrono::microseconds kSpinTime{200};
constexpr int kSpinsBeforeYield = 1000;  // longer than the workers of one region are apart
constexpr int kMaxThreads = 256;

/// Lets some ten cycles pass without taking the memory's or the other hardware thread's time.
void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  // The instruction made for it, yield, does nothing on cores without hardware threads, which most are. This one waits
  // until the pipeline is empty.
  asm volatile("isb");
#else
  std::this_thread::yield();
#endif
}

// The floating-point mode of this thread, and its bits that make zeros of denormal results and of denormal operands.
#if defined(__x86_64__)
using FloatMode = unsigned;
constexpr FloatMode kFlush = 0x8000 | 0x0040;
FloatMode float_mode() { return _mm_getcsr(); }
void set_float_mode(FloatMode mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
using FloatMode = uint64_t;
constexpr FloatMode kFlush = FloatMode{1} << 24;  // one bit for both
FloatMode float_mode() {
  FloatMode mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void set_float_mode(FloatMode mode) { asm volatile("msr fpcr, %0" ::"r"(mode) : "memory"); }
#else
using FloatMode = int;
constexpr FloatMode kFlush = 0;
FloatMode float_mode() { return 0; }
void set_float_mode(FloatMode) {}
#endif

/// Flushes denormals for the scope of a region.
class FlushDenormals {
 public:
  FlushDenormals() : saved_(float_mode()) { set_float_mode(saved_ | kFlush); }
  ~FlushDenormals() { set_float_mode(saved_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  FloatMode saved_;
};

struct Region {
  int64_t count = 0;
  int participants = 1;
  detail::RangeBody body = nullptr;
  void* context = nullptr;

  void run(int participant) const {
    const int64_t begin = count * participant / participants;
    const int64_t end = count * (participant + 1) / participants;
    if (begin < end) {
      const FlushDenormals scope;
      body(context, begin, end);
    }
  }
};

class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  ~Pool() {
    {
      const std::lock_guard lock(sleep_mutex_);
      stopping_ = true;
      publish(kMaxThreads);
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  /// False where another caller's region is running.
  bool try_run(const Region& region) {
    const std::unique_lock owner(owner_mutex_, std::try_to_lock);
    if (!owner.owns_lock()) return false;
    grow(region.participants - 1);  // where it cannot, the caller does the parts of the missing workers below
    region_ = region;
    pending_.store(region.participants - 1, std::memory_order_relaxed);
    {
      // The lock closes the gap between a worker's last look at the ticket and its sleep.
      const std::lock_guard lock(sleep_mutex_);
      publish(region.participants);
    }
    if (sleepers_.load(std::memory_order_acquire) > 0) wake_.notify_all();
    region.run(0);
    // A worker that sleeps, or whose core another program has, has not claimed its part yet: it is done here meanwhile.
    const uint64_t number = number_of(ticket_.load(std::memory_order_relaxed));
    for (int i = 1; i < region.participants; ++i) run_if_unclaimed(i, number);
    for (int spins = 0; pending_.load(std::memory_order_acquire) != 0; ++spins) {
      // Where other programs keep the cores busy, a worker may be waiting for this very core.
      spins < kSpinsBeforeYield ? relax() : std::this_thread::yield();
    }
    return true;
  }

 private:
  // A ticket is a region's number and its participants in one word, so that a worker that has no part in a region never
  // reads region_, which the next caller may be writing by then. Nor does one that comes late: a region does not end
  // before all of its parts are claimed, and only who claims a part reads region_.
  static constexpr int kParticipantBits = 16;
  static uint64_t number_of(uint64_t ticket) { return ticket >> kParticipantBits; }
  static int participants_of(uint64_t ticket) { return static_cast<int>(ticket & ((1u << kParticipantBits) - 1)); }
  void publish(int participants) {
    const uint64_t number = number_of(ticket_.load(std::memory_order_relaxed)) + 1;
    ticket_.store((number << kParticipantBits) | static_cast<uint64_t>(participants), std::memory_order_release);
  }

  void grow(int workers) {
    if (workers > most_workers_) workers = most_workers_;
    try {
      threads_.reserve(static_cast<size_t>(workers));
      while (static_cast<int>(threads_.size()) < workers) {
        const int participant = static_cast<int>(threads_.size()) + 1;
        const uint64_t seen = ticket_.load(std::memory_order_relaxed);
        threads_.emplace_back([this, participant, seen] { work(participant, seen); });
      }
    } catch (const std::exception& error) {  // no memory for a stack, or no more threads allowed
      most_workers_ = static_cast<int>(threads_.size());
      warn_of_fewer(most_workers_ + 1, workers + 1, error.what());
    }
  }

  static void warn_of_fewer(int has, int wanted, const char* reason) noexcept {
    try {
      log_warning(fmt::format("threads: has {}, needs {}: {}; slower, with the same results", has, wanted, reason));
    } catch (const std::exception&) {
      return;  // no memory for the text either
    }
  }

  void work(int participant, uint64_t seen) {
    while (true) {
      wait_for_work(seen);
      seen = ticket_.load(std::memory_order_acquire);
      if (stopping_) return;
      if (participant >= participants_of(seen)) continue;
      run_if_unclaimed(participant, number_of(seen));
    }
  }

  void run_if_unclaimed(int participant, uint64_t number) {
    std::atomic<uint64_t>& claimed = claims_[static_cast<size_t>(participant)].number;
    uint64_t last = claimed.load(std::memory_order_relaxed);
    if (last >= number || !claimed.compare_exchange_strong(last, number, std::memory_order_acq_rel)) return;
    region_.run(participant);
    pending_.fetch_sub(1, std::memory_order_release);
  }

  void wait_for_work(uint64_t seen) {
    const auto limit = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < 64; ++i) {
        if (ticket_.load(std::memory_order_acquire) != seen) return;
        relax();
      }
    } while (std::chrono::steady_clock::now() < limit);
    std::unique_lock lock(sleep_mutex_);
    sleepers_.fetch_add(1, std::memory_order_acq_rel);
    wake_.wait(lock, [&] { return ticket_.load(std::memory_order_acquire) != seen; });
    sleepers_.fetch_sub(1, std::memory_order_acq_rel);
  }

  std::mutex owner_mutex_;  // held by the caller whose region runs
  std::vector<std::thread> threads_;
  int most_workers_ = kMaxThreads;  ///< fewer where the system has refused one
  Region region_;
  std::atomic<uint64_t> ticket_{0};
  std::atomic<int> pending_{0};
  struct alignas(64) Claim {
    std::atomic<uint64_t> number{0};  ///< of the last region whose part has been taken
  };
  std::array<Claim, kMaxThreads> claims_;
  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
};

Pool& pool() {
  static Pool instance;
  return instance;
}

}  // namespace

int resolve_threads(int requested) {
  if (requested > 0) return std::min(requested, kMaxThreads);
  static const int cores = [] {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::clamp(CPU_COUNT(&set), 1, kMaxThreads);
    return 1;
  }();
  return cores;
}

void detail::run_region(int64_t count, int threads, RangeBody body, void* context) {
  if (count <= 0) return;
  Region region;
  region.count = count;
  region.participants = static_cast<int>(std::min<int64_t>(resolve_threads(threads), count));
  region.body = body;
  region.context = context;
  if (region.participants > 1 && pool().try_run(region)) return;
  region.participants = 1;
  region.run(0);
}

}  // namespace silt
