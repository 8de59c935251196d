// The interface of sources: a checkpoint, or something presented as one, that supplies the bytes of a new state. The
// selection and layouts of the new state: reshard/new_state.hpp. Other sources: reshard/average.hpp,
// reshard/model_folder_source.hpp.
#pragma once

#include "base/json_fwd.hpp"
#include "layout/dtype.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/manifest.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// All members are Local and safe from several threads.
class StateSource {
 public:
  virtual ~StateSource() = default;
  /// Returns the name for messages.
  virtual std::string name() const = 0;
  /// Returns the entry of this source in the document made_from.
  virtual Json origin() const = 0;
  /// Returns facts, documents, and tensors with their default layouts and types. It has no files.
  virtual const Manifest& manifest() const = 0;
  /// Returns whether the manifest has the fingerprint of a tensor: false for tensors that are computed or imported.
  virtual bool has_fingerprint(std::size_t tensor) const = 0;
  /// Returns the text of component trainer; empty if there is none.
  virtual std::string trainer_values() const = 0;
  /// Returns the type in which `read` gives a tensor: its own, or a wider one that the caller rounds.
  virtual DType read_type(std::size_t tensor) const = 0;
  /// Fills boxes of a tensor seen in the shape `as`, in its read_type. Rows that several boxes need are read once if
  /// possible. Throws Error(input) for damage, Error(storage).
  virtual void read(std::size_t tensor, const Shape& as, std::span<const StateBox> boxes) const = 0;
  /// Returns the memory in bytes that reading a box takes besides the result, per element of the box.
  virtual std::uint64_t working_bytes(std::size_t tensor, const Shape& as, const Box& box) const = 0;
  /// Returns the number of file blocks that it may keep from one read to the next.
  virtual int blocks() const = 0;
  /// Returns remarks for people about the source, a line each.
  virtual std::vector<std::string> notes() const { return {}; }
};

/// Opens one checkpoint; at most `blocks` of its blocks are kept in memory. Local. Throws as CheckpointReader does.
std::unique_ptr<StateSource> open_checkpoint_source(const Path& checkpoint, int blocks = 1);

}  // namespace lockstep
