#include "store/tensor_source.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

namespace lockstep {

const TensorDescription& find_tensor(const TensorSource& source, const std::string& name) {
  std::vector<std::string> names;
  for (const TensorDescription& tensor : source.list()) {
    if (tensor.name == name) return tensor;
    names.push_back(tensor.name);
  }
  const auto near = nearest(name, names);
  throw Error(ExitCode::input, fmt::format("there is no tensor '{}'", name),
              near ? fmt::format("the nearest name is '{}'", *near) : "");
}

}  // namespace lockstep
