// Work that may fail on some ranks, agreed by all: either every rank goes on, or every rank throws the same error (an
// AgreedError, comm/failure.hpp). Inside the step loop the heartbeat does this without a collective of its own:
// comm/heartbeat.hpp.
#pragma once

#include "comm/communicator.hpp"

#include <functional>
#include <string_view>

namespace lockstep {

/// Runs `work` (Local: it must not communicate; a collective inside it throws Error(bug)), then agrees. If it failed
/// anywhere, all ranks throw the same AgreedError: the worst failing rank's code, message "rank 3 (node17): <what>: …"
/// and hint; a message that all ranks share names no rank; distinct further messages are counted. Collective over
/// `ranks`.
void together(Communicator& ranks, std::string_view what, const std::function<void()>& work);

/// The same for one rank that works for all: rank 0 runs `work`, and all ranks get its text or its error. Collective
/// over `ranks`.
std::string rank0_tells(Communicator& ranks, std::string_view what, const std::function<std::string()>& work);

/// Throws AgreedError(usage) on all ranks unless `value` is equal on all of them; the message shows two that differ.
/// Collective over `ranks`.
void agree_equal(Communicator& ranks, std::string_view what, std::string_view value);

}  // namespace lockstep
