BEGIN { n = 1; } int x[n];
