// Work that may fail on some ranks, with an agreed result: either every rank continues, or every rank throws the same
// error (an AgreedError, comm/failure.hpp). Inside the step loop the heartbeat (comm/heartbeat.hpp) does this without a
// collective of its own.
#pragma once

#include "comm/communicator.hpp"

#include <functional>
#include <string_view>

namespace lockstep {

/// Runs `work` (Local: it must not communicate; a collective inside it throws Error(bug)), then agrees on the result.
/// If it failed on any rank, all ranks throw the same AgreedError. It has the exit code and hint of the worst failure,
/// and the message "rank 3 (node17): <what>: …". A message that all ranks share names no rank; further different
/// messages are counted. Collective over `ranks`.
void together(Communicator& ranks, std::string_view what, const std::function<void()>& work);

/// Runs `work` on rank 0 for all ranks: all ranks receive its text, or throw its error. Collective over `ranks`.
std::string run_on_rank0(Communicator& ranks, std::string_view what, const std::function<std::string()>& work);

/// Throws AgreedError(usage) on all ranks unless `value` is equal on all of them. The message shows two values that
/// differ.
/// Collective over `ranks`.
void agree_equal(Communicator& ranks, std::string_view what, std::string_view value);

}  // namespace lockstep
