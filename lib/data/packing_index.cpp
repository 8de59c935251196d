#include "data/packing_index.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "base/mapped_file.hpp"
#include "base/own_files.hpp"
#include "store/hdf5.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

namespace lockstep {

namespace {

constexpr const char* about_path = "/about";
constexpr const char* hash_path = "/hash";
constexpr const char* starts_path = "/starts";
constexpr const char* begins_path = "/begins";
constexpr const char* labels_path = "/labels";
constexpr int version = 2;
constexpr std::string_view index_prefix = "PACKING-";

/// Of all that the file says.
std::string hash_of(std::string_view about, const Packing& packing) {
  StreamHash hash;
  hash.add(about);
  hash.add(std::as_bytes(packing.starts()));
  hash.add(std::as_bytes(packing.begins()));
  hash.add(std::as_bytes(packing.labels()));
  return to_hex(hash.digest());
}

/// The counts by their names in the file.
template <class Counts>
auto named_counts(Counts& counts) {
  return std::array{std::pair("documents", &counts.documents),
                    std::pair("empty_documents", &counts.empty_documents),
                    std::pair("split_documents", &counts.split_documents),
                    std::pair("truncated_documents", &counts.truncated_documents),
                    std::pair("truncated_labels", &counts.truncated_labels),
                    std::pair("dropped_documents", &counts.dropped_documents),
                    std::pair("dropped_labels", &counts.dropped_labels),
                    std::pair("packed_labels", &counts.packed_labels),
                    std::pair("most_documents", &counts.most_documents)};
}

/// Those of a stream with masks; other files do not have them.
template <class Counts>
auto masked_counts(Counts& counts) {
  return std::array{std::pair("masked_parts", &counts.masked_parts), std::pair("masked_labels", &counts.masked_labels)};
}

std::string about(std::string_view identity, const Packing& packing) {
  Json json = Json::object();
  json["format"] = "lockstep packing";
  json["version"] = version;
  json["identity"] = identity;
  json["made_from"] = to_hex(packing.made_from());
  for (const auto& [name, count] : named_counts(packing.counts())) json[name] = *count;
  for (const auto& [name, count] : masked_counts(packing.counts()))
    if (*count > 0) json[name] = *count;
  return to_text(json);
}

/// Arrays in a file; those that are small may lie anywhere in it, and are copied.
struct MappedArrays {
  explicit MappedArrays(const Path& path) : file(path) {}
  MappedFile file;
  std::vector<std::vector<std::uint64_t>> copies;

  template <class Element>
  std::span<const Element> view(const Hdf5File& hdf5, const char* name, DType dtype) {
    const Hdf5Dataset dataset = hdf5.dataset(name);
    if (dataset.dtype != dtype || dataset.shape.size() != 1 || dataset.offset > file.bytes().size() ||
        dataset.bytes > file.bytes().size() - dataset.offset)
      fail(ExitCode::input, "{} is not a list of {} within the file", name, name_of(dtype));
    const std::span<const std::byte> bytes = file.bytes().subspan(dataset.offset, dataset.bytes);
    const std::size_t count = bytes.size() / sizeof(Element);
    if (dataset.offset % sizeof(Element) == 0) return {reinterpret_cast<const Element*>(bytes.data()), count};
    std::vector<std::uint64_t>& copy = copies.emplace_back(bytes.size() / sizeof(std::uint64_t) + 1);
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    return {reinterpret_cast<const Element*>(copy.data()), count};
  }
};

Packing read_packing(const Path& path, std::string_view identity, const std::shared_ptr<MappedArrays>& arrays) {
  const Hdf5File hdf5 = Hdf5File::open(path);
  const std::string said = hdf5.read_text(about_path);
  const Json json = parse_json(said, about_path);
  const auto is = [&json](const char* key, const Json& value) { return json.contains(key) && json.at(key) == value; };
  if (!is("format", "lockstep packing") || !is("version", version))
    fail(ExitCode::input, "it is not a packing of version {}", version);
  if (!is("identity", identity))
    fail(ExitCode::input, "its name belongs to another packing; it holds {}",
         json.contains("identity") ? to_text(json.at("identity")) : "nothing");
  const Hash128 made_from = hash_from_hex(json.value("made_from", ""));
  PackingCounts counts;
  for (const auto& [name, count] : named_counts(counts)) {
    if (!json.contains(name)) fail(ExitCode::input, "{} is missing", name);
    *count = integer_from<std::int64_t>(json.at(name), name);
  }
  for (const auto& [name, count] : masked_counts(counts))
    if (json.contains(name)) *count = integer_from<std::int64_t>(json.at(name), name);
  const auto starts = arrays->view<std::uint64_t>(hdf5, starts_path, DType::u64);
  const auto begins = arrays->view<std::uint64_t>(hdf5, begins_path, DType::u64);
  const auto labels = arrays->view<std::uint32_t>(hdf5, labels_path, DType::u32);
  if (starts.size() < 2 || begins.size() != labels.size() || starts.front() != 0 || starts.back() != begins.size() ||
      !std::ranges::is_sorted(starts))
    fail(ExitCode::input, "the lengths of its lists do not match");
  Packing packing(starts, begins, labels, counts, made_from, arrays, &arrays->file);
  if (hdf5.read_text(hash_path) != hash_of(said, packing)) fail(ExitCode::input, "its hash does not match its content");
  return packing;
}

void write_arrays(const Path& path, std::string_view identity, const Packing& packing) {
  const std::string said = about(identity, packing);
  Hdf5File file = Hdf5File::create(path);
  const auto add = [&file](const char* name, DType dtype, const auto& values) {
    file.add(name, dtype, {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values)));
  };
  add(about_path, DType::u8, said);
  add(hash_path, DType::u8, hash_of(said, packing));
  add(starts_path, DType::u64, packing.starts());
  add(begins_path, DType::u64, packing.begins());
  add(labels_path, DType::u32, packing.labels());
  file.close();
}

}  // namespace

std::string identity_of(const PackingSettings& settings, const SplitEntry& split) {
  StreamHash content;
  add_content(content, split);
  return fmt::format("{}; of {} documents with the hash {}", to_text(settings), split.documents,
                     to_hex(content.digest()));
}

std::string packing_file_name(std::string_view identity) {
  return fmt::format("{}{}.h5", index_prefix, to_hex(hash128(identity)));
}

bool is_packing_file(const Path& name) {
  const std::string text = name.string();
  const std::size_t hidden = text.starts_with('.') ? 1 : 0;
  return std::string_view(text).substr(hidden).starts_with(index_prefix) && (hidden == 1 || text.ends_with(".h5"));
}

Packing open_packing(const Path& path, std::string_view identity) {
  try {
    const auto arrays = std::make_shared<MappedArrays>(path);
    return read_mapped(arrays->file, [&] { return read_packing(path, identity, arrays); });
  } catch (const Error& error) {
    if (error.code() == ExitCode::storage) throw;
    fail(ExitCode::input, "{} cannot be used: {}", path.string(), error.what());
  } catch (const Json::exception& error) {
    fail(ExitCode::input, "{} cannot be used: {}", path.string(), error.what());
  }
}

void write_packing(const Path& path, std::string_view identity, const Packing& packing) {
  const Path staged = temporary_beside(path);
  try {
    write_arrays(staged, identity, packing);
    sync_file(open_file(staged, O_RDWR), staged);
    publish_rename(staged, path);
  } catch (...) {
    try_remove_tree(staged);
    throw;
  }
}

std::optional<Packing> find_packing(const std::vector<Path>& folders, std::string_view identity,
                                    std::vector<std::string>& problems) {
  for (const Path& folder : folders) {
    const Path path = folder / packing_file_name(identity);
    try {
      if (is_there(path)) return open_packing(path, identity);
    } catch (const Error& error) {
      problems.emplace_back(error.what());
    }
  }
  return {};
}

Path keep_packing(const std::vector<Path>& folders, std::string_view identity, const Packing& packing) {
  for (const Path& folder : folders) {
    const Path path = folder / packing_file_name(identity);
    try {
      if (&folder != &folders.front()) make_folder(folder);
      write_packing(path, identity, packing);
      return path;
    } catch (const Error& error) {
      if (error.code() != ExitCode::storage || &folder == &folders.back()) throw;
    }
  }
  fail(ExitCode::bug, "there is no folder for a packing");
}

}  // namespace lockstep
