// The debug mode, asked for by the launch, on every device at hand; by the environment where SILT_DEBUG=1 is set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "attn_res/cases.hpp"
#include "attn_res/two_phase/cases.hpp"
#include "core/environment.hpp"
#include "device/hip_runtime.hpp"
#include "dispatch/debug.hpp"
#include "kda/conv_update/cases.hpp"
#include "kda/decode/cases.hpp"
#include "kda/gated_norm/cases.hpp"
#include "kda/prefill/cases.hpp"
#include "kda/recurrence/cases.hpp"
#include "proof/hip_graph.hpp"
#include "proof/room_test.hpp"

namespace silt {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr Launch kChecked{.debug = true};

/// Where an operator has kernels that run here.
std::vector<Device> devices_here(std::string_view op) {
  std::vector<Device> all;
  for (const KernelHere& here : kernels_here(op)) {
    if (std::find(all.begin(), all.end(), here.device) == all.end()) all.push_back(here.device);
  }
  return all;
}

std::string op_of(const std::string& line) { return line.substr(0, line.find(' ')); }

/// A case is refused with this text, and no byte of its tensors has changed.
template <class Case>
void expect_told(const Case& wrong, Device device, const std::string& text) {
  Case now = wrong;
  const Status status = now.run(device, kChecked);
  EXPECT_EQ(status.code(), StatusCode::invalid_argument) << text;
  EXPECT_EQ(status.message(), text) << now.problem.line();
  ASSERT_TRUE(now.download().ok());
  Case before = wrong;
  ASSERT_TRUE(before.upload({}).ok());
  for (size_t i = 0; i < now.tensors().size(); ++i) {
    EXPECT_EQ(now.tensors()[i].tensor->bytes(), before.tensors()[i].tensor->bytes()) << now.tensors()[i].name;
  }
}

/// A case that is right, with one mistake of a caller.
template <class Case>
void expect_told(const char* line, void (*mistake)(Case&), const std::string& text) {
  for (const Device device : devices_here(op_of(line))) {
    Case c(parsed<decltype(Case::problem)>(line), 1);
    mistake(c);
    expect_told(c, device, text);
  }
}

template <class Case>
void expect_not_told(const char* line, void (*change)(Case&)) {
  for (const Device device : devices_here(op_of(line))) {
    Case c(parsed<decltype(Case::problem)>(line), 1);
    change(c);
    const Status status = c.run(device, kChecked);
    EXPECT_TRUE(status.ok()) << line << ": " << status.message();
  }
}

using Recurrence = KdaRecurrenceCase;

TEST(DebugMode, IndicesAreOfThePoolAndUnique) {
  expect_told<KdaDecodeCase>(
      "kda_decode b=4 h=1 padded=1", [](KdaDecodeCase& c) { c.state_indices.set_int(1, 5); },
      "kda_decode: state_indices[1]: has 5, needs -1..4");
  expect_told<KdaDecodeCase>(
      "kda_decode b=4 h=1 null=-1",
      [](KdaDecodeCase& c) { c.state_indices.set_int(0, std::numeric_limits<int32_t>::min()); },
      "kda_decode: state_indices[0]: has -2147483648, needs -1..4");
  expect_told<KdaDecodeCase>(
      "kda_decode b=4 h=1", [](KdaDecodeCase& c) { c.state_indices.set_int(3, c.state_indices.get_int(1)); },
      "kda_decode: state_indices[3]: has 1, needs a slot of its own, this is that of [1]");
  expect_told<CausalConv1dUpdateCase>(
      "causal_conv1d_update b=3 c=96 null=-1", [](CausalConv1dUpdateCase& c) { c.state_indices.set_int(2, 7); },
      "causal_conv1d_update: state_indices[2]: has 7, needs -1..3");
  expect_told<CausalConv1dUpdateCase>(
      "causal_conv1d_update b=3 c=96", [](CausalConv1dUpdateCase& c) { c.state_indices.set_int(1, -2); },
      "causal_conv1d_update: state_indices[1]: has -2, needs -1..3");
  expect_told<CausalConv1dUpdateCase>(
      "causal_conv1d_update b=3 c=96 null=-1",
      [](CausalConv1dUpdateCase& c) {
        for (const int64_t i : {0, 1}) c.state_indices.set_int(i, 0);
      },
      "causal_conv1d_update: state_indices[1]: has 0, needs a slot of its own, this is that of [0]");
  expect_told<Recurrence>(
      "kda_recurrence seqs=2x3 h=1 columns=3",
      [](Recurrence& c) { c.state_indices.set_int(4, c.state_indices.get_int(2)); },
      "kda_recurrence: state_indices[1, 1]: has 5, needs a slot of its own, this is that of [0, 2]");
  expect_told<Recurrence>(
      "kda_recurrence seqs=2x3 h=1", [](Recurrence& c) { c.state_indices.set_int(1, 3); },
      "kda_recurrence: state_indices[1]: has 3, needs -1..2");
  expect_told<KdaPrefillCase>(
      "kda_prefill seqs=2x3 h=1", [](KdaPrefillCase& c) { c.state_indices.set_int(1, -9); },
      "kda_prefill: state_indices[1]: has -9, needs -1..2");
  expect_told<KdaPrefillCase>(
      "kda_prefill seqs=2x3 h=1", [](KdaPrefillCase& c) { c.state_indices.set_int(0, c.state_indices.get_int(1)); },
      "kda_prefill: state_indices[1]: has 2, needs a slot of its own, this is that of [0]");
}

TEST(DebugMode, OffsetsAndCountsAreWithinTheirRanges) {
  expect_told<Recurrence>(
      "kda_recurrence seqs=3x3 h=1", [](Recurrence& c) { c.offsets.set_int(2, 2); },
      "kda_recurrence: offsets: entry 2: has 2, needs 3..9 (the entry before it, the rows of memory)");
  expect_told<Recurrence>(
      "kda_recurrence seqs=3x3 h=1", [](Recurrence& c) { c.offsets.set_int(3, 10); },
      "kda_recurrence: offsets: entry 3: has 10, needs 6..9 (the entry before it, the rows of memory)");
  expect_told<KdaPrefillCase>(
      "kda_prefill seqs=3x3 h=1", [](KdaPrefillCase& c) { c.offsets.set_int(0, -1); },
      "kda_prefill: offsets: entry 0: has -1, needs 0..9 (the entry before it, the rows of memory)");
  expect_told<Recurrence>(
      "kda_recurrence seqs=2x3 h=1 columns=3", [](Recurrence& c) { c.accepted.set_int(1, 4); },
      "kda_recurrence: accepted[1]: has 4, needs 0..3");
  expect_told<Recurrence>(
      "kda_recurrence seqs=2x3 h=1 columns=3", [](Recurrence& c) { c.accepted.set_int(0, -1); },
      "kda_recurrence: accepted[0]: has -1, needs 0..3");
  // Four flags of a byte each, read as one number.
  expect_told<KdaPrefillCase>(
      "kda_prefill seqs=2x3 h=1 initial=1", [](KdaPrefillCase& c) { c.has_initial_state.set_int(1, 0x01010101); },
      "kda_prefill: has_initial_state[1]: has 16843009, needs 0 or 1");
}

/// "3, 17": where an element stands.
std::string place(const CaseTensor& tensor, int64_t index) {
  std::string text;
  for (size_t axis = tensor.shape().size(); axis-- > 0;) {
    text = std::to_string(index % tensor.shape()[axis]) + (text.empty() ? "" : ", ") + text;
    index /= tensor.shape()[axis];
  }
  return text;
}

/// The last element that is read: of the last row, of the slot of the last sequence.
template <class Case>
int64_t last_read(const Case& c, std::string_view name, const CaseTensor& tensor) {
  if constexpr (requires { c.state_indices; }) {
    if (name == "state" || name == "conv_state") {
      const int64_t each = tensor.elements() / tensor.shape()[0];
      return (c.state_indices.get_int(c.state_indices.elements() - 1) + 1) * each - 1;
    }
  }
  return tensor.elements() - 1;
}

/// A NaN and an infinity in the last element that is read of every tensor that is, one at a time. Without them the call
/// is right, and its bits are those of a call without the debug mode.
template <class Case>
void expect_every_value_is_seen(const std::string& line, std::initializer_list<std::string_view> only_written) {
  const std::string op = op_of(line);
  for (const Device device : devices_here(op)) {
    const Case fresh(parsed<decltype(Case::problem)>(line), 2);
    Case plain = fresh;
    Case checked = fresh;
    ASSERT_TRUE(plain.run(device, {}).ok()) << line;
    const Status status = checked.run(device, kChecked);
    ASSERT_TRUE(status.ok()) << line << ": " << status.message();
    int seen = 0;
    for (size_t i = 0; i < checked.tensors().size(); ++i) {
      EXPECT_EQ(checked.tensors()[i].tensor->bytes(), plain.tensors()[i].tensor->bytes());
      Case wrong = fresh;
      const NamedTensor named = wrong.tensors()[i];
      const std::string name = named.name;
      CaseTensor* tensor = named.tensor;
      const bool output = std::find(only_written.begin(), only_written.end(), name) != only_written.end();
      if (!tensor->present() || tensor->dtype() == DType::i32 || output) continue;
      const bool gate = name == "raw_gate";
      const int64_t at = last_read(wrong, name, *tensor);
      const std::string text = op + ": " + name + "[" + place(*tensor, at) + "]: has ";
      tensor->set(at, kNaN);
      expect_told(wrong, device, text + "nan, needs a " + (gate ? "number" : "finite number"));
      tensor->set(at, -kInf);
      if (gate) {
        EXPECT_TRUE(wrong.run(device, kChecked).ok()) << line;
      } else {
        expect_told(wrong, device, text + "-inf, needs a finite number");
      }
      ++seen;
    }
    EXPECT_GE(seen, 3) << line;
  }
}

TEST(DebugMode, ValuesAreFinite) {
  expect_every_value_is_seen<AttnResCase>("attn_res t=3 n=2 d=256 r=2", {"output"});
  expect_every_value_is_seen<AttnResPartialsCase>("attn_res_partials t=2 q=2 n=3 d=256", {"statistics", "mix"});
  expect_every_value_is_seen<AttnResMergeCase>("attn_res_merge t=2 d=256 write=1", {"output", "slot"});
  expect_every_value_is_seen<KdaDecodeCase>("kda_decode b=3 h=2 bias=1", {"output"});
  expect_every_value_is_seen<KdaDecodeCase>("kda_decode b=3 h=1 state=bf16 layout=ds x_stride=400", {"output"});
  expect_every_value_is_seen<CausalConv1dUpdateCase>("causal_conv1d_update b=3 c=96 n=2 bias=1", {"output"});
  expect_every_value_is_seen<KdaRecurrenceCase>("kda_recurrence seqs=2x3 h=2", {"output"});
  expect_every_value_is_seen<KdaPrefillCase>("kda_prefill seqs=2x5 h=1 bias=1", {"output"});
  expect_every_value_is_seen<RmsNormGatedCase>("rms_norm_gated t=2 h=2 x=f32", {"output"});
  expect_every_value_is_seen<RmsNormGatedCase>("rms_norm_gated t=2 h=2 act=silu", {"output"});
}

void fill_slot(CaseTensor& pool, int64_t slot) {
  const int64_t each = pool.elements() / pool.shape()[0];
  for (int64_t i = slot * each; i < (slot + 1) * each; ++i) pool.set(i, kNaN);
}

TEST(DebugMode, WhatIsNotReadMayHoldAnything) {
  // Poison, which is NaN, in rows that are padding and in slots that nobody reads.
  for (const char* line :
       {"kda_recurrence seqs=3x6 h=1 padded=1 lengths=ragged t=20", "kda_recurrence seqs=3x3 h=1 padded=1 columns=3"}) {
    expect_not_told<Recurrence>(line, [](Recurrence&) {});
  }
  expect_not_told<KdaDecodeCase>("kda_decode b=5 h=1 padded=1", [](KdaDecodeCase& c) {
    std::vector<bool> read(6);
    for (int64_t i = 0; i < 5; ++i) read[static_cast<size_t>(std::max(0, c.state_indices.get_int(i)))] = true;
    for (int64_t slot = 0; slot < 6; ++slot) {
      if (slot == 0 || !read[static_cast<size_t>(slot)]) fill_slot(c.state, slot);
    }
  });
  expect_not_told<KdaDecodeCase>("kda_decode b=5 h=1 padded=1", [](KdaDecodeCase& c) {
    for (int64_t i = 0; i < 5; ++i) c.state_indices.set_int(i, i % 2 == 0 ? -1 : 0);
    for (int64_t slot = 0; slot < 6; ++slot) fill_slot(c.state, slot);
  });
  expect_not_told<KdaPrefillCase>("kda_prefill seqs=3x6 h=1 padded=1 lengths=ragged t=20 initial=1", [](auto&) {});
  expect_not_told<KdaPrefillCase>("kda_prefill seqs=2x3 h=1 initial=1", [](KdaPrefillCase& c) {
    c.has_initial_state.set_int(0, 0);
    fill_slot(c.state, c.state_indices.get_int(0));
  });
  expect_not_told<Recurrence>("kda_recurrence seqs=2x3 h=1", [](Recurrence& c) {  // a sequence without tokens
    c.offsets.set_int(1, 0);
    fill_slot(c.state, c.state_indices.get_int(0));
  });
  expect_not_told<Recurrence>("kda_recurrence seqs=2x3 h=1 columns=3", [](Recurrence& c) {
    c.accepted.set_int(0, 2);
    for (const int64_t column : {0, 2}) fill_slot(c.state, c.state_indices.get_int(column));
    c.accepted.set_int(1, 0);  // padding: its columns are not looked at
    for (int64_t column = 0; column < 3; ++column) c.state_indices.set_int(3 + column, 1 << 20);
  });
}

TEST(DebugMode, OfATableTheReadColumnIsLookedAt) {
  expect_told<Recurrence>(
      "kda_recurrence seqs=2x3 h=1 columns=3",
      [](Recurrence& c) {
        for (int32_t i = 0; i < 6; ++i) c.state_indices.set_int(i, i + 1);
        c.accepted.set_int(1, 3);
        c.state.set(6 * 128 * 128 + 129, kNaN);
      },
      "kda_recurrence: state[6, 0, 1, 1]: has nan, needs a finite number");
}

TEST(DebugMode, TheEnvironmentAsksForIt) {
  if (!environment().debug) GTEST_SKIP() << "SILT_DEBUG is not set";
  KdaDecodeCase c(parsed<KdaDecodeProblem>("kda_decode b=4 h=1"), 1);
  c.state_indices.set_int(1, 5);
  EXPECT_EQ(c.run({}, {}).message(), "kda_decode: state_indices[1]: has 5, needs -1..4");
}

/// A tensor of a layout on a device, with one NaN, and what is said of it.
struct Layout {
  std::vector<int64_t> shape;
  std::vector<int64_t> stride;
};

std::string told(const CaseTensor& tensor, Device device) {
  CaseTensor here = tensor;
  EXPECT_TRUE(here.to_device(device).ok());
  return debug::Values("op", device, {}).all("x", here.view()).status().message();
}

// What lies between the rows of these tensors is NaN as well.
TEST(DebugMode, EveryLayoutIsReadAsItIs) {
  const Layout layouts[] = {
      {{7}, {}},
      {{5, 7, 3}, {}},
      {{5, 7}, {100, 1}},
      {{4, 6, 3}, {23, 1, 6}},
      {{3, 4, 8}, {9, 31, 1}},  // slots of a bank are further apart than tokens
      {{2, 3, 2, 5}, {60, 20, 7, 1}},
      {{4, 1}, {3, 1000}},
      {{2, 3, 4 << 20}, {13 << 20, 4 << 20, 1}},  // an entry of more than a piece
      {{2, 3 << 20}, {3 << 20, 1}},
  };
  for (const auto& [shape, stride] : layouts) {
    CaseTensor tensor(DType::bf16, shape, stride);
    tensor.fill([](int64_t) { return 1.0F; });
    const int64_t n = tensor.elements();
    for (const Device device : devices_here("kda_decode")) {
      EXPECT_EQ(told(tensor, device), "");
      for (int64_t i = 0; i < n; i += n < 1000 ? 1 : n / 3) {
        tensor.set(i, kNaN);
        EXPECT_EQ(told(tensor, device), "op: x[" + place(tensor, i) + "]: has nan, needs a finite number");
        tensor.set(i, 1);
      }
    }
  }
}

TEST(DebugMode, RowsOnTopOfEachOtherAreRead) {
  std::vector<float> row(4, 1.0F);
  const TensorView rows = view(row.data(), {3, 4}, {0, 1});
  EXPECT_TRUE(debug::Values("op", {}, {}).all("x", rows).status().ok());
  row[2] = kInf;
  EXPECT_EQ(debug::Values("op", {}, {}).all("x", rows).status().message(),
            "op: x[0, 2]: has inf, needs a finite number");
}

TEST(DebugMode, ADeviceThatIsNotHereIsAnErrorAsEver) {
  KdaDecodeCase c(parsed<KdaDecodeProblem>("kda_decode b=1 h=1"), 1);
  ASSERT_TRUE(c.upload({}).ok());
  KdaDecodeArgs args = c.args();
  for (auto* view : {&args.x, &args.conv_weight, &args.raw_gate, &args.raw_beta, &args.A_log, &args.dt_bias,
                     &args.state_indices, &args.output_gate, &args.norm_weight}) {
    view->device = {DeviceKind::cuda, 77};
  }
  for (auto* view : {&args.conv_state, &args.state, &args.output}) view->device = {DeviceKind::cuda, 77};
  EXPECT_EQ(kda_decode(args, kChecked).message(), kda_decode(args).message());
  EXPECT_FALSE(kda_decode(args).ok());
}

// On the stand-in, where any number is a stream; test_debug_cuda.cpp captures on a GPU.
TEST(DebugMode, AStreamThatIsCapturedIsRefused) {
  constexpr Device kHip{DeviceKind::hip, 0};
  DeviceFacts facts;
  if (!device_facts(kHip, &facts).ok() || !in_host_memory(kHip)) GTEST_SKIP() << "no stand-in device";
  const HipCapture capture = hip_capture();
  int streams[2] = {};
  void* graph = nullptr;
  const Launch captured{.stream = &streams[0], .debug = true};
  const Launch beside{.stream = &streams[1], .debug = true};
  KdaDecodeCase c(parsed<KdaDecodeProblem>("kda_decode b=2 h=1"), 3);
  KdaDecodeCase wrong = c;
  wrong.state_indices.set_int(0, 9);
  ASSERT_EQ(capture.begin(captured.stream, 0), hip::kSuccess);
  EXPECT_EQ(c.run(kHip, captured).message(),
            "kda_decode: stream: is being captured, needs one that is not with SILT_DEBUG=1 or Launch::debug: memory "
            "cannot be read there, and a replay would go unchecked");
  EXPECT_TRUE(c.run(kHip, beside).ok());
  EXPECT_EQ(wrong.run(kHip, beside).message(), "kda_decode: state_indices[0]: has 9, needs -1..2");
  ASSERT_EQ(capture.end(captured.stream, &graph), hip::kSuccess);
  ASSERT_EQ(capture.destroy(graph), hip::kSuccess);
  EXPECT_TRUE(c.run(kHip, captured).ok());
}

}  // namespace
}  // namespace silt
