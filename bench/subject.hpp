// What silt-bench measures: one problem of one operator, as K independent sets of arguments on a device.
//
// Every operator's room has a subject in its bench/ folder; bench/rooms.cpp lists them. A subject knows how to fill the
// sets with random data, launch any kernel on set i, move the operator's bytes and nothing else (the probe), and
// compare a launch with the oracle through the room's case.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "silt/choose.hpp"
#include "silt/status.hpp"

#include "core/problem_line.hpp"
#include "core/status.hpp"
#include "proof/compare.hpp"

namespace silt::bench {

/// A way to move the operator's bytes. The fastest one of a group is its probe.
struct Mover {
  std::string name;
  double bytes = 0;  ///< that it moves itself: a state's mover leaves the small tensors out
  std::function<Status(int64_t set, const Launch& launch)> launch;
};

/// What the comparison with the oracle found, and what it looked at ("all rows", "64 of 4096 rows").
struct Verified {
  Verdict verdict;
  std::string what;
};

class Subject {
 public:
  Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;
  virtual ~Subject() = default;

  [[nodiscard]] virtual std::string line() const = 0;
  /// The formulas of the room's cost.cpp, of one launch.
  [[nodiscard]] virtual int64_t bytes() const = 0;
  [[nodiscard]] virtual int64_t flops() const = 0;
  /// How often a decoder calls the operator per step: that many launches with inputs of their own make a graph.
  [[nodiscard]] virtual int64_t calls_per_step() const = 0;
  /// What one launch touches, and what one set takes of memory (pools have slots that no row uses).
  [[nodiscard]] virtual int64_t live_bytes() const = 0;
  [[nodiscard]] virtual int64_t set_bytes() const = 0;

  /// Before make_sets: one copy of what a decoder's layers pass through buffers that they share (inputs and outputs of
  /// a step), while weights and state stay a set's own. unsupported where the subject does not tell them apart.
  virtual Status share_activations() {
    return failed(StatusCode::unsupported, "{}: --share-activations: has no such sets, needs kda_decode", line());
  }
  /// Allocates and fills `count` sets on the device. Random data, no zeros, no denormals.
  virtual Status make_sets(Device device, int64_t count) = 0;
  /// Asynchronous on a GPU. `kernel` is a name of the operator's list or one of the room's baselines.
  virtual Status launch(std::string_view kernel, int64_t set, const Launch& launch) = 0;
  /// Launches once on set 0, with poisoned outputs, and compares with the double-precision reference.
  virtual Status verify(std::string_view kernel, const Launch& launch, Verified* verified) = 0;
  /// Ways to move the operator's bytes on a kind of device, to be launched once the sets are there; empty where the
  /// problem has none.
  [[nodiscard]] virtual std::vector<Mover> movers(DeviceKind device) = 0;
};

/// A launch that is measured beside an operator's kernels though no call can choose it: a scalar build, a chain.
struct Baseline {
  std::string_view name;
  DeviceKind device = DeviceKind::cpu;
  /// unsupported, with the reason, where it does not take a problem line; null: takes all.
  Status (*accepts)(std::string_view name, std::string_view line, const DeviceFacts& facts) = nullptr;
  bool warm_only = false;  ///< measured of its own accord only where the cell has an in-cache series
};

/// The plain CPU kernel built without vectorisation (bench/CMakeLists.txt), a baseline of every room with SIMD kernels.
inline constexpr std::string_view kScalarRows = "cpu_scalar_rows";

/// A room's entry.
struct Room {
  std::string_view op;
  std::vector<Baseline> baselines;
  Status (*make)(const ProblemLine& line, std::unique_ptr<Subject>* subject);
};

/// Every operator that can be measured. Defined in rooms.cpp, the one file that lists them.
const std::vector<Room>& rooms();
/// invalid_argument lists the names.
Status find_room(std::string_view op, const Room** room);
/// Parses a problem line and makes its subject.
Status make_subject(std::string_view text, std::unique_ptr<Subject>* subject);

}  // namespace silt::bench
