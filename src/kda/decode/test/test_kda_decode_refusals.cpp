// kda_decode: what is refused, what a comparison finds, what lines and costs say.
#include "core/problem_line.hpp"
#include "kda/decode/test/kda_decode_test.hpp"

namespace silt {
namespace {

class Refusals : public EveryKernel {};

// 14, 34: every wrong argument alone; nothing is written
TEST_P(Refusals, WrongArgumentsAreNamed) {
  using A = KdaDecodeArgs;
  struct Wrong {
    const char* text;
    void (*plant)(A&);
  };
  static float floats[4096];
  const Wrong wrong[] = {
      {"x: has a null pointer, needs 3072 elements", [](A& a) { a.x.data = nullptr; }},
      {"x: dtype: has i32, needs bf16 or f32", [](A& a) { a.x.dtype = DType::i32; }},
      {"x: shape: has [4], needs [B, 3 * 128 * H]", [](A& a) { a.x.rank = 1; }},
      {"x: shape: has [4, 767], needs [B, 3 * 128 * H]", [](A& a) { a.x.shape[1] = 767; }},
      {"x: shape: has [4, 0], needs [B, 3 * 128 * H]", [](A& a) { a.x.shape[1] = 0; }},
      {"x: stride of axis 1: has 2, needs 1", [](A& a) { a.x.stride[1] = 2; }},
      {"x: stride of axis 0: has -768, needs at least 0", [](A& a) { a.x.stride[0] = -768; }},
      {"conv_weight: absent, needs [3, 4, 256]", [](A& a) { a.conv_weight = {}; }},
      {"conv_weight: dtype: has bf16, needs f32", [](A& a) { a.conv_weight.dtype = DType::bf16; }},
      {"conv_weight: shape: has [3, 4, 255], needs [3, 4, 256]", [](A& a) { a.conv_weight.shape[2] = 255; }},
      {"conv_weight: stride of axis 1: has 257, needs 256", [](A& a) { a.conv_weight.stride[1] = 257; }},
      {"conv_bias: shape: has [767], needs [768]", [](A& a) { a.conv_bias.shape[0] = 767; }},
      {"conv_bias: dtype: has i32, needs f32", [](A& a) { a.conv_bias.dtype = DType::i32; }},
      {"conv_state: absent, needs [5, 768, 3]", [](A& a) { a.conv_state = {}; }},
      {"conv_state: dtype: has f32, needs bf16", [](A& a) { a.conv_state.dtype = DType::f32; }},
      {"conv_state: shape: has [6, 768, 3], needs [5, 768, 3]", [](A& a) { a.conv_state.shape[0] = 6; }},
      {"conv_state: shape: has [5, 768, 4], needs [5, 768, 3]", [](A& a) { a.conv_state.shape[2] = 4; }},
      {"conv_state: inner strides: has [2, 768], needs [1, 768] (SD) or [3, 1] (DS)",
       [](A& a) { a.conv_state.stride[1] = 2; }},
      {"conv_state: stride of axis 0: has 2303, needs at least 2304", [](A& a) { a.conv_state.stride[0] = 2303; }},
      {"raw_gate: absent, needs [4, 2, 128]", [](A& a) { a.raw_gate = {}; }},
      {"raw_gate: dtype: has f32, needs bf16", [](A& a) { a.raw_gate.dtype = DType::f32; }},
      {"raw_gate: shape: has [3, 2, 128], needs [4, 2, 128]", [](A& a) { a.raw_gate.shape[0] = 3; }},
      {"raw_gate: stride of axis 1: has 130, needs 128", [](A& a) { a.raw_gate.stride[1] = 130; }},
      {"raw_beta: absent, needs [4, 2]", [](A& a) { a.raw_beta = {}; }},
      {"raw_beta: dtype: has f32, needs bf16", [](A& a) { a.raw_beta.dtype = DType::f32; }},
      {"raw_beta: shape: has [4, 3], needs [4, 2]", [](A& a) { a.raw_beta.shape[1] = 3; }},
      {"A_log: absent, needs [2]", [](A& a) { a.A_log = {}; }},
      {"A_log: dtype: has bf16, needs f32", [](A& a) { a.A_log.dtype = DType::bf16; }},
      {"A_log: shape: has [3], needs [2]", [](A& a) { a.A_log.shape[0] = 3; }},
      {"dt_bias: shape: has [2, 127], needs [2, 128]", [](A& a) { a.dt_bias.shape[1] = 127; }},
      {"dt_bias: absent, needs [2, 128]", [](A& a) { a.dt_bias = {}; }},
      {"state_indices: dtype: has f32, needs i32", [](A& a) { a.state_indices = view(floats, {4}); }},
      {"state_indices: shape: has [5], needs [4]", [](A& a) { a.state_indices.shape[0] = 5; }},
      {"state_indices: stride of axis 0: has 2, needs 1", [](A& a) { a.state_indices.stride[0] = 2; }},
      {"state: shape: has [5, 2, 128], needs [slots, 2, 128, 128]", [](A& a) { a.state.rank = 3; }},
      {"state: shape: has [5, 3, 128, 128], needs [5, 2, 128, 128]", [](A& a) { a.state.shape[1] = 3; }},
      {"state: shape: has [5, 2, 64, 128], needs [5, 2, 128, 128]", [](A& a) { a.state.shape[2] = 64; }},
      {"state: dtype: has i32, needs f32 or bf16", [](A& a) { a.state.dtype = DType::i32; }},
      {"state: stride of axis 0: has 32767, needs at least 32768", [](A& a) { a.state.stride[0] = 32767; }},
      {"state: stride of axis 2: has 129, needs 128", [](A& a) { a.state.stride[2] = 129; }},
      {"state: has a null pointer, needs 163840 elements", [](A& a) { a.state.data = nullptr; }},
      {"output_gate: absent, needs [4, 2, 128]", [](A& a) { a.output_gate = {}; }},
      {"output_gate: dtype: has f32, needs bf16", [](A& a) { a.output_gate.dtype = DType::f32; }},
      {"norm_weight: absent, needs [128]", [](A& a) { a.norm_weight = {}; }},
      {"norm_weight: shape: has [64], needs [128]", [](A& a) { a.norm_weight.shape[0] = 64; }},
      {"output: absent, needs [4, 2, 128]", [](A& a) { a.output = {}; }},
      {"output: dtype: has f32, needs bf16", [](A& a) { a.output.dtype = DType::f32; }},
      {"output: shape: has [4, 2, 64], needs [4, 2, 128]", [](A& a) { a.output.shape[2] = 64; }},
      {"output: stride of axis 0: has 255, needs at least 256", [](A& a) { a.output.stride[0] = 255; }},
      {"lower_bound: has 0, needs [-5, 0)", [](A& a) { a.lower_bound = 0; }},
      {"lower_bound: has -6, needs [-5, 0)", [](A& a) { a.lower_bound = -6; }},
      {"lower_bound: has nan, needs [-5, 0)", [](A& a) { a.lower_bound = kNaN; }},
      {"norm_eps: has nan, needs a finite number >= 0", [](A& a) { a.norm_eps = kNaN; }},
      {"norm_eps: has -1, needs a finite number >= 0", [](A& a) { a.norm_eps = -1; }},
      {"norm_eps: has inf, needs a finite number >= 0", [](A& a) { a.norm_eps = kInf; }},
      {"null_slot: has 1, needs 0 or -1", [](A& a) { a.null_slot = 1; }},
      {"output: has memory of x, needs memory of its own", [](A& a) { a.output.data = const_cast<void*>(a.x.data); }},
      {"output: has memory of raw_gate, needs memory of its own",
       [](A& a) { a.output.data = const_cast<void*>(a.raw_gate.data); }},
      {"output: has memory of output_gate, needs memory of its own",
       [](A& a) { a.output.data = const_cast<void*>(a.output_gate.data); }},
      {"output: has memory of state, needs memory of its own", [](A& a) { a.output.data = a.state.data; }},
      // The smaller one inside the larger one, which could reach more tensors the other way round.
      {"state: has memory of conv_state, needs memory of its own", [](A& a) { a.conv_state.data = a.state.data; }},
      {"conv_state: has memory of x, needs memory of its own", [](A& a) { a.x.data = a.conv_state.data; }},
      {"state: device: has ",
       [](A& a) {
         a.state.device = {a.x.device.kind == DeviceKind::cpu ? DeviceKind::cuda : DeviceKind::cpu, 0};
       }},
      {"dt_bias: device: has ",
       [](A& a) {
         a.dt_bias.device = {a.x.device.kind == DeviceKind::cpu ? DeviceKind::cuda : DeviceKind::cpu, 0};
       }},
  };
  KdaDecodeCase c(problem_of("kda_decode b=4 h=2 bias=1"), 21);
  ASSERT_TRUE(c.upload(here().device).ok());
  const std::vector<std::byte> before[] = {c.state.bytes(), c.conv_state.bytes(), c.output.bytes()};
  for (const Wrong& w : wrong) {
    A args = c.args();
    w.plant(args);
    const Status status = kda_decode(args, launch());
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << w.text;
    const std::string text = std::string("kda_decode: ") + w.text;
    EXPECT_EQ(status.message().substr(0, text.size()), text);
  }
  ASSERT_TRUE(c.download().ok());
  EXPECT_TRUE(expect_bitwise("state", c.state.bytes(), before[0]).ok);
  EXPECT_TRUE(expect_bitwise("conv_state", c.conv_state.bytes(), before[1]).ok);
  EXPECT_TRUE(expect_bitwise("output", c.output.bytes(), before[2]).ok);
  expect_right(c);  // the case itself is right
}

// 35
TEST(Policies, AnUnknownKernelNamesTheKnownOnes) {
  KdaDecodeCase c(problem_of("kda_decode b=2 h=1"), 22);
  const Status status = c.run({}, {.policy = Policy::require("cpu_plain_row")});
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_NE(status.message().find("needs one of "), std::string::npos);
  EXPECT_NE(status.message().find("cpu_plain_rows, cpu_reference"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(KdaDecode, Refusals, testing::ValuesIn(kernels_here("kda_decode")), kernel_name);

// verify finds what it must find
TEST(Planted, EveryFaultIsFound) {
  const std::pair<const char*, void (*)(KdaDecodeCase&)> faults[] = {
      {"output element", [](KdaDecodeCase& c) { c.output.set(300, c.output.get(300) * 1.02F + 0.01F); }},
      {"output NaN", [](KdaDecodeCase& c) { c.output.set(300, kNaN); }},
      {"swapped output rows",
       [](KdaDecodeCase& c) {
         const CaseTensor was = c.output;
         copy(was, 0, c.output, 256, 256);
         copy(was, 256, c.output, 0, 256);
       }},
      {"padding row", [](KdaDecodeCase& c) { c.output.set(4 * 256 + 9, 1e-3F); }},
      {"state row",
       [](KdaDecodeCase& c) {
         const int64_t at = c.state_indices.get_int(2) * 32768 + 77 * kDim;
         for (int64_t i = at; i < at + kDim; ++i) c.state.set(i, c.state.get(i) * (1 + 3e-5F));
       }},
      {"state NaN", [](KdaDecodeCase& c) { c.state.set(c.state_indices.get_int(1) * 32768 + 5, kNaN); }},
      {"history bit",
       [](KdaDecodeCase& c) {
         const int64_t at = c.state_indices.get_int(1) * 2304 + 17;
         c.conv_state.host<bf16>()[at].bits ^= 1;
       }},
      {"null slot", [](KdaDecodeCase& c) { c.state.set(77, 0.5F); }},
      {"history of the null slot", [](KdaDecodeCase& c) { c.conv_state.set(77, 0.5F); }},
  };
  const KdaDecodeProblem problem = problem_of("kda_decode b=5 h=2 padded=1");
  KdaDecodeCase right(problem, 23);
  ASSERT_TRUE(right.run({}, {}).ok());
  ASSERT_TRUE(right.verify().ok);
  ASSERT_TRUE(kda::is_padding(right.state_indices.get_int(4), 0, problem.slots));
  for (const auto& [name, plant] : faults) {
    KdaDecodeCase c = right;
    plant(c);
    EXPECT_FALSE(c.verify().ok) << name;
  }
}

TEST(Problem, LinesSayWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"kda_decode b=1", "kda_decode: h: missing, needs a number"},
      {"kda_decode b=1 h=0", "kda_decode: b, h: has 1, 0, needs b >= 0, h >= 1"},
      {"kda_decode b=1 h=1 null=2", "kda_decode: null: has 2, needs 0 or -1"},
      {"kda_decode b=3 h=1 slots=3", "kda_decode: slots: has 3, needs at least 4 (live rows and the null slot)"},
      {"kda_decode b=3 h=1 padded=4", "kda_decode: padded: has 4, needs 0..3"},
      {"kda_decode b=1 h=1 lower_bound=-6", "kda_decode: lower_bound: has -6, needs [-5, 0)"},
      {"kda_decode b=1 h=1 gate=hard", "kda_decode: gate: has \"hard\", needs one of safe, softplus"},
      {"kda_decode b=1 h=1 layout=xx", "kda_decode: layout: has \"xx\", needs one of sd, ds"},
      {"kda_decode b=1 h=1 state=f16", "kda_decode: state: has \"f16\", needs one of bf16, f32"},
      {"kda_decode b=1 h=1 align=3", "kda_decode: align: has 3, needs 2, 4, 8 or 16"},
      {"kda_decode b=1 h=1 dtype=f32 align=2", "kda_decode: align: has 2, needs 2, 4, 8 or 16 and at least"},
      {"kda_decode b=1 h=1 output_stride=127", "kda_decode: strides: have output 127"},
      {"kda_decode b=1 h=1 heads=3", "kda_decode: heads: unknown key"},
  };
  for (const auto& [text, expected] : wrong) {
    ProblemLine line;
    ASSERT_TRUE(parse_line(text, &line).ok());
    KdaDecodeProblem problem;
    const Status status = KdaDecodeProblem::parse(line, &problem);
    EXPECT_EQ(status.message().substr(0, std::string_view(expected).size()), expected) << text;
  }
}

TEST(Cost, BytesOfTheContract) {
  EXPECT_EQ(bytes(problem_of("kda_decode b=1 h=1")), 137218);
  EXPECT_EQ(bytes(problem_of("kda_decode b=4 h=12 state=bf16")), 4 * 12 * 71682);
  EXPECT_EQ(bytes(problem_of("kda_decode b=4 h=12 padded=1 norm=0")), 3 * 12 * (137218 - 256));
}

}  // namespace
}  // namespace silt
