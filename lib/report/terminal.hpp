// Detects capabilities of an output: colour, drawing in place, and Unicode.
#pragma once

namespace lockstep {

enum class When { automatic, always, never };

/// Whether output to `fd` is coloured. Automatic: on a terminal, unless NO_COLOR is set, or TERM is dumb or not set.
/// Local.
bool use_color(When color, int fd);

/// Whether progress on `fd` is drawn in place. Automatic: on a terminal, unless TERM is dumb or not set. Local.
bool draw_in_place(When progress, int fd);

/// Columns of the terminal at `fd`; 80 if it is not a terminal. Local.
int columns_of(int fd);

/// Whether the locale's character set is UTF-8 (LC_ALL, LC_CTYPE, LANG). Local.
bool takes_unicode();

}  // namespace lockstep
