// Reading whole files and writing one so that it is either complete or not there.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "silt/status.hpp"

namespace silt::cli {

/// The bytes of a file; "-" is standard input. `argument` names it in the error.
Status read_file(std::string_view argument, const std::string& path, std::string* bytes);

/// A file under a temporary name beside its final one; `commit` renames it, everything else removes it. A device or a
/// pipe is written directly.
class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  Status open(std::string_view argument, const std::string& path);
  /// False from the first failure on; commit says what it was.
  bool write(std::string_view text);
  Status commit();

 private:
  [[nodiscard]] Status failure(std::string_view what) const;

  std::string argument_;
  std::string path_;
  std::string temporary_;
  std::FILE* file_ = nullptr;
  int error_ = 0;  ///< errno of the first failure
};

}  // namespace silt::cli
