// The HIP backend: devices, memory and synchronisation through the runtime that is found at run time.
#include <array>
#include <charconv>
#include <cstring>

#include "core/status.hpp"
#include "device/backend.hpp"
#include "device/hip_objects.hpp"
#include "device/hip_runtime.hpp"

namespace silt::backend {
namespace {

using hip::error;
using hip::kSuccess;

struct Devices {
  int count = 0;
  std::string missing;
};

const Devices& devices() {
  static const Devices found = [] {
    Devices made;
    if (hip::built_isas().empty()) {
      made.missing = "not built (SILT_HIP: needs clang >= 19 for gfx942, clang >= 20 for gfx950)";
    } else if (hip::runtime() == nullptr) {
      made.missing = hip::runtime_missing();
    } else {
      const hip::Error code = hip::runtime()->get_device_count(&made.count);
      if (code != kSuccess) {
        made.count = 0;
        hip::runtime()->get_last_error();  // not this process's fault: leave no error behind for the host program
      }
      if (made.count == 0) {
        made.missing = code == kSuccess || code == hip::kNoDevice
                           ? "no AMD device"
                           : fmt::format("{} (error {})", hip::runtime()->get_error_string(code), code);
      }
    }
    return made;
  }();
  return found;
}

template <class T>
T member(const std::byte* properties, size_t offset) {
  T value;
  std::memcpy(&value, properties + offset, sizeof value);
  return value;
}

/// The architecture without its features: "gfx942" of "gfx942:sramecc+:xnack-".
std::string isa_of(std::string_view name) { return std::string(name.substr(0, name.find(':'))); }

/// 0x942 of "gfx942"; 0 where the name is of another kind.
int32_t number_of(std::string_view isa) {
  constexpr std::string_view kPrefix = "gfx";
  int32_t number = 0;
  if (!isa.starts_with(kPrefix)) return 0;
  const auto [end, problem] = std::from_chars(isa.data() + kPrefix.size(), isa.data() + isa.size(), number, 16);
  return problem == std::errc() && end == isa.data() + isa.size() ? number : 0;
}

const std::string& missing() { return devices().missing; }
int count() { return devices().count; }

Status facts(int index, DeviceFacts* facts) {
  std::array<std::byte, 2 * hip::kPropertiesBytes> bytes{};  // room for a later runtime that adds members
  if (const hip::Error code = hip::runtime()->get_device_properties(bytes.data(), index); code != kSuccess) {
    return error("properties", code);
  }
  const std::byte* p = bytes.data();
  facts->name = reinterpret_cast<const char*>(p + hip::kPropertyName);
  facts->kind = DeviceKind::hip;
  facts->vendor = Vendor::amd;
  facts->arch = isa_of(reinterpret_cast<const char*>(p + hip::kPropertyArchName));
  facts->arch_number = number_of(facts->arch);
  facts->processors = member<int>(p, hip::kPropertyProcessors);
  facts->warp_lanes = member<int>(p, hip::kPropertyWarpSize);
  facts->l2_bytes = member<int>(p, hip::kPropertyL2Bytes);
  facts->shared_bytes_per_block = static_cast<int64_t>(member<size_t>(p, hip::kPropertySharedPerBlock));
  facts->shared_bytes_per_processor = static_cast<int64_t>(member<size_t>(p, hip::kPropertySharedPerProcessor));
  if (hip::is_built(facts->arch)) return {};
  return failed(StatusCode::device_error, "hip: {} is {}: has no code for it, needs one of {}", facts->name,
                facts->arch, hip::built_isas());
}

Status allocate(int index, size_t bytes, void** data) {
  const hip::DeviceScope scope(index);
  SILT_TRY(scope.status());
  const hip::Error code = hip::runtime()->malloc(data, bytes == 0 ? 1 : bytes);
  return code == kSuccess ? Status() : error(fmt::format("memory: {} bytes", bytes), code);
}

void release(int index, void* data) {
  const hip::DeviceScope scope(index);
  if (scope.status().ok()) hip::runtime()->free(data);
}

Status copy(int index, void* target, const void* source, size_t bytes, Copy direction) {
  const hip::DeviceScope scope(index);
  SILT_TRY(scope.status());
  const int kind = direction == Copy::to_device ? hip::kHostToDevice : hip::kDeviceToHost;
  hip::Error code = hip::runtime()->memcpy(target, source, bytes, kind);
  if (code == kSuccess) code = hip::runtime()->stream_synchronize(nullptr);
  return code == kSuccess ? Status() : error("copy", code);
}

Status synchronize(int index, void* stream) {
  const hip::DeviceScope scope(index);
  SILT_TRY(scope.status());
  const hip::Error code = hip::runtime()->stream_synchronize(stream);
  return code == kSuccess ? Status() : error("synchronise", code);
}

Status is_captured(int index, void* stream, bool* captured) {
  const hip::DeviceScope scope(index);
  SILT_TRY(scope.status());
  int state = 0;
  const hip::Error code = hip::runtime()->stream_is_capturing(stream, &state);
  // The default stream, which a captured one waits for: the same as far as the caller goes.
  const bool implicit = code == hip::kStreamCaptureImplicit;
  if (implicit) hip::runtime()->get_last_error();
  *captured = implicit || state != 0;
  return code == kSuccess || implicit ? Status() : error("capture", code);
}

/// Lets a thread use streams that are not captured, whatever capture is under way elsewhere.
class BesideCaptures {
 public:
  BesideCaptures() { hip::runtime()->thread_exchange_stream_capture_mode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;
  ~BesideCaptures() { hip::runtime()->thread_exchange_stream_capture_mode(&mode_); }

 private:
  int mode_ = hip::kStreamCaptureModeRelaxed;
};

Status read(int index, void* stream, void* target, const void* source, const Rows& rows) {
  const hip::DeviceScope scope(index);
  SILT_TRY(scope.status());
  const BesideCaptures beside;
  hip::Error code = kSuccess;
  if (rows.count == 1 || rows.step == rows.bytes) {
    code = hip::runtime()->memcpy_async(target, source, rows.bytes * rows.count, hip::kDeviceToHost, stream);
  } else {
    code = hip::runtime()->memcpy_2d_async(target, rows.bytes, source, rows.step, rows.bytes, rows.count,
                                           hip::kDeviceToHost, stream);
  }
  if (code == kSuccess) code = hip::runtime()->stream_synchronize(stream);
  return code == kSuccess ? Status() : error("read", code);
}

/// "runtime 6.3.42134 (libamdhip64.so.6), code for gfx942, gfx950"
std::string about() {
  if (hip::built_isas().empty()) return {};
  const std::string code = fmt::format("code for {}", hip::built_isas());
  const hip::Runtime* r = hip::runtime();
  if (r == nullptr) return code;
  return fmt::format("runtime {}.{}.{} ({}), {}", r->version / 10'000'000, r->version / 100'000 % 100,
                     r->version % 100'000, r->name, code);
}

constexpr Backend kHip{"hip", missing, count, facts, allocate, release, copy, synchronize, is_captured, read, about};

}  // namespace

const Backend& hip_backend() { return kHip; }

}  // namespace silt::backend
