#include "data/dataset.hpp"

#include "base/error.hpp"
#include "corpus/tokenizers.hpp"

#include <filesystem>

namespace lockstep {

TokenStream Dataset::open(DataSplit split) const {
  if (manifest.of(split).tokens == 0) {
    throw Error(ExitCode::input, fmt::format("{} has no {} split", folder.string(), name_of(split)),
                "prepare the dataset again with --data.validation hash:FRACTION or tail:FRACTION");
  }
  return TokenStream(folder, manifest, split);
}

std::unique_ptr<Tokenizer> Dataset::tokenizer() const {
  auto tokenizer = load_tokenizer(folder / "tokenizer");
  if (tokenizer->hash() != manifest.tokenizer_hash) {
    fail(ExitCode::input, "{} is not the tokenizer that made the tokens: its hash is {}, DATASET.json says {}",
         (folder / "tokenizer").string(), to_hex(tokenizer->hash()), to_hex(manifest.tokenizer_hash));
  }
  return tokenizer;
}

Dataset open_dataset(const Path& folder, const std::string& command) {
  if (!is_there(folder / "DATASET.json")) {
    throw Error(ExitCode::input, fmt::format("no prepared dataset at {}", folder.string()),
                "make it with: " +
                    (command.empty() ? fmt::format("prepare-data TEXT… --output {}", folder.string()) : command));
  }
  return {folder, read_dataset_manifest(folder)};
}

}  // namespace lockstep
