// What the CUDA compiler made of the kernels, checked where they are built; no GPU is needed.
//
// tests/resources/*.txt: one line per compiled kernel: architecture, registers, shared memory, blocks per SM, name.
// Lines that begin with '#' are rules: "# reports <folder>" names where the compiler's reports lie (under the objects
// of the library), "# threads <part of a name> <count>" the block size that the last column is computed with (first
// match).
#include <cxxabi.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>

namespace silt {
namespace {

namespace fs = std::filesystem;

struct Kernel {
  std::string arch;
  std::string name;
  int registers = 0;
  int shared = 0;
  int spills = 0;  ///< bytes stored, loaded or reserved on the stack
};

/// "attn_res_cuda_sm90_direct<8,true,false,0,1>" of a mangled name: no namespaces, casts, spaces or parameters.
std::string short_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> full(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0) return mangled;
  std::string name = full.get();
  for (const char* noise : {R"(^void )", R"(\(anonymous namespace\)::)", R"((\w+::)+)", R"(\(\w+\)(?=\d))", R"( )"}) {
    name = std::regex_replace(name, std::regex(noise), "");
  }
  return name.substr(0, name.find('('));
}

std::vector<Kernel> read_report(const fs::path& path) {
  static const std::regex entry(R"(Compiling entry function '(\w+)' for '(\w+)')");
  static const std::regex spill(R"((\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads)");
  static const std::regex used(R"(Used (\d+) registers)");
  static const std::regex shared(R"((\d+) bytes smem)");
  std::vector<Kernel> kernels;
  std::ifstream file(path);
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_search(line, match, entry)) kernels.push_back({match[2], short_name(match[1])});
    if (kernels.empty()) continue;
    Kernel& kernel = kernels.back();
    if (std::regex_search(line, match, spill)) {
      for (size_t i = 1; i <= 3; ++i) kernel.spills += std::stoi(match[i]);
    }
    if (std::regex_search(line, match, used)) kernel.registers = std::stoi(match[1]);
    if (std::regex_search(line, match, shared)) kernel.shared = std::stoi(match[1]);
  }
  return kernels;
}

/// Blocks of an SM by registers (handed out to warps by 256 in quarters of the SM) and threads; 228 KiB of shared
/// memory less 1 KiB a block. Dynamic shared memory is not in the report.
int blocks_per_sm(const Kernel& kernel, int threads) {
  const int warps = (threads + 31) / 32;
  const int per_warp = (kernel.registers + 7) / 8 * 256;
  const int by_registers = 4 * (16384 / per_warp) / warps;
  const int by_shared = 228 * 1024 / (kernel.shared + 1024);
  return std::min({by_registers, 2048 / (warps * 32), by_shared, 32});
}

struct Table {
  std::string reports;
  std::vector<std::pair<std::string, int>> threads;
  std::string rules;
  std::string text;
};

Table read_table(const fs::path& path) {
  Table table;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    table.text += line + "\n";
    if (!line.starts_with('#')) continue;
    table.rules += line + "\n";
    std::istringstream words(line);
    std::string hash, rule, word;
    words >> hash >> rule >> word;
    if (rule == "reports") table.reports = word;
    if (rule == "threads") {
      int count = 0;
      words >> count;
      table.threads.emplace_back(word, count);
    }
  }
  return table;
}

std::vector<fs::path> tables() {
  std::vector<fs::path> paths;
  for (const auto& item : fs::directory_iterator(fs::path(SILT_SOURCE_DIR) / "tests" / "resources")) {
    if (item.path().extension() == ".txt") paths.push_back(item.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class Resources : public testing::TestWithParam<fs::path> {};

TEST_P(Resources, AreAsCommitted) {
  const Table table = read_table(GetParam());
  const fs::path folder = fs::path(SILT_OBJECT_DIR) / table.reports;
  std::vector<std::string> lines;
  for (const auto& item : fs::directory_iterator(folder)) {
    if (item.path().extension() != ".ptxas") continue;
    for (const Kernel& kernel : read_report(item.path())) {
      EXPECT_EQ(kernel.spills, 0) << kernel.name << " spills on " << kernel.arch;
      const auto rule = std::find_if(table.threads.begin(), table.threads.end(), [&](const auto& known) {
        return kernel.name.find(known.first) != std::string::npos;
      });
      ASSERT_NE(rule, table.threads.end()) << "no threads rule for " << kernel.name;
      lines.push_back(fmt::format("{:<8} {:>3} {:>6} {:>2}  {}\n", kernel.arch, kernel.registers, kernel.shared,
                                  blocks_per_sm(kernel, rule->second), kernel.name));
    }
  }
  ASSERT_FALSE(lines.empty()) << "no reports under " << folder;
  std::sort(lines.begin(), lines.end());
  std::string now = table.rules;
  for (const std::string& line : lines) now += line;
  if (now == table.text) return;
  const std::string name = GetParam().filename();
  std::ofstream(name) << now;
  ADD_FAILURE() << GetParam() << " differs; what it is now was written to ./" << name;
}

INSTANTIATE_TEST_SUITE_P(Cuda, Resources, testing::ValuesIn(tables()),
                         [](const auto& param) { return param.param.stem().string(); });

// ---------------------------------------------------------------- machine code

/// Instructions of every function of an object, by short name.
std::map<std::string, std::vector<std::string>> disassemble(const fs::path& object, const std::string& arch) {
  static const std::regex function(R"(Function : (\w+))");
  static const std::regex instruction(R"(^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;)");
  std::map<std::string, std::vector<std::string>> code;
  const std::string command = fmt::format("{} -sass -arch {} {}", SILT_CUOBJDUMP, arch, object.string());
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), &pclose);
  if (pipe == nullptr) return code;
  std::array<char, 4096> buffer{};
  std::vector<std::string>* now = nullptr;
  std::cmatch match;
  while (fgets(buffer.data(), static_cast<int>(buffer.size()), pipe.get()) != nullptr) {
    if (std::regex_search(buffer.data(), match, function)) now = &code[short_name(match[1])];
    if (now != nullptr && std::regex_search(buffer.data(), match, instruction)) now->push_back(match[1]);
  }
  return code;
}

bool is(const std::string& instruction, std::string_view opcode) {
  return instruction.find(opcode) != std::string::npos;
}

/// The late order of cuda_sm90_direct is worth nothing unless its loads stand before the wait (ACQBULK), and a memory
/// barrier in front of them costs more than it gains.
TEST(MachineCode, DirectLoadsBeforeTheDependencyWait) {
  if (std::string_view(SILT_CUOBJDUMP).empty()) GTEST_SKIP() << "cuobjdump was not found when this was configured";
  const fs::path object = fs::path(SILT_OBJECT_DIR) / "attn_res/cuda/cuda_sm90_direct.cu.o";
  static const std::regex parts(R"(attn_res_cuda_sm90_direct<(\d),(true|false),(-?\d),(\d),\d,\d>)");
  for (const char* arch : {"sm_90a", "sm_100f"}) {
    int late = 0;
    for (const auto& [name, code] : disassemble(object, arch)) {
      std::smatch match;
      if (!std::regex_search(name, match, parts)) continue;
      const int blocks = std::stoi(match[1]);
      const auto wait = std::find_if(code.begin(), code.end(), [](const auto& line) { return is(line, "ACQBULK"); });
      ASSERT_NE(wait, code.end()) << name;
      const auto loads = std::count_if(code.begin(), wait, [](const auto& line) { return is(line, "LDG."); });
      if (const int early = std::stoi(match[3]); early >= 0) {
        ++late;
        // The early rows of the bank and the two weights, in one or two pieces.
        const int pieces = match[4] == "0" ? 1 : 2;
        EXPECT_EQ(loads, blocks == 0 ? 0 : (early + 2) * pieces) << arch << " " << name;
      } else {
        EXPECT_EQ(loads, 0) << arch << " " << name << " loads before its wait";
      }
      for (auto line = code.begin(); line != wait; ++line) EXPECT_FALSE(is(*line, "MEMBAR")) << arch << " " << name;
      for (const std::string& line : code) {
        EXPECT_FALSE(is(line, "STL") || is(line, "LDL")) << arch << " " << name << ": " << line;
        EXPECT_FALSE(is(line, "LDG.") && !is(line, ".128")) << arch << " " << name << ": " << line;
        EXPECT_FALSE(is(line, "STG.") && !is(line, ".128")) << arch << " " << name << ": " << line;
      }
    }
    // Norm; all rows or all but the last, which is the same without a bank. By blocks: narrow after a prefetch with the
    // hint 0 to 8, without 3 to 8, by its rows 6 to 8; two 0 to 8 both ways; one by its rows 0 to 8, with one block
    // under the hint and after a prefetch as well.
    EXPECT_EQ(late, 2 * ((2 * 8 + 1) + 2 * 6 + 2 * 3 + 2 * (2 * 8 + 1) + (2 * 8 + 1) + 2 * 2)) << arch;
  }
}

/// attn_res_merge: late order has the weights in front of the dependency wait, and with stable partials mix and
/// statistics as well; wait order nothing.
TEST(MachineCode, MergeLoadsBeforeTheDependencyWait) {
  if (std::string_view(SILT_CUOBJDUMP).empty()) GTEST_SKIP() << "cuobjdump was not found when this was configured";
  const fs::path object = fs::path(SILT_OBJECT_DIR) / "attn_res/two_phase/cuda/cuda_sm90_direct.cu.o";
  static const std::regex parts(
      R"(attn_res_merge_cuda_sm90_direct<(\d),(?:true|false),(?:true|false),(\d),(float|unsignedshort)>)");
  for (const char* arch : {"sm_90a", "sm_100f"}) {
    int kernels = 0;
    for (const auto& [name, code] : disassemble(object, arch)) {
      std::smatch match;
      if (!std::regex_search(name, match, parts)) continue;
      ++kernels;
      const auto wait = std::find_if(code.begin(), code.end(), [](const auto& line) { return is(line, "ACQBULK"); });
      ASSERT_NE(wait, code.end()) << name;
      const auto loads = std::count_if(code.begin(), wait, [](const auto& line) { return is(line, "LDG."); });
      const int pieces = match[1] == "0" ? 1 : 2;
      const int vectors = match[3] == "float" ? 2 : 1;
      const int weights = 2 * pieces;
      const int partial = vectors * pieces + 2;  // m and s
      EXPECT_EQ(loads, match[2] == "0" ? 0 : match[2] == "1" ? weights : weights + partial) << arch << " " << name;
      int narrow = 0;
      for (const std::string& line : code) {
        EXPECT_FALSE(is(line, "MEMBAR") || is(line, "STL") || is(line, "LDL")) << arch << " " << name << ": " << line;
        EXPECT_FALSE(is(line, "STG.") && !is(line, ".128")) << arch << " " << name << ": " << line;
        if (is(line, "LDG.") && !is(line, ".128")) ++narrow;
      }
      EXPECT_EQ(narrow, 2) << arch << " " << name << ": m and s";
    }
    EXPECT_EQ(kernels, 3 * 2 * 3 * 2) << arch << ": form and hint, norm, order, partial";
  }
}

/// attn_res_partials: matrix instructions of a piece of 64 columns, rows read as tiles only, and no barrier that waits
/// for the stores of a token to leave the SM.
TEST(MachineCode, SweepByMatrixUnits) {
  if (std::string_view(SILT_CUOBJDUMP).empty()) GTEST_SKIP() << "cuobjdump was not found when this was configured";
  const fs::path object = fs::path(SILT_OBJECT_DIR) / "attn_res/two_phase/cuda/cuda_sm90_tensor.cu.o";
  for (const char* arch : {"sm_90a", "sm_100f"}) {
    const auto code = disassemble(object, arch);
    EXPECT_EQ(code.size(), 2U) << arch << ": bf16 and fp32 partials";
    for (const auto& [name, lines] : code) {
      const auto count = [&, &lines = lines](std::string_view opcode) {
        return std::count_if(lines.begin(), lines.end(), [&](const auto& line) { return is(line, opcode); });
      };
      const int pieces =
          2 * 4;  // side by side; the first token's sums and the last one's mixture stand outside the loop
      EXPECT_EQ(count("HMMA.16816"), 8 * pieces) << arch << " " << name << ": dots and squares of four steps";
      EXPECT_EQ(count("HMMA.1688"), 8 * pieces) << arch << " " << name << ": two groups of 32 columns";
      EXPECT_EQ(count("LDSM"), 4 * pieces) << arch << " " << name;
      EXPECT_EQ(count("MEMBAR"), count("MEMBAR.ALL.CTA")) << arch << " " << name;
      EXPECT_EQ(count("STL") + count("LDL"), 0) << arch << " " << name;
      EXPECT_EQ(count("STG.") - count("STG.E.128"), 2 * 2) << arch << " " << name << ": m and s";
    }
  }
}

/// kda_decode: state, weights and history stand before the dependency wait and the trigger right behind it; L1 is
/// dropped once, behind the cluster barrier of the prologue, and not behind the waits for peers; the reductions stand
/// there once (a loop around a wait that the compiler thinks divergent doubles them).
TEST(MachineCode, KdaDecodeOrder) {
  if (std::string_view(SILT_CUOBJDUMP).empty()) GTEST_SKIP() << "cuobjdump was not found when this was configured";
  struct Form {
    const char* name;
    int state_loads;  // of a thread, or copies (evict-first and plain)
    bool cluster;
    int shuffles;  // 12 for the head's sums, 8 or 13 a pass of 2 or 4 rows, 5 for the norm
  };
  // Bulk forms: five more in the branch of a diverged warp, behind everything, for the norm.
  constexpr Form kForms[] = {
      {"<float,0>", 4, true, 12 + 8 + 5},
      {"<float,1>", 8, true, 12 + 13 + 5},
      {"<float,2>", 8, true, 12 + 13 + 5},
      {"<float,3>", 8, true, 12 + 13 + 5},
      {"<float,4>", 16, false, 12 + 2 * 13 + 5},
      {"<float,5>", 16, false, 12 + 2 * 13 + 5},
      {"<float,8>", 2, false, 12 + 4 * 13 + 10},
      {"<unsignedshort,1>", 4, true, 12 + 13 + 5},
      {"<unsignedshort,4>", 8, false, 12 + 2 * 13 + 5},
      {"<unsignedshort,6>", 16, false, 12 + 4 * 13 + 5},
      {"<unsignedshort,7>", 16, false, 12 + 4 * 13 + 5},
      {"<unsignedshort,9>", 2, false, 12 + 4 * 13 + 10},
  };
  const fs::path object = fs::path(SILT_OBJECT_DIR) / "kda/decode/cuda/cuda_sm90_heads.cu.o";
  const auto code = disassemble(object, "sm_90a");
  EXPECT_EQ(code.size(), std::size(kForms));
  for (const Form& form : kForms) {
    const std::string name = std::string("kda_decode_cuda_sm90_heads") + form.name;
    const auto found = code.find(name);
    ASSERT_NE(found, code.end()) << name;
    const std::vector<std::string>& lines = found->second;
    const auto count = [&](auto begin, auto end, std::string_view opcode) {
      return std::count_if(begin, end, [&](const auto& line) { return is(line, opcode); });
    };
    const auto wait = std::find_if(lines.begin(), lines.end(), [](const auto& line) { return is(line, "ACQBULK"); });
    ASSERT_GT(lines.end() - wait, 8) << name;
    // Five 16-byte weight loads (four taps, dt_bias), then the state; three 8-byte pieces of history.
    const auto wide = count(lines.begin(), wait, "LDG.E.128") + count(lines.begin(), wait, "LDG.E.EF.128");
    const auto copies = count(lines.begin(), wait, "UBLKCP");
    EXPECT_EQ(wide + copies, 5 + form.state_loads) << name;
    EXPECT_EQ(count(lines.begin(), wait, "LDG.E.64"), 3) << name;
    // x or the raw gate, beta, output gate, norm weight, bias; in front of the state, as the slot index is to come.
    EXPECT_EQ(count(lines.begin(), wait, "CCTL.E.PF2"), 5) << name;
    EXPECT_EQ(count(lines.begin(), wait, "MEMBAR"), 0) << name;
    EXPECT_EQ(count(wait, wait + 8, "PREEXIT"), 1) << name;
    EXPECT_EQ(count(lines.begin(), wait, "CCTL.IVALL"), form.cluster ? 1 : 0) << name;
    EXPECT_LE(count(wait, lines.end(), "CCTL.IVALL"), form.cluster ? 1 : 0) << name << ": that of the padding rows";
    EXPECT_EQ(count(lines.begin(), lines.end(), "SHFL"), form.shuffles) << name;
    EXPECT_EQ(count(lines.begin(), lines.end(), "STL") + count(lines.begin(), lines.end(), "LDL"), 0) << name;
  }
}

}  // namespace
}  // namespace silt
