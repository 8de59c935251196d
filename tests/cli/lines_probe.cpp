// lines-probe INPUT…: the bytes that these inputs give, as preparation reads them.
#include "base/error.hpp"
#include "readers/byte_reader.hpp"
#include "readers/input_files.hpp"

#include <array>
#include <cstdio>

int main(int argc, char** argv) {
  try {
    for (const lockstep::InputFile& file : lockstep::find_inputs({argv + 1, argv + argc}).files) {
      const auto bytes = lockstep::open_bytes(file);
      std::array<char, 4096> buffer;
      while (const std::size_t got = bytes->read(buffer)) std::fwrite(buffer.data(), 1, got, stdout);
    }
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
