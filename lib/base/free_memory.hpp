// A deleter for memory of std::malloc and std::aligned_alloc.
#pragma once

#include <cstdlib>

namespace lockstep {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

}  // namespace lockstep
