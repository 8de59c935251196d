// A committed checkpoint, opened for reading: any box of any tensor, whatever the pieces and ranks it was written by.
// Of the parts only those are opened that may have a piece of what is asked for. Every table and block that is read is
// checked against its hash. It is serial and needs host memory for the tables of the parts it opened and for one block,
// or for those that it is told to hold.
// Several blocks at a time: store/read_ahead.hpp; ranks that share the reading: checkpoint/shared_read.hpp.
// checkpoint_verify.hpp tells whether a whole checkpoint is sound.
#pragma once

#include "store/checkpoint_index.hpp"
#include "store/manifest.hpp"
#include "store/state_tree.hpp"
#include "store/tensor_source.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The content of the two files that say what a checkpoint holds.
struct CheckpointHead {
  std::string manifest;
  std::string index;
};
/// Throws Error(storage) if one of them cannot be read, and what parse_manifest throws: an index is looked for only
/// where the manifest is one.
CheckpointHead read_head(const Path& checkpoint);

/// A file of a checkpoint that stays open from one block to the next.
struct OpenPart {
  std::size_t file = 0;       // number in Manifest::files
  FileDescriptor descriptor;  // of it; none at first
};

class CheckpointReader final : public TensorSource {
 public:
  /// Reads manifest and index. Throws the error of the verdict (store/verdict.hpp) if it is not sound, naming the file.
  explicit CheckpointReader(const Path& checkpoint);
  /// Takes them as someone else has read them. Throws the same.
  CheckpointReader(Path checkpoint, const CheckpointHead& head);
  ~CheckpointReader() override;

  const Path& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  /// What lies in a file, by tensor. It stays valid as long as the reader. Throws Error(input), Error(storage) for a
  /// table that is damaged or cannot be read.
  std::span<const IndexedPiece> pieces_in(std::size_t file) const;
  /// The table of a file as it is stored, to be told to a process that does not see the file. Throws the same.
  std::string table_bytes(std::size_t file) const;
  /// Takes that of a file which this process does not see: its pieces are known then, their blocks are not here. Local.
  void take_table(std::size_t file, std::string bytes) const;
  /// All pieces of a tensor by their place in it. Throws the same.
  std::vector<const IndexedPiece*> pieces_of(std::size_t tensor) const;
  /// Those that have elements of a box of it. Throws the same, and Error(input) unless they hold each of them once.
  std::vector<const IndexedPiece*> pieces_with(std::size_t tensor, const Box& box) const;
  /// The bytes of a block of a piece. Throws Error(input) if the piece has no such block.
  std::size_t block_size(const IndexedPiece& piece, std::size_t block) const;
  /// Fills `out` with a block as it is stored. `part` is the caller's own. Throws Error(storage) if it cannot be read.
  void fetch_block(const IndexedPiece& piece, std::size_t block, OpenPart& part, std::span<std::byte> out) const;
  /// Throws Error(input) if the bytes of a block do not match its hash, naming tensor, file and byte. This and
  /// fetch_block are safe from several threads.
  void check_block(const IndexedPiece& piece, std::size_t block, std::span<const std::byte> bytes) const;
  /// How many blocks it may hold from one read to the next, each of another piece; 1 at first. A piece that was read to
  /// its end has none. Who reads a tensor by rows that ranks cut by columns comes back to a block of each of them, and
  /// reads it once if there is room for all. Not beside reads.
  void hold_blocks(std::size_t most) { most_blocks_ = std::max<std::size_t>(most, 1); }
  /// Has the system fetch so many bytes behind each block that read() comes to, while that is checked and copied: for
  /// who reads all of a checkpoint, mostly in the order of its files. None at first. Not beside reads.
  void fetch_ahead(std::uint64_t bytes) { ahead_ = bytes; }
  /// Bytes of files that it has read so far.
  std::uint64_t bytes_read() const { return bytes_read_; }
  /// The number of a tensor by its full name or alias; nothing if there is none.
  std::optional<std::size_t> find_tensor(const std::string& name) const;
  /// The same; throws Error(input) with the nearest name.
  std::size_t number_of(const std::string& name) const;

  /// All tensors by full name: "model/wte.weight", "rank=3/rng/state". Values and aliases are left out.
  const std::vector<TensorDescription>& list() const override { return descriptions_; }
  /// Also takes an alias. Throws Error(input) for a block that does not match its hash, naming tensor, file and byte,
  /// Error(storage) for a file that cannot be read.
  void read(const std::string& name, const Box& box, std::span<std::byte> out) const override;
  void read(std::size_t tensor, const Box& box, std::span<std::byte> out) const;  // a box of layout.global
  /// Fills boxes of a tensor that is seen as `as`, going once through each piece that has elements of them. Throws the
  /// same.
  void read(std::size_t tensor, const Shape& as, std::span<const StateBox> boxes) const;
  /// The number of the entry with the small values of a component's cell; nothing if it has none. Throws Error(input)
  /// if that is no text.
  std::optional<std::size_t> values_of(const std::string& component, const std::string& cell) const;
  /// These as JSON text; empty text if there are none.
  std::string values_text(const std::string& component, const std::string& cell) const;

 private:
  struct Block;
  struct RunsOfBox;
  struct Search {  // which files may have pieces of a box; neighbours mostly share layout and files
    Layout layout;
    Box box;
    std::vector<FileRange> among;
    bool by_layout = false;
    std::vector<std::size_t> files;
  };
  void check_piece(const IndexedPiece& piece, const Path& origin) const;
  void take_pieces_of_format_1(std::string_view index);
  std::vector<IndexedPiece> read_table(std::size_t file) const;
  void require_here(std::size_t file) const;
  std::vector<std::size_t> files_with(std::size_t tensor, const Box& box) const;
  std::vector<const IndexedPiece*> pieces_meeting(std::size_t tensor, const Box& box) const;
  void copy_piece(const IndexedPiece& piece, std::vector<RunsOfBox> boxes) const;
  void take_block(const IndexedPiece& piece, std::size_t block, OpenPart& part, std::span<std::byte> out) const;
  Block& place_for(const IndexedPiece& piece) const;
  std::span<const std::byte> block_of(const IndexedPiece& piece, std::size_t block) const;
  Path path_;
  Manifest manifest_;
  std::map<std::string, std::size_t> number_;  // by full name and by full alias
  std::vector<TensorDescription> descriptions_;
  mutable std::mutex tables_mutex_;                                       // guards the tables and the searches
  mutable std::vector<std::optional<std::vector<IndexedPiece>>> tables_;  // by file; those that were asked for
  mutable std::map<std::size_t, std::string> tables_of_others_;           // by file: those that were taken
  mutable std::deque<Search> searches_;                                   // the last ones
  std::size_t most_blocks_ = 1;
  std::uint64_t ahead_ = 0;                                 // bytes
  mutable std::mutex mutex_;                                // guards what follows
  mutable std::list<Block> blocks_;                         // of different pieces, that which was read last first
  mutable OpenPart whole_blocks_;                           // of those that are read to where they go
  mutable std::map<std::size_t, std::uint64_t> asked_for_;  // by file: the end of what the system was asked to fetch
  mutable std::atomic<std::uint64_t> bytes_read_{0};
};

/// The weights under their Hugging Face names, aliases included: "wte.weight", by a reader that holds so many blocks.
/// Throws Error(input) if there is no component model.
std::unique_ptr<TensorSource> open_model(const Path& checkpoint, std::size_t blocks = 1);

}  // namespace lockstep
