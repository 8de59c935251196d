#include "exchange/model_folder.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "exchange/plugin_family.hpp"
#include "exchange/safetensors.hpp"
#include "quant/bfloat16.hpp"
#include "quant/float16.hpp"

#include <array>
#include <filesystem>
#include <functional>
#include <unordered_map>
#include <unordered_set>

namespace lockstep {

namespace {

constexpr std::array<std::string_view, 2> prefixes{"transformer.", "model."};

bool is_buffer(std::string_view name) {
  for (const std::string_view suffix : {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"}) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

/// A source under the names that the model uses.
class RenamedSource : public TensorSource {
 public:
  explicit RenamedSource(std::unique_ptr<TensorSource> files) : files_(std::move(files)) {}

  void add(TensorDescription tensor, std::string name_in_file) {
    names_in_file_.emplace(tensor.name, std::move(name_in_file));
    list_.push_back(std::move(tensor));
  }
  const TensorSource& files() const { return *files_; }
  const std::vector<TensorDescription>& list() const override { return list_; }
  void read(const std::string& name, const Box& box, std::span<std::byte> out) const override {
    const auto found = names_in_file_.find(name);
    if (found == names_in_file_.end()) fail(ExitCode::input, "the model's weights have no tensor '{}'", name);
    files_->read(found->second, box, out);
  }

 private:
  std::unique_ptr<TensorSource> files_;
  std::vector<TensorDescription> list_;
  std::unordered_map<std::string, std::string> names_in_file_;
};

/// The tensor of a file that goes by `name` in the model: itself, or it with a base model's prefix left out or added.
const TensorDescription* find_in(const std::unordered_map<std::string, const TensorDescription*>& files,
                                 const std::string& name) {
  if (const auto exact = files.find(name); exact != files.end()) return exact->second;
  for (const std::string_view prefix : prefixes) {
    if (!name.starts_with(prefix)) continue;
    if (const auto bare = files.find(name.substr(prefix.size())); bare != files.end()) return bare->second;
  }
  for (const std::string_view prefix : prefixes) {
    if (const auto longer = files.find(std::string(prefix) + name); longer != files.end()) return longer->second;
  }
  return nullptr;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 20;
  const std::vector<std::string> shown(names.begin(),
                                       names.begin() + static_cast<std::ptrdiff_t>(std::min(most, names.size())));
  return join(shown, ", ") + (names.size() > most ? fmt::format(" and {} more", names.size() - most) : "");
}

bool is_weight_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f64;
}

/// What tensors of the files are called in the words of a built-in family.
std::function<std::string(const std::string&)> names_in(const Path& folder) {
  const Path config = folder / "config.json";
  const Json document = is_there(config) ? parse_json(read_file(config), config.string()) : Json();
  const auto family = plugin_family_of(document);
  if (!family) return [](const std::string& name) { return name; };
  return [family = *family, origin = folder.string()](const std::string& name) {
    return built_in_tensor(family, name, origin);
  };
}

Path real_path(const Path& path) {
  std::error_code error;
  const Path real = std::filesystem::canonical(path, error);
  if (error) fail(ExitCode::storage, "cannot look at {}: {}", path.string(), error.message());
  return real;
}

bool is_below(const Path& path, const Path& folder) { return *path.lexically_relative(folder).begin() != ".."; }

}  // namespace

HfConfig read_hf_config(const Path& path) {
  const Path file = is_folder(path) ? path / "config.json" : path;
  return parse_hf_config(read_file(file), file.string());
}

std::optional<std::string> generation_config_in(const Path& folder) {
  const Path file = folder / generation_config_file;
  if (!is_folder(folder) || !is_there(file)) return std::nullopt;
  require_within(folder, file);
  std::string text = read_file(file);
  if (!parse_json(text, file.string()).is_object()) fail(ExitCode::input, "{} is not a JSON object", file.string());
  return text;
}

void require_within(const Path& folder, const Path& file) {
  const Path real = real_path(file);
  const Path home = real_path(folder);
  const bool cached =
      home.parent_path().filename() == "snapshots" && is_below(real, home.parent_path().parent_path() / "blobs");
  if (is_below(real, home) || cached) return;
  throw Error(ExitCode::input, fmt::format("{} is a link to {}, outside its folder", file.string(), real.string()),
              "put the file itself there if it belongs to the model");
}

std::unique_ptr<TensorSource> open_model_weights(const Path& folder, std::span<const TensorDescription> expected) {
  auto source = std::make_unique<RenamedSource>(open_safetensors(folder));
  std::unordered_map<std::string, const TensorDescription*> files;
  const auto name_of_file = names_in(folder);
  for (const TensorDescription& tensor : source->files().list()) files.emplace(name_of_file(tensor.name), &tensor);
  std::vector<std::string> missing;
  std::vector<std::string> wrong;
  std::unordered_set<std::string> used;
  for (const TensorDescription& tensor : expected) {
    const TensorDescription* const found = find_in(files, tensor.name);
    if (found == nullptr) {
      missing.push_back(tensor.name);
      continue;
    }
    used.insert(found->name);
    if (found->shape != tensor.shape)
      wrong.push_back(fmt::format("{} is {}, not {}", tensor.name, to_text(found->shape), to_text(tensor.shape)));
    else if (!is_weight_type(found->dtype))
      wrong.push_back(fmt::format("{} has type {}", tensor.name, name_of(found->dtype)));
    source->add({tensor.name, found->shape, found->dtype}, found->name);
  }
  std::vector<std::string> unexpected;
  for (const TensorDescription& tensor : source->files().list()) {
    const std::string name = name_of_file(tensor.name);
    const bool tied_copy = name == "lm_head.weight";  // of a tied model, or it would have been used
    if (used.count(tensor.name) == 0 && !tied_copy && !is_buffer(name)) unexpected.push_back(tensor.name);
  }
  std::string problems;
  const auto report = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) problems += fmt::format("\n  {} {}: {}", names.size(), what, listed(names));
  };
  report("missing", missing);
  report("unexpected", unexpected);
  report("of another shape or type", wrong);
  if (!problems.empty()) {
    const bool only_head =
        missing.size() == 1 && missing.front() == "lm_head.weight" && unexpected.empty() && wrong.empty();
    throw Error(ExitCode::input,
                fmt::format("{}: the weights are not those of the model's configuration{}", folder.string(), problems),
                only_head ? "set tie_word_embeddings to true in config.json if the head is the embedding" : "");
  }
  return source;
}

void read_as_float(const TensorSource& source, const TensorDescription& tensor, const Box& box, std::span<float> out) {
  invariant(static_cast<std::int64_t>(out.size()) == elements(box), "a buffer as large as the box that is read");
  switch (tensor.dtype) {
    case DType::f32: return source.read(tensor.name, box, std::as_writable_bytes(out));
    case DType::bf16:
    case DType::f16: {
      std::vector<std::uint16_t> bits(out.size());
      source.read(tensor.name, box, std::as_writable_bytes(std::span(bits)));
      return tensor.dtype == DType::bf16 ? from_bf16(bits, out) : from_f16(bits, out);
    }
    case DType::f64: {
      std::vector<double> values(out.size());
      source.read(tensor.name, box, std::as_writable_bytes(std::span(values)));
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(values[i]);
      return;
    }
    default:
      fail(ExitCode::input, "tensor '{}' has type {}, not a type of weights", tensor.name, name_of(tensor.dtype));
  }
}

}  // namespace lockstep
