// The vector intrinsics of x86-64. LOCKSTEP_INTRINSICS is defined if this compiler has them for this processor.
// Functions that use them name their instruction sets in a target attribute, and are called only if the processor has
// these. Loops that compilers vectorise: base/vector_clones.hpp.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define LOCKSTEP_INTRINSICS
#ifndef __clang__
// GCC 12 warns about deliberately undefined operands in its own intrinsics.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif
