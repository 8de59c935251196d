#include "base/error.hpp"
#include "base/json.hpp"
#include "base/own_files.hpp"
#include "exchange/safetensors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <unordered_map>

namespace lockstep {

namespace {

struct ShardFile {
  std::string name;  // published
  Path staged;
  FileDescriptor file;
  std::vector<std::size_t> tensors;  // of the declaration, in the order of their data
  std::uint64_t unsynced = 0;        // bytes that were written since the storage had all
};

struct Progress {
  std::size_t shard = 0;
  std::uint64_t offset = 0;  // byte in the shard's file where the tensor begins
  std::int64_t next = 0;     // row that is to be written next
  std::int64_t end = 0;      // behind the last one
  std::uint64_t row_bytes = 0;
};

std::uint64_t bytes_of(const TensorDescription& tensor) {
  return static_cast<std::uint64_t>(elements(tensor.shape)) * static_cast<std::uint64_t>(size_of(tensor.dtype));
}

/// Divides the declaration, in its order, into shards of at most `most` bytes; wide types first within a shard, so that
/// all are aligned.
std::vector<std::vector<std::size_t>> divide(const std::vector<TensorDescription>& tensors, std::uint64_t most) {
  std::vector<std::vector<std::size_t>> shards(1);
  std::uint64_t filled = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t bytes = bytes_of(tensors[i]);
    if (!shards.back().empty() && filled + bytes > most) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(i);
    filled += bytes;
  }
  for (std::vector<std::size_t>& shard : shards) {
    std::stable_sort(shard.begin(), shard.end(), [&](std::size_t a, std::size_t b) {
      return size_of(tensors[a].dtype) > size_of(tensors[b].dtype);
    });
  }
  return shards;
}

std::string header_of(const std::vector<TensorDescription>& tensors, const std::vector<std::size_t>& order) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  std::uint64_t offset = 0;
  for (const std::size_t index : order) {
    const TensorDescription& tensor = tensors[index];
    const std::uint64_t end = offset + bytes_of(tensor);
    text += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", to_text(Json(tensor.name)),
                        safetensors_name(tensor.dtype), fmt::join(tensor.shape, ","), offset, end);
    offset = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string prefix(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) prefix[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return prefix + text;
}

}  // namespace

struct SafetensorsWriter::State {
  Path folder;
  std::string stem;
  std::vector<TensorDescription> tensors;
  std::vector<ShardFile> shards;
  std::unordered_map<std::string, std::size_t> indices;  // by name, in tensors
  std::vector<Progress> progress;                        // parallel to tensors
  std::optional<SafetensorsShare> share;

  std::string index_name() const { return stem + ".safetensors.index.json"; }
  bool joins() const { return share && share->role == SafetensorsShare::Role::joins; }
  void open(ShardFile& shard, std::size_t number);
  void remove_staged();
  std::string index_text() const;
};

void SafetensorsWriter::State::open(ShardFile& shard, std::size_t number) {
  const std::string header = header_of(tensors, shard.tensors);
  std::uint64_t offset = header.size();
  for (const std::size_t index : shard.tensors) {
    const TensorDescription& tensor = tensors[index];
    const std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape.front();
    const std::uint64_t bytes = bytes_of(tensor);
    const RowRange own = share ? share->rows.at(index) : RowRange{0, rows};
    invariant(own.first >= 0 && own.first <= own.end && own.end <= rows, "a writer's rows are rows of the tensor");
    progress[index] = {number, offset, own.first, own.end, rows == 0 ? 0 : bytes / static_cast<std::uint64_t>(rows)};
    offset += bytes;
  }
  if (joins()) {
    shard.file = open_file(shard.staged, O_WRONLY);
  } else {
    shard.file = open_file(shard.staged, O_WRONLY | O_CREAT | O_EXCL);
    write_at(shard.file, std::as_bytes(std::span(header)), 0, shard.staged);
  }
}

void SafetensorsWriter::State::remove_staged() {
  if (joins()) return;
  for (const ShardFile& shard : shards) ::unlink(shard.staged.c_str());
}

std::string SafetensorsWriter::State::index_text() const {
  Json map = Json::object();
  std::uint64_t total = 0;
  auto& entries = map.get_ref<Json::object_t&>();  // names are unique: filled without a search for each
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    entries.emplace_back(tensors[i].name, shards[progress[i].shard].name);
    total += bytes_of(tensors[i]);
  }
  return to_text(Json{{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}}, 2) + "\n";
}

SafetensorsWriter::SafetensorsWriter(const Path& folder, std::vector<TensorDescription> tensors,
                                     SafetensorsOptions options)
    : state_(std::make_unique<State>()) {
  state_->folder = folder;
  state_->stem = std::move(options.stem);
  state_->tensors = std::move(tensors);
  state_->progress.resize(state_->tensors.size());
  state_->share = std::move(options.share);
  const std::string staged_as = state_->share ? state_->share->staged_as : make_uuid();
  for (std::size_t i = 0; i < state_->tensors.size(); ++i) {
    if (!state_->indices.emplace(state_->tensors[i].name, i).second)
      fail(ExitCode::bug, "tensor '{}' is declared twice", state_->tensors[i].name);
  }
  std::vector<std::vector<std::size_t>> orders = divide(state_->tensors, options.shard_bytes);
  const std::size_t count = orders.size();
  try {
    for (std::size_t i = 0; i < count; ++i) {
      const std::string name = count == 1 ? state_->stem + ".safetensors"
                                          : fmt::format("{}-{:05}-of-{:05}.safetensors", state_->stem, i + 1, count);
      state_->shards.push_back({name, temporary_beside(folder / name, staged_as), {}, std::move(orders[i])});
      state_->open(state_->shards.back(), i);
    }
  } catch (...) {
    state_->remove_staged();
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (state_) state_->remove_staged();
}

std::vector<std::string> SafetensorsWriter::files() const {
  std::vector<std::string> names;
  for (const ShardFile& shard : state_->shards) names.push_back(shard.name);
  if (names.size() > 1) names.push_back(state_->index_name());
  return names;
}

void SafetensorsWriter::write(const std::string& name, const Box& box, std::span<const std::byte> bytes) {
  const auto found = state_->indices.find(name);
  if (found == state_->indices.end()) fail(ExitCode::bug, "tensor '{}' is written but was not declared", name);
  const TensorDescription& tensor = state_->tensors[found->second];
  Progress& progress = state_->progress[found->second];
  Box expected = whole(tensor.shape);
  std::int64_t rows = 1;
  if (!tensor.shape.empty() && !box.extent.empty()) {
    rows = box.extent.front();
    expected.begin.front() = progress.next;
    expected.extent.front() = rows;
  }
  const bool fits = box == expected && progress.next + rows <= progress.end &&
                    bytes.size() == static_cast<std::uint64_t>(rows) * progress.row_bytes;
  if (!fits) {
    fail(ExitCode::bug,
         "rows of tensor '{}' are written out of order or of the wrong size: box {}, {} bytes, where row {} is next",
         name, to_text(box), bytes.size(), progress.next);
  }
  ShardFile& shard = state_->shards[progress.shard];
  write_at(shard.file, bytes, progress.offset + static_cast<std::uint64_t>(progress.next) * progress.row_bytes,
           shard.staged);
  progress.next += rows;
  constexpr std::uint64_t most_unsynced = std::uint64_t{1} << 30;  // else finish() would wait for all of it at once
  shard.unsynced += bytes.size();
  if (shard.unsynced < most_unsynced) return;
  sync_file(shard.file, shard.staged);
  shard.unsynced = 0;
}

void SafetensorsWriter::finish() {
  for (std::size_t i = 0; i < state_->tensors.size(); ++i) {
    const Progress& progress = state_->progress[i];
    if (progress.next != progress.end && progress.row_bytes > 0) {
      fail(ExitCode::bug, "tensor '{}' is incomplete: rows were written up to {} of {}", state_->tensors[i].name,
           progress.next, progress.end);
    }
  }
  for (ShardFile& shard : state_->shards) {
    sync_file(shard.file, shard.staged);
    shard.file.close(shard.staged);
  }
  if (state_->joins()) return;
  for (const ShardFile& shard : state_->shards) publish_rename(shard.staged, state_->folder / shard.name);
  if (state_->shards.size() > 1) publish_file(state_->folder / state_->index_name(), state_->index_text());
}

}  // namespace lockstep
