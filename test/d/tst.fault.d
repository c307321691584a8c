/* flags: -q */
BEGIN { trace(*(int *)NULL); }
BEGIN { printf("goes on\n"); exit(0); }
ERROR { printf("fault %d at %x\n", arg4, arg5); }
