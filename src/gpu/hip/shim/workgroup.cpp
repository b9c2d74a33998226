#include "gpu/hip/shim/workgroup.hpp"

#include <cmath>

namespace silt::hip::shim {
namespace {

thread_local Workgroup* running = nullptr;
constexpr uint32_t kMostLocalFloats = 65536 / 4;

}  // namespace

Workgroup& Workgroup::now() { return *running; }

std::vector<Kernel>& kernels() {
  static std::vector<Kernel> all;
  return all;
}

void Workgroup::lane_main() {
  Workgroup& group = now();
  Fiber& fiber = group.lanes_[group.current_].fiber;
  fiber.arrived();
  group.body_(group.args_);
  Lane& lane = group.lanes_[group.current_];
  lane.state = State::finished;
  lane.fiber.leave(true);
}

void Workgroup::note_failure(const char* what, uint32_t lane, int line) {
  if (!failure_.empty()) return;
  failure_ = std::string(what) + " (workgroup " + std::to_string(id_) + ", thread " + std::to_string(lane) + ", line " +
             std::to_string(line) + ")";
}

void Workgroup::fail(const char* what, int line) {
  note_failure(what, current_, line);
  for (;;) lanes_[current_].fiber.leave(false);  // the scheduler sees the failure and never comes back
}

void Workgroup::wait(State why, int line) {
  Lane& lane = lanes_[current_];
  lane.state = why;
  lane.line = line;
  lane.fiber.leave(false);
}

/// All lanes of [first, last) wait in the same way at the same line. Some do and others do not: the launch is wrong.
bool Workgroup::met(uint32_t first, uint32_t last, State why, const char* else_failure) {
  uint32_t count = 0;
  for (uint32_t i = first; i < last; ++i) count += lanes_[i].state == why ? 1 : 0;
  if (count == 0) return false;
  for (uint32_t i = first; i < last; ++i) {
    if (lanes_[i].state != why || lanes_[i].line != lanes_[first].line) {
      note_failure(else_failure, i, lanes_[i].line);
      return false;
    }
  }
  return true;
}

/// To the wave's next barrier or its end.
void Workgroup::run_wave(uint32_t first) {
  for (;;) {
    for (uint32_t i = first; i < first + kWaveLanes; ++i) {
      if (lanes_[i].state != State::ready) continue;
      current_ = i;
      lanes_[i].fiber.enter();
      if (!failure_.empty()) return;
    }
    if (!met(first, first + kWaveLanes, State::at_move, "a move between lanes that part of the wave reached")) return;
    for (uint32_t i = first; i < first + kWaveLanes; ++i) lanes_[i].state = State::ready;
  }
}

bool Workgroup::run(uint32_t id, uint32_t threads, bool reverse, void (*body)(const void*), const void* args) {
  running = this;
  id_ = id;
  threads_ = threads;
  phase_ = 1;
  body_ = body;
  args_ = args;
  failure_.clear();
  local_.clear();
  shadow_.clear();
  lanes_.resize(threads);
  for (Lane& lane : lanes_) {
    lane.state = State::ready;
    lane.parity = 0;
    lane.fiber.prepare(&lane_main);
  }
  const uint32_t waves = threads / kWaveLanes;
  bool more = true;
  while (more) {
    for (uint32_t n = 0; n < waves && failure_.empty(); ++n) run_wave((reverse ? waves - 1 - n : n) * kWaveLanes);
    more = failure_.empty() && met(0, threads, State::at_barrier, "a barrier that part of the workgroup reached");
    if (more) {
      for (Lane& lane : lanes_) lane.state = State::ready;
      ++phase_;
    }
  }
  if (failure_.empty()) return true;
  lanes_.clear();  // fibers that stopped midway: their stacks go with them
  return false;
}

void Workgroup::local_memory(uint32_t floats, int line) {
  if (local_.empty()) {
    if (floats > kMostLocalFloats) fail("more local memory than a workgroup has", line);
    local_.assign(floats, std::nanf(""));
    shadow_.assign(floats, Shadow{});
  }
  if (local_.size() != floats) fail("lanes that disagree on the local memory", line);
}

float Workgroup::local_read(uint32_t at, int line) {
  if (at >= local_.size()) fail("a read outside the local memory", line);
  Shadow& shadow = shadow_[at];
  if (!shadow.written) fail("a read of local memory that was never written", line);
  if (shadow.write_phase == phase_ && shadow.writer != current_) {
    fail("a read of another lane's write with no barrier between", line);
  }
  if (shadow.read_phase != phase_) {
    shadow.readers = 0;
    shadow.read_phase = phase_;
  }
  shadow.readers |= 1u << (current_ / kWaveLanes);
  return local_[at];
}

void Workgroup::local_write(uint32_t at, float value, int line) {
  if (at >= local_.size()) fail("a write outside the local memory", line);
  Shadow& shadow = shadow_[at];
  const uint32_t others = shadow.readers & ~(1u << (current_ / kWaveLanes));
  if (shadow.read_phase == phase_ && others != 0)
    fail("a write over what another wave reads, with no barrier between", line);
  if (shadow.written && shadow.write_phase == phase_ && shadow.writer != current_) {
    fail("two lanes that write the same local memory", line);
  }
  shadow.written = true;
  shadow.writer = current_;
  shadow.write_phase = phase_;
  local_[at] = value;
}

void Workgroup::barrier(int line) { wait(State::at_barrier, line); }

uint32_t Workgroup::exchange(uint32_t value, uint32_t from, int line) {
  Lane& lane = lanes_[current_];
  const uint32_t slot = lane.parity;
  lane.parity ^= 1;
  lane.offer[slot] = value;
  wait(State::at_move, line);
  // A lane overwrites this offer at its second move from here; the meeting before that is behind every read.
  return lanes_[(current_ & ~(kWaveLanes - 1)) + from % kWaveLanes].offer[slot];
}

}  // namespace silt::hip::shim
