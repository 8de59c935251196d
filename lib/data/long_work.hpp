// Local work of any length on all ranks, while the watchdog looks on: comm/together.hpp is for what is short, since a
// rank that is done early waits there without a sign of life.
#pragma once

#include "comm/session.hpp"

#include <functional>
#include <string_view>

namespace lockstep {

/// Runs `work` on a thread of its own, which calls `alive` as it gets on, and agrees on the outcome as together() does.
/// Ranks that are done wait for the others as long as these are alive: the watchdog names one that is not. `alive`
/// throws Error(verdict) on a request to stop, and ends the work where another rank has failed. Collective over the
/// session's world.
void long_work_together(Session& session, std::string_view what,
                        const std::function<void(const std::function<void()>& alive)>& work);

}  // namespace lockstep
