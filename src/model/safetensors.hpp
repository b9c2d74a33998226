// Safetensors files, and a checkpoint made of one or several of them. Nothing is trusted: header length, JSON, dtypes,
// shapes and byte ranges are checked before a tensor can be asked for.
//
// Files are read, not mapped: a mapping of a file that somebody truncates ends the process with SIGBUS, which a library
// could only prevent by a signal handler for the whole process. Weights are copied into another form anyway, and a read
// straight into that memory costs no more than the page faults of a mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "silt/status.hpp"

namespace silt {

/// A regular file, opened for reading.
class InputFile {
 public:
  static Status open(const std::string& path, std::unique_ptr<InputFile>* file);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  [[nodiscard]] uint64_t bytes() const { return bytes_; }  ///< when it was opened
  /// Exactly the bytes from `begin` on; an error that has both sizes where the file has become shorter.
  Status read(uint64_t begin, std::span<std::byte> to) const;
  /// An error where size or time of the last change are not those that the file was opened with.
  [[nodiscard]] Status unchanged() const;

 private:
  explicit InputFile(std::string shown) : shown_(std::move(shown)) {}
  [[nodiscard]] Status wrong_size() const;

  std::string shown_;  ///< path for messages
  int handle_ = -1;
  uint64_t bytes_ = 0;
  int64_t seconds_ = 0;  ///< of the last change
  int64_t nanoseconds_ = 0;
};

/// A whole text file; at most `most` bytes.
Status read_text_file(const std::string& path, size_t most, std::string* text);

struct StoredTensor {
  std::string dtype;  ///< as the file writes it: "BF16", "F32", "U8"
  std::vector<int64_t> shape;
  uint64_t begin = 0;  ///< of its values in the file
  uint64_t bytes = 0;  ///< exactly elements * element size
  const InputFile* file = nullptr;
  [[nodiscard]] int64_t elements() const;
  /// Values from byte `offset` of the tensor on.
  Status read(uint64_t offset, std::span<std::byte> to) const { return file->read(begin + offset, to); }
};
std::string shape_text(const std::vector<int64_t>& shape);

using TensorTable = std::map<std::string, StoredTensor, std::less<>>;

/// The tensors that the header of a safetensors image tells; they have no file. `file` is the name for messages.
/// Refused: a header longer than the image or than 100 MB, anything but JSON of the format, an unknown dtype, a shape
/// whose size overflows or does not fit its byte range, ranges that overlap, leave holes, or end before or behind the
/// image.
Status parse_safetensors(std::span<const std::byte> image, std::string_view file, TensorTable* tensors);

/// The same of a file, of which no more than the header is read.
Status open_safetensors(const std::string& path, std::string_view name, std::unique_ptr<InputFile>* file,
                        TensorTable* tensors);

/// The tensors of a folder: the shards that model.safetensors.index.json names, or model.safetensors.
class Checkpoint {
 public:
  static Status open(const std::string& folder, Checkpoint* checkpoint);
  /// Null where there is no such tensor.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
  [[nodiscard]] const TensorTable& tensors() const { return tensors_; }
  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// No file has changed since it was opened.
  [[nodiscard]] Status unchanged() const;

 private:
  Status open_sharded(const std::string& index_path);
  Status add_file(const std::string& name, TensorTable* tensors);

  std::string folder_;
  std::vector<std::unique_ptr<InputFile>> files_;
  TensorTable tensors_;
};

}  // namespace silt
