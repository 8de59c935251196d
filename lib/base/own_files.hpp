// Files that a program keeps in a folder: temporary files under names that no other process uses, and no symbolic
// links.
#pragma once

#include "base/files.hpp"
#include "base/random.hpp"

#include <string>

namespace lockstep {

/// Returns a hidden name beside `path`: ".NAME.TOKEN". A process number is no token, because processes in different
/// containers have equal ones and a killed process leaves its files behind.
Path temporary_beside(const Path& path, const std::string& token = make_uuid());

/// Removes the files in `folder` that are named by temporary_beside with a random token. The caller makes sure that no
/// process is writing one. Throws Error(storage).
void remove_temporaries(const Path& folder);

/// Throws Error(storage) if `path` is a symbolic link: whoever may write in its folder could redirect the output to any
/// file of the user.
void refuse_link(const Path& path);

}  // namespace lockstep
