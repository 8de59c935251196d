// Inputs of prepare-data that are datasets of the Hugging Face hub: which of their files are wanted, from the cache of
// this machine where it has them, else fetched into it. Which words name such datasets: remote/hub_files.hpp.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/prepare_config.hpp"

#include <string>
#include <vector>

namespace lockstep {

struct LocalInputs {
  std::vector<std::string> words;  // paths in place of datasets of the hub
  bool complete = true;            // false of a dry run that fetched nothing, and said what a run would fetch
};

/// Rank 0 asks and fetches, so that its environment counts. Nobody is asked where the cache has what is wanted.
/// Collective over the session's world. Throws Error(usage) for options of the hub where no input is of it,
/// Error(input) and Error(storage) as HubClient and HubCache do.
LocalInputs bring_hub_inputs(const PrepareConfig& config, Session& session, Output& output);

}  // namespace lockstep
