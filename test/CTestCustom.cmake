# Read by ctest before it runs a test: generated programs are compiled without warnings.
set(ENV{CXXFLAGS} "-Wall -Wextra -Werror")
