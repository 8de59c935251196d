// Where the memory of tensors comes from: huge pages, taken from the system once and kept. A training step asks for the
// same sizes again and again; pages that went back would be zeroed and mapped anew each time, and in small pages
// address translation costs more than the reads.
#pragma once

namespace lockstep {

/// From now on LibTorch's CPU tensors of 64 KiB and more live in memory that is reused and never given back; smaller
/// ones come from malloc, which keeps what is freed too. What tensors ask for is counted (tensor/live_memory.hpp). Once
/// per process, before its first tensor. Local.
void keep_memory();

}  // namespace lockstep
