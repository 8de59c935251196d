// Makes an output in one job at a time: a second job waits for the first, and then checks again whether the output
// exists. The folder itself: base/output_folder.hpp.
#pragma once

#include "base/output_folder.hpp"
#include "comm/session.hpp"
#include "report/log.hpp"

#include <functional>
#include <memory>
#include <optional>

namespace lockstep {

/// The folders in which all ranks write the output and their temporary files.
struct OutputPaths {
  Path content;
  Path scratch;
};

/// Creates the folder of an output: rank 0 calls `make` and stores the result in `output`. Returns its paths on all
/// ranks. While another process makes the same output, all ranks wait; rank 0 logs this once. `is_there` (Collective)
/// is called before each attempt. Once it returns true, nothing is created and nothing is returned. Collective over the
/// session's world. Ends with Error(verdict) on a stop request. Throws the errors of OutputFolder except LockHeld.
std::optional<OutputPaths> take_turn(Session& session, Log& log, std::unique_ptr<OutputFolder>& output,
                                     const std::function<std::unique_ptr<OutputFolder>()>& make,
                                     const std::function<bool()>& is_there);

}  // namespace lockstep
