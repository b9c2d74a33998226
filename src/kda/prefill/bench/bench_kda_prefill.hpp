// kda_prefill as silt-bench measures it.
#pragma once

#include "bench/subject.hpp"

namespace silt::bench {

Room kda_prefill_room();

}  // namespace silt::bench
