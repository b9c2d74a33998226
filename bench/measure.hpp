// One cell of a table: a problem, the kernels and modes it is measured with, and the measurement.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/contest.hpp"
#include "bench/result.hpp"
#include "bench/subject.hpp"

namespace silt::bench {

struct Cell {
  std::string op;
  std::string line;
  Device device{};
  std::vector<Mode> modes;
  std::vector<std::string> kernels;
};

struct Settings {
  int threads = 0;       ///< CPU workers, resolved
  int samples = 31;      ///< rounds of a contest
  double sample_us = 0;  ///< the shortest sample: launches of a CPU sample, or one replay of a GPU graph
  /// What a rotation over input sets spans at least, so that a set has left the caches when its turn comes again.
  int64_t cold_bytes = 0;
  /// Not the protocol's: where set, the rotation is as short as moves this many bytes, three sets at least.
  int64_t span_bytes = 0;
  bool share_activations = false;  ///< not the protocol's: Subject::share_activations
  int64_t memory_bytes = 0;        ///< the most that the sets of a cell may take
  double device_copy_gbs = 0;      ///< GPU: the copy ceiling of this run
  double device_read_gbs = 0;
};

/// Defaults for a device: at least twice its last-level cache (CPU: and 256 MiB, since caches are shared), 1 ms samples
/// on a CPU, 2 ms replays on a GPU.
Status default_settings(Device device, int threads, Settings* settings);

/// The copy and read ceilings of a GPU.
Status measure_device_ceilings(Device device, Settings* settings);

/// What a cell's contests consist of, mode by mode, the kernels first.
struct Plan {
  struct Row {
    std::string kernel;  ///< or mover or ceiling
    Mode mode = Mode::cpu;
    bool is_kernel = false;
  };
  std::vector<Row> rows;
};
Plan plan(const Cell& cell, Subject& subject);

/// Makes the sets, compares every kernel with the oracle, runs the contest. `results` gets one entry per row of the
/// plan. An error means that nothing of the cell counts: wrong results, a refusing kernel, no memory.
Status measure(const Cell& cell, const Settings& settings, const std::function<void(double)>& progress,
               std::vector<Result>* results);

/// How many sets a rotation needs: the cold span (or one pass of a decoder's step), within the memory given; one where
/// the caches are meant to be warm.
int64_t sets_needed(const Subject& subject, const Settings& settings, bool warm, int64_t least);

/// Microseconds of a steady clock.
double now_us();

namespace detail {
Status measure_cpu(const Cell& cell, const Settings& settings, Subject& subject,
                   const std::function<void(double)>& progress, std::vector<Result>* results);
Status measure_gpu(const Cell& cell, const Settings& settings, Subject& subject,
                   const std::function<void(double)>& progress, std::vector<Result>* results);
/// The subject's movers on a kind of device; none on AMD devices, which have no kernels of that kind.
std::vector<Mover> movers_of(Subject& subject, DeviceKind device);
/// The fastest of these contestants by p50 (NaN where there is none).
double fastest_p50(const std::vector<Contestant>& contestants, const std::vector<std::string>& names);
}  // namespace detail

// Names of the ceilings' rows. The movers of a subject come with its own names.
inline constexpr std::string_view kCopy = "ceiling_copy";
inline constexpr std::string_view kCopyNt = "ceiling_copy_nt";
inline constexpr std::string_view kInPlace = "ceiling_in_place";
inline constexpr std::string_view kRead = "ceiling_read";
inline constexpr std::string_view kFloor = "floor";
/// On a GPU the fastest mover of a mode, picked before the contest.
inline constexpr std::string_view kMover = "mover";

}  // namespace silt::bench
