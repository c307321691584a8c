/* flags: -q -w */
BEGIN { printf("before\n"); system("echo %s-%d", "during", 1); printf("after\n"); exit(0); }
