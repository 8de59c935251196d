// A prepared dataset as training opens it: the manifest, its tokenizer, and the token streams of its splits. The files
// themselves: store/token_shards.hpp.
#pragma once

#include "base/files.hpp"
#include "base/output_folder.hpp"
#include "store/token_shards.hpp"
#include "tokenizer/tokenizer.hpp"

#include <memory>
#include <string>

namespace lockstep {

/// The file, in the folder of a dataset made from text, that stores the stamps and content sums of its input files
/// (prepare/input_contents.hpp).
constexpr const char* input_memory_name = "INPUTS.json";

struct Dataset {
  Path folder;
  DatasetManifest manifest;

  /// Opens a split. Throws Error(input) if it holds no tokens, with a hint on how to get one.
  TokenStream open(DataSplit split) const;
  /// Returns the tokenizer that made the tokens. Throws Error(input) if it is missing or is not the one that the
  /// manifest names.
  std::unique_ptr<Tokenizer> tokenizer() const;
};

/// Describes the output of prepare-data, and the folders that it may replace.
OutputKind dataset_output();

/// Whether `path` names a dataset, a part of one, or a folder that contains one. In these cases open_dataset opens it
/// or says which name to use. Local.
bool leads_to_dataset(const Path& path);

/// Opens the dataset in `folder`. Local. If it holds none, throws Error(input); the hint says which folder to name
/// instead, or gives the command that makes the dataset.
Dataset open_dataset(const Path& folder);

}  // namespace lockstep
