// MixtureSchedule statuses of ranks into words: the ranks that hold up the others, and a table with ranks of equal
// status merged. Pure. The statuses: comm/rank_board.hpp.
#pragma once

#include "comm/rank_board.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// "forward of step 3", "start-up".
std::string text_of(Phase phase, std::int64_t step);

/// The ranks that the others wait for: ranks whose process is gone or stopped; if there are none, ranks whose machine
/// does not report; if there are none, ranks that do not wait. Empty if every rank waits for another.
std::vector<RankStatus> blocking_ranks(const std::vector<RankStatus>& ranks);

/// "rank 2 (node17) in forward of step 3 for 3.1 s, its process is stopped"; ranks of equal status in one phrase.
std::string headline(const std::vector<RankStatus>& blocking_ranks);

/// One line for all ranks of equal status. Each line begins with two spaces:
/// "  ranks 0-1,3 (node17): reduction of step 3 for 3.0 to 3.1 s, waiting for other ranks".
std::string table_of(const std::vector<RankStatus>& ranks);

}  // namespace lockstep
