#include "bench/sets.hpp"

#include <fmt/format.h>

namespace silt::bench {
namespace {

constexpr int kHidden = 7168;     // of Kimi-K3
constexpr int kBankSlots = 8;     // its depth blocks
constexpr int kHeadsOfRank = 12;  // 96 heads over 8 ranks

/// A decoder's bank has all its slots from the start, also while few of them are valid.
std::string attn_res(int t, int n) {
  const std::string line = fmt::format("attn_res t={} n={} d={}", t, n, kHidden);
  return n == 0 || n == kBankSlots ? line : fmt::format("{} r={}", line, kBankSlots);
}

std::string kda_decode(int b, int h, bool bf16_state) {
  return fmt::format("kda_decode b={} h={}{}", b, h, bf16_state ? " state=bf16" : "");
}

std::vector<SetEntry> cpu_goals() {
  std::vector<SetEntry> entries;
  for (const bool bf16_state : {false, true}) {
    entries.push_back({kda_decode(1, kHeadsOfRank, bf16_state), {Mode::cpu, Mode::cpu_warm}});
    entries.push_back({kda_decode(64, kHeadsOfRank, bf16_state), {Mode::cpu}});
    entries.push_back({kda_decode(256, kHeadsOfRank, bf16_state), {Mode::cpu}});
  }
  entries.push_back({"kda_prefill seqs=1x512 h=12", {Mode::cpu}});
  entries.push_back({attn_res(1, 8), {Mode::cpu, Mode::cpu_warm}});
  for (const int n : {8, 4, 1, 0}) {
    for (const int t : {256, 4096}) entries.push_back({attn_res(t, n), {Mode::cpu}});
  }
  return entries;
}

std::vector<SetEntry> two_phase() {
  std::vector<SetEntry> entries;
  for (const int t : {256, 4096}) {
    entries.push_back({fmt::format("attn_res_partials t={} q=8 n={} d={}", t, kBankSlots, kHidden), {Mode::cpu}});
    entries.push_back({fmt::format("attn_res_merge t={} d={}", t, kHidden), {Mode::cpu}});
    entries.push_back({attn_res(t, kBankSlots), {Mode::cpu}});
  }
  return entries;
}

/// Enough sizes for a curve.
std::vector<SetEntry> cpu_sweep() {
  std::vector<SetEntry> entries;
  for (const int n : {8, 4, 1, 0}) {
    for (const int t : {1, 4, 16, 64, 256, 1024, 4096}) entries.push_back({attn_res(t, n), {Mode::cpu}});
  }
  for (const bool bf16_state : {false, true}) {
    for (const int b : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
      entries.push_back({kda_decode(b, kHeadsOfRank, bf16_state), {Mode::cpu}});
    }
  }
  return entries;
}

std::vector<SetEntry> h200_attn() {
  std::vector<SetEntry> entries;
  for (const int n : {8, 4, 1, 0}) {
    std::vector<int> tokens = {1, 4, 16, 64, 256, 1024, 4096, 8192};
    if (n == 8) tokens.insert(tokens.begin() + 4, {132, 133});
    for (const int t : tokens) {
      const std::string line = attn_res(t, n);
      if (n == 0) {
        entries.push_back({line, {Mode::graph, Mode::graph_late, Mode::graph_nopdl, Mode::eager}});
        continue;
      }
      entries.push_back({line, {Mode::graph, Mode::graph_nopdl, Mode::eager}});
      // The inputs of a rotation are written by nobody but their own launch, so every bank row is stable.
      entries.push_back({fmt::format("{} stable={}", line, n), {Mode::graph_late}});
    }
  }
  return entries;
}

/// A depth block's calls from one sweep of eight queries, beside the calls that they replace.
std::vector<SetEntry> h200_attn_two_phase() {
  std::vector<SetEntry> entries;
  for (const int t : {256, 1024, 4096, 8192}) {
    const std::string line = fmt::format("t={} d={}", t, kHidden);
    for (const char* partial : {"", " partial=f32"}) {
      entries.push_back({fmt::format("attn_res_partials t={} q=8 n={} d={}{}", t, kBankSlots, kHidden, partial),
                         {Mode::graph, Mode::graph_late}});
      entries.push_back({fmt::format("attn_res_merge {}{}", line, partial), {Mode::graph, Mode::graph_nopdl}});
      // Behind the first merge of a sweep the partials are older than the preceding kernel.
      entries.push_back({fmt::format("attn_res_merge {}{} stable=1", line, partial), {Mode::graph_late}});
    }
    entries.push_back({attn_res(t, kBankSlots), {Mode::graph}});
  }
  // Fewer queries and blocks: where the two phases begin to pay.
  for (const int t : {64, 1024}) {
    for (const int q : {2, 4}) {
      entries.push_back(
          {fmt::format("attn_res_partials t={} q={} n={} d={}", t, q, kBankSlots, kHidden), {Mode::graph}});
    }
    entries.push_back({fmt::format("attn_res_partials t={} q=8 n=4 d={}", t, kHidden), {Mode::graph}});
    entries.push_back({attn_res(t, 4), {Mode::graph}});
  }
  entries.push_back({fmt::format("attn_res_partials t=64 q=8 n={} d={}", kBankSlots, kHidden), {Mode::graph}});
  entries.push_back({fmt::format("attn_res_merge t=64 d={}", kHidden), {Mode::graph}});
  entries.push_back({attn_res(64, kBankSlots), {Mode::graph}});
  return entries;
}

/// Where fewer sizes are enough: the portable kernel's share of a copy, the second native form beside the first.
std::vector<SetEntry> h200_attn_kernels() {
  std::vector<SetEntry> entries;
  for (const int n : {8, 4, 1, 0}) {
    for (const int t : {1, 64, 1024, 8192}) entries.push_back({attn_res(t, n), {Mode::graph}});
  }
  return entries;
}

std::vector<SetEntry> h200_kda(const std::vector<std::pair<int, std::vector<int>>>& batches) {
  std::vector<SetEntry> entries;
  for (const auto& [h, rows] : batches) {
    for (const bool bf16_state : {false, true}) {
      for (const int b : rows) {
        entries.push_back({kda_decode(b, h, bf16_state), {Mode::graph, Mode::graph_nopdl, Mode::eager}});
      }
    }
  }
  return entries;
}

/// The chain of three beside the fused step, then its operators alone, with four draft tokens as well. Sizes whose
/// cases (one per set, with host copies) are moderate.
std::vector<SetEntry> h200_kda_chain() {
  const std::vector<Mode> modes = {Mode::graph, Mode::graph_nopdl, Mode::eager};
  std::vector<SetEntry> entries;
  for (const int b : {1, 8, 32, 128, 256}) entries.push_back({kda_decode(b, kHeadsOfRank, false), modes});
  // Below these sizes a cold rotation would be thousands of sets.
  for (const int b : {8, 32, 256}) entries.push_back({fmt::format("causal_conv1d_update b={} c=4608", b), modes});
  for (const int b : {1, 8, 32}) entries.push_back({fmt::format("kda_recurrence seqs={}x1 h=12 offsets=0", b), modes});
  for (const int b : {32, 256}) entries.push_back({fmt::format("rms_norm_gated t={} h=12", b), modes});
  for (const int b : {8, 16}) {
    entries.push_back({fmt::format("causal_conv1d_update b={} n=4 c=4608", b), {Mode::graph}});
    entries.push_back({fmt::format("kda_recurrence seqs={}x4 h=12 columns=4", b), {Mode::graph}});
  }
  return entries;
}

}  // namespace

const std::vector<NamedSet>& named_sets() {
  static const std::vector<NamedSet> all = {
      {"cpu-goals", "the CPU figures of docs/measuring.md", DeviceKind::cpu, Kernels::chosen, cpu_goals()},
      {"cpu-sweep", "attn_res and kda_decode over their sizes, for the plots", DeviceKind::cpu, Kernels::only_chosen,
       cpu_sweep()},
      {"h200-attn", "attn_res: every goal cell of one H200", DeviceKind::cuda, Kernels::chosen, h200_attn()},
      {"h200-attn-kernels", "attn_res: every kernel of one H200", DeviceKind::cuda, Kernels::all, h200_attn_kernels()},
      {"h200-attn-two-phase", "attn_res in two phases on one H200, beside the calls that they replace",
       DeviceKind::cuda, Kernels::chosen, h200_attn_two_phase()},
      {"h200-kda", "kda_decode: every goal cell of one H200 (12 and 96 heads)", DeviceKind::cuda, Kernels::chosen,
       h200_kda({{12, {1, 4, 8, 16, 32, 64, 128, 256, 1024}}, {96, {64, 128, 256}}})},
      {"h200-kda-heads", "kda_decode: the other tensor-parallel head counts", DeviceKind::cuda, Kernels::chosen,
       h200_kda({{24, {1, 8, 64, 256}}, {48, {1, 8, 64, 256}}, {96, {1, 8}}})},
      {"h200-kda-chain", "kda_decode beside its chain of three operators, and these alone, on one H200",
       DeviceKind::cuda, Kernels::chosen, h200_kda_chain()},
      {"smoke",
       "a few seconds: does everything run",
       DeviceKind::cpu,
       Kernels::all,
       {{"attn_res t=3 n=2 d=256", {Mode::cpu, Mode::cpu_warm}},
        {"attn_res t=70 n=0 d=512 norm=0 delta=0", {Mode::cpu}},
        {"attn_res t=2 n=1 d=288 write=1 dtype=f32", {Mode::cpu}},
        {"attn_res_partials t=3 q=3 n=2 d=256", {Mode::cpu, Mode::cpu_warm}},
        {"attn_res_merge t=3 d=256 write=1", {Mode::cpu, Mode::cpu_warm}},
        {"kda_decode b=3 h=2", {Mode::cpu, Mode::cpu_warm}},
        {"kda_decode b=2 h=3 state=bf16 gate=softplus layout=ds bias=1 norm=0", {Mode::cpu}},
        {"causal_conv1d_update b=3 c=768", {Mode::cpu}},
        {"kda_recurrence seqs=2x3 h=2", {Mode::cpu}},
        {"kda_prefill seqs=2x5 h=2", {Mode::cpu}},
        {"rms_norm_gated t=5 h=2", {Mode::cpu}}}},
      {"cpu-two-phase", "attn_res in two phases: a sweep for eight calls and eight merges against eight calls",
       DeviceKind::cpu, Kernels::chosen, two_phase()},
      {"cpu-chain",
       "the operators of the KDA chain on their own",
       DeviceKind::cpu,
       Kernels::all,
       {{"causal_conv1d_update b=64 c=4608", {Mode::cpu, Mode::cpu_warm}},
        {"kda_recurrence seqs=1x1 h=12", {Mode::cpu_warm}},
        {"kda_recurrence seqs=64x1 h=12", {Mode::cpu}},
        {"kda_recurrence seqs=1x16 h=3", {Mode::cpu_warm}},
        {"kda_recurrence seqs=1x16 h=3 state=bf16", {Mode::cpu_warm}},
        {"kda_recurrence seqs=4x16 h=12", {Mode::cpu}},
        {"rms_norm_gated t=64 h=12", {Mode::cpu, Mode::cpu_warm}},
        {"kda_prefill seqs=1x64 h=3", {Mode::cpu_warm}},
        {"kda_prefill seqs=1x64 h=3 state=bf16", {Mode::cpu_warm}},
        {"kda_prefill seqs=1x512 h=12", {Mode::cpu}},
        {"kda_prefill seqs=64x8 h=12", {Mode::cpu}}}},
  };
  return all;
}

}  // namespace silt::bench
