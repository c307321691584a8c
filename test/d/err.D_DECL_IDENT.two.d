int32_t x int8_t;
