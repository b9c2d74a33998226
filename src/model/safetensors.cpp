#include "model/safetensors.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/status.hpp"
#include "model/json.hpp"

namespace silt {
namespace {

constexpr uint64_t kMostHeaderBytes = 100'000'000;
constexpr size_t kMostIndexBytes = 256U << 20;
constexpr size_t kMostRank = 8;

constexpr size_t kLongestPath = 4096;

std::string error_text(int error) { return std::generic_category().message(error); }

constexpr std::pair<std::string_view, int64_t> kElementBytes[] = {
    {"BF16", 2}, {"F32", 4}, {"F16", 2}, {"F64", 8}, {"U8", 1},  {"I8", 1},      {"BOOL", 1},    {"U16", 2},
    {"I16", 2},  {"U32", 4}, {"I32", 4}, {"U64", 8}, {"I64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};

int64_t element_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kElementBytes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// One entry of the header: {"dtype": .., "shape": [..], "data_offsets": [begin, end]}.
Status read_entry(const Json& entry, const std::string& where, uint64_t data_bytes, StoredTensor* tensor,
                  Range* range) {
  JsonFields fields(entry, where);
  tensor->dtype = fields.text("dtype");
  tensor->shape = fields.integers_or_none("shape", 0, INT64_MAX);
  const std::vector<int64_t> offsets = fields.integers_or_none("data_offsets", 0, INT64_MAX);
  SILT_TRY(fields.status());
  if (!entry.contains("shape") || !entry["shape"].is_array()) fields.refuse("shape", "a list of sizes");
  if (tensor->shape.size() > kMostRank) fields.refuse("shape", fmt::format("at most {} axes", kMostRank));
  if (offsets.size() != 2) fields.refuse("data_offsets", "two numbers");
  const int64_t width = element_bytes(tensor->dtype);
  if (width == 0) fields.refuse("dtype", "a dtype of the safetensors format");
  SILT_TRY(fields.status());
  if (const std::vector<std::string> extra = fields.unread(); !extra.empty()) {
    return invalid("{}: has a field \"{}\", needs dtype, shape and data_offsets", where, printable(extra[0]));
  }
  uint64_t bytes = static_cast<uint64_t>(width);
  const bool empty = std::find(tensor->shape.begin(), tensor->shape.end(), 0) != tensor->shape.end();
  for (const int64_t size : tensor->shape) {
    if (empty) bytes = 0;
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      return invalid("{}: shape: has {}, needs a size that fits 64 bits", where, shape_text(tensor->shape));
    }
  }
  *range = {static_cast<uint64_t>(offsets[0]), static_cast<uint64_t>(offsets[1])};
  if (range->begin > range->end || range->end > data_bytes) {
    return invalid("{}: data_offsets: has [{}, {}], needs a range within the {} bytes behind the header", where,
                   range->begin, range->end, data_bytes);
  }
  if (range->end - range->begin != bytes) {
    return invalid("{}: data_offsets: has {} bytes, needs {} for {} {}", where, range->end - range->begin, bytes,
                   tensor->dtype, shape_text(tensor->shape));
  }
  return {};
}

/// Ranges follow each other without overlap or hole and end with the file.
Status check_cover(std::vector<std::pair<Range, std::string>> ranges, std::string_view file, uint64_t data_bytes) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.begin, a.first.end) < std::pair(b.first.begin, b.first.end);
  });
  uint64_t end = 0;
  for (const auto& [range, name] : ranges) {
    if (range.begin == range.end) continue;
    if (range.begin != end) {
      return invalid("{}: {}: data_offsets: begins at {}, needs {} (where the tensor before it ends)", file, name,
                     range.begin, end);
    }
    end = range.end;
  }
  if (end != data_bytes) {
    return invalid("{}: has {} bytes behind the header, needs {} (where the last tensor ends)", file, data_bytes, end);
  }
  return {};
}

constexpr size_t kLengthBytes = sizeof(uint64_t);

/// The length of the header from the first bytes of a file: at most what follows them, and at most kMostHeaderBytes.
Status read_length(std::span<const std::byte> first, uint64_t file_bytes, std::string_view file, uint64_t* header) {
  if (first.size() < kLengthBytes) {
    return invalid("{}: has {} bytes, needs at least 8 (the header length)", file, file_bytes);
  }
  *header = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) *header |= static_cast<uint64_t>(first[i]) << (8 * i);  // little-endian
  if (*header > file_bytes - kLengthBytes) {
    return invalid("{}: header: has length {}, needs at most {} (the rest of the file)", file, *header,
                   file_bytes - kLengthBytes);
  }
  if (*header > kMostHeaderBytes) {
    return invalid("{}: header: has length {}, needs at most {}", file, *header, kMostHeaderBytes);
  }
  return {};
}

Status read_header(std::string_view text, uint64_t file_bytes, std::string_view file, TensorTable* tensors) {
  tensors->clear();
  JsonDocument document;
  SILT_TRY(parse_json(text, std::string(file) + ": header", &document));
  const Json& json = document.json;
  if (!json.is_object()) return invalid("{}: header: has {}, needs an object", file, printable_json(json));
  const uint64_t data_begin = kLengthBytes + text.size();
  const uint64_t data_bytes = file_bytes - data_begin;
  std::vector<std::pair<Range, std::string>> ranges;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") continue;
    StoredTensor tensor;
    Range range;
    const std::string shown = printable(name);
    SILT_TRY(read_entry(entry, fmt::format("{}: {}", file, shown), data_bytes, &tensor, &range));
    tensor.begin = data_begin + range.begin;
    tensor.bytes = range.end - range.begin;
    ranges.emplace_back(range, shown);
    tensors->emplace(name, std::move(tensor));
  }
  return check_cover(std::move(ranges), file, data_bytes);
}

}  // namespace

Status InputFile::open(const std::string& path, std::unique_ptr<InputFile>* file) {
  std::unique_ptr<InputFile> made(new InputFile(printable(path, kLongestPath)));
  // O_NONBLOCK: a FIFO in place of a file must not block.
  made->handle_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (made->handle_ < 0)
    return failed(StatusCode::io_error, "{}: cannot be opened: {}", made->shown_, error_text(errno));
  struct stat info {};
  if (fstat(made->handle_, &info) != 0) return failed(StatusCode::io_error, "{}: {}", made->shown_, error_text(errno));
  if (!S_ISREG(info.st_mode)) {
    return failed(StatusCode::io_error, "{}: is no regular file, needs to be one", made->shown_);
  }
  made->bytes_ = static_cast<uint64_t>(info.st_size);
  made->seconds_ = info.st_mtim.tv_sec;
  made->nanoseconds_ = info.st_mtim.tv_nsec;
  *file = std::move(made);
  return {};
}

InputFile::~InputFile() {
  if (handle_ >= 0) close(handle_);
}

Status InputFile::read(uint64_t begin, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = pread(handle_, to.data(), to.size(), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(StatusCode::io_error, "{}: cannot be read: {}", shown_, error_text(errno));
    if (got == 0) return wrong_size();
    begin += static_cast<uint64_t>(got);
    to = to.subspan(static_cast<size_t>(got));
  }
  return {};
}

Status InputFile::wrong_size() const {
  struct stat info {};
  if (fstat(handle_, &info) != 0) return failed(StatusCode::io_error, "{}: {}", shown_, error_text(errno));
  return failed(StatusCode::io_error, "{}: has {} bytes, needs {} (what it had when it was opened)", shown_,
                info.st_size, bytes_);
}

Status InputFile::unchanged() const {
  struct stat info {};
  if (fstat(handle_, &info) != 0) return failed(StatusCode::io_error, "{}: {}", shown_, error_text(errno));
  if (static_cast<uint64_t>(info.st_size) != bytes_) return wrong_size();
  if (info.st_mtim.tv_sec == seconds_ && info.st_mtim.tv_nsec == nanoseconds_) return {};
  return failed(StatusCode::io_error, "{}: was written while it was read, needs to stay as it is", shown_);
}

Status read_text_file(const std::string& path, size_t most, std::string* text) {
  std::unique_ptr<InputFile> file;
  SILT_TRY(InputFile::open(path, &file));
  if (file->bytes() > most) {
    return failed(StatusCode::io_error, "{}: has {} bytes, needs at most {}", printable(path, kLongestPath),
                  file->bytes(), most);
  }
  text->resize(file->bytes());
  return file->read(0, std::as_writable_bytes(std::span(*text)));
}

int64_t StoredTensor::elements() const { return static_cast<int64_t>(bytes) / element_bytes(dtype); }

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += fmt::format("{}{}", text.size() == 1 ? "" : ", ", size);
  return text + "]";
}

Status parse_safetensors(std::span<const std::byte> image, std::string_view file, TensorTable* tensors) {
  uint64_t header = 0;
  SILT_TRY(read_length(image.first(std::min(image.size(), kLengthBytes)), image.size(), file, &header));
  const std::string_view text(reinterpret_cast<const char*>(image.data()) + kLengthBytes, header);
  return read_header(text, image.size(), file, tensors);
}

Status open_safetensors(const std::string& path, std::string_view name, std::unique_ptr<InputFile>* file,
                        TensorTable* tensors) {
  std::unique_ptr<InputFile> made;
  SILT_TRY(InputFile::open(path, &made));
  std::byte length[kLengthBytes]{};
  const std::span<std::byte> first(length, static_cast<size_t>(std::min<uint64_t>(made->bytes(), kLengthBytes)));
  SILT_TRY(made->read(0, first));
  uint64_t header = 0;
  SILT_TRY(read_length(first, made->bytes(), name, &header));
  std::string text(header, '\0');
  SILT_TRY(made->read(kLengthBytes, std::as_writable_bytes(std::span(text))));
  SILT_TRY(read_header(text, made->bytes(), name, tensors));
  for (auto& [tensor_name, tensor] : *tensors) tensor.file = made.get();
  *file = std::move(made);
  return {};
}

Status Checkpoint::add_file(const std::string& name, TensorTable* tensors) {
  std::unique_ptr<InputFile> file;
  SILT_TRY(open_safetensors(folder_ + "/" + name, printable(name), &file, tensors));
  files_.push_back(std::move(file));
  return {};
}

Status Checkpoint::open_sharded(const std::string& index_path) {
  const std::string index_name = "model.safetensors.index.json";
  std::string text;
  SILT_TRY(read_text_file(index_path, kMostIndexBytes, &text));
  JsonDocument document;
  SILT_TRY(parse_json(text, index_name, &document));
  const Json& json = document.json;
  JsonFields fields(json, index_name);
  const Json* map = fields.object("weight_map");
  SILT_TRY(fields.status());
  std::map<std::string, std::vector<std::string>> shards;  // file -> the tensors it must have
  for (const auto& [name, value] : map->items()) {
    const std::string shard = value.is_string() ? value.get<std::string>() : std::string();
    const bool plain = !shard.empty() && shard != "." && shard != ".." &&
                       shard.find_first_of("/\\") == std::string::npos && shard.find('\0') == std::string::npos;
    if (!plain) {
      return invalid("{}: weight_map: {}: has {}, needs the name of a file in the folder", index_name, printable(name),
                     printable_json(value));
    }
    shards[shard].push_back(name);
  }
  for (const auto& [shard, names] : shards) {
    TensorTable found;
    SILT_TRY(add_file(shard, &found));
    for (const std::string& name : names) {
      if (found.find(name) == found.end()) {
        return invalid("{}: {}: missing, needs to be there ({} says so)", printable(shard), printable(name),
                       index_name);
      }
    }
    for (auto& [name, tensor] : found) {
      const auto entry = map->find(name);
      if (entry == map->end() || entry->get<std::string>() != shard) {
        return invalid("{}: {}: has {}, needs \"{}\" (the shard that holds it)", index_name, printable(name),
                       entry == map->end() ? "no entry" : printable_json(*entry), printable(shard));
      }
      tensors_.emplace(name, std::move(tensor));
    }
  }
  return {};
}

Status Checkpoint::open(const std::string& folder, Checkpoint* checkpoint) {
  *checkpoint = {};
  checkpoint->folder_ = folder;
  const std::string index_path = folder + "/model.safetensors.index.json";
  if (access(index_path.c_str(), F_OK) == 0) return checkpoint->open_sharded(index_path);
  if (access((folder + "/model.safetensors").c_str(), F_OK) != 0) {
    return failed(StatusCode::io_error, "{}: has no weights, needs model.safetensors or model.safetensors.index.json",
                  folder);
  }
  return checkpoint->add_file("model.safetensors", &checkpoint->tensors_);
}

Status Checkpoint::unchanged() const {
  for (const std::unique_ptr<InputFile>& file : files_) SILT_TRY(file->unchanged());
  return {};
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

}  // namespace silt
