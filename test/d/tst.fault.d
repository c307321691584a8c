/* flags: -q */
BEGIN { trace(*(int *)NULL); }
BEGIN { printf("goes on\n"); }
ERROR { printf("fault %d at %x\n", arg4, arg5); exit(0); }
