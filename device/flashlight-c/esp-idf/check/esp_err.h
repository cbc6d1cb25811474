/* Of ESP-IDF, what flashlight_vfs.c uses: to compile it without ESP-IDF. Written from its documented
 * interface; a build in ESP-IDF uses its own. */

#ifndef CHECK_ESP_ERR_H
#define CHECK_ESP_ERR_H

typedef int esp_err_t;

#endif
