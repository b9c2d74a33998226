// rms_norm_gated as silt-bench measures it.
#pragma once

#include "bench/subject.hpp"

namespace silt::bench {

Room rms_norm_gated_room();

}  // namespace silt::bench
