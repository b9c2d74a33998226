# Run at build time with SOURCE and TARGET: writes the header TARGET where the commit has changed. Results under
# docs/results do not make a build dirty, since a benchmark run writes them.
function(git_says result)
  execute_process(COMMAND git ${ARGN} WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE text
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

git_says(commit rev-parse --short=12 HEAD)
git_says(changes status --porcelain --untracked-files=no -- . ":(exclude)docs/results")
if(NOT commit)
  set(commit unknown)
elseif(changes)
  string(APPEND commit -dirty)
endif()
set(text "// Written by cmake/WriteCommit.cmake.\n#pragma once\n\n#include <string_view>\n
namespace silt::bench {\ninline constexpr std::string_view kBuildCommit = \"${commit}\";\n}  // namespace silt::bench\n")
set(old "")
if(EXISTS ${TARGET})
  file(READ ${TARGET} old)
endif()
if(NOT text STREQUAL old)
  file(WRITE ${TARGET} "${text}")
endif()
