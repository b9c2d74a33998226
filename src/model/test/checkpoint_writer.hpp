// Writes small synthetic checkpoints: every variant of the family that the decoder takes, with random weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "silt/dtype.hpp"

#include "proof/random.hpp"

namespace silt {

/// A folder that goes away with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }
  void write(const std::string& name, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

/// One tensor of a file to be written.
struct FileTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using FileTensors = std::map<std::string, FileTensor>;

/// A safetensors image; `header` replaces the header that belongs to the tensors.
std::string safetensors_image(const FileTensors& tensors);
std::string safetensors_image(const std::string& header, const std::string& data);

/// What a synthetic model is like. Defaults: Kimi-K3.
struct Variant {
  std::string name{};
  int64_t attn_res_block = 2;  ///< 0: none
  bool safe_gate = true;
  bool full_rank_gate = true;
  bool query_rank = true;
  bool mla_gate = true;
  bool latent = true;
  bool latent_norm = true;
  bool situ = true;
  bool mxfp4 = false;
  bool nested = true;  ///< text_config and the language_model. prefix
  bool tied = false;
  bool fp32_tensors = false;
  bool renormalize = true;
  int64_t experts = 5;  ///< 0: every layer dense
  int64_t shared_experts = 2;
  double routed_scale = 1.0;
  int64_t shards = 1;
  bool long_a_log = true;

  // Sizes, small and uneven.
  static constexpr int64_t kHidden = 64;
  static constexpr int64_t kVocab = 268;
  static constexpr int64_t kLayers = 5;
  static constexpr int64_t kKdaHeads = 2;
  static constexpr int64_t kMlaHeads = 3;
  static constexpr int64_t kQueryRank = 40;
  static constexpr int64_t kKvRank = 48;
  static constexpr int64_t kNope = 24;
  static constexpr int64_t kShared = 8;
  static constexpr int64_t kValue = 20;
  static constexpr int64_t kDense = 72;
  static constexpr int64_t kExpertWidth = 32;
  static constexpr int64_t kLatent = 32;
  static constexpr int64_t kChosen = 2;
  [[nodiscard]] bool is_mla(int64_t layer) const { return layer == 1 || layer == 4; }
};

/// Weights as the checkpoint holds them (rounded to their type), by name without the prefix, and the JSON beside them.
struct SyntheticModel {
  Variant variant;
  std::map<std::string, std::vector<double>> values;
  FileTensors files;  ///< with the prefix
  std::string config;

  SyntheticModel(const Variant& variant, uint64_t seed);
  void write(const TemporaryFolder& folder) const;

 private:
  void add(const std::string& name, std::vector<int64_t> shape, double scale, double offset, bool fp32);
  void add_matrix(const std::string& name, int64_t rows, int64_t cols);
  void add_mxfp4(const std::string& name, int64_t rows, int64_t cols);
  void add_norm(const std::string& name, int64_t size);
  void add_layer(int64_t index);
  void add_kda(const std::string& name);
  void add_mla(const std::string& name);
  void add_mlp(const std::string& name, int64_t width);
  void add_moe(const std::string& name);
  [[nodiscard]] std::string make_config() const;

  Random random_;
};

/// The variants that together cover every branch of the loader and the decoder.
std::vector<Variant> synthetic_variants();

}  // namespace silt
