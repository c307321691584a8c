/* flags: -q exit: 1 */
BEGIN { system("echo not reached"); exit(0); }
