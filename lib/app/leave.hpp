// The end of a process whose libraries need not be taken down.
#pragma once

namespace lockstep {

/// Ends the process with `code` after writing out what C streams hold; nothing static is destroyed, nor what libraries
/// keep: LibTorch takes longer for that than for a step of a small model. Files of ours are closed by then. Local.
[[noreturn]] void leave(int code);

}  // namespace lockstep
