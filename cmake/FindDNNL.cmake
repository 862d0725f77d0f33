# Makes DNNL::dnnl from Debian's libdnnl-dev, whichever way it was packaged.
find_path(DNNL_INCLUDE_DIR dnnl.h PATH_SUFFIXES oneapi/dnnl)
find_library(DNNL_LIBRARY dnnl)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DNNL REQUIRED_VARS DNNL_LIBRARY DNNL_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "install libdnnl-dev (./dev deps)")
if(DNNL_FOUND AND NOT TARGET DNNL::dnnl)
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${DNNL_INCLUDE_DIR})
endif()
