int x[-1];
