#include "store/edit_values.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/output_folder.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/part_file.hpp"
#include "store/piece_pass.hpp"
#include "store/staging.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <set>

namespace lockstep {

namespace {

/// The value that a key names; null if there is none. A key with dots is looked for as it is, then step by step.
Json* find_value(Json& values, const std::string& key) {
  if (!values.is_object()) return nullptr;
  if (const auto found = values.find(key); found != values.end()) return &*found;
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', dot + 1)) {
    const auto outer = values.find(key.substr(0, dot));
    if (outer == values.end()) continue;
    if (Json* const found = find_value(*outer, key.substr(dot + 1))) return found;
  }
  return nullptr;
}

void list_names(const Json& values, const std::string& prefix, std::vector<std::string>& names) {
  if (!values.is_object()) return;
  for (const auto& [key, value] : values.items()) {
    names.push_back(prefix + key);
    list_names(value, prefix + key + ".", names);
  }
}

/// The text of values that belong to all, of one component.
struct ValuesEntry {
  std::size_t tensor = 0;  // its number
  Json values;
};

/// What can be edited; names of values by component.
class EditableValues {
 public:
  explicit EditableValues(const CheckpointReader& source) {
    for (std::size_t i = 0; i < source.manifest().tensors.size(); ++i) {
      const StoredTensor& tensor = source.manifest().tensors[i];
      if (!is_values(tensor)) continue;
      if (!tensor.cell.empty()) {
        of_cells_.insert(tensor.component);
        continue;
      }
      const std::string text = source.values_text(tensor.component, "all");
      entries_.push_back({i, parse_json(text, source.path().string())});
      components_.push_back(tensor.component);
    }
  }

  /// The entry, the component and the key that `name` means. Throws Error(usage).
  ValuesEntry& find(const CheckpointReader& source, const std::string& name, std::string& component, std::string& key) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (!name.starts_with(components_[i] + ".")) continue;
      component = components_[i];
      key = name.substr(component.size() + 1);
      if (find_value(entries_[i].values, key) != nullptr) return entries_[i];
    }
    for (const std::string& other : of_cells_) {
      if (name.starts_with(other + "."))
        fail(ExitCode::usage, "cannot set {}: each cell of {} has its own values", name, other);
    }
    std::vector<std::string> names;
    for (std::size_t i = 0; i < entries_.size(); ++i) list_names(entries_[i].values, components_[i] + ".", names);
    const auto near = nearest(name, names);
    throw Error(ExitCode::usage, fmt::format("cannot set {}: {} has no such value", name, source.path().string()),
                near            ? fmt::format("the nearest name is '{}'", *near)
                : names.empty() ? "it has no values, only tensors"
                                : "its values are " + join(names, ", "));
  }

 private:
  std::vector<ValuesEntry> entries_;
  std::vector<std::string> components_;  // of the entries
  std::set<std::string> of_cells_;       // components whose values belong to cells
};

std::string kind_of_value(const Json& value) {
  if (value.is_number_integer()) return "an integer";
  if (value.is_number()) return "a number";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "true or false";
  if (value.is_array()) return "a list";
  return value.is_object() ? "an object" : "null";
}

/// What loads a checkpoint relies on kinds; what was null says of none what it may be.
bool fits(const Json& old, const Json& value) {
  return old.is_null() || kind_of_value(old) == kind_of_value(value) || (old.is_number_float() && value.is_number());
}

std::string user_name() {
  const passwd* const user = ::getpwuid(::geteuid());
  return user == nullptr ? fmt::format("user {}", ::geteuid()) : std::string(user->pw_name);
}

/// One file under two names where the file system can, so that nothing is copied and no room taken; true if it is.
bool link_or_copy(const Path& from, const Path& to) {
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0) return true;
  std::error_code error;
  std::filesystem::copy_file(from, to, error);
  if (error) fail(ExitCode::storage, "cannot copy {} to {}: {}", from.string(), to.string(), error.message());
  sync_file(open_file(to, O_RDONLY), to);
  return false;
}

/// A folder in the source would be a change of it.
void refuse_inside(const Path& source, const Path& output) {
  for (Path folder = absolute_path(output); folder.has_relative_path(); folder = folder.parent_path()) {
    if (is_same(folder, source))
      fail(ExitCode::usage, "cannot create {}: it lies in the checkpoint {}, which is never changed", output.string(),
           source.string());
  }
}

/// The part with all its pieces, each checked as it is read, but with another text in place of the values.
void write_part(const CheckpointReader& source, std::size_t file, std::size_t values, const std::string& text,
                const Path& folder, Manifest& manifest) {
  StoredFile& stored = manifest.files[file];
  const Path path = folder / stored.path;
  std::vector<PartPiece> pieces;
  for (const IndexedPiece& piece : source.pieces_in(file)) {
    const StoredTensor& tensor = manifest.tensors[piece.tensor];
    const bool edited = piece.tensor == values;
    pieces.push_back({full_name(tensor), tensor.layout.global, tensor.layout.dtype,
                      edited ? whole(tensor.layout.global) : piece.box});
  }
  const StampedPart stamped = stamp_part(path, pieces);
  PartFile part(path, PartFile::Cache::through);
  std::vector<PieceRecord> records;
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::size_t tensor = source.pieces_in(file)[i].tensor;
    bytes.resize(bytes_of(pieces[i]));
    if (tensor == values)
      std::ranges::copy(std::as_bytes(std::span(text)), bytes.begin());
    else
      source.read(tensor, pieces[i].box, bytes);
    const HeldPiece held{pieces[i], bytes, PiecePlace{&part, stamped.table.records[i].offset}};
    records.push_back(pass_over(std::span(&held, 1)).front());
    if (tensor == values) manifest.tensors[tensor].fingerprint = records.back().fingerprint;
  }
  part.finish();
  const SealedPart sealed = seal_part(path, stamped, records);
  stored.bytes = sealed.bytes;
  stored.hash = sealed.hash;
  stored.table_hash = sealed.table_hash;
  stored.table = sealed.columns;
}

void add_edit(Manifest& manifest, const Json& entry) {
  const auto found = std::ranges::find(manifest.documents, edits_document, &std::pair<std::string, std::string>::first);
  if (found == manifest.documents.end())
    manifest.documents.emplace_back(edits_document, to_text(entry) + "\n");
  else
    found->second += to_text(entry) + "\n";
}

/// The commit record, last of all.
void seal(const Path& folder, Manifest& manifest) {
  manifest.state_digest = state_digest(manifest.tensors);
  const Path index = folder / index_file;
  write_index(index, manifest);
  const std::string content = read_file(index);
  manifest.files.push_back({.path = std::string(index_file), .bytes = content.size(), .hash = hash128(content)});
  std::set<Path> folders;
  for (const StoredFile& file : manifest.files) folders.insert((folder / file.path).parent_path());
  for (const Path& one : folders) sync_folder(one);
  publish_file(folder / manifest_file, manifest_text(manifest));
}

/// Reads back what was written: it must be a whole checkpoint with the new value.
void check_edited(const Path& folder, const std::string& component, const std::string& text) {
  const Judgement judgement = judge_checkpoint(folder, VerifyLevel::coverage);
  if (judgement.verdict != Verdict::sound)
    fail(ExitCode::storage, "the edited checkpoint cannot be read back: {}", judgement.reason);
  if (CheckpointReader(folder).values_text(component, "all") != text)
    fail(ExitCode::storage, "the edited checkpoint reads back with other values");
}

}  // namespace

Edited write_edited(const CheckpointReader& source, const std::string& name, const Json& value, const Path& output) {
  if (source.manifest().format == 1) {
    throw Error(ExitCode::usage,
                fmt::format("cannot set {}: {} has format 1, which is no longer written", name, source.path().string()),
                "checkpoint-reshard converts it to the current format");
  }
  const Judgement judgement = judge_checkpoint(source.path(), VerifyLevel::sizes);
  if (judgement.verdict != Verdict::sound)
    throw Error(code_of(judgement.verdict),
                fmt::format("{} is {}: {}", source.path().string(), name_of(judgement.verdict), judgement.reason),
                judgement.hint);
  EditableValues editable(source);
  std::string component;
  std::string key;
  ValuesEntry& entry = editable.find(source, name, component, key);
  if (component == "trainer" && key == "step") {  // the manifest says it too, and folders are named by it
    throw Error(ExitCode::usage, "cannot set trainer.step: a checkpoint is identified by its step",
                "to start from these weights at step 0, export them with finalize-quantize and set model.path");
  }
  Json& place = *find_value(entry.values, key);
  if (!fits(place, value)) {
    fail(ExitCode::usage, "cannot set {} to {}: the present value is {} ({}), the new one is {}", name, to_text(value),
         kind_of_value(place), to_text(place), kind_of_value(value));
  }
  Edited result;
  result.entry = {{"time", utc_now()},
                  {"component", component},
                  {"key", key},
                  {"old", place},
                  {"new", value},
                  {"user", user_name()},
                  {"software", software_name()},
                  {"source", source.manifest().uuid}};
  place = value;
  const std::string text = to_text(entry.values);
  const auto pieces = source.pieces_of(entry.tensor);
  if (pieces.size() != 1)  // more than a mebibyte of text
    fail(ExitCode::usage, "cannot set {}: the values of {} are too large to edit", name, component);

  refuse_inside(source.path(), output);
  OutputFolder folder(output, {.name = "checkpoint", .marker = std::string(manifest_file), .files = {}},
                      Existing::refuse);
  Manifest manifest = source.manifest();
  std::erase_if(manifest.files, [](const StoredFile& file) { return file.path == index_file; });  // the last one
  manifest.uuid = make_uuid();
  manifest.created = utc_now();
  manifest.software = software_name();
  manifest.tensors[entry.tensor].layout.global = {std::ssize(text)};
  for (std::size_t file = 0; file < manifest.files.size(); ++file) {
    const Path to = folder.content() / manifest.files[file].path;
    make_folder(to.parent_path());
    if (file == pieces.front()->file)
      write_part(source, file, entry.tensor, text, folder.content(), manifest);
    else
      ++(link_or_copy(source.path() / manifest.files[file].path, to) ? result.linked : result.copied);
  }
  add_edit(manifest, result.entry);
  seal(folder.content(), manifest);
  check_edited(folder.content(), component, text);
  folder.publish();
  return result;
}

std::vector<Json> edits_of(const Manifest& manifest) {
  std::vector<Json> edits;
  for (const auto& [name, text] : manifest.documents) {
    if (name != edits_document) continue;
    for (const std::string& line : split(text, '\n'))
      if (!line.empty()) edits.push_back(parse_json(line, "the edits of the checkpoint"));
  }
  return edits;
}

}  // namespace lockstep
