int x; string x;
