#include "store/tensor_source.hpp"

#include "base/error.hpp"
#include "layout/box_runs.hpp"
#include "options/suggestion.hpp"

#include <cstring>

namespace lockstep {

const TensorDescription& find_tensor(const TensorSource& source, const std::string& name) {
  std::vector<std::string> names;
  for (const TensorDescription& tensor : source.list()) {
    if (tensor.name == name) return tensor;
    names.push_back(tensor.name);
  }
  const auto near = suggested_tensor(name, names);
  throw Error(ExitCode::input, fmt::format("there is no tensor '{}'", name),
              near ? fmt::format("did you mean '{}'?", *near) : "");
}

void read_view(const TensorDescription& stored, const Shape& as, const Box& box, std::span<std::byte> out,
               const std::function<void(const Box& own, std::span<std::byte> bytes)>& read) {
  if (as == stored.shape || empty(box)) return read(box, out);
  const auto size = static_cast<std::size_t>(size_of(stored.dtype));
  invariant(elements(as) == elements(stored.shape) && contains(whole(as), box) &&
                out.size() == static_cast<std::size_t>(elements(box)) * size,
            "a tensor is read as a view of its elements, into the bytes of a box of it");
  const Box rows = rows_in_view(box, as, stored.shape);
  const std::int64_t before = stored.shape.empty() ? 0 : elements(rows) / rows.extent[0] * rows.begin[0];
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements(rows)) * size);
  read(rows, bytes);
  for_each_run(box, whole(as), box, [&](const BoxRun& run) {
    std::memcpy(out.data() + static_cast<std::size_t>(run.in_b) * size,
                bytes.data() + static_cast<std::size_t>(run.in_a - before) * size,
                static_cast<std::size_t>(run.length) * size);
  });
}

}  // namespace lockstep
