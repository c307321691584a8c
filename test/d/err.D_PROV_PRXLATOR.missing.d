struct a { int x; }; provider p { probe a(int i) : (struct a i); };
