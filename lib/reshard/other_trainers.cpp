#include "reshard/other_trainers.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "store/manifest.hpp"

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

namespace lockstep {

namespace {

// checkpoint_manifest.json, optimizer_state.pt, rng_state_0.pth, pytorch_model-00001-of-00002.bin, trainer_state.json
bool is_of_pytorch(const std::string& name) {
  const bool pickled = name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".distcp");
  return name == "checkpoint_manifest.json" || name == "trainer_state.json" || pickled ||
         (name.starts_with("pytorch_model") && name.find(".bin") != std::string::npos);
}

bool is_numbered(const std::string& name) {
  constexpr std::string_view prefix = "checkpoint-";
  return name.starts_with(prefix) && name.size() > prefix.size() &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
}

/// The names in a folder, sorted; none if it cannot be read, which whoever reads it next tells.
std::vector<std::string> names_in(const Path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> files_of_pytorch(const Path& folder) {
  std::vector<std::string> names = names_in(folder);
  if (std::ranges::find(names, manifest_file) != names.end()) return {};
  std::erase_if(names, [](const std::string& name) { return !is_of_pytorch(name); });
  return names;
}

[[noreturn]] void refuse(const Path& folder, std::vector<std::string> files) {
  constexpr std::size_t most = 3;
  const bool more = files.size() > most;
  files.resize(std::min(files.size(), most));
  throw Error(ExitCode::input,
              fmt::format("{} is a checkpoint of another trainer ({}{}), in PyTorch files, which this program does "
                          "not read",
                          folder.string(), join(files, ", "), more ? ", …" : ""),
              "export its weights with that trainer to a Hugging Face folder (safetensors and config.json); "
              "train --model.path FOLDER starts from them, and checkpoint-reshard FOLDER makes a checkpoint of them; "
              "optimizer state is not transferred");
}

}  // namespace

void refuse_other_trainers(const Path& folder) {
  if (auto files = files_of_pytorch(folder); !files.empty()) refuse(folder, std::move(files));
  for (const std::string& name : names_in(folder)) {
    if (!is_numbered(name)) continue;
    if (auto files = files_of_pytorch(folder / name); !files.empty()) refuse(folder / name, std::move(files));
  }
}

}  // namespace lockstep
