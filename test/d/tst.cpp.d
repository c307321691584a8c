/* flags: -q -C -D WHO="world" */
#define GREETING "hello"
#ifdef WHO
BEGIN { printf("%s, %s\n", GREETING, "there"); exit(0); }
#endif
