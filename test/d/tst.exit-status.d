/* flags: -q exit: 7 */
BEGIN { exit(7); }
END { printf("done\n"); }
