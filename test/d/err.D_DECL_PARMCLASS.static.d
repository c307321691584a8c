int f(static int x);
