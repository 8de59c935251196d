#include "base/error.hpp"
#include "base/json.hpp"
#include "base/mapped_file.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "exchange/safetensors.hpp"
#include "layout/box_runs.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>

namespace lockstep {

namespace {

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

/// The tensors of one or more mapped files.
class SafetensorsSource : public TensorSource {
 public:
  /// Adds the tensors of a file. One that a file before it has too is taken from this one.
  void add_file(const Path& path) {
    auto file = std::make_unique<MappedFile>(path);
    const auto parse = [&] { return parse_safetensors_header(file->bytes(), path.string()); };
    for (SafetensorsEntry& entry : read_mapped(*file, parse)) {
      const auto size = static_cast<std::size_t>(entry.end - entry.begin);
      const std::span bytes = file->bytes().subspan(static_cast<std::size_t>(entry.begin), size);
      const std::string name = entry.tensor.name;
      const auto [found, is_new] = locations_.emplace(name, Location{list_.size(), path, file.get(), bytes});
      if (is_new) {
        list_.push_back(std::move(entry.tensor));
        continue;
      }
      Location& before = found->second;
      const bool equal = list_[before.index] == entry.tensor && std::ranges::equal(before.bytes, bytes);
      require_intact(*before.file);
      require_intact(*file);
      repeated_.push_back({name, before.path.filename().string(), path.filename().string(), equal});
      list_[before.index] = std::move(entry.tensor);
      before = {before.index, path, file.get(), bytes};
    }
    files_.emplace_back(path, std::move(file));
  }

  const std::vector<TensorDescription>& list() const override { return list_; }

  void read(const std::string& name, const Box& box, std::span<std::byte> out) const override {
    const auto found = locations_.find(name);
    if (found == locations_.end()) fail(ExitCode::input, "the safetensors files have no tensor '{}'", name);
    const TensorDescription& tensor = list_[found->second.index];
    const std::span<const std::byte> bytes = found->second.bytes;
    if (!contains(whole(tensor.shape), box))
      fail(ExitCode::input, "box {} lies outside tensor '{}' {}", to_text(box), name, to_text(tensor.shape));
    const auto size = static_cast<std::size_t>(size_of(tensor.dtype));
    invariant(out.size() == static_cast<std::size_t>(elements(box)) * size,
              "a buffer as large as the box that is read");
    for_each_run(box, whole(tensor.shape), box, [&](const BoxRun& run) {
      std::memcpy(out.data() + static_cast<std::size_t>(run.in_b) * size,
                  bytes.data() + static_cast<std::size_t>(run.in_a) * size,
                  static_cast<std::size_t>(run.length) * size);
    });
    require_intact(*found->second.file);
  }

  /// The file that a tensor is taken from; empty if no file has it.
  std::string file_of(const std::string& name) const {
    const auto found = locations_.find(name);
    return found == locations_.end() ? std::string() : found->second.path.filename().string();
  }

  /// The names of all files.
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& [path, file] : files_) names.insert(path.filename().string());
    return names;
  }

  /// A tensor that two files have.
  struct Repeated {
    std::string name, before, after;  // the files; that of `after` counts
    bool equal = false;
  };
  const std::vector<Repeated>& repeated() const { return repeated_; }

 private:
  struct Location {
    std::size_t index = 0;  // in list_
    Path path;
    const MappedFile* file = nullptr;  // of files_
    std::span<const std::byte> bytes;  // in it
  };
  std::vector<std::pair<Path, std::unique_ptr<MappedFile>>> files_;
  std::vector<TensorDescription> list_;
  std::unordered_map<std::string, Location> locations_;
  std::vector<Repeated> repeated_;
};

/// Says which tensors several files have. Throws Error(input) for different ones if there is no `index`.
void remark_repeated(const SafetensorsSource& source, const Path& folder, bool index, Remarks& remarks) {
  std::vector<std::string> equal, different;
  for (const auto& [name, before, after, same] : source.repeated())
    (same ? equal : different).push_back(fmt::format("{} in {} and {}", name, before, after));
  if (!equal.empty())
    remarks.notes.push_back(fmt::format("{}: {} in two files, equal in both: {}", folder.string(),
                                        counted(std::ssize(equal), "tensor"), listed(equal)));
  if (different.empty()) return;
  const std::string what = fmt::format("{}: {} in two files, with different values: {}", folder.string(),
                                       counted(std::ssize(different), "tensor"), listed(different));
  if (!index)
    throw Error(ExitCode::input, what,
                fmt::format("remove the file that does not belong to the model, or add {}", index_name));
  remarks.warnings.push_back(what + "; the last file is used, as in transformers");
}

/// Tensor and file of each entry of an index. Throws Error(input) without the origin.
std::map<std::string, std::string> read_weight_map(const std::string& text, const std::string& origin) {
  const Json index = parse_json(text, origin);
  const auto found = index.is_object() ? index.find("weight_map") : index.end();
  if (found == index.end() || !found->is_object())
    fail(ExitCode::input, "{}: damaged index: it has no weight_map from names to files", origin);
  std::map<std::string, std::string> files;
  for (const auto& [name, value] : found->items()) {
    const std::string file = value.is_string() ? value.get<std::string>() : std::string();
    if (file.empty() || file.find('/') != std::string::npos || file == "." || file == "..") {
      fail(ExitCode::input, "{}: damaged index: tensor '{}' lies in {}, which is not a file in the folder of the index",
           origin, name, to_text(value));
    }
    files.emplace(name, file);
  }
  return files;
}

/// Says where an index and its files disagree.
void remark_differences(const SafetensorsSource& source, const std::map<std::string, std::string>& weight_map,
                        const Path& index, Remarks& remarks) {
  std::vector<std::string> absent, elsewhere, unlisted;
  for (const auto& [name, file] : weight_map) {
    const std::string found = source.file_of(name);
    if (found.empty())
      absent.push_back(name);
    else if (found != file)
      elsewhere.push_back(fmt::format("{} is in {}, not in {}", name, found, file));
  }
  for (const TensorDescription& tensor : source.list())
    if (!weight_map.contains(tensor.name)) unlisted.push_back(tensor.name);
  const auto note = [&](std::string_view what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    remarks.notes.push_back(
        fmt::format("{}: {} {}: {}", index.string(), counted(std::ssize(names), "tensor"), what, listed(names)));
  };
  note("listed but in no file", absent);
  note("in another file than listed", elsewhere);
  note("used although not listed", unlisted);
}

std::unique_ptr<SafetensorsSource> open_index(const Path& path, Remarks& remarks) {
  const std::map<std::string, std::string> weight_map = read_weight_map(read_file(path), path.string());
  std::set<std::string> files;
  for (const auto& [name, file] : weight_map) files.insert(file);
  auto source = std::make_unique<SafetensorsSource>();
  for (const std::string& file : files) source->add_file(path.parent_path() / file);
  remark_repeated(*source, path.parent_path(), true, remarks);
  remark_differences(*source, weight_map, path, remarks);
  return source;
}

/// A file of a model that is stored in several: "model-00001-of-00002.safetensors".
struct Shard {
  int number = 0;
  int of = 0;
};
std::optional<Shard> shard_named(const std::string& name) {
  constexpr std::string_view before = "model-", between = "-of-", behind = ".safetensors";
  const std::size_t middle = name.find(between);
  if (!name.starts_with(before) || !name.ends_with(behind) || middle == std::string::npos) return std::nullopt;
  const auto number = [](const std::string& digits) {
    const bool fits = !digits.empty() && digits.size() < 8 &&
                      std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
    return fits ? std::stoi(digits) : 0;
  };
  const std::size_t second = middle + between.size();
  const Shard shard{number(name.substr(before.size(), middle - before.size())),
                    number(name.substr(second, name.size() - behind.size() - second))};
  return shard.number > 0 && shard.of > 0 ? std::optional(shard) : std::nullopt;
}

/// The shards of a folder, in the order of their names.
std::vector<Path> shards_in(const Path& folder) {
  std::vector<Path> shards;
  for (const Path& path : list_folder(folder))
    if (shard_named(path.filename().string())) shards.push_back(path);
  return shards;
}

std::unique_ptr<SafetensorsSource> open_shards(const std::vector<Path>& shards, Remarks& remarks) {
  const Path folder = shards.front().parent_path();
  const int count = shard_named(shards.front().filename().string())->of;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const Shard shard = *shard_named(shards[i].filename().string());
    if (shard.of != count || shard.number != static_cast<int>(i) + 1)
      fail(ExitCode::input, "found {} where model-{:05}-of-{:05}.safetensors is expected, and there is no {}",
           shards[i].string(), i + 1, count, index_name);
  }
  if (std::ssize(shards) != count)
    fail(ExitCode::input, "{} has {} of {} weight files, and no {}", folder.string(), shards.size(), count, index_name);
  auto source = std::make_unique<SafetensorsSource>();
  for (const Path& shard : shards) source->add_file(shard);
  remark_repeated(*source, folder, false, remarks);
  remarks.notes.push_back(
      fmt::format("{} has no {}: using the tensors of all {} files", folder.string(), index_name, count));
  return source;
}

/// Says which files of safetensors in the folder are not read. Mistral adds its own form of the same weights.
void remark_unread(const Path& folder, const std::string& read, const std::set<std::string>& files, Remarks& remarks) {
  for (const Path& path : list_folder(folder)) {
    const std::string name = path.filename().string();
    if (!name.ends_with(".safetensors") || files.contains(name)) continue;
    const bool other_form = name.starts_with("consolidated");
    (other_form ? remarks.notes : remarks.warnings)
        .push_back(fmt::format("{} is ignored: the weights are read from {}", path.string(), read));
  }
}

std::unique_ptr<SafetensorsSource> open_folder(const Path& folder, Remarks& remarks) {
  if (is_there(folder / single_name)) {
    auto source = std::make_unique<SafetensorsSource>();
    source->add_file(folder / single_name);
    remark_unread(folder, single_name, {single_name}, remarks);
    return source;
  }
  const bool index = is_there(folder / index_name);
  const std::vector<Path> shards = index ? std::vector<Path>() : shards_in(folder);
  if (!index && shards.empty()) {
    const bool pickled = is_there(folder / "pytorch_model.bin") || is_there(folder / "pytorch_model.bin.index.json");
    throw Error(ExitCode::input, fmt::format("{} has neither {} nor {}", folder.string(), single_name, index_name),
                pickled ? "pytorch_model.bin is a pickle, which can run code and is never read: save it again with "
                          "safe_serialization=True"
                        : "");
  }
  auto source = index ? open_index(folder / index_name, remarks) : open_shards(shards, remarks);
  remark_unread(folder, index ? index_name : "the numbered files", source->files(), remarks);
  return source;
}

}  // namespace

bool has_safetensors(const Path& folder) {
  return is_there(folder / single_name) || is_there(folder / index_name) ||
         (is_folder(folder) && !shards_in(folder).empty());
}

std::unique_ptr<TensorSource> open_safetensors(const Path& path, Remarks& remarks) {
  if (is_folder(path)) return open_folder(path, remarks);
  if (path.extension() == ".json") return open_index(path, remarks);
  auto source = std::make_unique<SafetensorsSource>();
  source->add_file(path);
  return source;
}

std::unique_ptr<TensorSource> open_safetensors(const Path& path) {
  Remarks unheard;
  return open_safetensors(path, unheard);
}

}  // namespace lockstep
