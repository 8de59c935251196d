"""Errors of the file system are storage errors with a name and a reason, never exceptions of the standard library: no call that throws
std::filesystem::filesystem_error is left. What asks the file system is in lib/base/files.hpp; a call elsewhere takes a std::error_code."""

import re

from lockstep_testing import SOURCE

CALLS = (
    "absolute canonical copy copy_file create_directories create_directory create_symlink current_path directory_iterator equivalent "
    "exists file_size is_directory is_empty is_regular_file is_symlink last_write_time permissions read_symlink "
    "recursive_directory_iterator relative remove remove_all rename resize_file space status symlink_status temp_directory_path "
    "weakly_canonical"
).split()
QUALIFIED = re.compile(r"\bstd::filesystem::(?!path\b)(\w+)\s*(\w*)\s*\(")
ALIAS = re.compile(
    r"\bnamespace\s+\w+\s*=\s*std::filesystem\b|\busing\s+(?:namespace\s+)?std::filesystem\b(?!::path;)(?!::path\b)"
)
# Found by the types of their arguments, without a namespace; names that the project gives to functions of its own are left out.
UNQUALIFIED = re.compile(
    r"(?<![\w:.>])(absolute|canonical|create_directories|create_directory|equivalent|exists|file_size|is_directory|"
    r"is_regular_file|is_symlink|last_write_time|remove_all|symlink_status|weakly_canonical)\s*\("
)
MEMBER = re.compile(
    r"(?:\.|->)(is_directory|is_regular_file|is_symlink|is_other|exists|file_size|symlink_status|last_write_time)\(\)"
)
RANGE = re.compile(r"\bfor\s*\([^;()]*:\s*std::filesystem::(?:recursive_)?directory_iterator")


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda found: re.sub(r"[^\n]", " ", found.group()), text, flags=re.DOTALL)


def last_argument(text, start):
    """The text after the last comma of the call whose arguments begin at `start`; none if there are no arguments."""
    depth, from_here = 1, start
    for at in range(start, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return text[from_here:at].strip()
        if depth == 1 and text[at] == ",":
            from_here = at + 1
    return ""


def throwing(text):
    """The calls in a source that throw: (line, what)."""
    text = without_comments(text)
    codes = set(re.findall(r"\bstd::error_code\s*&?\s*(\w+)", text))
    found = [
        (match.start(), match.group().strip())
        for pattern in (ALIAS, UNQUALIFIED, MEMBER, RANGE)
        for match in pattern.finditer(text)
    ]
    for match in QUALIFIED.finditer(text):
        last = last_argument(text, match.end())
        end_of_list = match.group(1).endswith("directory_iterator") and last == ""
        if match.group(1) in CALLS and last not in codes and not end_of_list:
            found.append((match.start(), match.group().strip()))
    return [(text.count("\n", 0, at) + 1, what) for at, what in sorted(found)]


def test_no_call_is_left_that_throws_an_error_of_the_file_system():
    wrong = [
        f"{path.relative_to(SOURCE)}:{line}: {what}"
        for folder in ("lib", "tools")
        for path in sorted((SOURCE / folder).rglob("*.[ch]pp"))
        for line, what in throwing(path.read_text())
    ]
    assert not wrong, "\n".join(wrong)


def test_throwing_calls_are_recognised_and_others_are_not():
    for text in [
        "if (std::filesystem::exists(path)) return;",
        "for (const auto& entry : std::filesystem::directory_iterator(folder)) take(entry);",
        "for (auto& e : std::filesystem::recursive_directory_iterator(f, error)) take(e);",
        "namespace fs = std::filesystem;",
        "std::filesystem::remove_all(a / join(b, c));",
        "if (exists(path)) return;",
        "if (entry.is_directory()) return;",
        "std::filesystem::directory_iterator at(folder);",
        "auto at = std::filesystem::directory_iterator(folder);",
    ]:
        assert throwing(text), text
    for text in [
        "std::error_code error; std::filesystem::remove_all(path, error);",
        "using Path = std::filesystem::path;",
        "std::error_code e; std::filesystem::directory_iterator at(folder, e); at != std::filesystem::directory_iterator();",
        "// std::filesystem::exists(path) throws",
        "std::error_code no; if (entry.is_directory(no)) return;",
    ]:
        assert not throwing(text), text
