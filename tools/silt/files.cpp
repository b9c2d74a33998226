#include "files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace silt::cli {

Status read_file(std::string_view argument, const std::string& path, std::string* bytes) {
  const auto failure = [&] {
    return Status(StatusCode::io_error, fmt::format("{}: {} cannot be read: {}", argument, path, std::strerror(errno)));
  };
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr) return failure();
  bytes->clear();
  char block[1 << 16];
  while (const size_t got = std::fread(block, 1, sizeof block, file)) bytes->append(block, got);
  Status status = std::ferror(file) != 0 ? failure() : Status();
  if (file != stdin) std::fclose(file);
  return status;
}

OutputFile::~OutputFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

Status OutputFile::failure(std::string_view what) const {
  return {StatusCode::io_error,
          fmt::format("{}: {} {}: {}, needs a file that can be written", argument_, path_, what, std::strerror(errno))};
}

Status OutputFile::open(std::string_view argument, const std::string& path) {
  argument_ = argument;
  path_ = path;
  struct stat found {};
  if (stat(path.c_str(), &found) == 0) {
    errno = S_ISDIR(found.st_mode) ? EISDIR : 0;
    if (errno != 0 || access(path.c_str(), W_OK) != 0) return failure("cannot be written");
    if (!S_ISREG(found.st_mode)) {
      file_ = std::fopen(path.c_str(), "wb");
      return file_ == nullptr ? failure("cannot be opened") : Status();
    }
    // The rename must replace what a symbolic link points at, not the link.
    std::error_code error;
    if (const auto real = std::filesystem::canonical(path, error); !error) path_ = real.string();
  }
  std::string name = path_ + ".XXXXXX";
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) return failure("cannot be made");
  temporary_ = name;
  const mode_t mask = umask(0);  // mkstemp gives 0600; the file gets the mode that any new file would have
  umask(mask);
  if (fchmod(descriptor, 0666 & ~mask) != 0) return failure("cannot be given its mode");
  file_ = fdopen(descriptor, "wb");
  return file_ == nullptr ? failure("cannot be opened") : Status();
}

bool OutputFile::write(std::string_view text) {
  if (error_ == 0 && std::fwrite(text.data(), 1, text.size(), file_) != text.size()) error_ = errno;
  return error_ == 0;
}

Status OutputFile::commit() {
  if (error_ == 0 && std::fflush(file_) != 0) error_ = errno;
  if (error_ != 0) {
    errno = error_;
    return failure("was not written");
  }
  const int closed = std::fclose(file_);
  file_ = nullptr;
  if (closed != 0) return failure("was not written");
  if (temporary_.empty()) return {};
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return failure("cannot be replaced");
  temporary_.clear();
  return {};
}

}  // namespace silt::cli
