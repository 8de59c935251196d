#include "exchange/model_folder.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/words.hpp"
#include "exchange/plugin_family.hpp"
#include "exchange/safetensors.hpp"
#include "quant/bfloat16.hpp"
#include "quant/float16.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

namespace lockstep {

namespace {

constexpr std::array<std::string_view, 2> prefixes{"transformer.", "model."};
constexpr std::array<std::string_view, 2> embeddings{"transformer.wte.weight", "model.embed_tokens.weight"};
constexpr std::string_view head_name = "lm_head.weight";

/// Masks of attention and tables of rotary positions, which older versions of transformers stored.
bool is_buffer(const TensorDescription& tensor, std::string_view name) {
  const auto ends = [&](std::string_view suffix) { return name.ends_with(suffix); };
  if (ends(".attn.bias")) return tensor.shape.size() == 4;
  return ends(".attn.masked_bias") || ends(".rotary_emb.inv_freq") || ends(".rotary_emb.cos_cached") ||
         ends(".rotary_emb.sin_cached");
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

/// The tensors of files by what they are called in the words of a built-in family.
class NamedTensors {
 public:
  NamedTensors(const Path& folder, const TensorSource& files, Remarks& remarks) {
    std::vector<std::string> names;
    for (const TensorDescription& tensor : files.list()) names.push_back(tensor.name);
    strip_wrappers(folder, names, remarks);
    const auto name_of_file = names_in(folder);
    for (std::size_t i = 0; i < names.size(); ++i) {
      names_.push_back(name_of_file(names[i]));
      tensors_.emplace(names_.back(), &files.list()[i]);
    }
  }

  /// By the place of a tensor in the list of the files.
  const std::string& name(std::size_t tensor) const { return names_[tensor]; }

  /// The tensor that goes by `name` in the model: itself, or it with a base model's prefix left out or added.
  const TensorDescription* find(std::string_view name) const {
    if (const auto exact = tensors_.find(std::string(name)); exact != tensors_.end()) return exact->second;
    for (const std::string_view prefix : prefixes) {
      if (!name.starts_with(prefix)) continue;
      if (const auto bare = tensors_.find(std::string(name.substr(prefix.size()))); bare != tensors_.end())
        return bare->second;
    }
    for (const std::string_view prefix : prefixes) {
      if (const auto longer = tensors_.find(fmt::format("{}{}", prefix, name)); longer != tensors_.end())
        return longer->second;
    }
    return nullptr;
  }

  const TensorDescription* find_embedding() const {
    for (const std::string_view name : embeddings)
      if (const TensorDescription* const found = find(name)) return found;
    return nullptr;
  }

 private:
  /// Leaves out prefixes that all names have from a wrapper: torch.compile, DistributedDataParallel, Lightning.
  static void strip_wrappers(const Path& folder, std::vector<std::string>& names, Remarks& remarks) {
    const auto all_have = [&](std::string_view prefix) {
      return !names.empty() &&
             std::ranges::all_of(names, [&](const std::string& name) { return name.starts_with(prefix); });
    };
    // Names of a base model begin with "model." too: a wrapper's has the model's own prefix or the head behind it.
    const auto is_wrapper = [&](std::string_view prefix) {
      return all_have(prefix) && (prefix != "model." || std::ranges::any_of(names, [&](const std::string& name) {
                                    const std::string_view behind = std::string_view(name).substr(prefix.size());
                                    return behind.starts_with("model.") || behind.starts_with("transformer.") ||
                                           behind == head_name;
                                  }));
    };
    std::string stripped;
    for (bool again = true; again;) {
      again = false;
      for (const std::string_view wrapper : {"_orig_mod.", "module.", "model."}) {
        if (!is_wrapper(wrapper)) continue;
        for (std::string& name : names) name.erase(0, wrapper.size());
        stripped += wrapper;
        again = true;
      }
    }
    if (!stripped.empty())
      remarks.notes.push_back(
          fmt::format("{}: removed the prefix '{}' from all tensor names", folder.string(), stripped));
  }

  static std::function<std::string(const std::string&)> names_in(const Path& folder) {
    const Path config = folder / "config.json";
    const Json document = is_there(config) ? parse_json(read_file(config), config.string()) : Json();
    const auto family = plugin_family_of(document);
    if (!family) return [](const std::string& name) { return name; };
    return [family = *family, origin = folder.string()](const std::string& name) {
      return built_in_tensor(family, name, origin);
    };
  }

  std::vector<std::string> names_;
  std::unordered_map<std::string, const TensorDescription*> tensors_;
};

bool is_weight_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f64;
}

/// The module of the model that a tensor is in: "layers", "wte", "lm_head".
std::string_view module_of(std::string_view name) {
  for (const std::string_view prefix : prefixes)
    if (name.starts_with(prefix)) return module_of(name.substr(prefix.size()));
  return name.substr(0, name.find('.'));
}

/// The values of a box of weights, in the order of its elements.
std::vector<double> values_of(const TensorSource& source, const TensorDescription& tensor, const Box& box) {
  std::vector<double> values(static_cast<std::size_t>(elements(box)));
  if (tensor.dtype == DType::f64) {
    source.read(tensor.name, box, std::as_writable_bytes(std::span(values)));
    return values;
  }
  std::vector<float> narrow(values.size());
  read_as_float(source, tensor, box, narrow);
  std::ranges::copy(narrow, values.begin());
  return values;
}

/// Whether two matrices of one shape have the same values; a value that is not a number equals none.
bool are_equal(const TensorSource& source, const TensorDescription& a, const TensorDescription& b) {
  constexpr std::int64_t piece_elements = 1 << 18;
  const std::int64_t rows = a.shape[0], columns = a.shape[1];
  const std::int64_t step = std::clamp<std::int64_t>(piece_elements / std::max<std::int64_t>(columns, 1), 1, rows);
  for (std::int64_t row = 0; row < rows; row += step) {
    const Box box{{row, 0}, {std::min(step, rows - row), columns}};
    if (values_of(source, a, box) != values_of(source, b, box)) return false;
  }
  return true;
}

/// What the files lack, and what of them is not read.
struct Mismatches {
  std::vector<std::string> missing, wrong;
  std::vector<std::string> unexpected;  // in a module of the model
  std::vector<std::string> foreign;     // in another one
  std::vector<std::string> buffers;
};

[[noreturn]] void refuse(const Path& folder, Mismatches found) {
  const bool only_head = found.missing == std::vector{std::string(head_name)} && found.unexpected.empty() &&
                         found.foreign.empty() && found.wrong.empty();
  std::string problems;
  const auto report = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) problems += fmt::format("\n  {} {}: {}", names.size(), what, listed(names));
  };
  std::ranges::move(found.foreign, std::back_inserter(found.unexpected));
  report("missing", found.missing);
  report("unexpected", found.unexpected);
  report("with the wrong shape or type", found.wrong);
  throw Error(ExitCode::input,
              fmt::format("{}: the weights do not match the model's configuration{}", folder.string(), problems),
              only_head ? "set tie_word_embeddings to true in config.json if the head is the embedding" : "");
}

/// Says which tensors are not read, and why that is right.
void remark_unread(const Path& folder, const Mismatches& found, Remarks& remarks) {
  if (!found.foreign.empty())
    remarks.warnings.push_back(fmt::format("{}: ignored {}, since the model has no such module: {}", folder.string(),
                                           counted(std::ssize(found.foreign), "tensor"), listed(found.foreign)));
  if (!found.buffers.empty())
    remarks.notes.push_back(fmt::format("{}: ignored {} of masks and rotary positions, which are computed: {}",
                                        folder.string(), counted(std::ssize(found.buffers), "tensor"),
                                        listed(found.buffers)));
}

Path real_path(const Path& path) {
  std::error_code error;
  const Path real = std::filesystem::canonical(path, error);
  if (error) fail(ExitCode::storage, "cannot access {}: {}", path.string(), error.message());
  return real;
}

bool is_below(const Path& path, const Path& folder) { return *path.lexically_relative(folder).begin() != ".."; }

}  // namespace

ModelConfig read_hf_config(const Path& path) {
  const Path file = is_folder(path) ? path / "config.json" : path;
  return parse_hf_config(read_file(file), file.string());
}

Head head_in(const Path& folder, const ModelConfig& config) {
  if (!config.tied_head) return Head::as_configured;
  Remarks unheard;
  const std::unique_ptr<TensorSource> files = open_safetensors(folder);
  const NamedTensors named(folder, *files, unheard);
  const TensorDescription* const head = named.find(head_name);
  const TensorDescription* const embedding = named.find_embedding();
  if (head == nullptr || embedding == nullptr) return Head::as_configured;
  const bool comparable = head->shape == embedding->shape && head->shape.size() == 2 && is_weight_type(head->dtype) &&
                          is_weight_type(embedding->dtype);
  return comparable && are_equal(*files, *head, *embedding) ? Head::as_configured : Head::own;
}

ModelConfig with_head(ModelConfig config, Head head) {
  if (head == Head::as_configured) return config;
  config.tied_head = false;
  Json document = *config.original;
  document["tie_word_embeddings"] = false;
  config.original = std::make_shared<const Json>(std::move(document));
  return config;
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
              "copy the file into the folder if it belongs to the model");
}

std::unique_ptr<TensorSource> open_model_weights(const Path& folder, std::span<const TensorDescription> expected,
                                                 Remarks& remarks) {
  auto source = std::make_unique<RenamedSource>(open_safetensors(folder, remarks));
  const NamedTensors named(folder, source->files(), remarks);
  const TensorDescription* const head = named.find(head_name);
  const bool is_tied = std::ranges::find(expected, head_name, &TensorDescription::name) == expected.end();
  Mismatches found;
  std::unordered_set<std::string> used;
  std::unordered_set<std::string_view> modules{module_of(head_name)};
  for (const TensorDescription& tensor : expected) {
    modules.insert(module_of(tensor.name));
    const bool is_embedding = std::ranges::find(embeddings, tensor.name) != embeddings.end();
    const TensorDescription* in_files = named.find(tensor.name);
    if (in_files == nullptr && is_embedding && is_tied) in_files = head;
    if (in_files == nullptr) {
      found.missing.push_back(tensor.name);
      continue;
    }
    used.insert(in_files->name);
    if (in_files->shape != tensor.shape)
      found.wrong.push_back(
          fmt::format("{} is {}, not {}", tensor.name, to_text(in_files->shape), to_text(tensor.shape)));
    else if (!is_weight_type(in_files->dtype))
      found.wrong.push_back(fmt::format("{} has type {}", tensor.name, name_of(in_files->dtype)));
    source->add({tensor.name, in_files->shape, in_files->dtype}, in_files->name);
  }
  for (std::size_t i = 0; i < source->files().list().size(); ++i) {
    const TensorDescription& tensor = source->files().list()[i];
    if (used.contains(tensor.name) || &tensor == head) continue;  // the head equals the embedding that it is tied to
    if (is_buffer(tensor, named.name(i)))
      found.buffers.push_back(tensor.name);
    else if (modules.contains(module_of(named.name(i))))
      found.unexpected.push_back(tensor.name);
    else
      found.foreign.push_back(tensor.name);
  }
  if (!found.missing.empty() || !found.wrong.empty() || !found.unexpected.empty()) refuse(folder, std::move(found));
  remark_unread(folder, found, remarks);
  return source;
}

std::unique_ptr<TensorSource> open_model_weights(const Path& folder, std::span<const TensorDescription> expected) {
  Remarks unheard;
  return open_model_weights(folder, expected, unheard);
}

void read_as_float(const TensorSource& source, const TensorDescription& tensor, const Box& box, std::span<float> out) {
  invariant(static_cast<std::int64_t>(out.size()) == elements(box), "a buffer as large as the box that is read");
  if (const auto type = weight_type(tensor.dtype)) {
    switch (*type) {
      case WeightType::f32: return source.read(tensor.name, box, std::as_writable_bytes(out));
      case WeightType::bf16:
      case WeightType::f16: {
        std::vector<std::uint16_t> bits(out.size());
        source.read(tensor.name, box, std::as_writable_bytes(std::span(bits)));
        return *type == WeightType::bf16 ? from_bf16(bits, out) : from_f16(bits, out);
      }
      case WeightType::f64: {
        std::vector<double> values(out.size());
        source.read(tensor.name, box, std::as_writable_bytes(std::span(values)));
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(values[i]);
        return;
      }
    }
  }
  fail(ExitCode::input, "tensor '{}' has the type {}, but weights must be fp64, fp32, bf16 or fp16", tensor.name,
       name_of(tensor.dtype));
}

}  // namespace lockstep
