// attn_res as silt-bench measures it.
#pragma once

#include "bench/subject.hpp"

namespace silt::bench {

Room attn_res_room();

}  // namespace silt::bench
