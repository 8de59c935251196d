// Reads tensors by (logical name, box) from any origin (checkpoint, safetensors), and writes them for other programs.
// Serial; large tensors are read piecewise.
#pragma once

#include "layout/dtype.hpp"
#include "layout/shape.hpp"

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

struct TensorDescription {
  std::string name;  // logical: the Hugging Face name
  Shape shape;
  DType dtype = DType::f32;
  bool operator==(const TensorDescription&) const = default;
};

class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// Returns all logical tensors, in the order of the source.
  virtual const std::vector<TensorDescription>& list() const = 0;
  /// Fills `out` with the box of the tensor, row-major, in the tensor's own dtype; out.size() = elements × size. Throws
  /// Error(input) for an unknown name or a box outside; Error(storage) for I/O.
  virtual void read(const std::string& name, const Box& box, std::span<std::byte> out) const = 0;
};

/// Returns the description of `name` in a source. Throws Error(input) with a name that it may mean if there is none.
const TensorDescription& find_tensor(const TensorSource& source, const std::string& name);

/// Reads a box of a tensor seen in another shape. Boxes differ between views, but the order of elements is the same.
/// `read` gets a box of the tensor's own shape and a buffer for it: the rows that contain all elements of the box, or
/// the box itself if the shapes are equal. Local.
void read_view(const TensorDescription& stored, const Shape& as, const Box& box, std::span<std::byte> out,
               const std::function<void(const Box& own, std::span<std::byte> bytes)>& read);

class TensorSink {
 public:
  virtual ~TensorSink() = default;
  /// Writes rows of a declared tensor: the box covers whole rows of dim 0, in order. Throws Error(storage).
  virtual void write(const std::string& name, const Box& box, std::span<const std::byte> bytes) = 0;
  /// Makes the result complete and visible; nothing is visible before. Throws Error(storage), Error(bug) if rows are
  /// missing.
  virtual void finish() = 0;
};

}  // namespace lockstep
