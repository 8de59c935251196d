// Statuses of ranks become words here: who holds up the others, and a table that folds ranks of equal status. Pure.
#pragma once

#include "comm/rank_board.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// "forward of step 3", "start-up".
std::string text_of(Phase phase, std::int64_t step);

/// The ranks that the others wait for: whose process is gone or stopped, else whose machine gives no sign, else those
/// that do not wait. Empty if every rank waits for another.
std::vector<RankStatus> culprits(const std::vector<RankStatus>& ranks);

/// "rank 2 (node17) in forward of step 3 for 3.1 s, its process is stopped"; several ranks of equal status in one
/// phrase.
std::string headline(const std::vector<RankStatus>& culprits);

/// One line for all ranks of equal status, each beginning with two spaces:
/// "  ranks 0-1,3 (node17): reduction of step 3 for 3.0 to 3.1 s, waiting for other ranks".
std::string table_of(const std::vector<RankStatus>& ranks);

}  // namespace lockstep
