// The operators that silt-bench measures: the one file of the program that names them all.
#include "attn_res/bench/bench_attn_res.hpp"
#include "attn_res/two_phase/bench/bench_attn_res_two_phase.hpp"
#include "bench/subject.hpp"
#include "core/status.hpp"
#include "kda/conv_update/bench/bench_causal_conv1d_update.hpp"
#include "kda/decode/bench/bench_kda_decode.hpp"
#include "kda/gated_norm/bench/bench_rms_norm_gated.hpp"
#include "kda/prefill/bench/bench_kda_prefill.hpp"
#include "kda/recurrence/bench/bench_kda_recurrence.hpp"

namespace silt::bench {

const std::vector<Room>& rooms() {
  static const std::vector<Room> all = {attn_res_room(),       attn_res_partials_room(), attn_res_merge_room(),
                                        kda_decode_room(),     kda_prefill_room(),       causal_conv1d_update_room(),
                                        kda_recurrence_room(), rms_norm_gated_room()};
  return all;
}

Status find_room(std::string_view op, const Room** room) {
  std::string known;
  for (const Room& entry : rooms()) {
    if (entry.op == op) {
      *room = &entry;
      return {};
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.op);
  }
  return invalid("operator: has \"{}\", needs one of {}", op, known);
}

Status make_subject(std::string_view text, std::unique_ptr<Subject>* subject) {
  ProblemLine line;
  SILT_TRY(parse_line(text, &line));
  const Room* room = nullptr;
  SILT_TRY(find_room(line.op, &room));
  return room->make(line, subject);
}

}  // namespace silt::bench
