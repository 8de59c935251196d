#include "store/hdf5.hpp"

#include "base/error.hpp"
#include "base/file_size_limit.hpp"

#include <fcntl.h>
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep {

namespace {

static_assert(sizeof(hid_t) == sizeof(std::int64_t));

// An owned identifier of the library; closed by the function that fits its kind.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  /// False where the library could not write what it had put off: the destructor would keep silent.
  bool finish() { return close_(std::exchange(id_, -1)) >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

// The library prints its error stack by default; ours is told in one line instead. The stack is per thread, so this is
// as well. At the exit of the process the library would write again what a full disk did not take, and crash: files are
// closed before.
void be_quiet() {
  static const herr_t once = H5dont_atexit();
  (void)once;
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

/// Returns settings under which no link to another file is followed: that file could be any file of the machine, and no
/// hash of ours covers it. `kind` is H5P_LINK_ACCESS or one that includes it. The settings last as long as the process.
hid_t within_file(hid_t kind) {
  const hid_t access = H5Pcreate(kind);
  const auto refuse = [](const char*, const char*, const char*, const char*, unsigned*, hid_t, void*) -> herr_t {
    return -1;
  };
  H5Pset_elink_cb(access, refuse, nullptr);
  return access;
}
hid_t link_access() {
  static const hid_t access = within_file(H5P_LINK_ACCESS);
  return access;
}
hid_t dataset_access() {
  static const hid_t access = within_file(H5P_DATASET_ACCESS);
  return access;
}

std::string innermost_reason() {
  std::string reason = "no reason given";
  const auto visit = [](unsigned, const H5E_error2_t* error, void* text) -> herr_t {
    *static_cast<std::string*>(text) = error->desc == nullptr ? "no reason given" : error->desc;
    return 1;  // the walk starts at the innermost call
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, visit, &reason);
  constexpr std::string_view opening =
      "error message = '";  // the system's own reason, where the library quotes one among much else
  const std::size_t quoted = reason.find(opening);
  if (quoted == std::string::npos) return reason;
  const std::size_t begin = quoted + opening.size();
  return reason.substr(begin, reason.find('\'', begin) - begin);
}

[[noreturn]] void fail_hdf5(ExitCode code, std::string_view tried, const Path& path,
                            const std::string& reason = innermost_reason()) {
  H5Eclear2(H5E_DEFAULT);
  fail(code, "cannot {} {}: {}{}", tried, path.string(), reason,
       reason == std::strerror(EFBIG) ? file_size_limit_text() : "");
}

Handle file_settings() {
  Handle settings(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_libver_bounds(settings.get(), H5F_LIBVER_V110, H5F_LIBVER_V110);
  H5Pset_alignment(settings.get(), 4096, 4096);
  H5Pset_fclose_degree(settings.get(), H5F_CLOSE_STRONG);
  H5Pset_sieve_buf_size(settings.get(), 0);  // small datasets are written at once, so that an error shows at the write
  H5Pset_file_locking(settings.get(), false, true);  // locks fail on parallel file systems and guard nothing here
  return settings;
}

Handle small_float(std::size_t sign, std::size_t exponent_bits, std::size_t mantissa_bits, std::size_t bias) {
  Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  H5Tset_fields(type.get(), sign, mantissa_bits, exponent_bits, 0, mantissa_bits);  // the order of these calls matters
  H5Tset_precision(type.get(), 16);
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), bias);
  return type;
}

Handle type_of(DType dtype) {
  const auto standard = [](hid_t id) { return Handle(H5Tcopy(id), H5Tclose); };
  switch (dtype) {
    case DType::f64: return standard(H5T_IEEE_F64LE);
    case DType::f32: return standard(H5T_IEEE_F32LE);
    case DType::bf16: return small_float(15, 8, 7, 127);
    case DType::f16: return small_float(15, 5, 10, 15);
    case DType::i64: return standard(H5T_STD_I64LE);
    case DType::i32: return standard(H5T_STD_I32LE);
    case DType::i16: return standard(H5T_STD_I16LE);
    case DType::i8: return standard(H5T_STD_I8LE);
    case DType::u64: return standard(H5T_STD_U64LE);
    case DType::u32: return standard(H5T_STD_U32LE);
    case DType::u16: return standard(H5T_STD_U16LE);
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::boolean:
    case DType::u8: break;
  }
  return standard(H5T_STD_U8LE);
}

// The bits of a NaN that is quiet, low byte first; zeros where the type of HDF5 has none.
std::array<std::uint8_t, 8> nan_bits(DType dtype) {
  switch (dtype) {
    case DType::f64: return {0, 0, 0, 0, 0, 0, 0xf8, 0x7f};
    case DType::f32: return {0, 0, 0xc0, 0x7f};
    case DType::bf16: return {0xc0, 0x7f};
    case DType::f16: return {0x00, 0x7e};
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u64:
    case DType::u32:
    case DType::u16:
    case DType::u8:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::boolean: break;
  }
  return {};
}

bool needs_name(DType dtype) { return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 || dtype == DType::boolean; }

constexpr DType self_describing[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32,
                                     DType::i16, DType::i8,  DType::u64,  DType::u32, DType::u16, DType::u8};

/// Fails, for an object that cannot be opened, if its path leads through a link to another file.
void refuse_link_out(hid_t file, const std::string& path, ExitCode blame, const Path& where) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    H5L_info_t link{};
    if (part != "/" && H5Lget_info(file, part.c_str(), &link, link_access()) >= 0 && link.type >= H5L_TYPE_UD_MIN)
      fail(blame, "{} of {} is a link to another file, which is not followed", part, where.string());
    if (end == std::string::npos) return;
  }
}

Handle open_dataset(hid_t file, const std::string& path, ExitCode blame, const Path& where) {
  Handle dataset(H5Dopen2(file, path.c_str(), dataset_access()), H5Dclose);
  if (dataset) return dataset;
  const std::string reason = innermost_reason();  // the next call of the library clears it
  refuse_link_out(file, path, blame, where);
  fail_hdf5(blame, fmt::format("open dataset {} of", path), where, reason);
}

Handle open_object(hid_t file, const std::string& path, ExitCode blame, const Path& where) {
  Handle object(H5Oopen(file, path.c_str(), link_access()), H5Oclose);
  if (object) return object;
  const std::string reason = innermost_reason();
  refuse_link_out(file, path, blame, where);
  fail_hdf5(blame, fmt::format("open {} of", path), where, reason);
}

/// True if an attribute holds one element: more would be read beyond the place for one.
bool is_single(const Handle& attribute) {
  const Handle space(H5Aget_space(attribute.get()), H5Sclose);
  return space && H5Sget_simple_extent_npoints(space.get()) == 1;
}

std::optional<std::string> read_text_attribute(hid_t object, const std::string& name) {
  if (H5Aexists(object, name.c_str()) <= 0) return std::nullopt;
  const Handle attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose);
  const Handle type(H5Aget_type(attribute.get()), H5Tclose);
  if (!attribute || !type || H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) > 0 ||
      !is_single(attribute))
    return std::nullopt;
  std::string value(H5Tget_size(type.get()), '\0');
  if (H5Aread(attribute.get(), type.get(), value.data()) < 0) return std::nullopt;
  value.resize(std::min(value.size(), value.find('\0')));
  return value;
}

std::uint64_t bytes_of_file(const Handle& object) {
  const Handle file(H5Iget_file_id(object.get()), H5Fclose);
  hsize_t bytes = 0;
  return file && H5Fget_filesize(file.get(), &bytes) >= 0 ? bytes : 0;
}

Hdf5Dataset describe(const Handle& dataset, const std::string& path, ExitCode blame, const Path& where) {
  Hdf5Dataset result;
  result.path = path;
  const Handle space(H5Dget_space(dataset.get()), H5Sclose);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 0) fail_hdf5(blame, fmt::format("read the shape of {} of", path), where);
  std::vector<hsize_t> extent(static_cast<std::size_t>(rank));
  if (rank > 0) H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr);
  result.shape.assign(extent.begin(), extent.end());

  const Handle type(H5Dget_type(dataset.get()), H5Tclose);
  const auto found = std::find_if(std::begin(self_describing), std::end(self_describing),
                                  [&](DType candidate) { return H5Tequal(type.get(), type_of(candidate).get()) > 0; });
  if (found == std::end(self_describing))
    fail(blame, "dataset {} of {} has an element type that is not supported", path, where.string());
  result.dtype = *found;
  if (result.dtype == DType::u8) {
    if (const auto name = read_text_attribute(dataset.get(), "dtype")) {
      const auto named = parse_dtype(*name);
      if (!named || size_of(*named) != 1)
        fail(blame, "dataset {} of {} has the attribute dtype '{}', which is not a one-byte type", path, where.string(),
             *name);
      result.dtype = *named;
    }
  }
  if (std::find(extent.begin(), extent.end(), 0) != extent.end()) return result;
  const haddr_t offset = H5Dget_offset(dataset.get());
  if (offset == HADDR_UNDEF) fail(blame, "dataset {} of {} is not contiguous", path, where.string());
  result.offset = offset;
  result.bytes = H5Tget_size(type.get());
  bool fits = true;
  for (const hsize_t size : extent) fits = fits && !__builtin_mul_overflow(result.bytes, size, &result.bytes);
  const std::uint64_t end = bytes_of_file(dataset);
  if (!fits || offset > end || result.bytes > end - offset)
    fail(blame, "dataset {} of {} is larger than the file", path, where.string());
  return result;
}

}  // namespace

Hdf5File::Hdf5File(Path path, std::int64_t id, ExitCode blame) : path_(std::move(path)), id_(id), blame_(blame) {}
Hdf5File::Hdf5File(Hdf5File&& other) noexcept
    : path_(std::move(other.path_)), id_(std::exchange(other.id_, -1)), blame_(other.blame_) {}
Hdf5File::~Hdf5File() {
  if (id_ >= 0) H5Fclose(id_);
}

Hdf5File Hdf5File::create(const Path& path) {
  be_quiet();
  open_file(path, O_WRONLY | O_CREAT |
                      O_EXCL);  // the system's own reason, which the library would not give; then ours to truncate
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation.get(), false);
  const Handle settings = file_settings();  // named: closing it before the reason is read would clear the reason
  const hid_t id = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), settings.get());
  if (id < 0) fail_hdf5(ExitCode::storage, "create", path);
  return {path, id, ExitCode::storage};
}

Hdf5File Hdf5File::open(const Path& path) {
  be_quiet();
  open_regular(path);  // the system's own reason where there is one
  const Handle settings = file_settings();
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, settings.get());
  if (id < 0) fail_hdf5(ExitCode::input, "open", path);
  return {path, id, ExitCode::input};
}

Hdf5File Hdf5File::open_image(std::string_view content, const Path& origin) {
  be_quiet();
  const Handle settings = file_settings();
  H5Pset_fapl_core(settings.get(), 1 << 16, false);
  std::string image(content);  // the library copies it again, and takes no constant bytes
  H5Pset_file_image(settings.get(), image.data(), image.size());
  static std::atomic<unsigned> serial{0};  // the library wants a name that no file has, and no other image
  const Path name = origin / fmt::format("image-{}", serial++);
  const hid_t id = H5Fopen(name.c_str(), H5F_ACC_RDONLY, settings.get());
  if (id < 0) fail_hdf5(ExitCode::input, "open", origin);
  return {origin, id, ExitCode::input};
}

namespace {

/// The groups on the way to `path`. Not left to the library: those that it makes by itself carry the time of day.
void make_groups(hid_t file, const std::string& path, hid_t links) {
  const Handle creation(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation.get(), false);
  for (std::size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    const std::string group = path.substr(0, end);
    if (H5Lexists(file, group.c_str(), H5P_DEFAULT) > 0) continue;
    const Handle made(H5Gcreate2(file, group.c_str(), links, creation.get(), H5P_DEFAULT),
                      H5Gclose);  // a failure shows at the dataset
  }
}

Handle space_of(const Shape& shape) {
  const std::vector<hsize_t> extent(shape.begin(), shape.end());
  return {
      shape.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr),
      H5Sclose};
}

/// A space of this shape of which `box` is selected; the only element of a scalar always is.
Handle selection_of(const Shape& shape, const Box& box) {
  Handle space = space_of(shape);
  if (shape.empty()) return space;
  const std::vector<hsize_t> begin(box.begin.begin(), box.begin.end());
  const std::vector<hsize_t> count(shape.size(), 1);
  const std::vector<hsize_t> block(box.extent.begin(), box.extent.end());
  H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, begin.data(), nullptr, count.data(), block.data());
  return space;
}

/// The smallest shape that has room for a box. The library takes the true one from the file when it reads.
Shape room_for(const Box& box) {
  Shape shape = box.extent;
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] += box.begin[d];
  return shape;
}

/// In names of what is mapped, the library takes a percent sign as the begin of a number to fill in.
std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name) text += c == '%' ? "%%" : std::string(1, c);
  return text;
}

}  // namespace

Hdf5Dataset Hdf5File::create_dataset(const std::string& path, DType dtype, const Shape& shape) {
  be_quiet();
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_char_encoding(links.get(), H5T_CSET_UTF8);
  make_groups(id_, path, links.get());
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_layout(creation.get(), H5D_CONTIGUOUS);
  H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER);
  H5Pset_obj_track_times(creation.get(), false);
  const Handle space = space_of(shape);
  const Handle type = type_of(dtype);
  Handle dataset(H5Dcreate2(id_, path.c_str(), type.get(), space.get(), links.get(), creation.get(), H5P_DEFAULT),
                 H5Dclose);
  if (!space || !dataset) fail_hdf5(blame_, fmt::format("create dataset {} {} in", path, to_text(shape)), path_);
  if (needs_name(dtype)) set_attribute(path, "dtype", name_of(dtype));
  const Hdf5Dataset created = describe(dataset, path, blame_, path_);
  if (!dataset.finish()) fail_hdf5(blame_, fmt::format("create dataset {} {} in", path, to_text(shape)), path_);
  return created;
}

void Hdf5File::write(const std::string& path, std::span<const std::byte> bytes) {
  be_quiet();
  Handle dataset = open_dataset(id_, path, blame_, path_);
  const Hdf5Dataset target = describe(dataset, path, blame_, path_);
  if (bytes.size() != target.bytes)
    fail(ExitCode::bug, "{} bytes for dataset {} of {}, which takes {}", bytes.size(), path, path_.string(),
         target.bytes);
  if (bytes.empty()) return;
  const Handle type(H5Dget_type(dataset.get()), H5Tclose);
  if (H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) < 0 || !dataset.finish())
    fail_hdf5(blame_, fmt::format("write {} of", path), path_);
}

Hdf5Dataset Hdf5File::add(const std::string& path, DType dtype, const Shape& shape, std::span<const std::byte> bytes) {
  const Hdf5Dataset result = create_dataset(path, dtype, shape);
  write(path, bytes);
  return result;
}

void Hdf5File::create_virtual(const std::string& path, DType dtype, const Shape& shape,
                              std::span<const Hdf5Mapping> mappings) {
  be_quiet();
  const std::string tried = fmt::format("create dataset {} {} in", path, to_text(shape));
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_char_encoding(links.get(), H5T_CSET_UTF8);
  make_groups(id_, path, links.get());
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const Handle type = type_of(dtype);
  H5Pset_layout(creation.get(), H5D_VIRTUAL);
  H5Pset_fill_value(creation.get(), type.get(), nan_bits(dtype).data());
  H5Pset_obj_track_times(creation.get(), false);
  for (const Hdf5Mapping& mapping : mappings) {
    const Handle target = selection_of(shape, mapping.target);
    const Handle source = selection_of(room_for(mapping.source), mapping.source);
    if (H5Pset_virtual(creation.get(), target.get(), escaped(mapping.file).c_str(), escaped(mapping.dataset).c_str(),
                       source.get()) < 0)
      fail_hdf5(blame_, tried, path_);
  }
  const Handle space = space_of(shape);
  const Handle dataset(H5Dcreate2(id_, path.c_str(), type.get(), space.get(), links.get(), creation.get(), H5P_DEFAULT),
                       H5Dclose);
  if (!space || !dataset) fail_hdf5(blame_, tried, path_);
  if (needs_name(dtype)) set_attribute(path, "dtype", name_of(dtype));
}

void Hdf5File::add_link(const std::string& path, const std::string& target) {
  be_quiet();
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_char_encoding(links.get(), H5T_CSET_UTF8);
  make_groups(id_, path, links.get());
  if (H5Lcreate_soft(target.c_str(), id_, path.c_str(), links.get(), H5P_DEFAULT) < 0)
    fail_hdf5(blame_, fmt::format("create link {} in", path), path_);
}

bool Hdf5File::has(const std::string& path) const {
  be_quiet();
  for (std::size_t end = path.find('/', 1);;
       end = path.find('/', end + 1)) {  // each group on the way must exist to be asked about
    const std::string part = path.substr(0, end);
    if (part != "/" && H5Lexists(id_, part.c_str(), link_access()) <= 0) return false;
    if (end == std::string::npos) return true;
  }
}

Hdf5Dataset Hdf5File::dataset(const std::string& path) const {
  be_quiet();
  return describe(open_dataset(id_, path, blame_, path_), path, blame_, path_);
}

std::vector<Hdf5Dataset> Hdf5File::datasets(const std::string& group) const {
  be_quiet();
  std::vector<std::string> names;
  const auto visit = [](hid_t, const char* name, const H5O_info_t* object, void* list) -> herr_t {
    if (object->type == H5O_TYPE_DATASET) static_cast<std::vector<std::string>*>(list)->emplace_back(name);
    return 0;
  };
  const Handle start = open_object(id_, group, blame_, path_);
  if (H5Ovisit2(start.get(), H5_INDEX_NAME, H5_ITER_INC, visit, &names, H5O_INFO_BASIC) < 0)
    fail_hdf5(blame_, "list the datasets of", path_);
  std::vector<Hdf5Dataset> result;
  for (const std::string& name : names) result.push_back(dataset(group == "/" ? "/" + name : group + "/" + name));
  std::sort(result.begin(), result.end(), [](const Hdf5Dataset& a, const Hdf5Dataset& b) { return a.path < b.path; });
  return result;
}

void Hdf5File::read(const std::string& path, std::span<std::byte> out) const {
  be_quiet();
  const Handle dataset = open_dataset(id_, path, blame_, path_);
  const Hdf5Dataset source = describe(dataset, path, blame_, path_);
  if (out.size() != source.bytes)
    fail(ExitCode::bug, "{} bytes to read dataset {} of {}, which has {}", out.size(), path, path_.string(),
         source.bytes);
  if (out.empty()) return;
  const Handle type(H5Dget_type(dataset.get()), H5Tclose);
  if (H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out.data()) < 0)
    fail_hdf5(blame_, fmt::format("read {} of", path), path_);
}

std::string Hdf5File::read_text(const std::string& path) const {
  std::string text(dataset(path).bytes, '\0');
  read(path, std::as_writable_bytes(std::span(text)));
  return text;
}

void Hdf5File::set_attribute(const std::string& path, const std::string& name, std::string_view value) {
  be_quiet();
  const Handle object = open_object(id_, path, blame_, path_);
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), std::max<std::size_t>(value.size(), 1));
  H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle attribute(H5Acreate2(object.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose);
  const std::string padded = value.empty() ? std::string(1, '\0') : std::string(value);
  if (!attribute || H5Awrite(attribute.get(), type.get(), padded.data()) < 0)
    fail_hdf5(blame_, fmt::format("set attribute {} on {} of", name, path), path_);
}

void Hdf5File::set_attribute(const std::string& path, const std::string& name, std::int64_t value) {
  be_quiet();
  const Handle object = open_object(id_, path, blame_, path_);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle attribute(H5Acreate2(object.get(), name.c_str(), H5T_STD_I64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose);
  if (!attribute || H5Awrite(attribute.get(), H5T_NATIVE_INT64, &value) < 0)
    fail_hdf5(blame_, fmt::format("set attribute {} on {} of", name, path), path_);
}

void Hdf5File::set_attribute(const std::string& path, const std::string& name, const Shape& value) {
  be_quiet();
  const Handle object = open_object(id_, path, blame_, path_);
  const Handle space = space_of({std::ssize(value)});
  const Handle attribute(H5Acreate2(object.get(), name.c_str(), H5T_STD_I64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose);
  if (!attribute || H5Awrite(attribute.get(), H5T_NATIVE_INT64, value.data()) < 0)
    fail_hdf5(blame_, fmt::format("set attribute {} on {} of", name, path), path_);
}

void Hdf5File::close() {
  be_quiet();
  if (id_ >= 0 && H5Fclose(std::exchange(id_, -1)) < 0) fail_hdf5(blame_, "close", path_);
}

}  // namespace lockstep
