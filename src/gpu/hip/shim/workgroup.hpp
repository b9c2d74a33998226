// One workgroup of the stand-in device: lanes, local memory, and the rules that it enforces.
//
// A lane is a fiber. It runs until it must meet others: the 64 lanes of its wave at a move between lanes, all lanes of
// the workgroup at a barrier. The stand-in is strict where hardware is silent:
//   - a barrier or move that not all lanes reach, or that they reach at different lines, ends the launch;
//   - `uniform` of values that differ ends it, and so does `scalar_base` of addresses that differ;
//   - every float of local memory knows whether it was written, by which lane and in which phase (phases are what
//     barriers separate), and which waves have read it: reading what was never written, or another lane's write of the
//     same phase, or writing what another wave read or another lane wrote in the same phase, ends it. So a missing
//     barrier fails on the first run and on one core. Lanes of a wave are held to the same rule, though hardware runs
//     them in step: exchange between them is what moves are for.
//   - global accesses must be aligned to their size.
// It has no memory model (waves run in turn), no limits of registers and no wait states; special functions are exact.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/hip/shim/fiber.hpp"

namespace silt::hip::shim {

constexpr uint32_t kWaveLanes = 64;

class Workgroup {
 public:
  /// Runs one workgroup of `threads` lanes to its end. `reverse`: its waves take turns from the last to the first;
  /// results must not depend on it. False: a rule was broken, `failure` says which and where.
  bool run(uint32_t id, uint32_t threads, bool reverse, void (*body)(const void*), const void* args);
  [[nodiscard]] const std::string& failure() const { return failure_; }

  // What kernels do, through wave64.hpp. `line` is where the kernel's source does it.
  [[nodiscard]] uint32_t id() const { return id_; }
  [[nodiscard]] uint32_t thread() const { return current_; }
  void local_memory(uint32_t floats, int line);
  float local_read(uint32_t at, int line);
  void local_write(uint32_t at, float value, int line);
  void barrier(int line);
  /// Offers a value to the wave and takes that of lane `from`.
  uint32_t exchange(uint32_t value, uint32_t from, int line);
  [[noreturn]] void fail(const char* what, int line);

  /// The one that runs on this thread.
  static Workgroup& now();

 private:
  enum class State : unsigned char { ready, at_move, at_barrier, finished };
  struct Lane {
    Fiber fiber;
    State state = State::ready;
    int line = 0;         // where it waits
    uint32_t parity = 0;  // which of the two offers is the next: with two, one meeting per move is enough
    uint32_t offer[2] = {};
  };
  struct Shadow {  // of one float of local memory
    bool written = false;
    uint32_t writer = 0;
    uint32_t write_phase = 0;
    uint32_t readers = 0;  // a bit per wave
    uint32_t read_phase = 0;
  };

  static void lane_main();
  void run_wave(uint32_t first);
  void wait(State why, int line);
  bool met(uint32_t first, uint32_t last, State why, const char* else_failure);
  void note_failure(const char* what, uint32_t lane, int line);

  uint32_t id_ = 0;
  uint32_t threads_ = 0;
  uint32_t current_ = 0;
  uint32_t phase_ = 1;
  std::vector<Lane> lanes_;
  std::vector<float> local_;
  std::vector<Shadow> shadow_;
  void (*body_)(const void*) = nullptr;
  const void* args_ = nullptr;
  std::string failure_;
};

/// A kernel of the stand-in: defined by SILT_KERNEL, found by its symbol.
struct Kernel {
  const char* symbol = nullptr;
  size_t args_bytes = 0;
  uint32_t least_threads = 0;  // of a workgroup
  uint32_t most_threads = 0;
  void (*body)(const void*) = nullptr;
};
std::vector<Kernel>& kernels();
struct Registration {
  explicit Registration(const Kernel& kernel) { kernels().push_back(kernel); }
};

}  // namespace silt::hip::shim
