# dra_add_backend(<name> <source>...): builds dra-backend-<name>.so, a shared library that exports the one symbol
# dra_backend_entry. Installed with the package; a vendor's whole build is find_package(dra_sdk) and this call.
set(DRA_EXPORT_MAP "${CMAKE_CURRENT_LIST_DIR}/dra_backend.map")

function(dra_add_backend name)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE dra::backend)
  set_target_properties(${name} PROPERTIES PREFIX "" OUTPUT_NAME "dra-backend-${name}"
                        C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_options(${name} PRIVATE "LINKER:--version-script=${DRA_EXPORT_MAP}" LINKER:-z,nodelete)
  if(NOT DRA_SANITIZE)
    target_link_options(${name} PRIVATE LINKER:-z,defs)
  endif()
endfunction()
