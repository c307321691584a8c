#pragma D option quiet

int n;
BEGIN { n = 1; printf("begin %d\n", n); }
BEGIN { printf("second clause %d\n", ++n); exit(0); }
END { printf("end %d\n", n); }
