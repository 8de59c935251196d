// Reads a committed checkpoint: any box of any tensor, whichever pieces and ranks wrote it. It opens only the parts
// that may have a piece of the box, and checks every table and block that it reads against its hash. It is serial. It
// keeps in host memory the tables of the parts that it opened, and one block or the number set by hold_blocks.
// Reading several blocks ahead: store/read_ahead.hpp. Ranks that read together: checkpoint/shared_read.hpp. Verifying a
// whole checkpoint: store/checkpoint_verify.hpp.
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

/// The contents of the two files that describe a checkpoint.
struct CheckpointHead {
  std::string manifest;
  std::string index;
};
/// Reads both files. Throws Error(storage) if one of them cannot be read, and as parse_manifest does; the index is
/// opened only after the manifest was parsed.
CheckpointHead read_head(const Path& checkpoint);

/// A file of a checkpoint that stays open from one block to the next.
struct OpenPart {
  std::size_t file = 0;       // number in Manifest::files
  FileDescriptor descriptor;  // of the file; not open at first
};

class CheckpointReader final : public TensorSource {
 public:
  /// Reads manifest and index. Throws the error of the verdict (store/verdict.hpp) if they are not sound, naming the
  /// file.
  explicit CheckpointReader(const Path& checkpoint);
  /// Takes the contents of both files from the caller. Throws the same.
  CheckpointReader(Path checkpoint, const CheckpointHead& head);
  ~CheckpointReader() override;

  const Path& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  /// Returns the pieces in a file, by tensor. They stay valid as long as the reader. Throws Error(input) for a damaged
  /// table, Error(storage) for one that cannot be read.
  std::span<const IndexedPiece> pieces_in(std::size_t file) const;
  /// Returns the stored table of a file, for a process that does not see the file. Throws the same.
  std::string table_bytes(std::size_t file) const;
  /// Takes the table of a file that this process does not see: its pieces are known then, but not readable here. Local.
  void take_table(std::size_t file, std::string bytes) const;
  /// Returns all pieces of a tensor by their place in it. Throws the same.
  std::vector<const IndexedPiece*> pieces_of(std::size_t tensor) const;
  /// Returns the pieces with elements of a box. Throws the same, and Error(input) unless they hold each element once.
  std::vector<const IndexedPiece*> pieces_with(std::size_t tensor, const Box& box) const;
  /// Returns the size of a block of a piece in bytes. Throws Error(input) if the piece has no such block.
  std::size_t block_size(const IndexedPiece& piece, std::size_t block) const;
  /// Fills `out` with a block as it is stored. `part` is the caller's own. Throws Error(storage) if it cannot be read.
  void fetch_block(const IndexedPiece& piece, std::size_t block, OpenPart& part, std::span<std::byte> out) const;
  /// Throws Error(input) if the bytes of a block do not match its hash, naming tensor, file and byte. check_block and
  /// fetch_block are safe from several threads.
  void check_block(const IndexedPiece& piece, std::size_t block, std::span<const std::byte> bytes) const;
  /// Sets the number of blocks that are kept from one read to the next, each of another piece; default: 1. A piece that
  /// was read to its end keeps none. Reading a tensor by rows from parts that hold columns returns to a block of each
  /// part; it is read once if all of them fit. Not during reads.
  void hold_blocks(std::size_t most) { most_blocks_ = std::max<std::size_t>(most, 1); }
  /// Asks the system to fetch this many bytes after each block that read() reads, while the block is checked and
  /// copied. For reading all of a checkpoint, mostly in the order of its files. Default: 0. Not during reads.
  void fetch_ahead(std::uint64_t bytes) { ahead_ = bytes; }
  /// Returns the bytes read from files so far.
  std::uint64_t bytes_read() const { return bytes_read_; }
  /// Returns the number of a tensor by its full name or alias; nothing if there is none.
  std::optional<std::size_t> find_tensor(const std::string& name) const;
  /// Does the same, but throws Error(input) with the nearest name.
  std::size_t number_of(const std::string& name) const;

  /// All tensors by full name: "model/wte.weight", "rank=3/rng/state". Values and aliases are left out.
  const std::vector<TensorDescription>& list() const override { return descriptions_; }
  /// Also takes an alias. Throws Error(input) for a block that does not match its hash, naming tensor, file and byte,
  /// Error(storage) for a file that cannot be read.
  void read(const std::string& name, const Box& box, std::span<std::byte> out) const override;
  void read(std::size_t tensor, const Box& box, std::span<std::byte> out) const;  // a box of layout.global
  /// Fills boxes of a tensor seen in the shape `as`, reading each piece with elements of them once. Throws the same.
  void read(std::size_t tensor, const Shape& as, std::span<const StateBox> boxes) const;
  /// Returns the number of the entry with the small values of a component's cell; nothing if there is none. Throws
  /// Error(input) if the entry is not text.
  std::optional<std::size_t> values_of(const std::string& component, const std::string& cell) const;
  /// Returns these values as JSON text; empty if there are none.
  std::string values_text(const std::string& component, const std::string& cell) const;

 private:
  struct Block;
  struct RunsOfBox;
  struct Search {  // files that may have pieces of a box; neighbours mostly share layout and files
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
  mutable std::vector<std::optional<std::vector<IndexedPiece>>> tables_;  // by file; filled on request
  mutable std::map<std::size_t, std::string> tables_of_others_;           // by file; from take_table
  mutable std::deque<Search> searches_;                                   // the latest ones
  std::size_t most_blocks_ = 1;
  std::uint64_t ahead_ = 0;          // bytes
  mutable std::mutex mutex_;         // guards the following members
  mutable std::list<Block> blocks_;  // of different pieces, latest read first
  mutable OpenPart whole_blocks_;    // for blocks that are read straight to their destination
  // By file: end of the bytes that the system was asked to fetch.
  mutable std::map<std::size_t, std::uint64_t> asked_for_;
  mutable std::atomic<std::uint64_t> bytes_read_{0};
};

/// Returns the weights under their Hugging Face names, aliases included: "wte.weight". The reader keeps `blocks`
/// blocks. Throws Error(input) if there is no component model.
std::unique_ptr<TensorSource> open_model(const Path& checkpoint, std::size_t blocks = 1);

}  // namespace lockstep
