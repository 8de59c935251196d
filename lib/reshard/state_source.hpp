// Where the bytes of a new state come from: a checkpoint, or something that is seen as one. What of it is kept, and in
// which layouts and types: reshard/new_state.hpp. The others: reshard/average.hpp,
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
  /// For messages.
  virtual std::string name() const = 0;
  /// What the document made_from tells of it.
  virtual Json origin() const = 0;
  /// Facts, documents, and tensors in the layouts and types that they have if nobody asks for others. It has no files.
  virtual const Manifest& manifest() const = 0;
  /// Whether the manifest has the fingerprint of a tensor: nobody knows it of what is only made.
  virtual bool has_fingerprint(std::size_t tensor) const = 0;
  /// The text of component trainer; empty if there is none.
  virtual std::string trainer_values() const = 0;
  /// The type in which `read` gives a tensor: its own, or a wider one, from which it is still to be rounded.
  virtual DType read_type(std::size_t tensor) const = 0;
  /// Fills boxes of a tensor seen as `as`, in its read_type; what several of them need is read once where it can be.
  /// Throws Error(input) for damage, Error(storage).
  virtual void read(std::size_t tensor, const Shape& as, std::span<const StateBox> boxes) const = 0;
  /// Bytes that the read of a box takes beside it, for each element.
  virtual std::uint64_t working_bytes(std::size_t tensor, const Shape& as, const Box& box) const = 0;
  /// How many blocks of files it may hold from one read to the next.
  virtual int blocks() const = 0;
  /// What people should know of it, a line each.
  virtual std::vector<std::string> notes() const { return {}; }
};

/// One checkpoint, of which so many blocks may be held. Local. Throws as CheckpointReader does.
std::unique_ptr<StateSource> open_checkpoint_source(const Path& checkpoint, int blocks = 1);

}  // namespace lockstep
