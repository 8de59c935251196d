// The output of a job, which one job makes at a time: a second one waits for the first, and looks again what is there.
#pragma once

#include "base/output_folder.hpp"
#include "comm/session.hpp"
#include "report/log.hpp"

#include <functional>
#include <memory>
#include <optional>

namespace lockstep {

/// Where all ranks write what becomes the output, and what does not last.
struct OutputPaths {
  Path content;
  Path scratch;
};

/// Makes the folder of an output on rank 0, by `make`, into `output`, with what paths it has. As long as another
/// process is making the same output, waits for it, which rank 0 tells once. `is_there` is asked before each attempt:
/// nothing is made, and nothing returned, once it says that what is wanted is there; it is Collective. Collective over
/// the session's world. Ends with Error(verdict) on a request to stop; throws what OutputFolder throws but LockHeld.
std::optional<OutputPaths> take_turn(Session& session, Log& log, std::unique_ptr<OutputFolder>& output,
                                     const std::function<std::unique_ptr<OutputFolder>()>& make,
                                     const std::function<bool()>& is_there);

}  // namespace lockstep
