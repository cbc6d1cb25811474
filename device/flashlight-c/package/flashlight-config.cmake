# find_package(flashlight) gives the target flashlight::flashlight.
get_filename_component(_flashlight_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET flashlight::flashlight)
    add_library(flashlight::flashlight STATIC IMPORTED)
    set_target_properties(flashlight::flashlight PROPERTIES
        IMPORTED_LOCATION "${_flashlight_prefix}/lib/libflashlight.a"
        INTERFACE_INCLUDE_DIRECTORIES "${_flashlight_prefix}/include")
endif()
unset(_flashlight_prefix)
