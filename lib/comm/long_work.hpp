// Local work of any length on all ranks, while the watchdog observes them. comm/together.hpp is for short work: there a
// rank that finishes early waits without a sign of life.
#pragma once

#include "comm/session.hpp"

#include <functional>
#include <string_view>

namespace lockstep {

/// Runs `work` on a thread of its own and agrees on the outcome as together() does. `work` calls `alive` as it makes
/// progress. Ranks that have finished wait for the others as long as these call `alive`; the watchdog names a rank that
/// does not. `alive` throws Error(verdict) on a stop request, and ends the work if another rank has failed. Collective
/// over the session's world.
void long_work_together(Session& session, std::string_view what,
                        const std::function<void(const std::function<void()>& alive)>& work);

}  // namespace lockstep
