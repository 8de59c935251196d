// Memory of tensors: an allocator that takes huge pages from the system once and keeps them. A training step asks for
// the same sizes again and again. Pages that are returned would be zeroed and mapped anew each time, and with small
// pages address translation costs more than the reads.
#pragma once

namespace lockstep {

/// Installs the allocator. From then on LibTorch's CPU tensors of 64 KiB and more use memory that is reused and never
/// returned to the system; smaller tensors use malloc, which keeps freed memory too. The bytes that tensors ask for are
/// counted (tensor/live_memory.hpp). Called once per process, before its first tensor. Local.
void keep_memory();

}  // namespace lockstep
