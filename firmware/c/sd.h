/* An SD card on the SPI bus, as a device of Nano-FS. */

#ifndef SD_H
#define SD_H

#include "nanofs.h"

/* Wakes the card and fills in the device; 0 if there is one. */
int sd_start(nanofs_device *device);

#endif
