// One launch of an AMD kernel as data: enough to replay it on hardware, in a vendor's debugger or in a functional
// emulator, without this library; and the judgement of what such a replay wrote. Needs no AMD device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "silt/check.hpp"
#include "silt/device.hpp"
#include "silt/dtype.hpp"
#include "silt/export.hpp"
#include "silt/status.hpp"

namespace silt {

struct LaunchDump {
  /// One tensor of the call in memory of its own: poison (0xff) around and between the elements.
  struct Buffer {
    std::string name;
    bool written = false;
    DType dtype = DType::f32;
    int64_t origin = 0;  ///< bytes to the first element
    std::vector<int64_t> shape;
    std::vector<int64_t> stride;  ///< in elements
    std::vector<std::byte> before;
    std::vector<std::byte> expected;  ///< of the plain reference kernel; empty where not written
  };
  /// At byte `at` of the arguments stands the address of a buffer plus `offset`.
  struct Pointer {
    int64_t at = 0;
    int64_t buffer = 0;
    int64_t offset = 0;
  };
  std::string line;
  std::string kernel;  ///< of the operator's list
  std::string isa;     ///< "gfx950"
  std::string symbol;  ///< in the code object
  std::span<const unsigned char> code;
  int64_t groups = 0;           ///< workgroups along x
  int32_t threads = 0;          ///< of a workgroup
  int64_t lds_bytes = 0;        ///< that the code object itself asks for; none are added at launch
  std::vector<std::byte> args;  ///< the kernel's argument block, pointers zero
  std::vector<Pointer> pointers;
  std::vector<Buffer> buffers;
};

/// The launch that a problem line takes on a device with these facts, on random data of this seed. `kernel`: that one
/// or an error; empty: as chosen. unsupported where the operator or this build has no AMD kernel for it.
SILT_API Status dump_launch(std::string_view problem_line, const DeviceFacts& facts, std::string_view kernel,
                            uint64_t seed, LaunchDump* dump);

/// Compares what a replay left in the written buffers (by name, all of them) with the double-precision reference, by
/// the operator's tolerance, and everything else bit for bit.
SILT_API Status judge_launch(std::string_view problem_line, uint64_t seed,
                             const std::vector<std::pair<std::string, std::vector<std::byte>>>& written,
                             CheckResult* result);

}  // namespace silt
