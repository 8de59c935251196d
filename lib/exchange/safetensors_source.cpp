#include "base/error.hpp"
#include "base/mapped_file.hpp"
#include "base/text.hpp"
#include "exchange/safetensors.hpp"
#include "layout/box_runs.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>

namespace lockstep {

namespace {

/// The tensors of one or more mapped files.
class SafetensorsSource : public TensorSource {
 public:
  /// Adds a file's tensors behind those of the files before it.
  void add_file(const Path& path) {
    auto file = std::make_unique<MappedFile>(path);
    const auto parse = [&] { return parse_safetensors_header(file->bytes(), path.string()); };
    for (SafetensorsEntry& entry : read_mapped(*file, parse)) {
      const auto size = static_cast<std::size_t>(entry.end - entry.begin);
      const auto added = locations_.emplace(
          entry.tensor.name,
          Location{list_.size(), file.get(), file->bytes().subspan(static_cast<std::size_t>(entry.begin), size)});
      if (!added.second)
        fail(ExitCode::input, "{}: tensor '{}' is also in a file before it", path.string(), entry.tensor.name);
      list_.push_back(std::move(entry.tensor));
    }
    files_.push_back(std::move(file));
  }

  const std::vector<TensorDescription>& list() const override { return list_; }

  void read(const std::string& name, const Box& box, std::span<std::byte> out) const override {
    const auto found = locations_.find(name);
    if (found == locations_.end()) fail(ExitCode::input, "the safetensors have no tensor '{}'", name);
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

  bool has(const std::string& name) const { return locations_.count(name) > 0; }

 private:
  struct Location {
    std::size_t index = 0;             // in list_
    const MappedFile* file = nullptr;  // of files_
    std::span<const std::byte> bytes;  // in it
  };
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<TensorDescription> list_;
  std::unordered_map<std::string, Location> locations_;
};

/// tensor → file of an index. Throws Error(input) without the origin.
std::map<std::string, std::string> read_weight_map(const std::string& text) {
  std::map<std::string, std::string> files;
  const simdjson::padded_string padded(text);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document = parser.iterate(padded);
  for (auto field : document.get_object()["weight_map"].get_object()) {
    std::string name(std::string_view(field.unescaped_key()));
    std::string file(std::string_view(field.value().get_string()));
    if (file.empty() || file.find('/') != std::string::npos || file == "." || file == "..") {
      fail(ExitCode::input, "tensor '{}' lies in '{}', which is not a file beside the index", name, file);
    }
    if (!files.emplace(name, std::move(file)).second) fail(ExitCode::input, "tensor '{}' appears twice", name);
  }
  return files;
}

std::unique_ptr<TensorSource> open_index(const Path& path) {
  std::map<std::string, std::string> weight_map;
  const std::string text = read_file(path);
  try {
    weight_map = read_weight_map(text);
  } catch (const Error& error) {
    fail(ExitCode::input, "{}: damaged index: {}", path.string(), error.what());
  } catch (const simdjson::simdjson_error&) {
    fail(ExitCode::input, "{}: damaged index: its weight_map is no map from names to files", path.string());
  }
  std::set<std::string> files;
  for (const auto& [name, file] : weight_map) files.insert(file);
  auto source = std::make_unique<SafetensorsSource>();
  for (const std::string& file : files) {
    const std::size_t before = source->list().size();
    source->add_file(path.parent_path() / file);
    for (std::size_t i = before; i < source->list().size(); ++i) {
      const std::string& name = source->list()[i].name;
      const auto found = weight_map.find(name);
      if (found == weight_map.end() || found->second != file) {
        fail(ExitCode::input, "{}: tensor '{}' lies in {}, which the index does not say", path.string(), name, file);
      }
    }
  }
  for (const auto& [name, file] : weight_map) {
    if (!source->has(name)) fail(ExitCode::input, "{}: tensor '{}' is not in {}", path.string(), name, file);
  }
  return source;
}

constexpr const char* single_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

}  // namespace

bool has_safetensors(const Path& folder) { return is_there(folder / single_name) || is_there(folder / index_name); }

std::unique_ptr<TensorSource> open_safetensors(const Path& path) {
  if (is_folder(path)) {
    if (is_there(path / single_name)) return open_safetensors(path / single_name);
    if (is_there(path / index_name)) return open_index(path / index_name);
    const bool pickled = is_there(path / "pytorch_model.bin") || is_there(path / "pytorch_model.bin.index.json");
    throw Error(ExitCode::input, fmt::format("{} has neither {} nor {}", path.string(), single_name, index_name),
                pickled ? "pytorch_model.bin is a pickle, which can run code and is never read: save it again with "
                          "safe_serialization=True"
                        : "");
  }
  if (path.extension() == ".json") return open_index(path);
  auto source = std::make_unique<SafetensorsSource>();
  source->add_file(path);
  return source;
}

}  // namespace lockstep
