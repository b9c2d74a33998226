// silt dump-launch: the launch of an AMD kernel as a folder of files, and the judgement of what a replay wrote.
#include "silt/dump_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"

namespace silt::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> words;  ///< the problem line, quoted or not
  std::string device;
  std::string kernel;
  std::string out;
  std::string check;
  uint64_t seed = 1;
};

Status wrong(std::string_view what, std::string_view has, std::string_view needs) {
  return {StatusCode::invalid_argument, fmt::format("{}: has \"{}\", needs {}", what, has, needs)};
}

Status write_file(const fs::path& path, const void* data, size_t bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  file.close();
  return file ? Status()
              : Status(StatusCode::io_error,
                       fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
}

Status read_file(const fs::path& path, std::vector<std::byte>* bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (file) {
    bytes->resize(static_cast<size_t>(file.tellg()));
    file.seekg(0);
    file.read(reinterpret_cast<char*>(bytes->data()), static_cast<std::streamsize>(bytes->size()));
  }
  return file ? Status() : Status(StatusCode::io_error, fmt::format("{}: cannot be read", path.string()));
}

std::string_view name_of(DType dtype) { return dtype == DType::bf16 ? "bf16" : dtype == DType::f32 ? "f32" : "i32"; }

/// An architecture by itself, which stands for its first known device, or a known device.
Status find_facts(const std::string& name, DeviceFacts* facts) {
  if (name == "gfx942") return canned_facts("mi300x", facts);
  if (name == "gfx950") return canned_facts("mi355x", facts);
  std::string known = "gfx942, gfx950";
  for (const std::string_view canned : canned_names()) {
    if (const Status status = canned_facts(canned, facts); !status.ok()) return status;
    if (facts->kind != DeviceKind::hip) continue;
    if (canned == name) return {};
    known += fmt::format(", {}", canned);
  }
  return wrong("--device", name, "one of " + known);
}

Json describe(const LaunchDump& dump, uint64_t seed) {
  Json buffers = Json::array();
  for (const LaunchDump::Buffer& buffer : dump.buffers) {
    Json entry = {{"name", buffer.name},
                  {"bytes", buffer.before.size()},
                  {"before", buffer.name + ".before.bin"},
                  {"dtype", name_of(buffer.dtype)},
                  {"first_element", buffer.origin},
                  {"shape", buffer.shape},
                  {"stride", buffer.stride},
                  {"written", buffer.written}};
    if (buffer.written) {
      entry["expected"] = buffer.name + ".expected.bin";
      entry["result"] = buffer.name + ".result.bin";
    }
    buffers.push_back(entry);
  }
  Json pointers = Json::array();
  for (const LaunchDump::Pointer& pointer : dump.pointers) {
    pointers.push_back({{"at", pointer.at},
                        {"buffer", dump.buffers[static_cast<size_t>(pointer.buffer)].name},
                        {"offset", pointer.offset}});
  }
  return {{"silt", version()},
          {"problem", dump.line},
          {"seed", seed},
          {"kernel", dump.kernel},
          {"isa", dump.isa},
          {"code_object", "code.hsaco"},
          {"symbol", dump.symbol},
          {"grid", {dump.groups, 1, 1}},  // in workgroups
          {"block", {dump.threads, 1, 1}},
          {"lds_bytes", dump.lds_bytes},
          {"dynamic_lds_bytes", 0},
          {"arguments", {{"file", "arguments.bin"}, {"bytes", dump.args.size()}, {"pointers", pointers}}},
          {"buffers", buffers}};
}

Status write_folder(const LaunchDump& dump, uint64_t seed, const fs::path& out) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error || !fs::is_empty(out, error) || error) return wrong("--out", out.string(), "a new or empty folder");
  std::string text = describe(dump, seed).dump(1);
  text += '\n';
  Status status = write_file(out / "code.hsaco", dump.code.data(), dump.code.size());
  if (status.ok()) status = write_file(out / "arguments.bin", dump.args.data(), dump.args.size());
  for (const LaunchDump::Buffer& buffer : dump.buffers) {
    if (status.ok())
      status = write_file(out / (buffer.name + ".before.bin"), buffer.before.data(), buffer.before.size());
    if (status.ok() && buffer.written) {
      status = write_file(out / (buffer.name + ".expected.bin"), buffer.expected.data(), buffer.expected.size());
    }
  }
  // Last: a folder with a description is complete.
  return status.ok() ? write_file(out / "launch.json", text.data(), text.size()) : status;
}

/// What a replay wrote, from the files that launch.json names.
Status read_results(const fs::path& folder, std::string* line, uint64_t* seed,
                    std::vector<std::pair<std::string, std::vector<std::byte>>>* written) {
  std::vector<std::byte> text;
  if (Status status = read_file(folder / "launch.json", &text); !status.ok()) return status;
  const auto* begin = reinterpret_cast<const char*>(text.data());
  const Json json = Json::parse(begin, begin + text.size(), nullptr, false);
  const auto has = [](const Json& object, const char* key) { return object.is_object() && object.contains(key); };
  if (!has(json, "problem") || !has(json, "seed") || !has(json, "buffers")) {
    return wrong("launch.json", (folder / "launch.json").string(), "what dump-launch wrote");
  }
  *line = json["problem"].get<std::string>();
  *seed = json["seed"].get<uint64_t>();
  for (const Json& buffer : json["buffers"]) {
    if (!has(buffer, "result")) continue;
    std::vector<std::byte> bytes;
    if (Status status = read_file(folder / buffer["result"].get<std::string>(), &bytes); !status.ok()) return status;
    written->emplace_back(buffer["name"].get<std::string>(), std::move(bytes));
  }
  return {};
}

int check_folder(const Options& options) {
  if (!options.words.empty() || !options.device.empty() || !options.out.empty() || !options.kernel.empty()) {
    return complain("dump-launch", "--check: takes its folder and nothing else", kWrongUse);
  }
  std::string line;
  uint64_t seed = 0;
  std::vector<std::pair<std::string, std::vector<std::byte>>> written;
  CheckResult result;
  Status status = read_results(options.check, &line, &seed, &written);
  if (status.ok()) status = judge_launch(line, seed, written, &result);
  if (!status.ok()) return complain("dump-launch", status);
  if (result.passed) {
    fmt::print("right {}: worst error {:.3f} of its bound\n", line, result.worst);
    return kDone;
  }
  fmt::print("WRONG {}: {}\n", line, result.detail);
  return kWrongResult;
}

int run(const Options& options) {
  if (!options.check.empty()) return check_folder(options);
  std::string line;
  for (const std::string& word : options.words) line += (line.empty() ? "" : " ") + word;
  const std::pair<const char*, const std::string*> needed[] = {
      {"LINE", &line}, {"--device", &options.device}, {"--out", &options.out}};
  for (const auto& [name, value] : needed) {
    if (value->empty()) return complain("dump-launch", fmt::format("{}: missing", name), kWrongUse);
  }
  DeviceFacts facts;
  LaunchDump dump;
  Status status = find_facts(options.device, &facts);
  if (status.ok()) status = dump_launch(line, facts, options.kernel, options.seed, &dump);
  if (status.ok()) status = write_folder(dump, options.seed, options.out);
  if (!status.ok()) return complain("dump-launch", status);
  fmt::print("{}: {} for {}, {} workgroups of {}, {} buffers\n", options.out, dump.symbol, dump.isa, dump.groups,
             dump.threads, dump.buffers.size());
  return kDone;
}

}  // namespace

void add_dump_launch(CommandLine& line) {
  auto options = std::make_shared<Options>();
  Command command = line.add(
      "dump-launch", "The launch of an AMD kernel as files: code, arguments, every buffer, expected results",
      "silt dump-launch kda_decode b=4 h=12 --device gfx950 --out launch", [options] { return run(*options); });
  command.positionals("LINE", &options->words, "An operator and its sizes, as silt explain takes it");
  command.text("--device", &options->device, "NAME", "An architecture (gfx942, gfx950) or a known device of one");
  command.text("--kernel", &options->kernel, "NAME", "This kernel of the operator's list");
  command.text("--out", &options->out, "DIR", "A new or empty folder");
  command.whole("--seed", &options->seed, 0, INT64_MAX, "Seed of the random data");
  command.text("--check", &options->check, "DIR",
               "Judge the results that a replay (scripts/replay-launch) left in a folder that was written before");
}

}  // namespace silt::cli
