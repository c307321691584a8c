#pragma D option quiet

BEGIN { printf("%a\n", (uintptr_t)&`jiffies); exit(0); }
