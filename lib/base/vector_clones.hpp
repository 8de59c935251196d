// LOCKSTEP_CLONES compiles a function with arithmetic loops for three instruction sets. The program chooses one when it
// starts. Intrinsics: base/vector_intrinsics.hpp.
#pragma once

// Sanitizers run before that choice is made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define LOCKSTEP_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define LOCKSTEP_CLONES
#endif
