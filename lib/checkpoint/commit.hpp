// What a keeper of storage does in the folder of a run around a checkpoint that is staged there: room before it, and
// what follows its commit, which no failure undoes. Local; who calls it when: checkpoint/save_stages.hpp,
// checkpoint/promote.hpp.
#pragma once

#include "base/error.hpp"
#include "base/files.hpp"
#include "store/retention.hpp"
#include "store/trash.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// What may fail without consequence, but is told.
template <class Work>
void attempt(std::vector<std::string>& problems, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    problems.emplace_back(error.what());
  }
}

/// Deletes all trash of the run now. `trash`, which may be null, deletes it otherwise beside the caller. Throws
/// Error(storage).
void empty_trash_now(const Path& run, TrashCollector* trash);

/// Retention where there is no room for a new checkpoint: as if it were there, but never without a sound one.
Retention without_one(Retention retention);

/// Removes what killed jobs left, and trash where there is no room for `bytes`; returns whether there is then. With
/// `is_scarce` there is none, whatever the file system counts as free.
bool clear_room(const Path& run, std::uint64_t bytes, bool is_scarce, TrashCollector* trash);

/// The same where one keeper decides alone: where that is not enough, older checkpoints go. Returns their steps. Never
/// throws: what cannot be removed is told after the commit, by which it is tried again.
std::vector<std::int64_t> make_room(const Path& run, std::uint64_t bytes, bool is_scarce, const Retention& retention,
                                    TrashCollector* trash);

/// Makes trash of these checkpoints, where they are there.
void remove_steps(const Path& run, const std::vector<std::int64_t>& steps, std::vector<std::string>& problems);

/// Removes leftovers and wakes who deletes trash.
void clear_away(const Path& run, TrashCollector* trash, std::vector<std::string>& problems);

struct Committed {
  std::vector<std::int64_t> retired;
  std::vector<std::string> problems;
};
/// Renames what is staged, with its manifest, to the checkpoint of `step`, then writes the advice and lets older ones
/// go. Throws Error(storage) where the rename fails.
Committed commit_staged(const Path& staging, const Path& run, std::int64_t step, const Retention& retention,
                        TrashCollector* trash);

}  // namespace lockstep
