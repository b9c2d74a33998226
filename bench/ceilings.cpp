#include "bench/ceilings.hpp"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "bench/measure.hpp"
#include "bench/movers.hpp"
#include "core/status.hpp"
#include "core/workers.hpp"

namespace silt::bench {
namespace {

constexpr int64_t kBlock = 4096;

int64_t blocks(int64_t bytes) { return (bytes + kBlock - 1) / kBlock; }

}  // namespace

Status pin_workers(int threads) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return {StatusCode::device_error, "affinity: cannot be read"};
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  if (threads > static_cast<int>(cores.size())) {
    return invalid("threads: has {}, needs at most {} (the cores this process may use)", threads, cores.size());
  }
  // One range each: range i runs on participant i, and a participant is always the same thread.
  std::atomic<bool> pinned{true};
  parallel_ranges(threads, threads, [&](int64_t begin, int64_t) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cores[static_cast<size_t>(begin)], &one);
    if (pthread_setaffinity_np(pthread_self(), sizeof one, &one) != 0) pinned = false;
  });
  if (!pinned) return {StatusCode::device_error, "affinity: a worker cannot be pinned"};
  return {};
}

CeilingMemory::CeilingMemory(int64_t bytes, int64_t regions)
    : half_(blocks((bytes + 1) / 2) * kBlock), regions_(regions), memory_(static_cast<size_t>(2 * half_ * regions)) {
  // Any bytes but zeros: a zero page could be one page mapped everywhere.
  std::memset(memory_.data(), 0x3c, memory_.bytes());
}

void CeilingMemory::run(std::string_view ceiling, int64_t i, int threads) {
  std::byte* first = memory_.data() + i % regions_ * 2 * half_;
  std::byte* second = first + half_;
  const int64_t count = blocks(ceiling == kRead ? 2 * half_ : half_);
  std::atomic<uint64_t> sum{0};
  parallel_ranges(count, threads, [&](int64_t begin, int64_t end) {
    const int64_t at = begin * kBlock;
    const int64_t bytes = (end - begin) * kBlock;
    if (ceiling == kCopy) {
      copy_plain(second + at, first + at, bytes);
    } else if (ceiling == kCopyNt) {
      copy_nontemporal(second + at, first + at, bytes);
    } else if (ceiling == kInPlace) {
      update_in_place_ahead(first + at, bytes, nullptr);
    } else {
      sum += read_only(first + at, bytes);
    }
  });
}

double multiply_add_rate(int threads, double sample_us) {
  const double begin = now_us();
  multiply_add(10000);
  const double each = (now_us() - begin) / 10000;
  const auto count = static_cast<int64_t>(sample_us / each);
  std::atomic<double> operations{0};
  const double start = now_us();
  parallel_ranges(threads, threads, [&](int64_t, int64_t) { operations.fetch_add(multiply_add(count)); });
  return operations / (now_us() - start) * 1e-3;
}

}  // namespace silt::bench
