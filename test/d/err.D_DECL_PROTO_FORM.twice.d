int f(int x, int x);
