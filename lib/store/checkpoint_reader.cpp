#include "store/checkpoint_reader.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "layout/box_runs.hpp"
#include "store/format_1.hpp"
#include "store/stored_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace lockstep {

struct CheckpointReader::Block {
  const IndexedPiece* piece = nullptr;
  std::size_t number = 0;
  std::unique_ptr<std::byte[]> memory;
  std::size_t room = 0;  // there
  std::span<std::byte> bytes;
  OpenPart part;
};

// What a box takes of a piece, in the order of the piece.
struct CheckpointReader::RunsOfBox {
  std::span<std::byte> out;
  std::vector<BoxRun> runs;  // a: the piece, b: the box
  std::size_t next = 0;      // of the runs
  std::int64_t done = 0;     // elements of that one

  bool ended() const { return next == runs.size(); }
  std::int64_t at() const { return runs[next].in_a + done; }
  std::int64_t left() const { return runs[next].length - done; }
  std::span<std::byte> place(std::int64_t count, std::int64_t size) const {
    return out.subspan(static_cast<std::size_t>((runs[next].in_b + done) * size),
                       static_cast<std::size_t>(count * size));
  }
  void pass(std::int64_t count) {
    done += count;
    if (left() > 0) return;
    ++next;
    done = 0;
  }
};

CheckpointHead read_head(const Path& checkpoint) {
  CheckpointHead head{read_stored(checkpoint / manifest_file), {}};
  parse_manifest(head.manifest, (checkpoint / manifest_file).string());
  head.index = read_stored(checkpoint / index_file);
  return head;
}

CheckpointReader::CheckpointReader(const Path& checkpoint) : CheckpointReader(checkpoint, read_head(checkpoint)) {}

CheckpointReader::CheckpointReader(Path checkpoint, const CheckpointHead& head) : path_(std::move(checkpoint)) {
  manifest_ = parse_manifest(head.manifest, (path_ / manifest_file).string());
  add_index(manifest_, head.index, path_ / index_file);
  for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
    const StoredTensor& tensor = manifest_.tensors[i];
    const std::string name = full_name(tensor);
    number_[name] = i;
    if (is_values(tensor)) continue;
    descriptions_.push_back({name, known_shape(tensor.layout), tensor.layout.dtype});
    for (const std::string& alias : tensor.aliases)
      number_[name.substr(0, name.size() - tensor.name.size()) + alias] = i;
  }
  tables_.resize(manifest_.files.size());
  for (std::size_t i = 0; i < manifest_.files.size(); ++i)
    if (manifest_.files[i].path == index_file) tables_[i].emplace();
  if (manifest_.format == 1) take_pieces_of_format_1(head.index);
}

CheckpointReader::~CheckpointReader() = default;

void CheckpointReader::take_pieces_of_format_1(std::string_view index) {
  for (auto& table : tables_) table.emplace();
  for (IndexedPiece& piece : parse_piece_index(index, path_ / index_file)) {
    if (piece.tensor >= manifest_.tensors.size() || piece.file >= manifest_.files.size())
      fail(ExitCode::input, "{}: a piece refers to a tensor or file that is not listed", (path_ / index_file).string());
    check_piece(piece, path_ / index_file);
    std::vector<FileRange>& files = manifest_.tensors[piece.tensor].files;
    const bool known = std::ranges::any_of(files, [&](const FileRange& range) { return range.first == piece.file; });
    if (!known) files.push_back({piece.file, 1});
    tables_[piece.file]->push_back(std::move(piece));
  }
  for (auto& table : tables_) std::ranges::stable_sort(*table, {}, &IndexedPiece::tensor);
}

// A piece lies in its tensor and in its file, with a hash for each of its blocks: whoever reads on may rely on it.
void CheckpointReader::check_piece(const IndexedPiece& piece, const Path& origin) const {
  const StoredTensor& tensor = manifest_.tensors[piece.tensor];
  const StoredFile& file = manifest_.files[piece.file];
  if (!lies_in(piece.box, tensor.layout.global))
    fail(ExitCode::input, "{}: a piece lies outside of {}", origin.string(), full_name(tensor));
  const auto bytes =
      static_cast<std::uint64_t>(elements(piece.box)) * static_cast<std::uint64_t>(size_of(tensor.layout.dtype));
  const bool in_file = bytes == 0 || (piece.record.offset <= file.bytes && bytes <= file.bytes - piece.record.offset);
  if (!in_file || piece.record.blocks.size() != (bytes + block_bytes - 1) / block_bytes) {
    fail(ExitCode::input, "{}: a piece of {} with {} bytes at {} does not fit {} of {} bytes", origin.string(),
         full_name(tensor), bytes, piece.record.offset, file.path, file.bytes);
  }
}

// Where nodes have storage of their own, a file that is not here is not lost.
void CheckpointReader::require_here(std::size_t file) const {
  const StoredFile& stored = manifest_.files[file];
  if (!stored.node.empty() && !length_of(path_ / stored.path))
    throw Error(ExitCode::storage, not_here(path_ / stored.path, stored.node), gather_hint());
}

std::string CheckpointReader::table_bytes(std::size_t file) const {
  const StoredFile& stored = manifest_.files.at(file);
  require_here(file);
  std::string bytes = read_table_bytes(path_ / stored.path, stored.table);
  bytes_read_ += bytes.size();
  return bytes;
}

void CheckpointReader::take_table(std::size_t file, std::string bytes) const {
  const std::lock_guard lock(tables_mutex_);
  tables_of_others_[file] = std::move(bytes);
}

std::vector<IndexedPiece> CheckpointReader::read_table(std::size_t file) const {
  const StoredFile& stored = manifest_.files[file];
  const Path path = path_ / stored.path;
  const auto told = tables_of_others_.find(file);
  const PartTable table = parse_part_table(told == tables_of_others_.end() ? table_bytes(file) : told->second,
                                           stored.table, stored.table_hash, path);
  std::vector<IndexedPiece> pieces;
  for (std::size_t i = 0; i < table.pieces.size(); ++i) {
    const PartPiece& piece = table.pieces[i];
    const auto tensor = number_.find(piece.tensor);
    const bool known = tensor != number_.end() && full_name(manifest_.tensors[tensor->second]) == piece.tensor &&
                       manifest_.tensors[tensor->second].layout.dtype == piece.dtype &&
                       manifest_.tensors[tensor->second].layout.global == piece.global;
    if (!known)
      fail(ExitCode::input, "{} holds {} {} {}, which {} does not list", path.string(), piece.tensor,
           name_of(piece.dtype), to_text(piece.global), index_file);
    pieces.push_back({tensor->second, file, piece.box, table.records[i]});
    check_piece(pieces.back(), path);
  }
  std::ranges::stable_sort(pieces, {}, &IndexedPiece::tensor);
  return pieces;
}

std::span<const IndexedPiece> CheckpointReader::pieces_in(std::size_t file) const {
  const std::lock_guard lock(tables_mutex_);
  std::optional<std::vector<IndexedPiece>>& table = tables_.at(file);
  if (!table) table = read_table(file);
  return *table;
}

// Where pieces follow the layout, those of a box were written by ranks whose boxes meet it.
std::vector<std::size_t> CheckpointReader::files_with(std::size_t tensor, const Box& box) const {
  const StoredTensor& stored = manifest_.tensors[tensor];
  const std::lock_guard lock(tables_mutex_);
  for (const Search& search : searches_)
    if (search.box == box && search.by_layout == stored.by_layout && search.among == stored.files &&
        search.layout == stored.layout)
      return search.files;
  Search search{stored.layout, box, stored.files, stored.by_layout, {}};
  std::vector<Rank> holders;
  if (stored.by_layout) {
    for (const Rank rank : holders_meeting(stored.layout, box))
      std::ranges::copy(replicas_of(stored.layout, rank), std::back_inserter(holders));
    std::ranges::sort(holders);
  }
  for (const FileRange& range : stored.files) {
    for (std::size_t file = range.first; file < range.first + range.count; ++file) {
      const auto meets = [&](Rank rank) {
        return rank >= world_size(stored.layout.mesh) || std::ranges::binary_search(holders, rank);
      };
      if (!stored.by_layout || std::ranges::any_of(manifest_.files[file].writers, meets)) search.files.push_back(file);
    }
  }
  constexpr std::size_t most_searches = 64;  // kinds of tensors in a layer, with room
  searches_.push_front(std::move(search));
  if (searches_.size() > most_searches) searches_.pop_back();
  return searches_.front().files;
}

std::vector<const IndexedPiece*> CheckpointReader::pieces_meeting(std::size_t tensor, const Box& box) const {
  std::vector<const IndexedPiece*> pieces;
  for (const std::size_t file : files_with(tensor, box)) {
    for (const IndexedPiece& piece : std::ranges::equal_range(pieces_in(file), tensor, {}, &IndexedPiece::tensor))
      if (!empty(intersect(piece.box, box))) pieces.push_back(&piece);
  }
  std::ranges::stable_sort(pieces, {}, [](const IndexedPiece* piece) -> const Shape& { return piece->box.begin; });
  return pieces;
}

std::vector<const IndexedPiece*> CheckpointReader::pieces_of(std::size_t tensor) const {
  return pieces_meeting(tensor, whole(manifest_.tensors.at(tensor).layout.global));
}

std::vector<const IndexedPiece*> CheckpointReader::pieces_with(std::size_t tensor, const Box& box) const {
  const StoredTensor& stored = manifest_.tensors.at(tensor);
  std::vector<const IndexedPiece*> pieces = pieces_meeting(tensor, box);
  std::int64_t found = 0;
  for (const IndexedPiece* piece : pieces) found += elements(intersect(piece->box, box));
  if (found != elements(box))
    fail(ExitCode::input, "{}: {} of {} elements of {} {} are in no piece", path_.string(), elements(box) - found,
         elements(box), full_name(stored), to_text(box));
  return pieces;
}

std::optional<std::size_t> CheckpointReader::find_tensor(const std::string& name) const {
  const auto found = number_.find(name);
  return found == number_.end() ? std::nullopt : std::optional(found->second);
}

std::size_t CheckpointReader::number_of(const std::string& name) const {
  if (const auto number = find_tensor(name)) return *number;
  std::vector<std::string> names;
  for (const auto& entry : number_) names.push_back(entry.first);
  const auto near = nearest(name, names);
  throw Error(ExitCode::input, fmt::format("{} holds no '{}'", path_.string(), name),
              near ? fmt::format("the nearest name is '{}'", *near) : "");
}

void CheckpointReader::read(const std::string& name, const Box& box, std::span<std::byte> out) const {
  const std::size_t number = number_of(name);
  const StateBox one{box, out};
  read(number, known_shape(manifest_.tensors[number].layout), {&one, 1});
}

void CheckpointReader::read(std::size_t tensor, const Box& box, std::span<std::byte> out) const {
  const StateBox one{box, out};
  read(tensor, manifest_.tensors.at(tensor).layout.global, {&one, 1});
}

void CheckpointReader::read(std::size_t tensor, const Shape& as, std::span<const StateBox> boxes) const {
  const StoredTensor& stored = manifest_.tensors.at(tensor);
  const Shape& global = stored.layout.global;
  invariant(as == global || elements(as) == elements(global), "a view of a tensor has as many elements as the tensor");
  struct Meeting {
    const IndexedPiece* piece;
    const StateBox* box;
  };
  std::vector<Meeting> meetings;
  for (const StateBox& wanted : boxes) {
    const Box& box = wanted.box;
    if (box.extent.size() != as.size() || (!empty(box) && !contains(whole(as), box)))
      fail(ExitCode::input, "the box {} lies outside of {} {}", to_text(box), full_name(stored), to_text(as));
    invariant(wanted.bytes.size() ==
                  static_cast<std::size_t>(elements(box)) * static_cast<std::size_t>(size_of(stored.layout.dtype)),
              "the output has the bytes of the box");
    if (empty(box)) continue;
    for (const IndexedPiece* piece : pieces_with(tensor, as == global ? box : rows_in_view(box, as, global)))
      meetings.push_back({piece, &wanted});
  }
  std::ranges::stable_sort(meetings, {},
                           [](const Meeting& meeting) -> const Shape& { return meeting.piece->box.begin; });
  for (std::size_t i = 0; i < meetings.size();) {
    const IndexedPiece& piece = *meetings[i].piece;
    std::vector<RunsOfBox> runs;
    for (; i < meetings.size() && meetings[i].piece == &piece; ++i)
      runs.push_back({meetings[i].box->bytes, runs_between(piece.box, piece.box, global, meetings[i].box->box, as)});
    copy_piece(piece, std::move(runs));
  }
}

std::optional<std::size_t> CheckpointReader::values_of(const std::string& component, const std::string& cell) const {
  for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
    const StoredTensor& tensor = manifest_.tensors[i];
    if (!is_values(tensor) || tensor.component != component || tensor.cell != (cell == "all" ? "" : cell)) continue;
    constexpr std::int64_t most = std::int64_t{1} << 30;  // small values: a damaged shape must not become an allocation
    const std::int64_t size = elements(tensor.layout.global);
    if (size > most || size_of(tensor.layout.dtype) != 1)
      fail(ExitCode::input, "{}: {} is not the text of a component's values", path_.string(), full_name(tensor));
    return i;
  }
  return std::nullopt;
}

std::string CheckpointReader::values_text(const std::string& component, const std::string& cell) const {
  const auto number = values_of(component, cell);
  if (!number) return {};
  const Shape& shape = manifest_.tensors[*number].layout.global;
  std::string text(static_cast<std::size_t>(elements(shape)), '\0');
  read(*number, whole(shape), std::as_writable_bytes(std::span(text)));
  return text;
}

// It goes block by block, so that each byte is checked before it is used and no more than a block is held: none where
// all of it goes to one place.
void CheckpointReader::copy_piece(const IndexedPiece& piece, std::vector<RunsOfBox> boxes) const {
  const auto size = static_cast<std::int64_t>(size_of(manifest_.tensors[piece.tensor].layout.dtype));
  const std::int64_t per_block = static_cast<std::int64_t>(block_bytes) / size, in_piece = elements(piece.box);
  const std::lock_guard lock(mutex_);
  while (true) {
    std::erase_if(boxes, &RunsOfBox::ended);
    if (boxes.empty()) return;
    const std::int64_t first = std::ranges::min(boxes, {}, &RunsOfBox::at).at();
    const std::int64_t begin = first / per_block * per_block, end = std::min(begin + per_block, in_piece);
    const auto number = static_cast<std::size_t>(begin / per_block);
    const auto takes_all = [&](const RunsOfBox& box) { return box.at() == begin && box.left() >= end - begin; };
    const auto whole_block = std::ranges::find_if(boxes, takes_all);
    std::span<const std::byte> block;
    if (whole_block != boxes.end()) {  // it need not be held
      const std::span<std::byte> to = whole_block->place(end - begin, size);
      take_block(piece, number, whole_blocks_, to);
      block = to;
    } else {
      block = block_of(piece, number);
    }
    bool to_the_end = false;
    for (RunsOfBox& box : boxes) {
      while (!box.ended() && box.at() < end) {
        const std::int64_t count = std::min(box.left(), end - box.at());
        const auto from = block.subspan(static_cast<std::size_t>((box.at() - begin) * size));
        const std::span<std::byte> to = box.place(count, size);
        to_the_end |= box.at() + count == in_piece;
        if (to.data() != from.data()) std::memcpy(to.data(), from.data(), to.size());
        box.pass(count);
      }
    }
    if (to_the_end && whole_block == boxes.end()) blocks_.front().piece = nullptr;
  }
}

void CheckpointReader::take_block(const IndexedPiece& piece, std::size_t block, OpenPart& part,
                                  std::span<std::byte> out) const {
  fetch_block(piece, block, part, out);
  const std::uint64_t end = piece.record.offset + block * block_bytes + out.size();
  std::uint64_t& asked_for = asked_for_[piece.file];
  if (ahead_ > 0 && asked_for < end + ahead_ / 2) {
    const std::uint64_t from = std::max(asked_for, end);
    asked_for = end + ahead_;
    ::posix_fadvise(part.descriptor.get(), static_cast<off_t>(from), static_cast<off_t>(asked_for - from),
                    POSIX_FADV_WILLNEED);  // advice: where it is not taken, the next read waits
  }
  check_block(piece, block, out);
}

// That of the piece itself, or one that is new or needed least: of a piece that is done, else of another tensor, which
// was read before, else the last one. For who goes around the pieces of a tensor comes back to the last one last.
CheckpointReader::Block& CheckpointReader::place_for(const IndexedPiece& piece) const {
  const auto of_piece = [&](const Block& block) { return block.piece == &piece; };
  auto place = std::ranges::find_if(blocks_, of_piece);
  if (place == blocks_.end()) place = std::ranges::find(blocks_, nullptr, &Block::piece);
  if (place == blocks_.end() && blocks_.size() < most_blocks_) place = blocks_.emplace(blocks_.end());
  if (place == blocks_.end()) {
    const auto oldest = std::find_if(blocks_.rbegin(), blocks_.rend(),
                                     [&](const Block& block) { return block.piece->tensor != piece.tensor; });
    place = oldest == blocks_.rend() ? blocks_.begin() : std::prev(oldest.base());
  }
  blocks_.splice(blocks_.begin(), blocks_, place);
  return blocks_.front();
}

std::span<const std::byte> CheckpointReader::block_of(const IndexedPiece& piece, std::size_t block) const {
  Block& place = place_for(piece);
  if (place.piece == &piece && place.number == block) return place.bytes;
  place.piece = nullptr;
  const std::size_t bytes = block_size(piece, block);
  if (place.room < bytes) {
    place.memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    place.room = bytes;
  }
  place.bytes = {place.memory.get(), bytes};
  take_block(piece, block, place.part, place.bytes);
  place.piece = &piece;
  place.number = block;
  return place.bytes;
}

std::size_t CheckpointReader::block_size(const IndexedPiece& piece, std::size_t block) const {
  const StoredTensor& tensor = manifest_.tensors[piece.tensor];
  const auto bytes =
      static_cast<std::uint64_t>(elements(piece.box)) * static_cast<std::uint64_t>(size_of(tensor.layout.dtype));
  const std::uint64_t begin = block * block_bytes;
  if (block >= piece.record.blocks.size() || begin >= bytes)
    fail(ExitCode::input, "{}: there is no hash of block {} of {} {}", path_.string(), block, full_name(tensor),
         to_text(piece.box));
  return std::min(block_bytes, bytes - begin);
}

void CheckpointReader::fetch_block(const IndexedPiece& piece, std::size_t block, OpenPart& part,
                                   std::span<std::byte> out) const {
  invariant(out.size() == block_size(piece, block), "the output has the bytes of the block");
  const Path file = path_ / manifest_.files[piece.file].path;
  if (part.descriptor.get() < 0 || part.file != piece.file) {
    require_here(piece.file);
    part.descriptor = open_stored(file);
    part.file = piece.file;
  }
  read_stored(part.descriptor, out, piece.record.offset + block * block_bytes, file);
  bytes_read_ += out.size();
}

void CheckpointReader::check_block(const IndexedPiece& piece, std::size_t block,
                                   std::span<const std::byte> bytes) const {
  if (hash128(bytes) == piece.record.blocks[block]) return;
  const std::uint64_t offset = piece.record.offset + block * block_bytes;
  throw Error(
      ExitCode::input,
      fmt::format("{} is damaged: {} {} does not match its hash (bytes {} to {} of the file)",
                  (path_ / manifest_.files[piece.file].path).string(), full_name(manifest_.tensors[piece.tensor]),
                  to_text(piece.box), offset, offset + bytes.size()),
      "checkpoint-inspect --verify=hashes lists all damage");
}

namespace {

// The view of one component: names without prefix, and aliases as tensors of their own.
class ModelOfCheckpoint final : public TensorSource {
 public:
  ModelOfCheckpoint(const Path& checkpoint, std::size_t blocks) : reader_(checkpoint) {
    reader_.hold_blocks(blocks);
    if (find_component(reader_.manifest(), component_) == nullptr)
      fail(ExitCode::input, "{} holds no component '{}'", checkpoint.string(), component_);
    for (const StoredTensor& tensor : reader_.manifest().tensors) {
      if (tensor.component != component_ || !tensor.cell.empty() || is_values(tensor)) continue;
      descriptions_.push_back({tensor.name, known_shape(tensor.layout), tensor.layout.dtype});
      for (const std::string& alias : tensor.aliases)
        descriptions_.push_back({alias, known_shape(tensor.layout), tensor.layout.dtype});
    }
  }
  const std::vector<TensorDescription>& list() const override { return descriptions_; }
  void read(const std::string& name, const Box& box, std::span<std::byte> out) const override {
    reader_.read(component_ + "/" + name, box, out);
  }

 private:
  const std::string component_ = "model";
  CheckpointReader reader_;
  std::vector<TensorDescription> descriptions_;
};

}  // namespace

std::unique_ptr<TensorSource> open_model(const Path& checkpoint, std::size_t blocks) {
  return std::make_unique<ModelOfCheckpoint>(checkpoint, blocks);
}

}  // namespace lockstep
