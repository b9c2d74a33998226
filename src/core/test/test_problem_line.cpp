#include <gtest/gtest.h>

#include "core/problem_line.hpp"

namespace silt {
namespace {

struct Sample {
  int64_t t = 0;
  int64_t pad = 0;
  bool norm = true;
  float bound = -5.0F;
  int64_t count = 0;
  int64_t each = 0;

  template <class V>
  void fields(V& visit) {
    visit.size("t", t);
    visit.product("seqs", count, each);
    visit.value("pad", pad, 0);
    visit.flag("norm", norm, true);
    visit.real("bound", bound, -5.0F);
  }
};

Status parse(std::string_view text, Sample* sample) {
  ProblemLine line;
  if (Status status = parse_line(text, &line); !status.ok()) return status;
  LineParser parser(line);
  sample->fields(parser);
  return parser.finish();
}

TEST(ProblemLine, PrintsWhatParsesBack) {
  for (const char* text :
       {"op t=1 seqs=0x0", "op t=64 seqs=8x1024 pad=7", "op t=0 seqs=1x2 norm=0 bound=-2.5", "op t=-3 seqs=1x1"}) {
    Sample sample;
    ASSERT_TRUE(parse(text, &sample).ok()) << text;
    LinePrinter printer("op");
    sample.fields(printer);
    EXPECT_EQ(printer.text(), text);
  }
}

TEST(ProblemLine, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "empty"},
      {"op", "t: missing"},
      {"op t=1", "seqs: has \"\", needs two whole numbers"},
      {"op t=1 seqs=8", "seqs: has \"8\", needs two whole numbers, as in 8x1024"},
      {"op t=1 seqs=8x", "seqs: has \"8x\", needs two whole numbers"},
      {"op t=1 seqs=ax3", "seqs: has \"ax3\", needs two whole numbers"},
      {"op t", "\"t\": needs key=value"},
      {"op t=", "needs key=value"},
      {"op t=1 t=2", "t: given twice"},
      {"op t=1x", "needs a whole number"},
      {"op t=99999999999999999999", "needs a whole number"},
      {"op t=1 seqs=1x1 norm=2", "norm: has 2, needs 0 or 1"},
      {"op t=1 seqs=1x1 bound=low", "needs a number"},
      {"op t=1 seqs=1x1 tpyo=2", "tpyo: unknown key, known are t seqs pad norm bound"},
  };
  for (const auto& [text, expected] : wrong) {
    Sample sample;
    const Status status = parse(text, &sample);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << text;
    EXPECT_NE(status.message().find(expected), std::string::npos) << text << " gave " << status.message();
  }
}

}  // namespace
}  // namespace silt
