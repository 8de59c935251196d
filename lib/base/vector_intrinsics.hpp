// The vector instructions of x86-64 by name; LOCKSTEP_INTRINSICS says whether this compiler has them for this
// processor. Functions that use them say for which instructions they are compiled (target attribute), and are called
// where the processor has these. Loops that compilers turn into vectors by themselves: base/vector_clones.hpp.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define LOCKSTEP_INTRINSICS
#ifndef __clang__
// GCC 12 takes the deliberately undefined operands inside its own intrinsics for mistakes.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif
