// A stand-in libamdhip64 for machines without an AMD GPU: what src/device/hip_runtime.hpp, silt-bench and
// scripts/replay-launch ask of the runtime, on two devices (0: gfx942, 1: gfx950) whose kernels are the same sources as
// those of the code objects, run by shim/workgroup.hpp in the memory of the host, and on one that there is no code for.
// So the library's own host code is what runs: it finds this library by its name, picks a code object, which is looked
// into here, and hands over the argument block.
//
// Every second launch runs its workgroups and waves in reverse order: results must not depend on it.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/hip_runtime.hpp"
#include "gpu/hip/shim/workgroup.hpp"

#define SILT_SHIM_API extern "C" __attribute__((visibility("default")))

namespace silt::hip::shim {
namespace {

struct StandIn {
  const char* name;
  const char* arch;
  uint8_t machine;  // the low byte of e_flags in a code object
  int processors;
  size_t local_bytes;
};
constexpr StandIn kDevices[] = {
    {"stand-in for gfx942", "gfx942:sramecc+:xnack-", 0x4c, 304, 64 << 10},
    {"stand-in for gfx950", "gfx950:sramecc+:xnack-", 0x4f, 256, 160 << 10},
    {"stand-in for gfx90a", "gfx90a:sramecc+:xnack-", 0x3f, 104, 64 << 10},
};
constexpr int kCount = static_cast<int>(std::size(kDevices));
constexpr int kL2Bytes = 4 << 20;

thread_local int current_device = 0;
thread_local int capture_mode = 0;
/// Launches, with their argument blocks as they were.
struct Launched {
  const Kernel* kernel;
  uint32_t groups;
  uint32_t threads;
  std::vector<std::byte> args;
};
using Graph = std::vector<Launched>;
/// Streams between the begin and the end of a capture: what is launched there is kept, nothing waits for them.
std::mutex capture_mutex;
std::map<void*, Graph> captures;

bool is_captured(void* stream) {
  const std::lock_guard lock(capture_mutex);
  return captures.count(stream) != 0;
}

/// Whether the stream is captured, and the launch with it.
bool capture(void* stream, const Launched& launched) {
  const std::lock_guard lock(capture_mutex);
  const auto found = captures.find(stream);
  if (found == captures.end()) return false;
  found->second.push_back(launched);
  return true;
}

thread_local std::string failure_text;
std::atomic<uint64_t> launches{0};

/// The parts of an ELF header that matter here.
struct ElfHeader {
  unsigned char ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, program_headers, section_headers;
  uint32_t flags;
  uint16_t header_bytes, program_header_bytes, program_header_count, section_header_bytes, section_header_count, names;
};

ElfHeader header_of(const void* image) {
  ElfHeader header;
  std::memcpy(&header, image, sizeof header);
  return header;
}

/// A module's handle is its image, which stays where the caller has it; a function's is the kernel's entry.
Error load_module(void** module, const void* image) {
  const ElfHeader header = header_of(image);
  constexpr uint16_t kAmdGpu = 224;
  if (std::memcmp(header.ident, "\177ELF", 4) != 0 || header.machine != kAmdGpu) return kInvalidValue;
  if ((header.flags & 0xff) != kDevices[current_device].machine) return kNoBinaryForGpu;
  *module = const_cast<void*>(image);
  return kSuccess;
}

/// The code object must have the symbol's kernel descriptor, and this library its source.
Error find_function(void** function, void* module, const char* symbol) {
  const ElfHeader header = header_of(module);
  // The section headers are the last thing in the file.
  const size_t bytes = header.section_headers + size_t{header.section_header_bytes} * header.section_header_count;
  const std::string descriptor = std::string(1, '\0') + symbol + ".kd" + std::string(1, '\0');
  if (std::string_view(static_cast<const char*>(module), bytes).find(descriptor) == std::string_view::npos) {
    return kNotFound;
  }
  for (Kernel& kernel : kernels()) {
    if (std::string_view(kernel.symbol) != symbol) continue;
    *function = &kernel;
    return kSuccess;
  }
  return kNotFound;
}

Error launch(const Kernel& kernel, uint32_t groups, uint32_t threads, const void* args) {
  thread_local Workgroup group;
  const bool reverse = launches.fetch_add(1) % 2 == 1;
  for (uint32_t i = 0; i < groups; ++i) {
    if (!group.run(reverse ? groups - 1 - i : i, threads, reverse, kernel.body, args)) {
      failure_text = group.failure();
      return kLaunchFailure;
    }
  }
  return kSuccess;
}

template <class T>
void set(void* properties, size_t offset, T value) {
  std::memcpy(static_cast<char*>(properties) + offset, &value, sizeof value);
}

}  // namespace
}  // namespace silt::hip::shim

using namespace silt::hip;
using namespace silt::hip::shim;

SILT_SHIM_API Error hipGetDeviceCount(int* count) {
  *count = kCount;
  return kSuccess;
}

SILT_SHIM_API Error hipGetDevicePropertiesR0600(void* properties, int device) {
  if (device < 0 || device >= kCount) return kInvalidDevice;
  const StandIn& stand_in = kDevices[device];
  std::memset(properties, 0, kPropertiesBytes);
  std::strcpy(static_cast<char*>(properties) + kPropertyName, stand_in.name);
  std::strcpy(static_cast<char*>(properties) + kPropertyArchName, stand_in.arch);
  set(properties, kPropertyProcessors, stand_in.processors);
  set(properties, kPropertyWarpSize, static_cast<int>(shim::kWaveLanes));
  set(properties, kPropertyL2Bytes, kL2Bytes);
  set(properties, kPropertySharedPerBlock, stand_in.local_bytes);
  set(properties, kPropertySharedPerProcessor, stand_in.local_bytes);
  return kSuccess;
}

SILT_SHIM_API Error hipRuntimeGetVersion(int* version) {
  *version = 0;
  return kSuccess;
}

SILT_SHIM_API const char* hipGetErrorString(Error error) {
  switch (error) {
    case kLaunchFailure:
      return failure_text.c_str();
    case kInvalidValue:
      return "invalid argument";
    case kInvalidConfiguration:
      return "invalid configuration";
    case kInvalidDevice:
      return "invalid device";
    case kNoBinaryForGpu:
      return "code for another GPU";
    case kNotFound:
      return "no such kernel";
    case kOutOfMemory:
      return "out of memory";
    case kStreamCaptureUnsupported:
      return "a stream that is being captured";
    default:
      return "unknown error";
  }
}

SILT_SHIM_API Error hipGetLastError() { return kSuccess; }

SILT_SHIM_API Error hipGetDevice(int* device) {
  *device = current_device;
  return kSuccess;
}

SILT_SHIM_API Error hipSetDevice(int device) {
  if (device < 0 || device >= kCount) return kInvalidDevice;
  current_device = device;
  return kSuccess;
}

SILT_SHIM_API Error hipMalloc(void** data, size_t bytes) {
  // As aligned as device memory, and of exactly this size: the address sanitizer sees an access behind it.
  return posix_memalign(data, 256, bytes) == 0 ? kSuccess : kOutOfMemory;
}

SILT_SHIM_API Error hipFree(void* data) {
  std::free(data);
  return kSuccess;
}

SILT_SHIM_API Error hipMemcpy(void* target, const void* source, size_t bytes, int) {
  std::memcpy(target, source, bytes);
  return kSuccess;
}

SILT_SHIM_API Error hipMemcpyAsync(void* target, const void* source, size_t bytes, int, void* stream) {
  if (shim::is_captured(stream)) return kStreamCaptureUnsupported;
  std::memcpy(target, source, bytes);
  return kSuccess;
}

SILT_SHIM_API Error hipMemcpy2DAsync(void* target, size_t target_step, const void* source, size_t source_step,
                                     size_t bytes, size_t rows, int, void* stream) {
  if (shim::is_captured(stream)) return kStreamCaptureUnsupported;
  if (target_step < bytes || source_step < bytes) return kInvalidValue;
  for (size_t row = 0; row < rows; ++row) {
    std::memcpy(static_cast<char*>(target) + row * target_step, static_cast<const char*>(source) + row * source_step,
                bytes);
  }
  return kSuccess;
}

/// Little: who measures in a share of it should not fill this machine.
SILT_SHIM_API Error hipMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t{256} << 20;
  return kSuccess;
}

SILT_SHIM_API Error hipStreamSynchronize(void* stream) {
  return shim::is_captured(stream) ? kStreamCaptureUnsupported : kSuccess;
}

SILT_SHIM_API Error hipStreamBeginCapture(void* stream, int) {
  const std::lock_guard lock(capture_mutex);
  return captures.try_emplace(stream).second ? kSuccess : kInvalidValue;
}

SILT_SHIM_API Error hipStreamEndCapture(void* stream, void** graph) {
  const std::lock_guard lock(capture_mutex);
  const auto found = captures.find(stream);
  if (found == captures.end()) return kInvalidValue;
  *graph = new Graph(std::move(found->second));
  captures.erase(found);
  return kSuccess;
}

SILT_SHIM_API Error hipGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  *executable = new Graph(*static_cast<Graph*>(graph));
  return kSuccess;
}

SILT_SHIM_API Error hipGraphLaunch(void* executable, void*) {
  for (const Launched& launched : *static_cast<Graph*>(executable)) {
    const Error code = launch(*launched.kernel, launched.groups, launched.threads, launched.args.data());
    if (code != kSuccess) return code;
  }
  return kSuccess;
}

SILT_SHIM_API Error hipGraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return kSuccess;
}

SILT_SHIM_API Error hipGraphExecDestroy(void* executable) {
  delete static_cast<Graph*>(executable);
  return kSuccess;
}

SILT_SHIM_API Error hipStreamIsCapturing(void* stream, int* state) {
  *state = shim::is_captured(stream) ? 1 : 0;
  return kSuccess;
}

SILT_SHIM_API Error hipThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return kSuccess;
}

// Launches are over when they return, so an event is the time at which it was recorded.
using Moment = std::chrono::steady_clock::time_point;

SILT_SHIM_API Error hipEventCreate(void** event) {
  *event = new Moment();
  return kSuccess;
}

SILT_SHIM_API Error hipEventDestroy(void* event) {
  delete static_cast<Moment*>(event);
  return kSuccess;
}

SILT_SHIM_API Error hipEventRecord(void* event, void*) {
  *static_cast<Moment*>(event) = std::chrono::steady_clock::now();
  return kSuccess;
}

SILT_SHIM_API Error hipEventSynchronize(void*) { return kSuccess; }

SILT_SHIM_API Error hipEventElapsedTime(float* milliseconds, void* start, void* stop) {
  const auto span = *static_cast<Moment*>(stop) - *static_cast<Moment*>(start);
  *milliseconds = std::chrono::duration<float, std::milli>(span).count();
  return kSuccess;
}

SILT_SHIM_API Error hipModuleLoadData(void** module, const void* image) { return load_module(module, image); }

SILT_SHIM_API Error hipModuleGetFunction(void** function, void* module, const char* symbol) {
  return find_function(function, module, symbol);
}

SILT_SHIM_API Error hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                          void* stream, void** params, void** extra) {
  const Kernel& kernel = *static_cast<const Kernel*>(function);
  const bool threads_fit = block_x >= kernel.least_threads && block_x <= kernel.most_threads &&
                           block_x % shim::kWaveLanes == 0;  // the stand-in has whole waves only
  if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || !threads_fit || grid_x == 0 ||
      uint64_t{grid_x} * block_x > 0xffffffffu || shared_bytes != 0) {
    return kInvalidConfiguration;
  }
  const bool as_expected = params == nullptr && extra != nullptr && extra[0] == kLaunchParamBuffer &&
                           extra[2] == kLaunchParamSize && extra[4] == kLaunchParamEnd;
  if (!as_expected || *static_cast<size_t*>(extra[3]) != kernel.args_bytes) return kInvalidValue;
  const auto* args = static_cast<const std::byte*>(extra[1]);
  if (shim::capture(stream, {&kernel, grid_x, block_x, {args, args + kernel.args_bytes}})) return kSuccess;
  return launch(kernel, grid_x, block_x, args);
}
