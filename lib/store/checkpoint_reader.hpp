// A committed checkpoint, opened for reading: any box of any tensor, whatever the pieces and ranks it was written by.
// Every block that is read is checked against its hash. It is serial and needs host memory for one block.
// checkpoint_verify.hpp tells whether a whole checkpoint is sound.
#pragma once

#include "store/manifest.hpp"
#include "store/piece_index.hpp"
#include "store/tensor_source.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

class CheckpointReader final : public TensorSource {
 public:
  /// Reads manifest and index. Throws the error of the verdict (store/verdict.hpp) if it is not sound, naming the file.
  explicit CheckpointReader(Path checkpoint);
  ~CheckpointReader() override;

  const Path& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  const std::vector<IndexedPiece>& pieces() const { return pieces_; }
  /// The numbers in pieces() of a tensor's pieces: [first, second).
  std::pair<std::size_t, std::size_t> pieces_of(std::size_t tensor) const;
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
  void read(std::size_t tensor, const Shape& as, const Box& box, std::span<std::byte> out) const;  // or of a view
  /// The small values of a component's cell as JSON text; empty text if it has none.
  std::string values_text(const std::string& component, const std::string& cell) const;

 private:
  struct Block;
  void check_piece(const Path& index, std::size_t number) const;
  void copy_piece(const IndexedPiece& piece, const Box& box, std::span<std::byte> out) const;
  const std::vector<std::byte>& block_of(const IndexedPiece& piece, std::size_t block) const;
  Path path_;
  Manifest manifest_;
  std::vector<IndexedPiece> pieces_;
  std::vector<std::size_t> first_piece_;       // by tensor, one more than tensors
  std::map<std::string, std::size_t> number_;  // by full name and by full alias
  std::vector<TensorDescription> descriptions_;
  mutable std::mutex mutex_;  // guards the block that was read last
  mutable std::unique_ptr<Block> last_;
};

/// The tensors of one component under their own names, aliases included: "wte.weight". Throws Error(input) if there is
/// no such component.
std::unique_ptr<TensorSource> open_component(const Path& checkpoint, const std::string& component);
/// The weights, under their Hugging Face names.
std::unique_ptr<TensorSource> open_model(const Path& checkpoint);

}  // namespace lockstep
