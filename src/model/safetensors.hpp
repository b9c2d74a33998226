// Safetensors files by memory map, and a checkpoint made of one or several of them. Nothing is trusted: header length,
// JSON, dtypes, shapes and byte ranges are checked before a tensor can be asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "silt/status.hpp"

namespace silt {

/// A file mapped for reading. Unmapped when the last owner goes.
class MappedFile {
 public:
  static Status open(const std::string& path, std::unique_ptr<MappedFile>* file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile() = default;
  std::span<const std::byte> bytes_;
};

/// A whole text file; at most `most` bytes.
Status read_text_file(const std::string& path, size_t most, std::string* text);

struct StoredTensor {
  std::string dtype;  ///< as the file writes it: "BF16", "F32", "U8"
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  ///< exactly elements * element size bytes
  [[nodiscard]] int64_t elements() const;
};
std::string shape_text(const std::vector<int64_t>& shape);

using TensorTable = std::map<std::string, StoredTensor, std::less<>>;

/// Reads the header of a safetensors image. `file` is the name for messages. Refused: a header longer than the file or
/// than 100 MB, anything but JSON of the format, an unknown dtype, a shape whose size overflows or does not fit its
/// byte range, ranges that overlap, leave holes, or end before or behind the file.
Status parse_safetensors(std::span<const std::byte> bytes, std::string_view file, TensorTable* tensors);

/// The tensors of a folder: the shards that model.safetensors.index.json names, or model.safetensors.
class Checkpoint {
 public:
  static Status open(const std::string& folder, Checkpoint* checkpoint);
  /// Null where there is no such tensor.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
  [[nodiscard]] const TensorTable& tensors() const { return tensors_; }
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  Status open_sharded(const std::string& index_path);
  Status add_file(const std::string& name, TensorTable* tensors);

  std::string folder_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  TensorTable tensors_;
};

}  // namespace silt
