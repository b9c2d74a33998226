// Runs cells as Google Benchmark benchmarks: one per row, manual time, the samples of the row's contest as repetitions.
#pragma once

#include <string>
#include <vector>

#include "bench/measure.hpp"

namespace silt::bench {

struct RunOptions {
  int threads = 0;        ///< 0: every core the process may use
  int samples = 31;       ///< per row
  double sample_us = 0;   ///< 0: the protocol's
  double memory_gib = 0;  ///< 0: the protocol's
  double span_mb = 0;     ///< 0: the protocol's rotation; else Settings::span_bytes
  bool share_activations = false;
  std::string json;  ///< file names; empty: not written
  std::string csv;
  bool quiet = false;  ///< no progress on stderr
};

/// The exit status: 0, or 1 where a cell failed (a wrong result, an error of the device), told on stderr.
/// All cells are on the same device.
int run_cells(const std::vector<Cell>& cells, const RunOptions& options);

/// "NVIDIA H200" -> "h200", "AMD EPYC" -> "amd-epyc": the folder of a device under docs/results/.
std::string device_folder(std::string_view name);
/// The commit that this program was built from, with "-dirty" where files had changed.
std::string_view commit();

}  // namespace silt::bench
