/* flags: -q args: 42 "two words" 0x10 */
BEGIN { printf("%d %s %d\n", $1, $$2, $3 + 1); exit(0); }
