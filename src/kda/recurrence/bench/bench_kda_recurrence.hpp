// kda_recurrence as silt-bench measures it.
#pragma once

#include "bench/subject.hpp"

namespace silt::bench {

Room kda_recurrence_room();

}  // namespace silt::bench
