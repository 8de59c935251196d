#include "store/tokenizer_record.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "store/manifest.hpp"

#include <algorithm>

namespace lockstep {

namespace {

std::optional<Defect> defect_of_file(const Path& path, const std::string& hash) {
  Defect defect{VerifyLevel::hashes, path.string(), "", ""};
  defect.hint = "the dataset of the run has the same files in its folder tokenizer";
  try {
    if (!is_there(path)) {
      defect.message = fmt::format("{} is missing: the checkpoint was saved with it", path.string());
      return defect;
    }
    if (to_hex(hash128(read_file(path))) == hash) return std::nullopt;
    defect.message = fmt::format("{} was changed after the checkpoint was saved: its hash differs", path.string());
  } catch (const Error& error) {
    defect.message = error.what();
    if (error.code() == ExitCode::storage) defect.verdict = Verdict::unreadable;
  }
  return defect;
}

}  // namespace

std::string tokenizer_record(const std::vector<std::pair<std::string, std::string>>& files) {
  Json record = Json::object();
  for (const auto& [name, content] : files) record[name] = to_hex(hash128(content));
  return to_text(record);
}

std::vector<Defect> tokenizer_defects(const Path& checkpoint) {
  std::vector<Defect> defects;
  const Path file = checkpoint / manifest_file;
  const Manifest manifest = parse_manifest(read_file(file), file.string());
  const Path folder = absolute_path(checkpoint).parent_path().parent_path() / "tokenizer";
  const auto found =
      std::ranges::find(manifest.documents, tokenizer_document, &std::pair<std::string, std::string>::first);
  if (found == manifest.documents.end() || !is_there(folder)) return defects;
  const Json record = Json::parse(found->second, nullptr, false);
  if (!record.is_object())
    return {{VerifyLevel::hashes, std::string(manifest_file), "", "its record of the tokenizer is not an object"}};
  for (const auto& [name, hash] : record.items()) {
    const bool known = hash.is_string() && Path(name).filename() == name;
    if (!known)
      defects.push_back({VerifyLevel::hashes, std::string(manifest_file), "",
                         fmt::format("its record of the tokenizer has an invalid entry '{}'", name)});
    else if (auto defect = defect_of_file(folder / name, hash.get<std::string>()))
      defects.push_back(std::move(*defect));
  }
  return defects;
}

}  // namespace lockstep
