#include "base/error.hpp"
#include "fuzz/targets.hpp"

#include <hdf5.h>

#include <array>
#include <cstring>
#include <string_view>

namespace lockstep::test {

namespace {

hid_t some_type(Dice& dice) {
  switch (dice.below(12)) {
    case 0: return H5Tcopy(H5T_STD_U8LE);
    case 1: return H5Tcopy(H5T_STD_U16LE);
    case 2: return H5Tcopy(H5T_STD_U32LE);
    case 3: return H5Tcopy(H5T_STD_U64LE);
    case 4: return H5Tcopy(H5T_STD_I64LE);
    case 5: return H5Tcopy(H5T_STD_U16BE);
    case 6: return H5Tcopy(H5T_IEEE_F32LE);
    case 7: return H5Tcreate(H5T_OPAQUE, 1 + dice.below(9));
    case 8: {
      const hid_t text = H5Tcopy(H5T_C_S1);
      H5Tset_size(text, dice.one_in(2) ? H5T_VARIABLE : 16);
      return text;
    }
    case 9: {
      const hid_t pair = H5Tcreate(H5T_COMPOUND, 16);
      H5Tinsert(pair, "a", 0, H5T_STD_U64LE);
      H5Tinsert(pair, "b", 8, H5T_IEEE_F64LE);
      return pair;
    }
    case 10: {
      const std::array<hsize_t, 1> length{3};
      return H5Tarray_create2(H5T_STD_U16LE, 1, length.data());
    }
    default: return H5Tvlen_create(H5T_STD_U32LE);
  }
}

hid_t some_space(Dice& dice, std::vector<hsize_t>& extent) {
  static constexpr std::array<hsize_t, 9> sizes{0, 1, 2, 50, 51, 300, 1'000'000, hsize_t{1} << 33, hsize_t{1} << 62};
  if (dice.one_in(12)) return H5Screate(dice.one_in(2) ? H5S_SCALAR : H5S_NULL);
  const std::size_t rank = dice.one_in(3) ? 1 + dice.below(4) : 1;
  for (std::size_t i = 0; i < rank; ++i) extent.push_back(dice.pick(sizes));
  return H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr);
}

/// Storage that never takes the space that the extent promises.
hid_t some_storage(Dice& dice, const std::vector<hsize_t>& extent) {
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
  H5Pset_alloc_time(creation, H5D_ALLOC_TIME_LATE);
  switch (dice.below(6)) {
    case 0:
      if (!extent.empty()) {
        const std::vector<hsize_t> chunk(extent.size(), 4);
        H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
        if (dice.one_in(2)) H5Pset_deflate(creation, 6);
      }
      break;
    case 1: H5Pset_layout(creation, H5D_COMPACT); break;
    case 2: H5Pset_external(creation, "/nowhere/raw", 0, H5F_UNLIMITED); break;
    default: break;
  }
  return creation;
}

void put_something(hid_t file, const std::string& name, Dice& dice) {
  const hid_t links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  const std::size_t what = dice.below(16);
  if (what == 0) {
    H5Lcreate_soft(dice.one_in(2) ? name.c_str() : "/nowhere", file, name.c_str(), links, H5P_DEFAULT);
  } else if (what == 1) {
    H5Lcreate_external("/nowhere/other.h5", name.c_str(), file, name.c_str(), links, H5P_DEFAULT);
  } else if (what == 2) {
    H5Gclose(H5Gcreate2(file, name.c_str(), links, H5P_DEFAULT, H5P_DEFAULT));
  } else if (what == 3) {
    H5Lcreate_hard(file, "/", file, name.c_str(), links, H5P_DEFAULT);  // a group that holds itself
  } else if (what > 4) {
    std::vector<hsize_t> extent;
    const hid_t space = some_space(dice, extent);
    const hid_t type = some_type(dice);
    const hid_t creation = some_storage(dice, extent);
    const hid_t dataset = H5Dcreate2(file, name.c_str(), type, space, links, creation, H5P_DEFAULT);
    hsize_t bytes = H5Tget_size(type);
    bool small = true;
    for (const hsize_t size : extent) small = small && !__builtin_mul_overflow(bytes, size, &bytes) && bytes <= 1 << 16;
    if (dataset >= 0 && small && H5Tdetect_class(type, H5T_VLEN) <= 0 && H5Tis_variable_str(type) <= 0) {
      std::vector<std::uint64_t> content(1 << 13);
      for (std::uint64_t& word : content) word = dice.one_in(2) ? dice.bits() : dice.below(60);
      H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, content.data());
    }
    if (dataset >= 0) H5Dclose(dataset);
    H5Pclose(creation);
    H5Tclose(type);
    H5Sclose(space);
  }
  H5Pclose(links);
}

/// Bob Jenkins' lookup3 with initial value 0, which HDF5 puts behind each block of metadata.
std::uint32_t lookup3(std::string_view bytes) {
  const auto turn = [](std::uint32_t value, int by) { return (value << by) | (value >> (32 - by)); };
  std::array<std::uint32_t, 3> state{};
  state.fill(0xdeadbeef + static_cast<std::uint32_t>(bytes.size()));
  auto& [a, b, c] = state;
  const auto add = [&](std::string_view part) {
    std::array<std::uint32_t, 3> words{};
    std::memcpy(words.data(), part.data(), part.size());
    for (std::size_t i = 0; i < 3; ++i) state[i] += words[i];
  };
  for (; bytes.size() > 12; bytes.remove_prefix(12)) {
    add(bytes.substr(0, 12));
    a -= c;
    a ^= turn(c, 4);
    c += b;
    b -= a;
    b ^= turn(a, 6);
    a += c;
    c -= b;
    c ^= turn(b, 8);
    b += a;
    a -= c;
    a ^= turn(c, 16);
    c += b;
    b -= a;
    b ^= turn(a, 19);
    a += c;
    c -= b;
    c ^= turn(b, 4);
    b += a;
  }
  if (bytes.empty()) return c;
  add(bytes);
  c ^= b;
  c -= turn(b, 14);
  a ^= c;
  a -= turn(c, 11);
  b ^= a;
  b -= turn(a, 25);
  c ^= b;
  c -= turn(b, 16);
  a ^= c;
  a -= turn(c, 4);
  b ^= a;
  b -= turn(a, 14);
  c ^= b;
  c -= turn(b, 24);
  return c;
}

/// What an object header says of its dataset: its shape, its type, where it lies, an attribute.
struct Statement {
  std::size_t begin = 0;
  std::size_t size = 0;
  std::size_t header = 0;  // from here to its checksum
  std::size_t checksum = 0;
};

std::uint64_t little_endian(const std::string& file, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(file.at(at + i));
  return value;
}

/// The statements of a header of version 2.
void add_statements(const std::string& file, std::size_t header, std::vector<Statement>& statements) {
  const std::uint64_t flags = little_endian(file, header + 5, 1);
  const std::size_t width = std::size_t{1} << (flags & 3);  // of the number that says how long the messages are
  const std::size_t length = header + 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0);
  const std::size_t end = length + width + little_endian(file, length, width);
  if (lookup3(std::string_view(file).substr(header, end - header)) != little_endian(file, end, 4)) return;  // no header
  for (std::size_t at = length + width; at + 4 <= end;) {
    const std::uint64_t kind = little_endian(file, at, 1);
    const std::size_t begin = at + 4 + ((flags & 4) != 0 ? 2 : 0);
    const std::size_t size = little_endian(file, at + 1, 2);
    if (size > 0 && (kind == 1 || kind == 3 || kind == 8 || kind == 12))
      statements.push_back({begin, size, header, end});
    at = begin + size;
  }
}

}  // namespace

std::function<std::string(Dice&)> damaged_headers(std::string sound) {
  std::vector<Statement> statements;
  for (std::size_t at = sound.find("OHDR"); at != std::string::npos; at = sound.find("OHDR", at + 1))
    add_statements(sound, at, statements);
  require(statements.size() >= 3, "the headers of datasets are found");
  return [sound = std::move(sound), statements](Dice& dice) {
    std::string file = sound;
    for (std::size_t faults = 1 + dice.below(3); faults > 0; --faults) {
      const Statement& statement = dice.pick(statements);
      std::string content = file.substr(statement.begin, statement.size);
      overwrite(content, dice);
      file.replace(statement.begin, statement.size, content);
      const std::uint32_t checksum =
          lookup3(std::string_view(file).substr(statement.header, statement.checksum - statement.header));
      std::memcpy(file.data() + statement.checksum, &checksum, sizeof checksum);
    }
    return file;
  };
}

std::function<std::string(Dice&)> either(std::function<std::string(Dice&)> one,
                                         std::function<std::string(Dice&)> other) {
  return
      [one = std::move(one), other = std::move(other)](Dice& dice) { return dice.one_in(2) ? one(dice) : other(dice); };
}

std::function<std::string(Dice&)> strange_hdf5(const Path& scratch, std::vector<std::string> names) {
  return [scratch, names = std::move(names)](Dice& dice) {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (dice.one_in(2))
      H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);  // else the oldest form that will do
    const hid_t file = H5Fcreate(scratch.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    if (file < 0) fail(ExitCode::storage, "cannot create {}", scratch.string());
    for (const std::string& name : names) put_something(file, name, dice);
    H5Fclose(file);
    H5Pclose(access);
    return read_file(scratch);
  };
}

std::function<std::string(Dice&)> strange_object(const Path& scratch, std::string sound,
                                                 std::vector<std::string> names) {
  return [scratch, sound = std::move(sound), names = std::move(names)](Dice& dice) {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    put_file(scratch, sound);
    const hid_t file = H5Fopen(scratch.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    if (file < 0) fail(ExitCode::storage, "cannot open {}", scratch.string());
    const std::string& name = dice.pick(names);
    H5Ldelete(file, name.c_str(), H5P_DEFAULT);
    put_something(file, name, dice);
    H5Fclose(file);
    return read_file(scratch);
  };
}

}  // namespace lockstep::test
