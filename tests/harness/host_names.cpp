// Several nodes on one machine, by name: preloaded into a program (LD_PRELOAD), it gives each rank another name of its
// host. LOCKSTEP_TEST_HOSTS="NAME NAME …": in turn, by the launcher's rank. Memory is shared as ever.
#include <unistd.h>

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

extern "C" int gethostname(char* name, size_t length) noexcept {
  const char* const hosts = std::getenv("LOCKSTEP_TEST_HOSTS");
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (hosts == nullptr || rank == nullptr)
    return reinterpret_cast<int (*)(char*, size_t)>(::dlsym(RTLD_NEXT, "gethostname"))(name, length);
  std::istringstream words(hosts);
  const std::vector<std::string> names(std::istream_iterator<std::string>(words), {});
  const std::string& mine = names[static_cast<std::size_t>(std::atoi(rank)) % names.size()];
  std::strncpy(name, mine.c_str(), length);
  return 0;
}
