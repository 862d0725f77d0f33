# troupe_library(NAME SOURCES … [PUBLIC …] [PRIVATE …])
#
# Makes the target troupe_NAME (alias troupe::NAME) of the folder NAME. Its include root holds that folder alone (a
# link in the build tree), so that a header whose target was not linked is a header that cannot be included.
function(troupe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  set(target troupe_${name})
  set(root ${PROJECT_BINARY_DIR}/include/${name})
  file(MAKE_DIRECTORY ${root})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${name} ${root}/${name} SYMBOLIC)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/${name} *.hpp)
  list(FILTER headers EXCLUDE REGEX "/cuda/")  # inside a library only: they need CUDA's headers
  list(TRANSFORM headers PREPEND ${root}/${name}/)

  add_library(${target} STATIC ${ARG_SOURCES})
  add_library(troupe::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON
                                             VERIFY_INTERFACE_HEADER_SETS ON)
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${root} FILES ${headers})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE} $<BUILD_INTERFACE:troupe_options>)
  install(TARGETS ${target} EXPORT troupe FILE_SET HEADERS)
endfunction()
