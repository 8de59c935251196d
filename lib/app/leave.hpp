// The end of a process without destructors of libraries.
#pragma once

namespace lockstep {

/// Ends the process with `code` after flushing C streams. Static objects and libraries are not destroyed: for LibTorch
/// that takes longer than a step of a small model. (Builds with AddressSanitizer exit normally, to detect leaks.) Our
/// own files are closed before. Local.
[[noreturn]] void leave(int code);

}  // namespace lockstep
