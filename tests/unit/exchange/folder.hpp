// A fresh folder for one test, removed at its end; and whole tensors written and read by name.
#pragma once

#include "base/files.hpp"
#include "exchange/safetensors.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <cstring>

namespace lockstep {

struct Folder {
  Path path;
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-unit-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }
};

/// A tensor of fp32 values first, first + 1, …
inline std::vector<float> counting(std::int64_t count, float first) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  return values;
}

inline std::vector<float> read_all(const TensorSource& source, const std::string& name) {
  for (const TensorDescription& tensor : source.list()) {
    if (tensor.name != name) continue;
    std::vector<float> values(static_cast<std::size_t>(elements(tensor.shape)));
    source.read(name, whole(tensor.shape), std::as_writable_bytes(std::span(values)));
    return values;
  }
  return {};
}

/// Writes each fp32 tensor of the list with values counting from 100 × its place.
inline void write_counting(const Path& folder, const std::vector<TensorDescription>& tensors,
                           SafetensorsOptions options = {}) {
  SafetensorsWriter writer(folder, tensors, options);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto values = counting(elements(tensors[i].shape), 100.0f * static_cast<float>(i));
    writer.write(tensors[i].name, whole(tensors[i].shape), std::as_bytes(std::span(values)));
  }
  writer.finish();
}

}  // namespace lockstep
