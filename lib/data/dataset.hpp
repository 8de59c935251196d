// A prepared dataset as training opens it: the manifest, the tokenizer it carries, and the token streams of its splits.
// The files themselves: store/token_shards.hpp.
#pragma once

#include "base/files.hpp"
#include "base/output_folder.hpp"
#include "corpus/tokenizer.hpp"
#include "store/token_shards.hpp"

#include <memory>
#include <string>

namespace lockstep {

/// In the folder of a dataset of text: what its input files had when they were read (data/input_contents.hpp).
constexpr const char* input_memory_name = "INPUTS.json";

struct Dataset {
  Path folder;
  DatasetManifest manifest;

  /// Throws Error(input) if the split holds no tokens, with a hint on how to get one.
  TokenStream open(DataSplit split) const;
  /// The tokenizer that made the tokens. Throws Error(input) if it is missing or not the one that the manifest names.
  std::unique_ptr<Tokenizer> tokenizer() const;
};

/// What prepare-data makes, and what may be replaced by it.
OutputKind dataset_output();

/// Whether a name is that of a dataset, of a part of one, or of a folder with one in it: open_dataset then opens it or
/// says what to name. Local.
bool leads_to_dataset(const Path& path);

/// Local. Where `folder` holds no dataset: Error(input) whose hint is what to name instead, or the command that makes
/// one.
Dataset open_dataset(const Path& folder);

}  // namespace lockstep
