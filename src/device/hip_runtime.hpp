// The HIP runtime, found at run time: libamdhip64 is opened where it exists, and a build needs nothing of ROCm. What is
// declared here is the runtime's binary interface since ROCm 6.
#pragma once

#include <cstddef>
#include <string>

#include "core/status.hpp"

namespace silt::hip {

using Error = int;
inline constexpr Error kSuccess = 0;
inline constexpr Error kInvalidValue = 1;
inline constexpr Error kOutOfMemory = 2;
inline constexpr Error kInvalidConfiguration = 9;
inline constexpr Error kNoDevice = 100;
inline constexpr Error kInvalidDevice = 101;
inline constexpr Error kNoBinaryForGpu = 209;
inline constexpr Error kNotFound = 500;
inline constexpr Error kLaunchFailure = 719;
inline constexpr Error kStreamCaptureUnsupported = 900;
inline constexpr Error kStreamCaptureImplicit = 906;

inline constexpr int kHostToDevice = 1;
inline constexpr int kDeviceToHost = 2;
inline constexpr int kStreamCaptureModeRelaxed = 2;

/// Keys of the last argument of hipModuleLaunchKernel: the kernel's argument block as it is, and its size.
inline void* const kLaunchParamBuffer = reinterpret_cast<void*>(1);
inline void* const kLaunchParamSize = reinterpret_cast<void*>(2);
inline void* const kLaunchParamEnd = reinterpret_cast<void*>(3);

/// hipDeviceProp_tR0600 by its bytes: this library reads a few members.
inline constexpr size_t kPropertiesBytes = 1472;
inline constexpr size_t kPropertyName = 0;                   // char[256]
inline constexpr size_t kPropertySharedPerBlock = 296;       // size_t
inline constexpr size_t kPropertyWarpSize = 308;             // int
inline constexpr size_t kPropertyProcessors = 388;           // int
inline constexpr size_t kPropertyL2Bytes = 616;              // int
inline constexpr size_t kPropertyArchName = 1160;            // char[256], "gfx942:sramecc+:xnack-"
inline constexpr size_t kPropertySharedPerProcessor = 1416;  // size_t

struct Runtime {
  std::string name;  ///< the file that answered
  int version = 0;   ///< 10,000,000 * major + 100,000 * minor + patch

  Error (*get_device_count)(int*) = nullptr;
  Error (*get_device_properties)(void*, int) = nullptr;
  Error (*runtime_get_version)(int*) = nullptr;
  const char* (*get_error_string)(Error) = nullptr;
  Error (*get_last_error)() = nullptr;
  Error (*get_device)(int*) = nullptr;
  Error (*set_device)(int) = nullptr;
  Error (*malloc)(void**, size_t) = nullptr;
  Error (*free)(void*) = nullptr;
  Error (*memcpy)(void*, const void*, size_t, int) = nullptr;
  Error (*memcpy_async)(void*, const void*, size_t, int, void*) = nullptr;
  Error (*memcpy_2d_async)(void*, size_t, const void*, size_t, size_t, size_t, int, void*) = nullptr;
  Error (*stream_synchronize)(void*) = nullptr;
  Error (*stream_is_capturing)(void*, int*) = nullptr;  ///< 0: it is not
  Error (*thread_exchange_stream_capture_mode)(int*) = nullptr;
  Error (*module_load_data)(void**, const void*) = nullptr;
  Error (*module_get_function)(void**, void*, const char*) = nullptr;
  Error (*module_launch_kernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                                void**, void**) = nullptr;
};

/// Null where there is none that this library can use; `runtime_missing` says why. Looked for once.
const Runtime* runtime();
const std::string& runtime_missing();
/// Another function of the runtime's library; null where it has none of that name, or where there is no runtime.
void* find_symbol(const char* name);

/// "hip: <what>: <the runtime's text>"; takes the error back from the runtime.
Status error(std::string_view what, Error code);

/// Makes a device current for a scope and the former one afterwards.
class DeviceScope {
 public:
  explicit DeviceScope(int index);
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope();
  [[nodiscard]] Status status() const;

 private:
  int former_ = 0;
  bool changed_ = false;
  Error error_ = kSuccess;
};

}  // namespace silt::hip
