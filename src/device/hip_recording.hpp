// Launches of AMD kernels written down instead of made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "silt/device.hpp"

namespace silt::hip {

struct RecordedLaunch {
  std::string_view object;
  std::string_view symbol;
  int64_t groups = 0;
  int threads = 0;
  std::vector<std::byte> args;
};

/// While one lives, launches of this thread go into `launches` and nowhere else, as if their device had these facts.
class Recording {
 public:
  explicit Recording(const DeviceFacts& facts) : facts_(facts), outer_(current()) { current() = this; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() { current() = outer_; }

  [[nodiscard]] const DeviceFacts& facts() const { return facts_; }
  std::vector<RecordedLaunch> launches;

  /// Null where launches are made.
  static Recording* now() { return current(); }

 private:
  static Recording*& current() {
    static thread_local Recording* recording = nullptr;
    return recording;
  }
  DeviceFacts facts_;
  Recording* outer_;
};

}  // namespace silt::hip
