// How a kernel is chosen, and how to ask why.
//
// Every operator has one ordered list of kernels, fastest first. A call takes the first one that accepts the problem on
// the device of its tensors. `explain` prints the same walk with the reason of every refusal; it needs no such device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "silt/device.hpp"
#include "silt/export.hpp"
#include "silt/status.hpp"

namespace silt {

/// Which kernel a call may take. The environment variable SILT_KERNEL ("name" or "operator=name,...") sets the policy
/// of calls that leave it at the default; it counts as `require` for every operator that lists that name.
struct Policy {
  enum class Kind : int32_t {
    automatic,  ///< the first kernel of the list that accepts
    prefer,     ///< `kernel` if it accepts, else as automatic (counted as a fallback)
    require,    ///< `kernel` or an error
  };
  Kind kind = Kind::automatic;
  std::string_view kernel{};

  static Policy prefer(std::string_view name) { return {Kind::prefer, name}; }
  static Policy require(std::string_view name) { return {Kind::require, name}; }
};

/// Programmatic dependent launch on NVIDIA GPUs; each operator's contract says what is read before the dependency wait.
enum class Pdl : int32_t {
  off,   ///< an ordinary launch
  wait,  ///< the attribute is set; the kernel waits before it reads what a predecessor may write
  late,  ///< AttnRes: bank rows declared stable and weights are read before the wait
};

/// Where and how a call runs. The device is that of the tensors.
struct Launch {
  void* stream = nullptr;  ///< cudaStream_t or hipStream_t; null is the default stream; ignored on the CPU
  int32_t threads = 0;     ///< CPU workers including the caller; 0: every core the process may use
  Pdl pdl = Pdl::wait;
  Policy policy{};
  /// What lies in memory is read before the launch, on any device and at any cost; SILT_DEBUG=1 asks for it in every
  /// call. An error names the first wrong index, offset, count or value and its place, and nothing has been written.
  /// Stricter than the contracts: an index beyond the pool, which a kernel takes as padding, is an error too, as is a
  /// NaN in what is read. Both are right to compute with and mostly somebody's mistake; this is how to find whose. An
  /// error as well on a stream that is being captured: memory cannot be read there, and a replay would go unchecked.
  bool debug = false;
};

struct KernelInfo {
  std::string_view op;
  std::string_view name;
  DeviceKind device = DeviceKind::cpu;
  bool built = false;
  std::string_view why_not_built;  ///< empty where built
  uint64_t runs = 0;               ///< launches since the start of the process (or the last reset)
  uint64_t fallbacks = 0;          ///< of these, how many because a better kernel refused
};

/// Every kernel of every operator in list order, with its counters.
SILT_API std::vector<KernelInfo> kernels();
/// The same for one operator; empty where there is no such operator.
SILT_API std::vector<KernelInfo> kernels(std::string_view op);
SILT_API std::vector<std::string_view> operators();
SILT_API void reset_counters();

/// The choice for a problem line, e.g. "attn_res t=64 n=8 d=7168", on a device with these facts.
/// `table` gets one line per kernel: chosen, accepts, or refused with field, value and need.
/// Errors: an unknown operator, key, value or kernel name (listing the known ones); `unsupported` where no kernel
/// accepts.
struct Explanation {
  std::string kernel;
  std::string plan;  ///< the configuration the kernel would take, where it has several
  std::string table;
};
SILT_API Status explain(std::string_view problem_line, const DeviceFacts& facts, const Policy& policy,
                        Explanation* explanation);

}  // namespace silt
