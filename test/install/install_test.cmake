# Installs the components a vendor gets to a temporary prefix, and builds two backends outside of the tree against it:
# templates/backend in C++ and test/abi/v1_0/backend.c in plain C. Neither may see the SDK's sources, and find_package must
# ask for nothing but nlohmann_json.
#   -DBUILD=<build folder> -DSOURCE=<source folder> -DWORK=<folder> -DNM=<nm> -DCOMPILER_C= -DCOMPILER_CXX=
# Leaves WORK/acme/dra-backend-acme.so and WORK/plain-c/dra-backend-plain-c.so for the test that loads them.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${out}\n${err}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix" --component Development)

file(COPY "${SOURCE}/templates/backend/" DESTINATION "${WORK}/acme-source")
file(COPY "${SOURCE}/test/install/plain-c/" "${SOURCE}/test/abi/v1_0/backend.c" DESTINATION "${WORK}/plain-c-source")
# Packages that a backend must not need: looking for one is an error.
set(forbidden "")
foreach(package absl gRPC Protobuf Boost spdlog CURL OpenSSL)
  list(APPEND forbidden "-DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON")
endforeach()
foreach(name acme plain-c)
  run("${CMAKE_COMMAND}" -G Ninja -S "${WORK}/${name}-source" -B "${WORK}/${name}" "-DCMAKE_PREFIX_PATH=${WORK}/prefix"
      "-DCMAKE_C_COMPILER=${COMPILER_C}" "-DCMAKE_CXX_COMPILER=${COMPILER_CXX}" ${forbidden}
      "-DDRA_PLAIN_C_SOURCE=${WORK}/plain-c-source/backend.c" --no-warn-unused-cli)
  run("${CMAKE_COMMAND}" --build "${WORK}/${name}")
  run("${CMAKE_COMMAND}" "-DNM=${NM}" "-DLIBRARY=${WORK}/${name}/dra-backend-${name}.so"
      -P "${SOURCE}/test/abi/one_symbol.cmake")
endforeach()

# What was installed for backends names none of the SDK's own dependencies.
file(GLOB_RECURSE headers "${WORK}/prefix/include/*.h")
if(headers STREQUAL "")
  message(FATAL_ERROR "no header was installed")
endif()
foreach(header IN LISTS headers)
  file(STRINGS "${header}" includes REGEX "#include.*(absl|grpc|google|boost|spdlog)")
  if(includes)
    message(FATAL_ERROR "${header}: ${includes}: a backend's face needs std and nlohmann_json only")
  endif()
endforeach()
