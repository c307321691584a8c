self nosuch_t x;
