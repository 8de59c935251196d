// A system without more memory on demand: preloaded into a program (LD_PRELOAD), it refuses memory to one rank.
// LOCKSTEP_TEST_MEMORY="RANK BYTES": anonymous mappings of so many bytes or more fail with ENOMEM.
#undef _FILE_OFFSET_BITS  // with it the names of both widths would be one here
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace {

using Map = void* (*)(void*, size_t, int, int, int, off_t);

bool refuses(size_t length, int flags) {
  static const char* const own = std::getenv("OMPI_COMM_WORLD_RANK");
  static const char* const text = std::getenv("LOCKSTEP_TEST_MEMORY");
  int rank = 0;
  unsigned long most = 0;
  if ((flags & MAP_ANONYMOUS) == 0 || text == nullptr || std::sscanf(text, "%d %lu", &rank, &most) != 2) return false;
  return length >= most && rank == (own == nullptr ? 0 : std::atoi(own));
}

void* map(const char* name, void* address, size_t length, int protection, int flags, int file, off_t offset) {
  if (refuses(length, flags)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<Map>(::dlsym(RTLD_NEXT, name))(address, length, protection, flags, file, offset);
}

}  // namespace

extern "C" {

void* mmap(void* address, size_t length, int protection, int flags, int file, off_t offset) noexcept {
  return map("mmap", address, length, protection, flags, file, offset);
}
void* mmap64(void* address, size_t length, int protection, int flags, int file, off_t offset) noexcept {
  return map("mmap64", address, length, protection, flags, file, offset);
}

}  // extern "C"
