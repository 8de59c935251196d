// A fresh folder for one test, removed afterwards.
#pragma once

#include "base/files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>

struct TemporaryFolder {
  lockstep::Path path;
  TemporaryFolder() {
    static std::atomic<int> serial{0};
    path = std::filesystem::temp_directory_path() / fmt::format("lockstep-store-{}-{}", ::getpid(), serial++);
    lockstep::make_folder(path);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};
