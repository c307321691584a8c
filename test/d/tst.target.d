/* flags: -q -c /bin/true */
BEGIN { printf("%d\n", $target > 1); }
END { printf("ended\n"); }
