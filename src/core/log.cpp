#include "core/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "core/environment.hpp"

namespace silt {
namespace {

std::shared_ptr<spdlog::logger> make_logger() {
  const Environment& env = environment();
  spdlog::sink_ptr sink;
  std::string complaint;
  if (!env.log_target.empty()) {
    try {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(env.log_target);
    } catch (const spdlog::spdlog_ex& error) {
      complaint = error.what();
    }
  }
  if (!sink) sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto made = std::make_shared<spdlog::logger>("silt", sink);
  made->set_pattern("silt %l: %v");
  made->set_level(env.log_level.empty() ? spdlog::level::warn : spdlog::level::from_str(env.log_level));
  made->flush_on(spdlog::level::warn);
  if (!complaint.empty()) made->warn("SILT_LOG_FILE: {}; logging to stderr", complaint);
  return made;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = make_logger();
  return *instance;
}

}  // namespace

void log_debug(std::string_view text) { logger().debug("{}", text); }
void log_warning(std::string_view text) { logger().warn("{}", text); }

}  // namespace silt
