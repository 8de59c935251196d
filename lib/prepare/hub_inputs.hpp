// Inputs of prepare-data that are datasets of the Hugging Face hub. Chooses their files, and fetches the ones that are
// missing into the cache of this machine. The syntax of their names: remote/hub_files.hpp.
#pragma once

#include "app/output.hpp"
#include "comm/session.hpp"
#include "config/prepare_config.hpp"

#include <string>
#include <vector>

namespace lockstep {

/// Whether an input is a dataset of the hub: hf://datasets/OWNER/NAME, or OWNER/NAME if no path can be meant. Throws
/// Error(usage) for other words that begin with "hf:". Local.
bool names_hub_dataset(const std::string& word);

struct LocalInputs {
  std::vector<std::string> words;  // the inputs, with paths in place of hub datasets
  // false if a dry run would have to fetch files; it fetched none and said which ones
  bool complete = true;
};

/// Returns the inputs as local paths. Rank 0 contacts the hub and fetches, so its environment applies. The hub is not
/// contacted if the cache has the wanted files. Collective over the session's world. Throws Error(usage) for options of
/// the hub that apply to no input; Error(input) and Error(storage) as HubClient and HubCache do.
LocalInputs bring_hub_inputs(const PrepareConfig& config, Session& session, Output& output);

}  // namespace lockstep
